"""Calls and time of functions: pg_stat_user_functions, where track_functions counts them."""

from __future__ import annotations

from typing import ClassVar

from pgdyno.observe.collector import SECOND_NS
from pgdyno.observe.column import Column, counter, key
from pgdyno.observe.sql.sql_collector import SqlCollector

SQL = {
    10: (
        "SELECT schemaname || '.' || funcname || '(' || pg_get_function_identity_arguments(funcid)"
        " || ')', calls, (pg_stat_get_function_total_time(funcid) * 1e6)::int8,"
        " (self_time * 1e6)::int8"
        " FROM pg_catalog.pg_stat_user_functions"
        " WHERE current_database() = %s ORDER BY 3 DESC, funcid LIMIT 100"
    )
}


class FunctionsCollector(SqlCollector):
    """Samples the hundred functions that took most time; no row without track_functions."""

    name = "functions"
    meaning = "Calls and time of functions of the load's database"
    interval_ns = 10 * SECOND_NS
    sql = SQL
    rows_max = 100
    columns: ClassVar[tuple[Column, ...]] = (
        key("function", "its schema, name and arguments"),
        counter("calls", "calls", "times executed"),
        counter("total_time_ns", "ns", "executing, functions it called included"),
        counter("self_time_ns", "ns", "executing, without those"),
    )
