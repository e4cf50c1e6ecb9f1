"""Every statement that the doctor may send, by the first major version that understands it."""

from __future__ import annotations

from collections.abc import Mapping

from pgdyno.observe.session import PATIENCE_SQL, PID_SQL, SESSION_SQL
from pgdyno.observe.sql.sql_collector import pick
from pgdyno.server.configuration import SETTINGS_SQL
from pgdyno.server.session_start import FIRST_TEXT

_IS_CLIENT = "backend_type = 'client backend' AND pid <> pg_backend_pid()"
_IS_OTHERS = (
    # Any application may have such a name, so the role must be ours, too.
    f"{_IS_CLIENT} AND NOT (strpos(coalesce(application_name, ''), 'pgdyno/') = 1"
    " AND coalesce(usename, '') = session_user)"
    # Citus works for a session in further sessions, which are not another application.
    " AND NOT (strpos(coalesce(application_name, ''), 'citus_internal gpid=') = 1"
    " AND EXISTS (SELECT FROM pg_catalog.pg_extension WHERE extname = 'citus'))"
)


# Whether the role may change a table of a user in this database.
_WRITES = (
    "EXISTS (SELECT 1 FROM pg_catalog.pg_class c WHERE c.oid >= 16384 AND c.relkind IN ('r', 'p')"
    " AND has_table_privilege(c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE'))"
)


def _role(*, alter_system: str) -> str:
    """Return the query of a role's rights.

    A predefined role that this version does not have counts as not granted. A superuser has all.
    """

    def member(role: str) -> str:
        return (
            "r.rolsuper OR coalesce((SELECT pg_has_role(r.oid, g.oid, 'USAGE')"
            f" FROM pg_catalog.pg_roles g WHERE g.rolname = '{role}'), false)"
        )

    return (
        f"SELECT r.rolname, r.rolsuper, {member('pg_monitor')}, {member('pg_checkpoint')},"
        f" {alter_system}, has_database_privilege(current_database(), 'CREATE'),"
        " coalesce((SELECT has_schema_privilege(n.oid, 'CREATE') FROM pg_catalog.pg_namespace n"
        " WHERE n.nspname = 'public'), false), has_function_privilege("
        f" 'pg_catalog.pg_reload_conf()', 'EXECUTE'), r.rolsuper OR {_WRITES}"
        " FROM pg_catalog.pg_roles r"
        " WHERE r.rolname = current_user"
    )


_LSN = "CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END"
_INACTIVE = (
    "count(*) FILTER (WHERE NOT active)::int,"
    f" coalesce(max(pg_wal_lsn_diff({_LSN}, restart_lsn)) FILTER (WHERE NOT active), 0)::int8"
)
_OLDEST = "(SELECT max(age(datfrozenxid)) FROM pg_catalog.pg_database)::int8"


def _running(command: str) -> str:
    return f"(SELECT count(*)::int FROM pg_catalog.pg_stat_progress_{command})"


SQL: Mapping[str, Mapping[int, str]] = {
    "settings": {10: SETTINGS_SQL},
    "role": {
        10: _role(alter_system="r.rolsuper"),
        15: _role(
            # For a role that is not a superuser: the settings that `rights.grants` names.
            alter_system="r.rolsuper OR has_parameter_privilege('max_wal_size', 'ALTER SYSTEM')"
            " AND has_parameter_privilege('checkpoint_timeout', 'ALTER SYSTEM')"
        ),
    },
    "identity": {
        10: "SELECT current_setting('server_version'), pg_is_in_recovery(), current_database(),"
        " inet_server_addr() IS NULL, EXISTS (SELECT FROM pg_catalog.pg_extension"
        " WHERE extname = 'pg_stat_statements'), EXISTS (SELECT FROM"
        " pg_catalog.pg_available_extensions WHERE name = 'pg_stat_statements')"
    },
    "size": {10: "SELECT pg_database_size(current_database())"},
    # None if one of the databases may not be connected to.
    "data_size": {
        10: "SELECT CASE WHEN bool_and(has_database_privilege(oid, 'CONNECT')) THEN sum(CASE WHEN"
        " has_database_privilege(oid, 'CONNECT') THEN pg_database_size(oid) END)::bigint END"
        " FROM pg_database WHERE NOT datistemplate"
    },
    "activity": {
        10: f"SELECT count(*) FILTER (WHERE {_IS_CLIENT})::int,"
        f" count(*) FILTER (WHERE {_IS_OTHERS})::int,"
        f" count(DISTINCT application_name) FILTER (WHERE {_IS_OTHERS})::int,"
        " coalesce(string_agg(DISTINCT concat(', role ', usename, ' calls itself ',"
        f" application_name), '') FILTER (WHERE {_IS_OTHERS}"
        " AND strpos(application_name, 'pgdyno/') = 1), ''),"
        " count(*) FILTER (WHERE strpos(state, 'idle in transaction') = 1"
        " AND now() - state_change > interval '5 min')::int,"
        " coalesce(max(extract(epoch FROM now() - xact_start))"
        f" FILTER (WHERE {_IS_CLIENT}), 0)::float8 FROM pg_catalog.pg_stat_activity"
    },
    "active": {
        10: f"SELECT count(*) FILTER (WHERE {_IS_OTHERS})::int FROM pg_catalog.pg_stat_activity"
        " WHERE state = 'active'"
    },
    "progress": {
        10: f"SELECT {_running('vacuum')}, 0, 0",
        12: f"SELECT {_running('vacuum')}, {_running('create_index')}, 0",
        13: f"SELECT {_running('vacuum')}, {_running('create_index')}, {_running('basebackup')}",
    },
    "replication": {
        10: "SELECT count(*)::int,"
        " count(*) FILTER (WHERE sync_state IN ('sync', 'quorum'))::int"
        " FROM pg_catalog.pg_stat_replication"
    },
    "slots": {
        10: f"SELECT {_INACTIVE}, 0 FROM pg_catalog.pg_replication_slots",
        13: f"SELECT {_INACTIVE}, count(*) FILTER (WHERE wal_status = 'lost')::int"
        " FROM pg_catalog.pg_replication_slots",
    },
    "databases": {
        10: f"SELECT {_OLDEST}, 0::int8",
        12: f"SELECT {_OLDEST},"
        " (SELECT coalesce(sum(checksum_failures), 0) FROM pg_catalog.pg_stat_database)::int8",
    },
    "checkpoints": {
        10: "SELECT checkpoints_timed::int8, checkpoints_req::int8"
        " FROM pg_catalog.pg_stat_bgwriter",
        17: "SELECT num_timed::int8, num_requested::int8 FROM pg_catalog.pg_stat_checkpointer",
    },
    "prepared": {
        10: "SELECT count(*)::int, coalesce(max(extract(epoch FROM now() - prepared)), 0)::float8"
        " FROM pg_catalog.pg_prepared_xacts"
    },
    "archiver": {
        10: "SELECT coalesce(last_failed_time > coalesce(last_archived_time, '-infinity'), false),"
        " failed_count::int8 FROM pg_catalog.pg_stat_archiver"
    },
}


def statements(version: int) -> dict[str, str]:
    """Return every statement for a server of this major version, by name."""
    texts = {
        "first": FIRST_TEXT,
        "connect": PID_SQL,
        "session": SESSION_SQL,
        "patience": PATIENCE_SQL,
    }
    return texts | {name: pick(name, variants, version) for name, variants in SQL.items()}
