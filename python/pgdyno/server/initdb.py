"""Make an empty data directory, the same on every host and version."""

from __future__ import annotations

from pathlib import Path

from pgdyno.errors import ServerError
from pgdyno.process.child import UserIds, run
from pgdyno.server.find import Binaries
from pgdyno.server.postmaster import server_environment

SUPERUSER = "postgres"
_TIMEOUT_S = 300.0


def initdb(
    binaries: Binaries,
    user: UserIds,
    *,
    data_dir: Path,
    wal_dir: Path | None,
    checksums: bool,
    wal_segment: str | None = None,
) -> None:
    """Fill `data_dir`, which is empty and belongs to `user`; the WAL goes to `wal_dir` if given.

    Args: wal_segment, such as "64MB"; None for PostgreSQL's own 16MB.

    Raises: ServerError with initdb's own words; InterruptedByUser.
    """
    argv: list[str | Path] = [binaries.program("initdb"), "-D", data_dir, "-U", SUPERUSER]
    # The C locale is the one that every host and version has, and all order it alike. Not synced:
    # a host that crashes now takes nothing with it that was measured.
    argv += ["-E", "UTF8", "--locale=C", "-A", "trust", "--no-sync", "--no-instructions"]
    if checksums:
        argv.append("--data-checksums")
    elif binaries.major >= 18:
        argv.append("--no-data-checksums")
    if wal_segment is not None:
        argv.append(f"--wal-segsize={wal_segment.removesuffix('MB')}")
    if wal_dir is not None:
        argv += ["-X", wal_dir]
    completed = run(argv, user=user, env=server_environment(user), cwd="/", timeout_s=_TIMEOUT_S)
    if completed.returncode == 0:
        return
    lines = completed.stderr.splitlines()
    telling = [line for line in lines if "error" in line.lower() or "FATAL" in line] or lines
    raise ServerError(
        f"initdb of PostgreSQL {binaries.version} failed in {data_dir}:"
        f" {telling[0].strip() if telling else 'it said nothing'}.",
        hint="is the disk full, or the folder not writable?",
    )
