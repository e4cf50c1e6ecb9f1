"""Findings about what sessions do: transactions that fail, connect too often, or stand still."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import psycopg

from pgdyno.features.watch.incident.evidence import DEADLOCK, IncidentEvidence, number
from pgdyno.features.watch.incident.finding import Danger, IncidentFinding
from pgdyno.features.watch.incident.server_rules import REFUSED, connections
from pgdyno.quantities import count, counted, plain, seconds
from pgdyno.server.grammar import sql_name

_ERRORS_PER_SECOND = 1.0
_FAILED_RATIO = 0.1
# These belong to the work of healthy applications, if few transactions end with them: a key that
# exists, a repeated transaction, a lock that is only tried.
_ORDINARY = ("23505", "40001", "40P01", "55P03")
_SESSIONS_PER_SECOND = 20.0
# A session that makes fewer transactions than this is opened for each request.
_TRANSACTIONS_EACH = 5.0
_USED = re.compile(r"used to (\d+) of 100")
_USED_PERCENT = 90
# What a session meant that was refused or cancelled, by SQLSTATE, and what to do.
_LOST_STATEMENTS = (
    "a pooler in transaction mode gives each transaction another session: max_prepared_statements"
    " of PgBouncer 1.21 and later, or no prepared statements on the server in the driver"
)
_TWO_VERSIONS = (
    "application and schema have different versions: deploy the migration, or the application"
    " before it; else see search_path"
)
_ERRORS = {
    "57014": ("statements are cancelled, by statement_timeout or by their client", "find them in"
              " the log: they are slower than their limit, and are often sent again"),
    "53300": ("sessions are refused: too many connections", "free connections, or a pooler"),
    "40001": ("transactions cannot be serialized", "repeat them after a short pause; fewer sessions"
              " should change the same rows at once: SELECT ... FOR UPDATE as the first statement,"
              " shorter transactions, or READ COMMITTED where it is enough"),
    "55P03": ("locks are not free (NOWAIT, or lock_timeout ended the wait)",
              "see who holds these locks"),
    "25P02": ("statements come after an error in their transaction", "find the first error"),
    "25P03": ("idle_in_transaction_session_timeout ends sessions", "find what the application does"
              " inside transactions, such as calls of other services"),
    "25006": ("writes to a server that is read-only", "connect to the primary; on it, see"
              " default_transaction_read_only"),
    "2200H": ("a sequence has no number left", "ALTER SEQUENCE ... MAXVALUE, and bigint for its"
              " column"),
    "53100": ("the disk is full", "free space on the server's disks"),
    "53400": ("statements exceed a limit, such as temp_file_limit", "see the limit in the log; the"
              " statement writes more temporary files than others: pgdyno work-mem, or an index"
              " in its order"),
    "53200": ("memory ran out, or the table of locks is full", "'out of shared memory' in the log:"
              " a larger max_locks_per_transaction (restart), or fewer partitions in a"
              " transaction; else a smaller work_mem, or fewer sessions"),
    "23505": ("keys exist already", "find the code that inserts them again"),
    "23503": ("rows refer to rows that do not exist", "find the code that inserts or deletes them"),
    "0A000": ("prepared statements do not fit their tables any more, or use what is not supported",
              "'cached plan must not change result type' in the log: a table was altered; let the"
              " pool open new sessions, and name columns instead of *"),
    "26000": ("prepared statements do not exist in their session", _LOST_STATEMENTS),
    "42P05": ("prepared statements exist already in their session", _LOST_STATEMENTS),
    "42P01": ("tables do not exist", _TWO_VERSIONS),
    "42703": ("columns do not exist", _TWO_VERSIONS),
    "42883": ("functions do not exist for these types", _TWO_VERSIONS),
    "42501": ("privileges are missing", "GRANT them; for tables that a migration makes, ALTER"
              " DEFAULT PRIVILEGES"),
    "28P01": ("logins fail: wrong password", "see which client still has the old password"),
    "57P01": ("sessions are ended by an administrator", "see who calls pg_terminate_backend, or"
              " restarts the server"),
    "XX001": ("data is damaged", "stop writing and copy the files; then find the cause: disk,"
              " memory, fsync"),
    "XX002": ("an index is damaged", "REINDEX it on a copy first; after a new operating system,"
              " its rules for sorting text may have changed"),
}  # fmt: skip
_NAMES_MAX, _NAMES_IN_JSON_MAX = 2, 20
_LOG_WHO = "; %u and %a in log_line_prefix add who"
# Sessions idle in a transaction, in all and for each at work, and how long in each transaction.
_IDLE_INSIDE_MIN, _IDLE_INSIDE_TIMES = 3.0, 3.0
_IDLE_INSIDE_S = 0.1


def errors(evidence: IncidentEvidence) -> Iterator[IncidentFinding]:
    """Yield a finding for the most frequent error, if many transactions end with one."""
    by_code = evidence.errors_by_sqlstate
    whole = sum(by_code.values())
    made = evidence.grown("database", "xact_commit", "xact_rollback")
    rate = whole / evidence.seconds
    if rate < _ERRORS_PER_SECOND:
        return
    code = max(by_code, key=lambda sqlstate: by_code[sqlstate])
    if code in (*_ORDINARY, "") and whole < _FAILED_RATIO * made:
        return
    if (code == "40001" and evidence.grown("conflicts", "cancelled")) or (
        code == REFUSED and next(connections(evidence), None)
    ):
        return  # Another rule says why: recovery cancelled them, or no connection is left.
    words, step = _ERRORS.get(code, (f"statements fail: {_meant(code)}", "find them in the log"))
    if not code:
        words, step = "statements fail", "see the messages in the log; %e in log_line_prefix adds"
        step += " SQLSTATE"
    # A log collector keeps a part of very many lines.
    rolled_back = evidence.grown("database", "xact_rollback")
    since_s = max(0.0, (evidence.ended_ns - evidence.first_error_ns[code]) / 1e9)
    who, by = _who(evidence, code)
    # A session that does nothing else reports them late.
    back = f"{rolled_back:,.0f} of {made:,.0f} transactions were rolled back"
    is_counted = rolled_back > 0
    yield IncidentFinding(
        kind="errors",
        said=f"{words}: {counted(by_code[code], 'error')} in the log, {plain(rate)}/s{who}",
        cost=f"{back}; " * is_counted
        + f"the first error since the watch began was {seconds(round(since_s))} ago",
        since_s=since_s,
        next_step=step + _LOG_WHO * (not by),
        danger=Danger.WORK_REFUSED,
        answer=f"{words}: {plain(rate)} errors/s{who}" + f"; {back}" * is_counted,
        evidence={"by_sqlstate": dict(by_code), "rolled_back": rolled_back, "by": by},
    )


def _who(evidence: IncidentEvidence, sqlstate: str) -> tuple[str, list[dict[str, object]]]:
    """Return ", 28 of 29 by shop (role app, pid 7)", and all who are known; empty if nobody is."""
    sessions = evidence.failed_sessions.get(sqlstate, Counter())
    by_name: Counter[tuple[str, str]] = Counter()
    for (user, application, _), error_count in sessions.items():
        by_name[user, application] += error_count
    known = [(name, errors) for name, errors in by_name.most_common() if any(name)]
    shown = []
    for (user, application), error_count in known[:_NAMES_MAX]:
        pids = [pid for name, app, pid in sessions if (name, app) == (user, application) and pid]
        about = [f"role {user}"] * bool(user and application)
        about += [f"pid {pids[0]}"] if len(pids) == 1 else []
        told = f" ({', '.join(about)})" if about else ""
        name = application or f"role {user}"
        shown.append(f"{error_count} of {by_name.total()} by {name}{told}")
    by: list[dict[str, object]] = [
        {"role": user, "application": application, "errors": errors}
        for (user, application), errors in known
    ]
    return "".join(f", {words}" for words in shown), by[:_NAMES_IN_JSON_MAX]


def _meant(sqlstate: str) -> str:
    """Return "numeric value out of range (SQLSTATE 22003)"."""
    try:
        name = psycopg.errors.lookup(sqlstate).__name__
    except KeyError:
        return f"SQLSTATE {sqlstate}"
    return f"{re.sub('(?<!^)(?=[A-Z])', ' ', name).lower()} (SQLSTATE {sqlstate})"


def crash(evidence: IncidentEvidence) -> Iterator[IncidentFinding]:
    """Yield a finding if the server recovered from WAL: all its sessions had ended."""
    if not evidence.recovery_count:
        return
    times = evidence.recovery_count
    said = "the server crashed, or was stopped at once, and recovered from its WAL"
    said += f" ({times} times)" * (times > 1)
    said += f": a process was terminated by {evidence.crash_cause}" * bool(evidence.crash_cause)
    yield IncidentFinding(
        kind="crash",
        said=said,
        cost="all sessions were ended, and nobody could connect until recovery was over",
        next_step="signal 9: memory ran out (dmesg), or somebody ended it; other signals: see the"
        " statement in the server's log",
        danger=Danger.WORK_REFUSED,
        evidence={"recoveries": times},
    )


def deadlocks(evidence: IncidentEvidence) -> Iterator[IncidentFinding]:
    """Yield a finding if the server found deadlocks."""
    deadlock_count = int(evidence.grown("database", "deadlocks"))
    if not deadlock_count:
        return
    said = f"{counted(deadlock_count, 'deadlock')} in {seconds(round(evidence.seconds))}"
    who, by = _who(evidence, DEADLOCK)
    ended = f"; the server ended{who[1:]}" if who else ""
    yield IncidentFinding(
        kind="deadlocks",
        said=said + ended,
        cost="each ended one transaction, after it had waited deadlock_timeout",
        next_step="lock rows in the same order everywhere; the server's log has both statements"
        + _LOG_WHO * (not by),
        danger=Danger.GROWS,
        answer=f"{said}: sessions lock the same rows in different order{ended}",
        evidence={"deadlocks": deadlock_count, "by": by},
    )


def connection_storm(evidence: IncidentEvidence) -> Iterator[IncidentFinding]:
    """Yield a finding if sessions are opened for a few transactions each (14 and later)."""
    opened = evidence.grown("database", "sessions")
    made = evidence.grown("database", "xact_commit", "xact_rollback")
    rate = opened / evidence.seconds
    if rate < _SESSIONS_PER_SECOND or made > _TRANSACTIONS_EACH * opened:
        return
    said = f"{rate:,.0f} new sessions/s, each for about {count(max(1, round(made / opened)))}"
    yield IncidentFinding(
        kind="connection storm",
        said=f"{said} transactions",
        cost="each starts a process and logs in, which DB time does not include",
        next_step="a pool in the application, or a pooler",
        evidence={"sessions_per_second": rate, "transactions": made},
    )


def idle_inside(evidence: IncidentEvidence) -> Iterator[IncidentFinding]:
    """Yield a finding if transactions mostly wait for their clients (14 and later)."""
    idle_s = evidence.grown("database", "idle_in_transaction_time_ns") / 1e9
    made = evidence.tally.total.transactions + evidence.grown("database", "xact_rollback")
    mean, each_s = idle_s / evidence.seconds, idle_s / max(made, 1.0)
    at_work = evidence.tally.total.active or 0.0
    if mean < max(_IDLE_INSIDE_MIN, _IDLE_INSIDE_TIMES * at_work) or each_s < _IDLE_INSIDE_S:
        return
    row = evidence.row("limits")
    name, most = str(row.get("idle_inside_of") or ""), number(row, "idle_inside")
    who = f", most of them of {name}" if name and most > mean / 2 else ""
    said = f"{mean:,.1f} sessions on average are idle inside a transaction{who}"
    yield IncidentFinding(
        kind="transactions wait for their clients",
        said=f"{said}, {seconds(each_s)} in each transaction; {at_work:,.1f} are at work",
        cost="each keeps its connection, locks and snapshot: a pool in front has none left",
        next_step="find what the application does inside transactions, such as calls of other"
        " services, and move it behind COMMIT",
        danger=Danger.GROWS,
        answer=f"{said}: transactions wait for their clients",
        evidence={"idle_sessions": mean, "application": name},
    )


def number_series(evidence: IncidentEvidence) -> Iterator[IncidentFinding]:
    """Yield a finding for the sequence or serial column that is nearest to its end."""
    used = {
        str(seen.last["object"]): int(share[1])
        for seen in evidence.now("objects")
        if (share := _USED.search(str(seen.last["note"])))
    }
    name = max(used, key=lambda sequence: used[sequence], default="")
    if not name or used[name] < _USED_PERCENT:
        return
    said = f"sequence {name} has used {used[name]} % of the numbers that its column can hold"
    yield IncidentFinding(
        kind="sequence near its end",
        said=said,
        cost="at its end, every insert that needs a number fails",
        next_step="ALTER TABLE ... ALTER COLUMN ... TYPE bigint, which rewrites the table, and"
        f" ALTER SEQUENCE {sql_name(*name.split('.', 1))} AS bigint if it is smaller",
        danger=Danger.LIMIT_NEAR,
        evidence={"sequence": name, "used_percent": used[name]},
    )
