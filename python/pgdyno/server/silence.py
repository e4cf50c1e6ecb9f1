"""Reports that a connection is dead when its other end sends nothing for too long.

TCP notices a device that swallows packets late, and one that still acknowledges them never.
"""

from __future__ import annotations

import select
from typing import TypeVar

import psycopg
from psycopg import pq
from psycopg.abc import PQGen

_T = TypeVar("_T")
# How long psycopg looks at a time.
LOOK_S = 0.1


class NoAnswer(psycopg.OperationalError):
    """Nothing came back in time; the connection is of no use any more."""


def hearing(gen: PQGen[_T], silence_s_max: int) -> PQGen[_T]:
    """Pass on what psycopg waits for, until it looked in vain for so long.

    Looks are counted rather than time, so that a process that was stopped itself does not take its
    own silence for the other end's.
    Raises: NoAnswer.
    """
    silent_looks = 0
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            silent_looks = 0 if ready else silent_looks + 1
            if silent_looks * LOOK_S >= silence_s_max:
                raise _no_answer(silence_s_max)
            if ready:
                wanted = gen.send(ready)
    except StopIteration as done:
        result: _T = done.value
        return result


def poll_of(libpq: pq.abc.PGconn) -> select.poll:
    """Return what waits until something comes over a connection."""
    ready = select.poll()
    ready.register(libpq.socket, select.POLLIN)
    return ready


def answer(libpq: pq.abc.PGconn, ready: select.poll, silence_s_max: int) -> pq.abc.PGresult:
    """Return what the server answers to the one statement that was just sent by libpq itself.

    Args: ready, of `poll_of`.
    Raises: NoAnswer, as `hearing` does; psycopg.OperationalError when the connection is lost.
    """
    silent_looks = 0
    # Subtle: one that was not sent whole is sent on at each look.
    while libpq.flush() or libpq.is_busy():
        if ready.poll(1000):
            silent_looks = 0
            libpq.consume_input()
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
