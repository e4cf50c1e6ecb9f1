"""The server under test: version, settings, sizes, storage, rights, sessions; line 1 of outputs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, LiteralString

from pgdyno.quantities import counted, format_bytes
from pgdyno.server.configuration import SETTINGS_SQL, settings_in
from pgdyno.server.connect import Connection
from pgdyno.server.dataset.inspection import Dataset, inspect
from pgdyno.server.dataset.kind import DatasetKind
from pgdyno.server.nodes import Node, kinds_of, workers_of
from pgdyno.server.safety import ConnectionRoom, OtherSessions
from pgdyno.server.storage import device_name, disks_below, mount_of
from pgdyno.server.target import Target
from pgdyno.spec.units import ram_here_bytes

DURABILITY = ("fsync", "full_page_writes", "synchronous_commit", "data_checksums", "wal_level")
# These settings are always kept, because they often explain results. Of the other settings, only
# those that differ from PostgreSQL's default are kept.
ALWAYS_KEPT = (
    *DURABILITY,
    "autovacuum",
    "checkpoint_completion_target",
    "checkpoint_timeout",
    "effective_cache_size",
    "huge_pages",
    "io_method",
    "max_connections",
    "max_wal_size",
    "random_page_cost",
    "server_encoding",
    "shared_buffers",
    "shared_preload_libraries",
    "track_io_timing",
    "track_wal_io_timing",
    "wal_buffers",
    "wal_compression",
    "work_mem",
)
_ROLES = ("pg_monitor", "pg_read_all_stats", "pg_checkpoint", "pg_signal_backend")


@dataclass(frozen=True, slots=True)
class Storage:
    """The file system and device of a folder of the server.

    `disks`: the whole disks below the device, such as sda below sda1; empty if not known.
    """

    path: str
    device: str
    file_system: str
    mount_point: str
    disks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """One server at one moment, as one role sees it; None means "not known from here".

    `settings` maps names to values with units, as SHOW prints them; `setting_sources` says where
    each came from: a file with its line, a command, or "default". `is_local` is true only if the
    session's own backend was seen among this host's processes. `others`: other client sessions in
    this database, by application; `elsewhere_count`: those in other databases.
    `nodes`: the workers of the coordinator of a distributed server. `kinds`: the features that know
    more about the database; they are not stored.
    """

    host: str
    port: int
    database: str
    user: str
    version: str
    version_long: str
    major: int
    is_scratch: bool
    is_local: bool
    is_standby: bool
    postmaster_pid: int | None
    settings: Mapping[str, str]
    setting_sources: Mapping[str, str]
    rights: Mapping[str, bool]
    dataset: Dataset
    database_size_bytes: int
    shared_buffers_bytes: int
    ram_bytes: int | None
    data_storage: Storage | None
    wal_storage: Storage | None
    connections: ConnectionRoom
    others: tuple[OtherSessions, ...]
    elsewhere_count: int = 0
    nodes: tuple[Node, ...] = ()
    kinds: tuple[str, ...] = ()

    @property
    def durability(self) -> dict[str, str]:
        """Return the settings that affect how much a crash may lose."""
        return {name: self.settings.get(name, "not known") for name in DURABILITY}

    @property
    def weakened_durability(self) -> tuple[str, ...]:
        """Return the settings with which a crash may lose or damage acknowledged commits."""
        names = ("fsync", "full_page_writes", "synchronous_commit")
        return tuple(name for name in names if self.settings.get(name) == "off")

    def as_document(self) -> dict[str, Any]:
        """Return everything as JSON-able values."""
        document = asdict(self)
        del document["kinds"]
        return document


def collect(
    connection: Connection,
    target: Target,
    kind: DatasetKind | None = None,
    *,
    own_roles: Sequence[str] = (),
) -> ServerFacts:
    """Read all facts from the server once; only catalogue and statistics are read.

    Args: target, the pinned target of `connection`; kind, of the dataset that the load uses, None
    for the first of the database; own_roles, as `other_sessions`.
    """
    settings, sources = _settings(connection)
    backend_pid = connection.info.backend_pid
    is_local = target.is_loopback and is_backend_here(backend_pid, target)
    data_dir = settings.get("data_directory")
    data_path = Path(data_dir) if is_local and data_dir else None
    version = settings["server_version"].split()[0]
    return ServerFacts(
        host="local" if target.is_socket else (target.host or target.hostaddr),
        port=target.port,
        database=target.database,
        user=target.user,
        version=version,
        version_long=str(_one(connection, "SELECT version()")),
        major=connection.info.server_version // 10000,
        is_scratch=target.is_scratch,
        is_local=is_local,
        is_standby=bool(_one(connection, "SELECT pg_is_in_recovery()")),
        postmaster_pid=_parent_of(backend_pid) if is_local else None,
        settings=settings,
        setting_sources=sources,
        rights=rights(connection),
        dataset=inspect(connection, kind),
        database_size_bytes=int(
            _one(connection, "SELECT pg_database_size(current_database())") or 0
        ),
        shared_buffers_bytes=int(
            # pg_size_bytes reads what SHOW prints, whatever the unit.
            _one(connection, "SELECT pg_size_bytes(current_setting('shared_buffers'))")
        ),
        ram_bytes=ram_here_bytes() if is_local else None,
        data_storage=_storage(data_path),
        wal_storage=_storage(data_path / "pg_wal" if data_path else None),
        connections=connection_room(connection),
        others=other_sessions(connection, own_roles),
        elsewhere_count=_sessions_elsewhere(connection, own_roles),
        nodes=workers_of(connection),
        kinds=kinds_of(connection),
    )


def target_line(facts: ServerFacts) -> str:
    """Return line 1 of every output, without its label: host, database, version, data, storage."""
    place = f"{facts.host}:{facts.port}/{facts.database}"
    parts = [f"PostgreSQL {facts.version}" + (" standby" if facts.is_standby else "")]
    dataset = facts.dataset
    if dataset.state == "complete":
        size_bytes, text = dataset.size_bytes, f"{dataset}: "
    else:
        size_bytes, text = facts.database_size_bytes, ""
    ratios = [f"{_ratio(size_bytes, facts.shared_buffers_bytes)} shared_buffers"]
    if facts.ram_bytes:
        ratios.append(f"{_ratio(size_bytes, facts.ram_bytes)} RAM")
    # In brackets, because otherwise a wrapped line reads like "shared_buffers, 0.01x RAM".
    parts.append(f"{text}{format_bytes(size_bytes)} ({', '.join(ratios)})")
    if dataset.state == "partial":
        parts.append(str(dataset))
    if facts.data_storage is not None:
        parts.append(f"{facts.data_storage.file_system} on {facts.data_storage.device}")
        wal = facts.wal_storage
        if wal is not None and wal.device != facts.data_storage.device:
            parts.append(f"WAL {wal.file_system} on {wal.device}")
    if facts.others:
        sessions = counted(sum(other.count for other in facts.others), "session")
        parts.append(f"{sessions} of {counted(len(facts.others), 'other application')}")
    if facts.elsewhere_count == 1:
        parts.append("1 session in another database")
    elif facts.elsewhere_count:
        parts.append(f"{facts.elsewhere_count} sessions in other databases")
    return f"{'scratch ' if facts.is_scratch else ''}{place}  {', '.join(parts)}"


def rights(connection: Connection) -> dict[str, bool]:
    """Return the rights of this role: superuser, predefined roles, create."""
    row = connection.execute(
        "SELECT rolsuper, has_database_privilege(current_database(), 'CREATE'),"
        " has_schema_privilege('public', 'CREATE') FROM pg_roles WHERE rolname = current_user"
    ).fetchone()
    is_superuser, may_create, may_create_in_public = (bool(value) for value in row or (0, 0, 0))
    member = connection.execute(
        "SELECT rolname, pg_has_role(current_user, oid, 'USAGE') FROM pg_roles"
        " WHERE rolname = ANY(%s)",
        [list(_ROLES)],
    ).fetchall()
    known = {str(name): bool(is_member) for name, is_member in member}
    return {
        "superuser": is_superuser,
        "create": may_create,
        "create_in_public": may_create_in_public,
        # A role that this version lacks counts as not granted. Before 15 there is no pg_checkpoint,
        # and only a superuser may write a checkpoint.
        **{name: is_superuser or known.get(name, False) for name in _ROLES},
    }


# Without pg_monitor the kind of another role's session is hidden. Then a session with a role and a
# database counts as a client, although it may be a worker. It is safer to count too many.
_IS_CLIENT: LiteralString = (
    "(backend_type = 'client backend'"
    " OR backend_type IS NULL AND usesysid IS NOT NULL AND datid IS NOT NULL)"
)
# Any application may have such a name, so the role must be ours, too.
_CALLED_PGDYNO: LiteralString = "strpos(coalesce(application_name, ''), 'pgdyno/') = 1"
# Citus works for a session in further sessions, which are not another application.
_OTHERS: LiteralString = (
    f"FROM pg_stat_activity WHERE {_IS_CLIENT} AND pid <> pg_backend_pid()"
    f" AND NOT ({_CALLED_PGDYNO} AND coalesce(usename, '') = ANY (session_user || %s::name[]))"
    " AND NOT (strpos(coalesce(application_name, ''), 'citus_internal gpid=') = 1"
    " AND EXISTS (SELECT FROM pg_extension WHERE extname = 'citus'))"
)


def connection_room(connection: Connection) -> ConnectionRoom:
    """Return how many more sessions the server admits for this role; our sessions count as used."""
    row = connection.execute(
        "SELECT current_setting('max_connections')::int,"
        " current_setting('superuser_reserved_connections')::int"
        " + coalesce(current_setting('reserved_connections', true)::int, 0),"
        f" (SELECT count(*) FROM pg_stat_activity WHERE {_IS_CLIENT}),"
        " (SELECT rolsuper FROM pg_roles WHERE rolname = current_user)"
    ).fetchone()
    assert row is not None, "a SELECT without FROM returns one row"
    return ConnectionRoom(int(row[0]), int(row[1]), int(row[2]), bool(row[3]))


def other_sessions(
    connection: Connection, own_roles: Sequence[str] = ()
) -> tuple[OtherSessions, ...]:
    """Return the client sessions in this database that are not pgdyno's, by application.

    Without pg_monitor they are counted as well; a name that is hidden counts as unnamed.
    Args: own_roles, as which pgdyno connects besides the role of this session.
    """
    rows = connection.execute(
        "SELECT coalesce(application_name, ''), count(*)::int,"
        f" CASE WHEN {_CALLED_PGDYNO} THEN coalesce(usename, 'that was dropped') ELSE '' END"
        f" {_OTHERS} AND datname = current_database() GROUP BY 1, 3 ORDER BY 2 DESC, 1",
        [list(own_roles)],
    ).fetchall()
    return tuple(OtherSessions(str(name), int(count), str(role)) for name, count, role in rows)


def _sessions_elsewhere(connection: Connection, own_roles: Sequence[str]) -> int:
    counted_sql: LiteralString = f"SELECT count(*) {_OTHERS} AND datname <> current_database()"
    row = connection.execute(counted_sql, [list(own_roles)]).fetchone()
    return int(row[0]) if row else 0


def _settings(connection: Connection) -> tuple[dict[str, str], dict[str, str]]:
    """Return values and sources of every setting that is not the default, and those always kept.

    Values of unknown (extension) settings are left out: they may hold secrets.
    """
    with connection.as_the_load():
        settings = settings_in(connection.execute(SETTINGS_SQL).fetchall())
    known = {
        setting.rule.name: setting
        for name, setting in settings.items()
        if name in (*ALWAYS_KEPT, "server_version", "data_directory")
        or (setting.source not in ("default", "client", "session") and not setting.is_secret)
    }
    return (
        {name: setting.show for name, setting in known.items()},
        {name: setting.place for name, setting in known.items()},
    )


def is_backend_here(pid: int, target: Target) -> bool:
    """True if this host's process `pid` is the backend: a tunnel or container leads elsewhere."""
    try:
        title = Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace")
    except OSError:
        return False
    return "postgres" in title and target.user in title and target.database in title


def _parent_of(pid: int) -> int | None:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    match = re.search(r"^PPid:\s+(\d+)$", status, re.MULTILINE)
    return int(match[1]) if match else None


def _storage(path: Path | None) -> Storage | None:
    if path is None:
        return None
    try:
        mount = mount_of(path.resolve())
    except OSError:
        return None
    if mount is None:
        return None
    point, disks = str(mount.mount_point), disks_below(mount)
    return Storage(str(path), device_name(mount), mount.file_system, point, disks)


def _one(connection: Connection, query: LiteralString) -> Any:
    row = connection.execute(query).fetchone()
    return None if row is None else row[0]


def _ratio(size_bytes: int, of_bytes: int) -> str:
    ratio = size_bytes / of_bytes if of_bytes else 0.0
    return f"{ratio:.2g}x" if ratio < 10 else f"{ratio:.0f}x"
