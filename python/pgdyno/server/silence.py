"""Gives up a server that sends nothing for too long, or an answer without an end.

If a device drops packets, TCP notices it late; if the device still acknowledges them, never.
Every answer to pgdyno's own questions has a limit of time and memory, whatever sends it.
"""

from __future__ import annotations

import select
from typing import TypeVar

import psycopg
from psycopg import pq
from psycopg.abc import PQGen
from psycopg.waiting import Ready

from pgdyno.clock import monotonic_ns, resident_bytes, thread_cpu_ns
from pgdyno.process import signals

_T = TypeVar("_T")
# The longest time that psycopg waits at once.
LOOK_S = 0.1
# After a signal, a server that hangs is waited for until then, however many statements follow.
_LAST_S, _LAST_SHIELDED_S, _LEAST_S = 1.5, 2.0, 0.3


# How long an answer may take after its first byte; for sessions with a limit of silence, three
# times that limit, if it is less. A pause counts as one second at most: a statement may warn at its
# beginning and then work for an hour. All time on a core counts: libpq reads.
ANSWER_S_MAX = 60.0
_ANSWER_SILENCES = 3
_PAUSE_S_MAX = 1.0
# The largest catalogs that we know need a tenth of it.
ANSWER_BYTES_MAX = 256 << 20
# Short answers, which are nearly all, do not cost a look at the memory.
_SHORT_LOOKS = 16


class NoAnswer(psycopg.OperationalError):
    """No answer came in time; the connection cannot be used any more."""


class Patience:
    """How long one answer is waited for, and how much of it is taken.

    Waits are counted and not time, because a process that was stopped itself received nothing.
    Args: silence_s_max, the longest time without a byte; None for a server that may work for as
    long as it wants.
    """

    def __init__(self, silence_s_max: float | None) -> None:
        self._silence_s_max = silence_s_max
        self._answer_s_max = ANSWER_S_MAX
        if silence_s_max is not None:
            self._answer_s_max = min(ANSWER_S_MAX, silence_s_max * _ANSWER_SILENCES)
        self._silent_s = self._after_signal_s = self._heard_s = 0.0
        self._look_count = self._bytes_before = 0
        self._last_ns, self._last_cpu_ns = monotonic_ns(), thread_cpu_ns()

    def look(self, ready: int, waited_s: float) -> None:
        """Note one wait for the server: what it is ready for; 0 if nothing came in `waited_s`.

        Raises: NoAnswer if this was too long or too much; InterruptedByUser, outside a shielded
        block, if a signal asked for the end and the server had time enough.
        """
        passed_s = waited_s
        if ready:
            self._silent_s = 0.0
            now_ns, cpu_ns = monotonic_ns(), thread_cpu_ns()
            passed_s = min((now_ns - self._last_ns) / 1e9, _PAUSE_S_MAX)
            passed_s = max(passed_s, (cpu_ns - self._last_cpu_ns) / 1e9)
            self._last_ns, self._last_cpu_ns = now_ns, cpu_ns
        else:
            self._silent_s += waited_s
            if self._silence_s_max is not None and self._silent_s >= self._silence_s_max:
                raise NoAnswer(f"nothing came back for {self._silence_s_max:g} s")
        if ready & Ready.R:
            self._look_count += 1
            self._heard_s += passed_s if self._look_count > 1 else 0.0
            self._limit()
        if signals.requested() is not None:
            self._after_signal_s += passed_s
            _give_up_after(self._after_signal_s)

    def _limit(self) -> None:
        """Raise NoAnswer if the answer is too long or too large."""
        if self._heard_s >= self._answer_s_max:
            raise NoAnswer(f"the answer had not ended {self._answer_s_max:g} s after it had begun")
        if self._look_count < _SHORT_LOOKS:
            return
        if not self._bytes_before:
            self._bytes_before = resident_bytes()
        elif resident_bytes() - self._bytes_before > ANSWER_BYTES_MAX:
            raise NoAnswer(f"the answer had more than {ANSWER_BYTES_MAX >> 20} MB and no end")


def hearing(
    gen: PQGen[_T], silence_s_max: float | None, *, until_signal: bool = False
) -> PQGen[_T]:
    """Pass on psycopg's waits for one answer, as long as `Patience` permits.

    Args: until_signal, a signal that asks for the end interrupts at once.
    Raises: NoAnswer; InterruptedByUser, outside a shielded block.
    """
    patience = Patience(silence_s_max)
    check = signals.check if until_signal else lambda: None
    try:
        check()
        wanted = next(gen)
        while True:
            ready = yield wanted
            check()
            patience.look(ready, LOOK_S)
            if ready:
                wanted = gen.send(ready)
    except StopIteration as done:
        result: _T = done.value
        return result


def _give_up_after(heard_s: float) -> None:
    is_shielded = signals.is_shielded()
    last_s = _LAST_SHIELDED_S if is_shielded else _LAST_S
    if heard_s < _LEAST_S or signals.seconds_since_first() < last_s:
        return
    if not is_shielded:
        signals.check()
    raise NoAnswer("the server does not end its answer, and pgdyno was asked to end")


def poll_of(libpq: pq.abc.PGconn) -> select.poll:
    """Return a function that waits until a connection has something to read."""
    ready = select.poll()
    ready.register(libpq.socket, select.POLLIN)
    return ready


def answer(libpq: pq.abc.PGconn, ready: select.poll, silence_s_max: int) -> pq.abc.PGresult:
    """Return the server's answer to the statement that libpq has just sent.

    Args: ready, from `poll_of`.
    Raises: NoAnswer, as `hearing` does; psycopg.OperationalError if the connection is lost.
    """
    patience: Patience | None = None
    # Subtle: if a statement was sent only in part, each look sends more of it.
    while libpq.flush() or libpq.is_busy():
        is_ready = bool(ready.poll(1000))
        if is_ready:
            libpq.consume_input()
            if patience is None and not libpq.is_busy():
                break  # Nearly all answers come at once, and some are timed.
        patience = patience or Patience(silence_s_max)
        patience.look(Ready.R if is_ready else Ready.NONE, 1.0)
    result = libpq.get_result()
    while libpq.get_result() is not None:
        pass
    if result is None:
        raise psycopg.OperationalError("the server did not answer")
    return result
