"""Reports that a connection is dead when its other end sends nothing for too long.

If a device drops packets, TCP notices it late; if the device still acknowledges them, never.
"""

from __future__ import annotations

import select
from typing import TypeVar

import psycopg
from psycopg import pq
from psycopg.abc import PQGen

from pgdyno.process import signals

_T = TypeVar("_T")
# The longest time that psycopg waits at once.
LOOK_S = 0.1
# After a signal, a server that hangs is waited for until then, however many statements follow.
_LAST_S, _LAST_SHIELDED_S, _LEAST_S = 1.5, 2.5, 0.3


class NoAnswer(psycopg.OperationalError):
    """No answer came in time; the connection cannot be used any more."""


def hearing(gen: PQGen[_T], silence_s_max: int | None) -> PQGen[_T]:
    """Pass on psycopg's waits, until too many of them were in vain.

    Waits are counted and not time, because a process that was stopped itself received nothing.
    After a signal, a server is waited for only as long as one may need that works.
    Args: silence_s_max, None for a server that may work for as long as it wants.
    Raises: NoAnswer; InterruptedByUser, outside a shielded block.
    """
    silent_looks = looks_after_signal = 0
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            if ready:
                silent_looks = looks_after_signal = 0
                wanted = gen.send(ready)
                continue
            silent_looks += 1
            if silence_s_max is not None and silent_looks * LOOK_S >= silence_s_max:
                raise _no_answer(silence_s_max)
            if signals.requested() is not None:
                looks_after_signal += 1
                _give_up_after(looks_after_signal * LOOK_S)
    except StopIteration as done:
        result: _T = done.value
        return result


def _give_up_after(silent_s: float) -> None:
    is_shielded = signals.is_shielded()
    last_s = _LAST_SHIELDED_S if is_shielded else _LAST_S
    if silent_s < _LEAST_S or signals.seconds_since_first() < last_s:
        return
    if not is_shielded:
        signals.check()
    raise NoAnswer("the server does not answer, and pgdyno was asked to end")


def until_signal(gen: PQGen[_T]) -> PQGen[_T]:
    """Pass on psycopg's waits until a signal asks for the end. Raises: InterruptedByUser."""
    try:
        signals.check()
        wanted = next(gen)
        while True:
            ready = yield wanted
            signals.check()
            if ready:
                wanted = gen.send(ready)
    except StopIteration as done:
        result: _T = done.value
        return result


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
    silent_looks = 0
    # Subtle: if a statement was sent only in part, each look sends more of it.
    while libpq.flush() or libpq.is_busy():
        if ready.poll(1000):
            silent_looks = 0
            libpq.consume_input()
        elif signals.requested() is not None:
            _give_up_after(1.0)
        elif (silent_looks := silent_looks + 1) >= silence_s_max:
            raise _no_answer(silence_s_max)
    result = libpq.get_result()
    while libpq.get_result() is not None:
        pass
    if result is None:
        raise psycopg.OperationalError("the server did not answer")
    return result


def _no_answer(silence_s: int) -> NoAnswer:
    return NoAnswer(f"nothing came back for {silence_s} s")
