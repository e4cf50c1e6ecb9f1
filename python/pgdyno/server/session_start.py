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
# Whatever else a database or a role can set gets its built-in value: with geqo_pool_size =
# 2147483647, our joins would end with an error. Left alone are costs and sizes, which change only
# how long a statement takes, limits of time, and what decides where and how rows are kept.
_BUILT_IN = (
    "SELECT pg_catalog.concat(s.name, '=', pg_catalog.set_config(s.name, s.boot_val,"
    " here.is_pooled)) FROM pg_catalog.pg_settings s WHERE s.context OPERATOR(pg_catalog.=) 'user'"
    " AND s.source OPERATOR(pg_catalog.=) ANY ('{global,database,user,\"database user\"}'"
    "::pg_catalog.text[]) AND s.vartype OPERATOR(pg_catalog.<>) 'real' AND s.unit IS NULL"
    " AND s.name OPERATOR(pg_catalog.!~) '^(default|max_parallel|vacuum|temp|local)_|^synchronous_c"
    "|io_concurrency$|[.]' AND s.name OPERATOR(pg_catalog.<>) ALL"
    f" ('{{{','.join({**OWN_SETTINGS, **_UNLESS_UNKNOWN})}}}'::pg_catalog.text[])"
)
# If the settings of the load let every statement be compiled, ours would take seconds. The setting
# is not a start-up option, because poolers refuse these, and `as_the_load` resets it. A transaction
# that is serializable, read-only and deferrable waits until all others of that kind have ended.
# A statement_timeout of 1 ms would end the first statement on a busy server.
JIT_SINCE = 110000
AT_ONCE = (
    "SET LOCAL statement_timeout = 0; SET LOCAL transaction_deferrable = off; SET LOCAL jit = off; "
)
# The first statement of a session. Every name has its schema, so the path of the database or the
# role cannot lead it elsewhere. At a pooler the backend is another client's: there the settings
# must end with the transaction.
FIRST_SQL = (
    "SELECT pg_catalog.pg_backend_pid(), pg_catalog.current_setting('search_path'),"
    f" pg_catalog.current_schemas(true), ARRAY({_BUILT_IN}), "
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
