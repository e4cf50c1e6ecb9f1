"""Wait events by the extension pg_wait_sampling, every 10 ms: finer than our own samples.

Its profile knows neither states nor, before 1.2, sessions that wait for nothing: which share of
the time was waiting is for the samples of pg_stat_activity to say, this splits the waiting.
"""

from __future__ import annotations

from typing import ClassVar

from pgdyno.observe.collector import SECOND_NS
from pgdyno.observe.column import Column, counter, key
from pgdyno.observe.sql.extension import ExtensionCollector

SQL = {
    10: (
        "SELECT event_type || ':' || event, queryid::int8, sum(count)::int8,"
        " current_setting('pg_wait_sampling.profile_period')::int8 * 1000000"
        " FROM {schema}.pg_wait_sampling_profile"
        " WHERE event IS NOT NULL AND event_type NOT IN ('Activity', 'Client')"
        " GROUP BY 1, 2 ORDER BY 3 DESC LIMIT 300"
    )
}


class WaitSamplingCollector(ExtensionCollector):
    """Samples the profile since it was last reset, which we never do."""

    name = "wait_sampling"
    meaning = "Waits by the extension pg_wait_sampling: event and statement"
    interval_ns = 5 * SECOND_NS
    extension = "pg_wait_sampling"
    sql = SQL
    columns: ClassVar[tuple[Column, ...]] = (
        key("wait_event", "type:event, such as Lock:transactionid"),
        Column("query_id", "int64", "identifier", "of the statement; 0 = not known", "key"),
        counter("samples", "samples", "in which a process waited for it"),
        Column("period_ns", "int64", "ns", "between two samples of the extension"),
    )
