"""How long the server worked for the measured transactions, by its own count."""

from __future__ import annotations

import numpy as np

from pgdyno.loop.counter_growth import deltas_of, grown
from pgdyno.loop.load_numbers import LoadNumbers
from pgdyno.measure.clock_watch import CLOCK_SET
from pgdyno.observe.rates import Deltas
from pgdyno.observe.sql.database import DatabaseCollector
from pgdyno.store.stored_run import StoredRun

# Server transactions a script transaction: a whole number unless autocommitted statements vary.
_WHOLE_NUMBER_RATIO = 0.03
# Transactions a second of our own sessions that nobody counted: before and after they observe.
_OWN_TRANSACTIONS_S = 20
# With less than so much of the measured transactions reported in their time, the whole load tells.
_REPORTED_RATIO_MIN = 0.9
# Reports come up to a second late: a short window may hold that of some time before it.
_POSSIBLE_RATIO = 2.0


def server_active_ms(stored: StoredRun, numbers: LoadNumbers, ended: int) -> float | None:
    """Return the time the server's sessions were active for the transactions of the window.

    Backends report active_time and xact_commit together and up to a second late, so their ratio
    is taken over the window, and only then multiplied by the transactions the engine counted. Some
    loads are hardly reported before their sessions end: backends that touch no table say nothing
    until then. For these the whole load stands, warm-up included. The server counts by its wall
    clock: None where that was set meanwhile, or says more than all sessions had.
    """
    if any(warning["kind"] == CLOCK_SET for warning in stored.warnings):
        return None
    rows = deltas_of(stored, "database", DatabaseCollector.columns, "ours")
    active_ns = grown(rows, "active_time_ns", *numbers.span_ns)
    commits = grown(rows, "xact_commit", *numbers.span_ns)
    rollbacks = grown(rows, "xact_rollback", *numbers.span_ns)
    own = grown(rows, "own_transactions", *numbers.span_ns)
    seen = (commits or 0.0) + (rollbacks or 0.0) - (own or 0.0)
    totals = (stored.document("server.json") or {}).get("totals") or {}
    is_exact = totals.get("is_exact") and not numbers.counts.failed
    reported = totals.get("database.xact_commit") if is_exact else None
    if reported is not None:
        reported -= round(_whole_growth(rows, "own_transactions"))
    committed = numbers.summary.transactions_committed_all_phases
    each = server_transactions_each(
        seen=seen,
        ended=ended,
        reported=reported,
        committed=committed,
        own_max=round(_OWN_TRANSACTIONS_S * (numbers.seconds + 2)),
    )
    whole_ns = totals.get("database.active_time_ns") if is_exact else None
    if whole_ns and committed and seen < _REPORTED_RATIO_MIN * each * ended:
        return _possible_ms(float(whole_ns) / committed * ended / 1e6, numbers)
    if not active_ns or seen <= 0:
        return None
    return _possible_ms(active_ns / seen * each * ended / 1e6, numbers)


def _whole_growth(rows: Deltas | None, counter: str) -> float:
    """Return by how much a counter grew while it was looked at; 0 where it was not kept."""
    if rows is None or counter not in rows.by_column:
        return 0.0
    return float(np.nansum(rows.by_column[counter]))


def _possible_ms(active_ms: float, numbers: LoadNumbers) -> float | None:
    """Return the time, None where all clients together had less of it."""
    clients = sum(thread.clients for thread in numbers.summary.threads)
    had_ms = clients * numbers.seconds * 1e3
    return active_ms if not clients or active_ms <= _POSSIBLE_RATIO * had_ms else None


def server_transactions_each(
    *, seen: float, ended: int, reported: int | None, committed: int, own_max: int
) -> float:
    """Return how many of the server's transactions one transaction of the scripts is.

    Args: seen, what the server reported within the window, and ended, the scripts' transactions
    of it; reported, what it had reported after its sessions were closed (None: not known), and
    committed, the scripts' transactions of the whole load; own_max, how many of them our own
    sessions can be. Of a short window a good part is reported after it, so the whole load tells
    better: unless others worked there, which shows in a number that is not whole.
    """
    if reported and committed:
        each = reported / committed
        excess = reported - int(each) * committed
        if _is_whole(each):
            return round(each)
        if int(each) and excess <= own_max:
            return each
    each = seen / ended
    return round(each) if _is_whole(each) else each


def _is_whole(each: float) -> bool:
    return round(each) > 0 and abs(each - round(each)) <= _WHOLE_NUMBER_RATIO * each
