"""Finds the engine's executable, and checks that its version is the one that pgdyno needs."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

from pgdyno.errors import EngineError
from pgdyno.process import child

# The engine must have this revision or a later one; `pgdyno-engine --version` shows it.
CONTRACT_REVISION = 29
# The version in pyproject.toml: importlib.metadata, which knows it too, is a heavy import.
RELEASE = "0.1.0"
# The version of the engine that is needed, as `pgdyno-engine check-job` takes it.
NEEDED = f"{RELEASE}/{CONTRACT_REVISION}"

_REVISION = re.compile(r"\bcontract 1\.(\d+)\)")
_TIMEOUT_S = 30.0


def engine_path() -> Path:
    """Return the engine's executable: $PGDYNO_ENGINE, the one of this Python, or the one on PATH.

    Raises: EngineError that lists the places, or says that $PGDYNO_ENGINE is not a program.
    """
    named = os.environ.get("PGDYNO_ENGINE")
    sibling = Path(sys.executable).with_name("pgdyno-engine")
    if named and not (Path(named).is_file() and os.access(named, os.X_OK)):
        raise EngineError(
            f"$PGDYNO_ENGINE is {named}, which is not a file that can be executed.",
            hint="name the file pgdyno-engine, or unset the variable",
        )
    for candidate in (named, sibling):
        if candidate and os.access(candidate, os.X_OK):
            return Path(candidate)
    # A search, so only if it is needed: a command asks for the engine a dozen times.
    if on_path := shutil.which("pgdyno-engine"):
        return Path(on_path)
    raise EngineError(
        f"The load engine was not found: $PGDYNO_ENGINE is not set, {sibling} does not exist, and "
        "PATH has no engine.",
        hint="reinstall pgdyno, or run make build in a source tree",
    )


_known: set[tuple[Path, int]] = set()


def engine_for_jobs() -> Path:
    """Return an engine that knows everything this lab may ask.

    Raises: EngineError with both versions if the engine is older, or of another release.
    """
    path = engine_path()
    if _state_of(path) not in _known:
        _require_known(path)
    return path


def remember_known(path: Path) -> None:
    """Remember that an engine knows everything; a rebuilt one counts as another file."""
    _known.add(_state_of(path))


def _state_of(path: Path) -> tuple[Path, int]:
    return path, path.stat().st_mtime_ns


def _require_known(path: Path) -> None:
    said = child.run([path, "--version"], timeout_s=_TIMEOUT_S, death_signal=None).stdout.strip()
    match = _REVISION.search(said)
    engine, wanted = said.removeprefix("pgdyno-engine ") or "unknown", RELEASE
    # The first versions printed no number.
    knows_all = int(match[1] if match else 0) >= CONTRACT_REVISION
    if knows_all and engine.split()[0] == wanted:
        remember_known(path)
        return
    raise EngineError(
        f"The engine at {path} has version {engine}; this pgdyno, version {wanted}, needs an "
        f"engine of version {wanted} with contract 1.{CONTRACT_REVISION} or later.",
        hint="install both packages of one version, or run make build in a source tree",
    )
