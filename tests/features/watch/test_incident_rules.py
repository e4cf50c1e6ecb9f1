"""Rules of incidents on samples made by hand, and what they read from a statement."""

from __future__ import annotations

from typing import Any

import pytest
from tests.features.watch.examples import DOCUMENT, text_of
from tests.features.watch.samples import database, wait

from pgdyno.features.watch.incident.conditions import restricted
from pgdyno.features.watch.incident.evidence import IncidentEvidence
from pgdyno.features.watch.incident.finding import IncidentFinding, in_order
from pgdyno.features.watch.incident.known_statements import KnownStatements
from pgdyno.features.watch.incident.reading_rules import read_whole
from pgdyno.features.watch.incident.rules import findings_of
from pgdyno.features.watch.incident.sampled import HIDDEN, shown_statement
from pgdyno.features.watch.incident.server_rules import forced_checkpoints
from pgdyno.features.watch.tally import Tally

SECOND_NS = 1_000_000_000


def queue_row(pid: int, behind: str, second: int, **changes: Any) -> dict[str, Any]:
    """Return one session of a lock queue; it has waited since second 0."""
    return {
        "time_ns": second * SECOND_NS,
        "interval_ns": SECOND_NS,
        "pid": pid,
        "leader_pid": 0,
        "blocked_by": behind,
        "prepared": "",
        "database": "shop",
        "role": "app",
        "application": f"app-{pid}",
        "state": "active",
        "backend_type": "client backend",
        "locked": "transactionid" if behind else "",
        "mode": "ShareLock" if behind else "",
        "relation": "public.orders" if behind else "",
        "place": "7:0,1" if behind else "",
        "transaction_us": pid,
        "transaction_age_ns": second * SECOND_NS,
        "statement_us": pid,
        "statement_age_ns": second * SECOND_NS,
        "state_age_ns": second * SECOND_NS,
        "waited_ns": second * SECOND_NS if behind else 0,
        "all_waiting": 1,
        "query_id": 0,
        "statement": "UPDATE orders SET n = $1",
        **changes,
    }


def watched(*samples: list[dict[str, Any]], active: int = 2) -> IncidentEvidence:
    """Return the sums of a watch with one sample of queues a second."""
    tally = Tally(SECOND_NS)
    evidence = IncidentEvidence(tally)
    for second, rows in enumerate(samples, 1):
        tally.take("database", database(second, 100 * second))
        tally.take("waits", [wait("Lock:transactionid", 1, active)])
        if rows:
            evidence.take("lock_queues", rows)
        evidence.take("wal", [{"time_ns": second * SECOND_NS, "position_bytes": 0}])
    return evidence


def test_a_blocker_that_waits_itself_is_not_the_head_of_the_queue() -> None:
    samples = [
        [
            queue_row(1, "", second, state="idle in transaction", all_waiting=2),
            queue_row(2, "1", second, all_waiting=2),
            queue_row(3, "2", second, all_waiting=2),
        ]
        for second in range(1, 6)
    ]
    [finding] = findings_of(watched(*samples))
    assert finding.evidence["pid"] == 1
    assert finding.evidence["waiting"] == 2
    assert finding.lost_s == pytest.approx(10)
    assert "app" in finding.lines[1]


def test_sessions_that_were_not_examined_count_in_the_lost_time() -> None:
    samples = [
        [
            queue_row(1, "", second, state="idle in transaction", all_waiting=50),
            queue_row(2, "1", second, all_waiting=50),
        ]
        for second in range(1, 6)
    ]
    [finding] = findings_of(watched(*samples, active=50))
    assert finding.evidence["waiting_max"] == 50
    assert finding.lost_s == pytest.approx(250)


def test_a_circle_of_waits_has_no_head_and_ends_nothing() -> None:
    samples = [[queue_row(1, "2", 1), queue_row(2, "1", 1)]]
    assert findings_of(watched(*samples)) == []


def test_statements_of_waiters_that_ended_are_counted() -> None:
    samples = [
        [
            queue_row(1, "", second, state="idle in transaction"),
            queue_row(2, "1", second, statement_us=second // 3, waited_ns=3 * SECOND_NS),
        ]
        for second in range(1, 9)
    ]
    [finding] = findings_of(watched(*samples))
    assert finding.evidence["completed"] == 2
    assert "2 statements of theirs stopped waiting" in finding.cost


def test_short_waits_for_one_holder_after_another_are_no_blocker() -> None:
    samples = [
        [queue_row(100 + second, "", second), queue_row(2, str(100 + second), second, waited_ns=5)]
        for second in range(1, 6)
    ]
    assert {finding.kind for finding in findings_of(watched(*samples))} == {"lock contention"}
    calm = watched(*samples)
    for second in range(6, 60):
        calm.tally.take("waits", [wait("", 1, 4)])
        calm.tally.take("database", database(second, 100 * second))
    assert findings_of(calm) == []


def test_little_lost_time_does_not_come_before_work_that_is_refused() -> None:
    from pgdyno.features.watch.incident.finding import Danger

    small = IncidentFinding(kind="a", said="small", next_step="", lost_s=1, share_ratio=0.01)
    large = IncidentFinding(kind="b", said="large", next_step="", lost_s=2, share_ratio=0.5)
    refused = IncidentFinding(kind="c", said="refused", next_step="", danger=Danger.WORK_REFUSED)
    assert [finding.said for finding in in_order([small, refused, large])] == [
        "large",
        "refused",
        "small",
    ]


def test_findings_are_shortened_from_the_last_and_never_left_out() -> None:
    findings = [
        IncidentFinding(
            kind="k", said=f"{'word ' * 40}", next_step="step " * 30, lines=("line",) * 5
        ).as_document()
        for _ in range(5)
    ]
    lines = text_of({**DOCUMENT, "findings": findings}, 80).splitlines()
    assert len(lines) <= 24
    assert [line[1] for line in lines if line[:1] == " " and line[1:2].isdigit()] == list("12345")
    assert max(map(len, lines)) <= 80


def test_what_does_not_fit_is_named_in_one_line_and_whole_in_the_full_text() -> None:
    made = [
        IncidentFinding(kind=f"kind {n}", said=f"said {n}", next_step=f"step {n}") for n in "ab"
    ]
    also = [finding.as_document() for finding in made]
    document = {**DOCUMENT, "findings": also[:1], "also_seen": also}
    assert "also seen   kind a, kind b (each lost less time)" in text_of(document, 80)
    assert "step b" not in text_of(document, 80)
    assert "step b" in text_of(document, 80, "full")


@pytest.mark.parametrize(
    ("text", "tables", "columns"),
    [
        ("SELECT * FROM orders WHERE customer = $1", ["orders"], ["customer"]),
        ("SELECT o.id FROM s.orders o WHERE o.customer = ANY($1)", ["orders"], ["customer"]),
        ("UPDATE orders SET n = $1 WHERE customer IN ($2, $3)", ["orders"], ["customer"]),
        ("DELETE FROM orders WHERE at BETWEEN $1 AND $2 AND n > 0", ["orders"], ["at", "n"]),
        ("SELECT * FROM users WHERE lower(email) = $1", ["users"], ["lower(email)"]),
        (
            "SELECT * FROM a JOIN b ON a.id = b.a WHERE b.kind = $1",
            ["a", "b"],
            ["kind", "id", "a"],
        ),
        ("SELECT * FROM orders WHERE note LIKE $1 OR n = 1", ["orders"], []),
    ],
)
def test_restricted_columns_are_read_by_the_grammar(
    text: str, tables: list[str], columns: list[str]
) -> None:
    parts = restricted(text)
    assert parts is not None
    assert [name for _, name in parts.tables] == tables
    assert [condition.indexed for condition in parts.conditions] == columns
    assert parts.returns_what_it_finds


@pytest.mark.parametrize("text", ["VACUUM orders", "SELECT 1", "SELECT * FROM (", "", "CALL f()"])
def test_a_statement_without_a_table_is_not_judged(text: str) -> None:
    assert restricted(text) is None


def test_a_statement_that_counts_does_not_return_what_it_finds() -> None:
    for text in (
        "SELECT count(*) FROM orders WHERE n = $1",
        "SELECT n, sum(x) FROM orders WHERE n = $1 GROUP BY n",
        "SELECT * FROM orders WHERE n = $1 LIMIT 1",
    ):
        parts = restricted(text)
        assert parts is not None
        assert not parts.returns_what_it_finds


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("UPDATE t SET a = 'secret' WHERE id = 17", "UPDATE t SET a = $1 WHERE id = $2"),
        ("UPDATE t SET a = 'secr", "UPDATE t SET a = ?"),
        ("ALTER ROLE me PASSWORD 'secret'", "ALTER ROLE ..."),
        ("<insufficient privilege>", HIDDEN),
        ("", ""),
    ],
)
def test_a_statement_is_shown_without_values(text: str, shown: str) -> None:
    assert shown_statement(text) == shown


def taken(collector: str, *samples: dict[str, Any]) -> list[str]:
    """Return the kinds of findings of a watch of ten seconds with these samples."""
    evidence = watched(*([] for _ in range(10)))
    for place, row in enumerate(samples):
        stamp = {"time_ns": (1 + 9 * place) * SECOND_NS, "interval_ns": SECOND_NS}
        evidence.take(collector, [{**stamp, **row}])
    return [finding.kind for finding in findings_of(evidence)]


LIMITS = {
    **{"connections_max": 100, "connections_reserved": 3, "clients": 10, "clients_idle": 5},
    **{"vacuum_workers": 3, "vacuum_workers_max": 3, "autovacuum": 1, "vacuum_threshold": 50},
    **{"vacuum_scale_millionths": 200_000, "max_wal_bytes": 2**30, "synchronous": 0},
    "checkpoint_timeout_ns": 300 * SECOND_NS,
}
TABLE = {"schema": "public", "table": "t", "rows_live": 10_000, "seq_rows": 0}


def test_busy_workers_are_a_finding_only_if_dead_rows_grow_past_the_threshold() -> None:
    def kinds(dead: int, workers: int) -> list[str]:
        evidence = watched(*([] for _ in range(10)), active=1)
        for second in (1, 9):
            stamp = {"time_ns": second * SECOND_NS, "interval_ns": SECOND_NS}
            evidence.take("limits", [{**stamp, **LIMITS, "vacuum_workers": workers}])
            evidence.take("tables", [{**stamp, **TABLE, "rows_dead": dead * second}])
        return sorted({finding.kind for finding in findings_of(evidence)} - {"lock contention"})

    assert kinds(20_000, 3) == ["autovacuum cannot keep up"]
    assert kinds(20_000, 1) == []
    assert kinds(200, 3) == []


@pytest.mark.parametrize(("rows_each", "is_found"), [(50, False), (50_000, True)])
def test_a_small_table_that_is_read_whole_is_no_finding(rows_each: int, is_found: bool) -> None:
    evidence = watched(*([] for _ in range(10)))
    for second in range(1, 11):
        stamp = {"time_ns": second * SECOND_NS, "interval_ns": SECOND_NS}
        grown = {"seq_scans": 5_000.0 * second, "seq_rows": 5_000.0 * second * rows_each}
        evidence.take("tables", [{**stamp, **TABLE, **grown}])
    findings = list(read_whole(evidence, KnownStatements(counts_statements=False)))
    assert bool(findings) is is_found


@pytest.mark.parametrize(
    ("collector", "row", "kind"),
    [
        ("ages", {"xid_age": 900_000_000, "freeze_age": 200_000_000}, "wraparound"),
        ("ages", {"xid_age": 210_000_000, "freeze_age": 200_000_000}, None),
        ("limits", {**LIMITS, "clients": 97}, "connections"),
        ("limits", {**LIMITS, "clients": 80}, None),
        (
            "replication",
            {
                **{"sender_pid": 7, "standby": "s1", "sync_state": "async"},
                **{"replay_lag_ns": 60 * SECOND_NS, "replay_lag_bytes": 2**30},
            },
            "standby lag",
        ),
        (
            "replication",
            {
                **{"sender_pid": 7, "standby": "s1", "sync_state": "async"},
                **{"replay_lag_ns": float("nan"), "replay_lag_bytes": 0},
            },
            None,
        ),
    ],
)
def test_a_limit_is_a_finding_and_what_is_normal_is_none(
    collector: str, row: dict[str, Any], kind: str | None
) -> None:
    assert (kind in taken(collector, row, row)) is (kind is not None)


@pytest.mark.parametrize(
    ("kind", "state", "said"),
    [
        ("slot", "inactive", "replication slot x (inactive) keeps old rows"),
        ("standby", "streaming", "standby x keeps old rows by hot_standby_feedback"),
        ("prepared transaction", "prepared", "prepared transaction x"),
        ("session", "active", "has a transaction of 10 min"),
    ],
)
def test_whatever_keeps_old_rows_is_named(kind: str, state: str, said: str) -> None:
    row = {
        **{"kind": kind, "pid": 7 * (kind == "session"), "database": "shop", "role": "app"},
        **{"name": "x", "state": state, "transaction_us": 1, "age_ns": 600 * SECOND_NS},
        **{"state_age_ns": SECOND_NS, "query_id": 0, "statement": ""},
        **{"time_ns": SECOND_NS, "interval_ns": SECOND_NS},
    }
    for xmin_age, is_listed in ((500_000, True), (10, kind == "prepared transaction")):
        evidence = watched([])
        evidence.take("holds", [{**row, "xmin_age": xmin_age}])
        listed = [finding.said for finding in findings_of(evidence)]
        assert any(said in words for words in listed) is is_listed


@pytest.mark.parametrize(
    ("state", "step"),
    [
        ("idle", "pg_terminate_backend(1)"),
        ("idle in transaction (aborted)", "pg_terminate_backend(1)"),
        ("active", "pg_cancel_backend(1)"),
    ],
)
def test_the_next_step_ends_what_the_holder_does(state: str, step: str) -> None:
    samples = [
        [queue_row(1, "", second, state=state), queue_row(2, "1", second, locked="advisory")]
        for second in range(1, 5)
    ]
    [finding] = findings_of(watched(*samples))
    assert step in finding.next_step


def test_a_parallel_worker_waits_for_its_leader() -> None:
    samples = [
        [
            queue_row(1, "", second, state="idle in transaction"),
            queue_row(2, "", second, application="report"),
            queue_row(3, "1", second, leader_pid=2, backend_type="parallel worker"),
            queue_row(4, "1", second, leader_pid=2, backend_type="parallel worker"),
            queue_row(5, "2", second, application="web"),
        ]
        for second in range(1, 5)
    ]
    for rows in samples:
        for row in rows:
            row["waited_ns"] = max(row["waited_ns"], 3 * SECOND_NS)
    [finding] = findings_of(watched(*samples))
    assert finding.evidence["pid"] == 1
    assert finding.evidence["waiting"] == 2
    assert any("report" in line for line in finding.lines)


@pytest.mark.parametrize(
    ("event", "commits_per_second", "words"),
    [
        ("LWLock:SubtransSLRU", 100, "subtransactions"),
        ("LWLock:MultiXactMemberBuffer", 100, "multixacts"),
        ("LWLock:lock_manager", 100, "lock table"),
        ("IPC:ExecuteGather", 100, "parallel workers"),
        ("Lock:extend", 100, "one table larger"),
        ("LWLock:NewerThanPgdyno", 100, "wait for LWLock:NewerThanPgdyno"),
        # Each transaction waits 40 ms, and 0.4 ms.
        ("IO:WalSync", 100, "until their WAL is on the disk"),
        ("IO:WalSync", 10_000, ""),
        ("LWLock:WALWrite", 10_000, ""),
        ("IPC:SyncRep", 100, ""),
        ("IO:BufFileWrite", 100, ""),
    ],
)
def test_waits_are_named_by_their_cause_and_those_of_commits_only_if_each_is_long(
    event: str, commits_per_second: int, words: str
) -> None:
    evidence = IncidentEvidence(Tally(SECOND_NS))
    for second in range(1, 11):
        evidence.tally.take("database", database(second, commits_per_second * second))
        evidence.tally.take("waits", [wait(event, 1, 4)])
    said = [finding.said for finding in findings_of(evidence)]
    assert [words in sentence for sentence in said] == [True] * bool(words)


@pytest.mark.parametrize(
    ("sqlstate", "count", "words"),
    [("57014", 20, "statement_timeout"), ("", 20, "statements fail"), ("57014", 2, "")],
)
def test_errors_of_the_log_are_a_finding_if_there_are_many(
    sqlstate: str, count: int, words: str
) -> None:
    evidence = watched(*([] for _ in range(10)), active=1)
    stamp = {"time_ns": SECOND_NS, "interval_ns": SECOND_NS, "kind": "error", "what": ""}
    evidence.take("log", [{**stamp, "sqlstate": sqlstate}] * count)
    said = [finding.said for finding in findings_of(evidence) if finding.kind == "errors"]
    assert [words in sentence for sentence in said] == [True] * bool(words)


def test_errors_and_deadlocks_name_the_sessions_that_the_log_names() -> None:
    evidence = watched(*([] for _ in range(10)), active=1)
    stamp = {"time_ns": SECOND_NS, "interval_ns": SECOND_NS, "what": "", "kind": "error"}
    failed = {**stamp, "sqlstate": "23505", "user": "app", "application": "importer", "pid": 7}
    other = {**failed, "user": "web", "application": "", "pid": None}
    ended = {**stamp, "kind": "deadlock", "sqlstate": "40P01", "user": "app", "pid": 8}
    evidence.take("log", [failed] * 19 + [other] + [{**ended, "application": "cart"}])
    for second, deadlocks in ((1, 0), (9, 1)):
        evidence.take("database", database(second, 0, deadlocks=deadlocks))
    by_kind = {finding.kind: finding for finding in findings_of(evidence)}
    errors, deadlock = by_kind["errors"], by_kind["deadlocks"]
    assert "19 of 20 by importer (role app, pid 7), 1 of 20 by role web" in errors.said
    assert errors.evidence["by"][0] == {"role": "app", "application": "importer", "errors": 19}
    assert "by cart (role app, pid 8)" in deadlock.said
    assert "log_line_prefix" not in errors.next_step + deadlock.next_step


def test_without_names_in_the_log_the_step_says_how_to_get_them() -> None:
    evidence = watched(*([] for _ in range(10)), active=1)
    # A result of an older version does not have the columns of sessions.
    stamp = {"time_ns": SECOND_NS, "interval_ns": SECOND_NS, "kind": "error", "what": ""}
    evidence.take("log", [{**stamp, "sqlstate": "23505"}] * 20)
    [errors] = [finding for finding in findings_of(evidence) if finding.kind == "errors"]
    assert errors.evidence["by"] == []
    assert "%u and %a in log_line_prefix" in errors.next_step


def test_a_shortened_finding_keeps_its_whole_next_step() -> None:
    step = (
        "SELECT pg_catalog.pg_cancel_backend(1423) frees the queue at once; then let it end, or "
        + (
            "SELECT pg_catalog.pg_cancel_backend(1345), which ends the statement that holds the"
            " table"
        )
    )
    finding = IncidentFinding(kind="k", said="word " * 40, next_step=step, cost="cost " * 40)
    documents = [finding.as_document()] * 5
    text = text_of({**DOCUMENT, "findings": documents}, 100)
    assert " ".join(text.split()).count(step) == 5


@pytest.mark.parametrize(("taken_count", "is_near"), [(20, True), (12, False)])
def test_the_limit_of_a_role_is_a_finding_if_it_is_near(taken_count: int, is_near: bool) -> None:
    limits = {**LIMITS, "limited": "role web", "limited_clients": taken_count, "limited_max": 20}
    assert ("connection limit" in taken("limits", limits, limits)) is is_near


def limits(second: int, taken: int) -> dict[str, Any]:
    """Return a sample of a server with 100 connections, of which `taken` are taken."""
    names = ("clients_idle", "connections_reserved", "autovacuum", "synchronous", "limited_max")
    zeros = dict.fromkeys(names, 0)
    workers = {"vacuum_workers": 0, "vacuum_workers_max": 3}
    times = {"time_ns": second * SECOND_NS, "interval_ns": 5 * SECOND_NS}
    return {**zeros, **workers, **times, "connections_max": 100, "clients": taken, "limited": ""}


def test_a_finding_tells_since_when_it_is_seen() -> None:
    evidence = IncidentEvidence(Tally(SECOND_NS))
    for second in range(1, 62):
        evidence.tally.take("database", database(second, 100 * second))
        if second % 5 == 1:
            evidence.take("limits", [limits(second, 95 if second >= 41 else 10)])
            findings_of(evidence)
    [late] = findings_of(evidence)
    assert late.since_s == pytest.approx(20)
    assert late.cost.endswith("seen for 20 s")


def test_a_finding_of_the_begin_may_be_older_than_the_watch() -> None:
    evidence = IncidentEvidence(Tally(SECOND_NS))
    for second in range(1, 62):
        evidence.tally.take("database", database(second, 100 * second))
        if second % 5 == 1:
            evidence.take("limits", [limits(second, 95)])
            findings_of(evidence)
    [finding] = findings_of(evidence)
    # A time of day with "since" would say that it is known.
    assert finding.cost.endswith("began before 00:00:01 UTC")
    assert finding.since_s is None


def test_a_statement_is_seen_since_its_first_sample() -> None:
    tally = Tally(SECOND_NS)
    for second in range(100):
        rows = [wait("", 1, 1), *([wait("", 7, 1)] if second >= 75 else [])]
        tally.take("waits", rows)
    assert tally.stretches.first_seen_ratio("1") == 0.0
    assert tally.stretches.first_seen_ratio("7") == pytest.approx(0.75)
    assert tally.stretches.first_seen_ratio("8") == 1.0


def test_errors_tell_when_the_log_had_the_first() -> None:
    evidence = IncidentEvidence(Tally(SECOND_NS))
    for second in range(1, 62):
        growth = {"xact_rollback": 10 * max(0, second - 40)}
        evidence.tally.take("database", database(second, 0, **growth))
        evidence.take("database", database(second, 0, **growth))
        error = {"time_ns": second * SECOND_NS, "happened_ns": second * SECOND_NS}
        error |= {"kind": "error", "sqlstate": "57014", "what": ""}
        if second > 40:
            evidence.take("log", [error] * 10)
    [finding] = findings_of(evidence)
    assert finding.kind == "errors"
    assert finding.since_s == pytest.approx(20)
    assert "the first error since the watch began was 20 s ago" in finding.cost


@pytest.mark.parametrize(
    ("free_bytes", "expected"),
    [
        # 10 MB/s for 300 s are 2.8 GB, and a checkpoint begins at 0.53 of max_wal_size.
        (None, "max_wal_size = '6GB'"),
        (100 << 30, "max_wal_size = '6GB'"),
        (5 << 30, "max_wal_size = '2GB'"),
        (1 << 30, "a larger disk for pg_wal"),
    ],
)
def test_a_new_max_wal_size_holds_a_checkpoint_timeout_and_leaves_half_of_the_disk(
    free_bytes: int | None, expected: str
) -> None:
    evidence = watched(*([] for _ in range(11)))
    limits = {"max_wal_bytes": 32 << 20, "checkpoint_timeout_ns": 300 * SECOND_NS}
    for second in (1, 11):
        stamp = {"time_ns": second * SECOND_NS}
        requested = {"checkpoints_requested": second, "checkpoints_timed": 0}
        evidence.take("checkpointer", [stamp | requested])
        evidence.take("limits", [stamp | limits | {"vacuum_workers": 0, "vacuum_workers_max": 3}])
        evidence.take(
            "wal", [stamp | {"position_bytes": (second - 1) * 10_000_000, "full_page_images": 0}]
        )
    known = KnownStatements(wal_free_bytes=free_bytes)
    [finding] = forced_checkpoints(evidence, known)
    assert expected in finding.next_step
    assert finding.lost_s == 0
