"""Everyday incidents on real servers: the first or second finding names the cause and the step."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.features.watch import everyday, healthy
from tests.features.watch.everyday import SESSIONS, Staging
from tests.features.watch.everyday_statements import STATEMENTS
from tests.features.watch.incidents import judged
from tests.fixtures.clusters import make_cluster, run_sql

from pgdyno.features.watch.incident.finding import IncidentFinding
from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.server.target import Target

pytestmark = pytest.mark.pg
SETTINGS = {
    "shared_preload_libraries": "pg_stat_statements",
    "log_line_prefix": "%m [%p] %e %u %a ",
    "max_prepared_transactions": "10",
    "wal_level": "logical",
}
MISSING, NONE_HELPS, LITTLE = "index missing", "no plain index helps", "much is read for few rows"
COUNTED, MANY, WHOLE = "a whole table is counted", "many indexes are written", "table read whole"
OF_CLIENT, OF_PURCHASE = "ON purchases (client)", "ON lines (purchase)"
# Name of an incident -> kind of the finding, and words that it must have.
NAMED: dict[str, tuple[str, tuple[str, ...]]] = {
    "update_by_client": (MISSING, ("UPDATE purchases", OF_CLIENT)),
    "delete_by_purchase": (MISSING, ("DELETE FROM lines", OF_PURCHASE)),
    "correlated_sum": (MISSING, ("of lines", OF_PURCHASE)),
    "exists_without_index": (MISSING, ("of lines", OF_PURCHASE)),
    "join_without_index": (MISSING, ("of purchases", OF_CLIENT)),
    "in_subquery": (MISSING, ("of lines", OF_PURCHASE)),
    "newest_ten": (MISSING, ("for 10", "order of placed", "ON purchases (placed)")),
    "newest_of_client": (MISSING, (OF_CLIENT,)),
    "newest_moment": (MISSING, ("for 1", "ON purchases (placed)")),
    "count_of_state": (COUNTED, ("60,000 rows of purchases", "materialized view", "(state)")),
    "dashboard_groups": (COUNTED, ("20,000 rows of clients", "materialized view")),
    "distinct_states": (COUNTED, ("60,000 rows of purchases", "materialized view")),
    "prefix_under_collation": (NONE_HELPS, ("name by a pattern", "text_pattern_ops")),
    "lower_email": (MISSING, ("ON clients (lower(email))",)),
    "or_over_join": (NONE_HELPS, ("OR joins conditions on several tables", "UNION")),
    "materialized_cte": (NONE_HELPS, ("all_of_them", "NOT MATERIALIZED")),
    "window_view": (WHOLE, ("purchases", "FROM ranked", "views")),
    "open_by_null": (MISSING, ("ON purchases (shipped) WHERE shipped IS NULL",)),
    "open_by_flag": (MISSING, ("ON purchases (flagged) WHERE flagged",)),
    "recent_without_index": (MISSING, ("ON purchases (placed)",)),
    "arithmetic_on_column": (NONE_HELPS, ("computes with placed", "stand alone")),
    "no_pruning": (NONE_HELPS, ("60,000 rows of measured", "computes with at")),
    "sort_spill": ("temporary files", ("SELECT o.id", "work-mem")),
    "hash_spill": ("temporary files", ("SELECT count(*)", "work-mem")),
    "update_from": (MISSING, (OF_CLIENT,)),
    "many_indexes": (MANY, ("17 indexes of wide", "idx_scan")),
    "no_hot_updates": (MANY, ("10 indexes of seats", "seats_seen_idx", "no HOT update")),
    "large_document_updates": (LITTLE, ("TOAST", "separate column or table")),
    "sum_without_index": (MISSING, ("ON lines (product)",)),
    "anti_join": (MISSING, (OF_CLIENT,)),
    "having_filter": (COUNTED, ("60,000 rows of purchases",)),
    "concatenated": (NONE_HELPS, ("region, name", "each column")),
    "not_in_long_list": (LITTLE, ("120,000 rows of lines for 240", "EXPLAIN")),
    "view_without_index": (MISSING, ("FROM open_ones", "of purchases", OF_CLIENT)),
    "partitions_without_index": (MISSING, ("60,000 rows of events", "ON events (account)")),
    "recursion_without_index": (MISSING, ("ON tree (parent)",)),
    "remainder_of_key": (NONE_HELPS, ("60,000 index entries of purchases", "computes with id")),
    "prefix_of_capitals": (NONE_HELPS, ("upper(name) by a pattern", "gin (upper(name)")),
    "join_in_groups": (MISSING, (OF_CLIENT,)),
    "two_columns": (MISSING, ("ON purchases (state, placed)",)),
    "field_with_limit": (NONE_HELPS, ("a field inside body", "((body ->> 'field'))")),
    "foreign_key_no_action": (WHOLE, ("DELETE FROM purchases", "lines_purchase_fkey")),
    "stuck_advisory_lock": ("lock queue", ("scheduler-1", "advisory", "pg_terminate_backend")),
    "queue_without_skip_locked": ("lock contention", ("jobs", "SKIP LOCKED")),
    "plain_index_build": ("lock queue", ("deploy", "table jobs", "CREATE INDEX CONCURRENTLY")),
    "rewriting_alter": ("lock queue", ("deploy", "table jobs", "in steps")),
    "locked_table": ("lock queue", ("psql", "idle in transaction", "pg_terminate_backend")),
    "truncate_behind_report": ("lock queue behind DDL", ("report", "TRUNCATE", "lock_timeout")),
    "children_wait_for_parent": ("lock queue", ("back-office", "one row of purchases")),
    "same_key_twice": ("lock queue", ("importer", "a key")),
    "missing_value": ("errors", ("not null violation", "by web")),
    "invalid_number": ("errors", ("invalid text representation", "by web")),
    "temp_file_limit": ("errors", ("temp_file_limit", "by web")),
    "serialization_loop": ("errors", ("serialized", "by ledger", "FOR UPDATE")),
    "forgotten_prepared": ("prepared transaction", ("xa-4711", "ROLLBACK PREPARED")),
    "vacuum_off_for_a_table": ("dead rows are read", ("autovacuum is off", "VACUUM jobs")),
    "stale_statistics": ("old statistics", ("20,000 changes", "ANALYZE carts")),
    "foreign_server": ("waits for an extension", ("FROM stock", "postgres_fdw")),
    "function_that_waits": ("lock contention", ("jobs", "UPDATE jobs")),
    "counting_trigger": (WHOLE, ("lines", "INSERT INTO jobs", "trigger count_them of jobs")),
    "hot_upsert": ("lock contention", ("INSERT INTO accounts", "several rows")),
    "aborted_transaction": ("lock queue", ("etl", "(aborted)", "one row of purchases")),
    "vacuum_full": ("lock contention", ("table lines", "maintenance: VACUUM", "pg_repack")),
    "old_backup": ("lock queue behind DDL", ("pg_dump", "ALTER TABLE", "lock_timeout")),
    "batch_holds_rows": ("lock queue", ("nightly-batch", "one row of purchases")),
}
# These take longest, or are like others.
SELDOM = (
    "truncate_behind_report", "vacuum_off_for_a_table", "open_by_null", "distinct_states",
    "partitions_without_index", "prefix_of_capitals", "join_in_groups", "two_columns",
    "forgotten_prepared", "foreign_server", "rewriting_alter", "missing_value", "invalid_number",
    "anti_join", "update_from", "children_wait_for_parent", "aborted_transaction", "in_subquery",
    "batch_holds_rows", "join_without_index", "sum_without_index", "newest_of_client",
    "lower_email", "delete_by_purchase", "having_filter", "not_in_long_list", "hash_spill",
    "arithmetic_on_column", "recent_without_index", "locked_table", "function_that_waits",
    "foreign_key_no_action", "window_view", "same_key_twice", "old_backup", "or_over_join",
    "open_by_flag", "exists_without_index", "concatenated", "stale_statistics", "hot_upsert",
     "stuck_advisory_lock", "temp_file_limit",
)  # fmt: skip


def cases(all_staged: Iterable[Any]) -> list[Any]:
    """Return each case on both versions; in an ordinary run, most on one of them."""
    return [
        pytest.param(version, staged, marks=marks, id=f"{version}-{name}")
        for version in ("15", "18")
        for staged in all_staged
        for name in [staged.__name__]
        for is_usual in [version == ("15", "18")[zlib.crc32(name.encode()) % 2]]
        for marks in [() if is_usual and name not in SELDOM else (pytest.mark.slow,)]
    ]


@pytest.fixture(scope="module")
def counting(request: pytest.FixtureRequest, house: Path) -> Iterator[ScratchCluster]:
    """A server that counts statements, with a store."""
    with make_cluster(request.param, settings=SETTINGS, clients=25) as cluster:
        run_sql(cluster.target, "CREATE DATABASE shop")
        template = cluster.target.with_database("shop")
        run_sql(template, "CREATE EXTENSION pg_stat_statements")
        everyday.make_store(template)
        yield cluster


def words_of(finding: IncidentFinding) -> str:
    return f"{finding.said} {finding.cost} {' '.join(finding.lines)} {finding.next_step}"


@pytest.mark.parametrize(
    ("counting", "staged"), cases((*STATEMENTS, *SESSIONS)), indirect=["counting"]
)
def test_an_everyday_incident_is_the_first_or_second_finding(staged: Staging, shop: Target) -> None:
    kind, words = NAMED[staged.__name__]
    with staged(shop), everyday.healthy_traffic(shop):
        # A queue has waits of 2 s and more.
        listed = judged(shop, 2.5 if kind.startswith("lock queue") else 1.5)
        if kind not in [made.kind for made in listed[:2]]:
            # A statement is counted when it ends; on a busy machine it takes longer.
            listed = judged(shop, 6)
    first = [made for made in listed[:2] if made.kind == kind]
    assert first, [made.said for made in listed]
    assert not [word for word in words if word not in words_of(first[0])], words_of(first[0])
    if first[0].evidence.get("query_id"):
        senders = [line for line in first[0].lines if line.startswith("sent by ")]
        assert "(role postgres)" in " ".join(senders), first[0].lines


@pytest.mark.parametrize(("counting", "staged"), cases(healthy.ALL), indirect=["counting"])
def test_a_healthy_server_has_no_finding(
    staged: healthy.Healthy, counting: ScratchCluster, shop: Target
) -> None:
    with staged(counting, shop):
        listed = judged(shop, 1.5)
    assert listed == []
