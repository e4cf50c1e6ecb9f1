"""Calls of a log become transactions, session by session, in bounded memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from pgdyno.features.capture.reading.log_calls import Call, LoggedSession, SessionPart

# A session whose beginning is not in the log is decided by its first BEGIN or COMMIT, or after
# this many statements: then it has no transaction blocks.
_UNDECIDED_MAX = 100
# A longer transaction is not kept whole.
_CALLS_MAX = 5_000
# A time that is earlier by more than this is a step of the server's clock.
_STEP_US = 1_000_000


@dataclass(frozen=True, slots=True)
class Transaction:
    """One transaction. `think_us`: the client's time before it; None: not known."""

    session: LoggedSession
    calls: tuple[Call, ...]
    think_us: int | None

    @property
    def ended_us(self) -> int:
        """Return when the last statement ended."""
        last = self.calls[-1]
        return last.began_us + (last.duration_us or 0)


@dataclass(slots=True)
class _Open:
    """What is known of a session. `block`: the calls since BEGIN, None outside of a block."""

    block: list[Call] | None = None
    undecided: list[Call] | None = field(default_factory=list)
    has_failed: bool = False
    savepoints: list[int] = field(default_factory=list)
    """Where the open savepoints are among the calls of the block."""
    ended_us: int | None = None


class Transactions:
    """Groups calls. `cut`: transactions of which the log has only a part."""

    def __init__(self) -> None:
        self._sessions: dict[int, _Open] = {}
        self.cut_count = 0
        self.failed_count = 0
        self.users: Counter[str] = Counter()

    def of(self, part: SessionPart, calls: Iterable[Call]) -> Iterator[Transaction]:
        """Yield the transactions that are whole now and did not fail."""
        known = self._sessions.get(part.session.number)
        if known is None:
            known = self._sessions[part.session.number] = _Open()
            self.users[part.session.user] += 1
            if part.is_first:
                known.undecided = None
        for call in calls:
            yield from self._next(known, call)

    def whole(self, part: SessionPart, *, is_block: bool) -> tuple[int | None] | None:
        """Return the think time before a part that is one whole transaction.

        Returns: None if its session is not between two transactions, so that `of` must decide.
        """
        known = self._sessions.get(part.session.number)
        if known is None or known.block is not None:
            return None
        if known.undecided is not None:
            if known.undecided or not is_block:
                return None
            known.undecided = None
        before_us, known.ended_us = known.ended_us, part.ended_us
        return (_think_us(before_us, part.began_us),)

    def end(self, numbers: list[int] | None = None) -> Iterator[Transaction]:
        """Yield what is left of sessions, by default of all, and forget them."""
        for number in list(self._sessions) if numbers is None else numbers:
            known = self._sessions.pop(number, None)
            if known is not None:
                yield from self._singles(known)
                self.cut_count += known.block is not None

    def _next(self, known: _Open, call: Call) -> Iterator[Transaction]:
        kind = call.statement.parsed.kind
        if kind == "begin" and not call.is_error:
            yield from self._singles(known)
            self.cut_count += known.block is not None
            known.block, known.has_failed, known.savepoints = [call], False, []
            return
        is_end = kind in ("commit", "rollback") and not call.is_error
        if known.block is not None:
            if kind == "savepoint" and _is_undone(known, call):
                return
            known.has_failed |= call.is_error
            known.block.append(call)
            if is_end:
                yield from self._end(known, known.block)
            elif len(known.block) > _CALLS_MAX:
                self.cut_count += 1
                known.block = None
            return
        if known.undecided is not None:
            if is_end:
                # The statements before belong to a transaction that began before the log.
                self.cut_count += 1
                known.undecided = None
                known.ended_us = call.began_us + (call.duration_us or 0)
                return
            known.undecided.append(call)
            if len(known.undecided) > _UNDECIDED_MAX:
                yield from self._singles(known)
            return
        if not is_end:
            known.has_failed = call.is_error
            yield from self._end(known, [call])

    def _singles(self, known: _Open) -> Iterator[Transaction]:
        """Yield the first statements of a session as transactions of one statement."""
        undecided, known.undecided = known.undecided, None
        for call in undecided or ():
            known.has_failed = call.is_error
            yield from self._end(known, [call])

    def _end(self, known: _Open, calls: list[Call]) -> Iterator[Transaction]:
        """Yield a transaction, unless it failed."""
        known.block = None
        before_us, began_us = known.ended_us, calls[0].began_us
        made = Transaction(calls[0].session, tuple(calls), None)
        known.ended_us = made.ended_us
        if known.has_failed:
            self.failed_count += 1
            return
        yield Transaction(made.session, made.calls, _think_us(before_us, began_us))


def _think_us(before_us: int | None, began_us: int) -> int | None:
    """Return the client's time between two transactions; None if the clock was set."""
    if before_us is None or began_us - before_us < -_STEP_US:
        return None
    return max(began_us - before_us, 0)


def _is_undone(known: _Open, call: Call) -> bool:
    """Note a savepoint; return whether a rollback to one ended with what failed after it.

    What was done between, the statement that failed included, is not in the transaction then.
    """
    block, open_ = known.block, known.savepoints
    if block is None or call.is_error:
        return False
    text = call.statement.parsed.text
    if text.startswith("SAVEPOINT"):
        open_.append(len(block))
    elif text.startswith("RELEASE") and open_:
        open_.pop()
    elif text.startswith("ROLLBACK") and open_ and known.has_failed:
        del block[open_[-1] + 1 :]
        known.has_failed = False
        return True
    return False
