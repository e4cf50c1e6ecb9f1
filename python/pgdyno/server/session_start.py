"""What every session of pgdyno begins with, and what marks its statements."""

from __future__ import annotations

# Names of our statements mean what PostgreSQL itself has: no schema of a user is searched.
OWN_PATH = "pg_catalog, pg_temp"
# What our statements and those who read their answers rely on, whatever database and role set.
# Without row_security a policy of a table is an error, and its functions are not called.
OWN_SETTINGS = {
    "search_path": OWN_PATH,
    "standard_conforming_strings": "on",
    "DateStyle": "ISO",
    "IntervalStyle": "postgres",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "row_security": "off",
    "default_transaction_deferrable": "off",
    "client_min_messages": "warning",
}
# No limit for idle or long sessions ends ours while they wait for the next sample, and the views of
# extensions can be read. These settings are not in every version.
_UNLESS_UNKNOWN = {
    "jit": "off",
    "idle_session_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "transaction_timeout": "0",
    "restrict_nonsystem_relation_kind": "",
}
# If the settings of the load let every statement be compiled, ours would take seconds. The setting
# is not a start-up option, because poolers refuse these, and `showing_jit` resets it. A transaction
# that is serializable, read-only and deferrable waits until all others of that kind have ended.
JIT_SINCE = 110000
AT_ONCE = "SET LOCAL transaction_deferrable = off; SET LOCAL jit = off; "
# The first statement of a session. Every name has its schema, so the path of the database or the
# role cannot lead it elsewhere. At a pooler the backend is another client's: there the settings
# must end with the transaction.
FIRST_SQL = (
    "SELECT pg_catalog.pg_backend_pid(), pg_catalog.current_setting('search_path'),"
    " pg_catalog.current_schemas(true), "
    + ", ".join(
        f"pg_catalog.set_config('{name}', '{value}', here.is_pooled)"
        for name, value in OWN_SETTINGS.items()
    )
    + "".join(
        f", CASE WHEN pg_catalog.current_setting('{name}', true) IS NOT NULL"
        f" THEN pg_catalog.set_config('{name}', '{value}', here.is_pooled) END"
        for name, value in _UNLESS_UNKNOWN.items()
    )
    + " FROM (SELECT pg_catalog.pg_backend_pid() OPERATOR(pg_catalog.<>) %s AS is_pooled) AS here"
)
# The text as it is sent, where %s is the number of the session that the server gave.
FIRST_TEXT = AT_ONCE + FIRST_SQL
# Our statements end with it, so that no list of statements takes them for a load.
MARK = " /* pgdyno */"
