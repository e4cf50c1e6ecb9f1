"""Wait events by the extension pg_wait_sampling, every 10 ms: finer than our own samples.

Its profile knows neither states nor, before 1.2, sessions that wait for nothing: which share of
the time was waiting is for the samples of pg_stat_activity to say, this splits the waiting.
"""

from __future__ import annotations

from typing import ClassVar

from pgdyno.observe.collector import SECOND_NS, NotMeasurable, Row
from pgdyno.observe.column import Column, counter, key
from pgdyno.observe.sql.sql_collector import SqlCollector, pick

SCHEMA_SQL = (
    "SELECT quote_ident(n.nspname) FROM pg_catalog.pg_extension e"
    " JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace"
    " WHERE e.extname = 'pg_wait_sampling'"
)
_VIEW = "public.pg_wait_sampling_profile"

SQL = {
    10: (
        "SELECT event_type || ':' || event, queryid::int8, sum(count)::int8,"
        " current_setting('pg_wait_sampling.profile_period')::int8 * 1000000"
        f" FROM {_VIEW} WHERE event IS NOT NULL AND event_type NOT IN ('Activity', 'Client')"
        " GROUP BY 1, 2 ORDER BY 3 DESC LIMIT 300"
    )
}


class WaitSamplingCollector(SqlCollector):
    """Samples the profile since it was last reset, which we never do."""

    name = "wait_sampling"
    meaning = "Waits by the extension pg_wait_sampling: event and statement"
    interval_ns = 5 * SECOND_NS
    sql = SQL
    columns: ClassVar[tuple[Column, ...]] = (
        key("wait_event", "type:event, such as Lock:transactionid"),
        Column("query_id", "int64", "identifier", "of the statement; 0 = not known", "key"),
        counter("samples", "samples", "in which a process waited for it"),
        Column("period_ns", "int64", "ns", "between two samples of the extension"),
    )

    def sample(self, now_ns: int) -> list[Row]:  # noqa: ARG002 - the interface of every collector
        """Return one row an event and statement.

        Raises: NotMeasurable where the extension is not in the database that is asked.
        """
        found = self._session.fetch(SCHEMA_SQL)
        if not found:
            raise NotMeasurable("pg_wait_sampling is not in the database that is asked.")
        view = _VIEW.replace("public", str(found[0][0]))
        statement = pick(self.name, SQL, self._session.version).replace(_VIEW, view)
        names = [column.name for column in self.columns]
        return [dict(zip(names, row, strict=True)) for row in self._session.fetch(statement)]
