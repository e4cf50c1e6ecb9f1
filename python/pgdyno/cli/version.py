"""`pgdyno --version`: version, commit and origin of the lab, and of the engine that it uses."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import click

from pgdyno.cli import output

# scripts/hatch_build.py writes this file into a wheel.
_BUILD = "build.json"


def print_version(context: click.Context, _option: click.Parameter, given: bool) -> None:
    """Print the versions and end the command."""
    if given and not context.resilient_parsing:
        output.data(version_text())
        context.exit(0)


def version_text() -> str:
    """Return a line each for pgdyno, its commit, and the engine."""
    from importlib.metadata import version

    from pgdyno.engine.executable import engine_path
    from pgdyno.errors import PgdynoError
    from pgdyno.process import child

    commit, origin = _built()
    try:
        path = engine_path()
        said = child.run([path, "--version"], timeout_s=30, death_signal=None).stdout.strip()
        engine = f"{said.removeprefix('pgdyno-engine ')} at {path}"
    except (PgdynoError, OSError) as error:
        engine = f"none: {error}"
    return f"pgdyno, version {version('pgdyno')}\ncommit {commit} ({origin})\nengine {engine}"


def _built() -> tuple[str, str]:
    """Return the commit, and whether this is a wheel or a source tree."""
    from pgdyno.errors import PgdynoError
    from pgdyno.process import child

    written = files("pgdyno").joinpath(_BUILD)
    if written.is_file():
        document: dict[str, Any] = json.loads(written.read_text(encoding="utf-8"))
        return str(document["commit"]), "wheel"
    folder = Path(__file__).parent
    try:
        argv = ["git", "-C", str(folder), "rev-parse", "HEAD"]
        commit = child.run(argv, timeout_s=10, death_signal=None).stdout.strip()
    except PgdynoError:
        commit = ""
    return commit or "unknown", "source tree"
