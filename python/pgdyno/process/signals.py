"""SIGINT, SIGTERM and SIGHUP as a request, which takes effect at safe points.

The handlers only note the signal. Code that waits calls `sleep`, `wait_readable` or `check`, which
raise `InterruptedByUser` once, where everything that was begun can be ended. After that the
clean-up runs undisturbed: a second signal is counted and reported, but skips nothing.

A signal is raised in the main thread alone: it ends what other threads have begun.
"""

from __future__ import annotations

import contextlib
import select
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING

from pgdyno.clock import monotonic_ns
from pgdyno.errors import InterruptedByUser, TerminatedByUser, TimeUsedUp

if TYPE_CHECKING:
    import socket

HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_LOOK_MS = 100.0


@dataclass(slots=True)
class _State:
    first: signal.Signals | None = None
    first_ns: int = 0
    later_count: int = 0
    on_later: Callable[[], None] | None = None
    on_wait: Callable[[str], None] | None = None
    waits_for: tuple[str, ...] = ()
    wake: tuple[socket.socket, socket.socket] | None = None


class _OfThread(threading.local):
    """What belongs to one thread. `raised_of`: the state whose signal was raised here.

    `gives_up_at`: the number of signals that ends a wait, even in a shielded block.
    """

    def __init__(self) -> None:
        self.is_main = threading.current_thread() is threading.main_thread()
        self.shield_depth = 0
        self.raised_of: _State | None = None
        self.gives_up_at: int | None = None
        self.is_computing = False


_state = _State()
_here = _OfThread()


@contextlib.contextmanager
def handled(
    on_later: Callable[[], None] | None = None, on_wait: Callable[[str], None] | None = None
) -> Iterator[None]:
    """Handle SIGINT, SIGTERM and SIGHUP inside the block; then restore the previous handlers.

    Under nohup SIGHUP stays ignored: the command goes on after the user logs out.
    Args: on_later is called (in the handler) for each signal after the first, to tell the user that
    clean-up is running; on_wait, with what a `shielded` block waits for while a signal is there, so
    that the wait is not silent. Must be entered in the main thread.
    """
    global _state
    previous_state, _state = _state, _State(on_later=on_later, on_wait=on_wait)
    import socket

    reader, writer = socket.socketpair()
    reader.setblocking(False)
    writer.setblocking(False)
    _state.wake = (reader, writer)
    is_nohup = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    taken = [number for number in HANDLED if number is not signal.SIGHUP or not is_nohup]
    previous = {number: signal.signal(number, _note) for number in taken}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        _state = previous_state
        reader.close()
        writer.close()


def requested() -> signal.Signals | None:
    """Return the first signal that arrived, or None; it stays set after it was raised."""
    return _state.first


def is_shielded() -> bool:
    """Return whether `check` would not raise here, because of a shield, or in another thread."""
    return bool(_here.shield_depth) or not _here.is_main


def seconds_since_first() -> float:
    """Return how long ago the first signal arrived; 0 without one."""
    return (monotonic_ns() - _state.first_ns) / 1e9 if _state.first is not None else 0.0


def later_count() -> int:
    """Return how many signals followed the first."""
    return _state.later_count


def check() -> None:
    """Raise InterruptedByUser if a signal arrived and was not raised yet.

    Other threads than the main one never raise: the thread that started them ends them.
    """
    if _state.first is None or not _here.is_main:
        return
    if _here.gives_up_at is not None and _count() >= _here.gives_up_at:
        _here.gives_up_at = None
    elif _here.raised_of is _state or _here.shield_depth:
        return
    asked = interruption()
    assert asked is not None, "a signal arrived"
    raise asked


def insist() -> None:
    """Raise InterruptedByUser if a signal arrived, also if it was raised before.

    For the moment before a long step: what only looks at a server may have caught the interrupt as
    an error of the server.
    """
    if (asked := interruption()) is not None:
        raise asked


def interruption() -> InterruptedByUser | None:
    """Return what `check` raises or has raised, None if no signal arrived.

    For loops with long steps: a step may have caught the interrupt as its own error, but the loop
    must end all the same.
    """
    if _state.first is None:
        return None
    _here.raised_of = _state
    if _state.first is signal.SIGALRM:
        return TimeUsedUp("The time is used up.")
    kind = InterruptedByUser if _state.first is signal.SIGINT else TerminatedByUser
    return kind(f"Interrupted by {_state.first.name}.")


@contextlib.contextmanager
def ended_after(seconds: float | None) -> Iterator[None]:
    """Raise TimeUsedUp at a safe point of the block, once this time is over; None: no limit.

    After the block, the end of the time interrupts nothing.
    """
    if seconds is None or _state.wake is None or not _here.is_main:
        yield
        return
    timer = threading.Timer(max(seconds, 0.0), _take, (_state, signal.SIGALRM))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        if _state.first is signal.SIGALRM and not _state.later_count:
            with contextlib.suppress(BlockingIOError):
                _state.wake[0].recv(1)
            _state.first, _here.raised_of = None, None


@contextlib.contextmanager
def shielded(waits_for: str = "") -> Iterator[None]:
    """Allow no interrupt inside the block; a signal is raised at the next safe point.

    Args: waits_for, what the block waits for; `on_wait` gets it if a signal asks for the end.
    """
    _here.shield_depth += 1
    state, added = _state, (waits_for,) if waits_for else ()
    state.waits_for += added
    try:
        if state.first is not None:
            _say(state, added)
        yield
    finally:
        state.waits_for = tuple(text for text in state.waits_for if text not in added)
        _here.shield_depth -= 1


@contextlib.contextmanager
def ended_by_another_signal(waits_for: str) -> Iterator[None]:
    """In a shielded block, let one signal name what the block waits for, and the next be raised.

    A signal that arrived before the block is the first. Elsewhere `check` raises the first signal.
    """
    is_shielded = bool(_here.shield_depth)
    before, _here.gives_up_at = _here.gives_up_at, max(_count(), 1) + 1 if is_shielded else None
    try:
        with shielded(waits_for) if is_shielded else contextlib.nullcontext():
            yield
    finally:
        _here.gives_up_at = before


@contextlib.contextmanager
def raised_at_once() -> Iterator[None]:
    """Let every signal end the block at once, for a computation that has no safe point.

    A signal that was raised before the block does not end it, the next one does. What the block
    changes outside of its memory may be half done.
    """
    check()
    before, _here.is_computing = _here.is_computing, True
    try:
        yield
    finally:
        _here.is_computing = before


def _count() -> int:
    return 0 if _state.first is None else 1 + _state.later_count


def _say(state: _State, texts: tuple[str, ...]) -> None:
    if state.on_wait is not None:
        for text in texts:
            state.on_wait(text)


def sleep(seconds: float) -> None:
    """Wait, and raise InterruptedByUser at once when a signal asks for the end."""
    wait_readable([], seconds)


def wait_readable(descriptors: list[int], seconds: float | None) -> list[int]:
    """Return those of `descriptors` that became readable within `seconds` (None: no limit).

    Returns: an empty list if the time is over. Raises: InterruptedByUser, as `check` does.
    """
    deadline_ns = None if seconds is None else monotonic_ns() + int(seconds * 1e9)
    while True:
        check()
        rest_ms = None if deadline_ns is None else (deadline_ns - monotonic_ns()) / 1e6
        if rest_ms is not None and rest_ms <= 0 and not descriptors:
            return []
        ready = _poll(descriptors, rest_ms)
        if ready:
            check()
            return ready
        if rest_ms is not None and rest_ms <= 0:
            return []


def _poll(descriptors: list[int], timeout_ms: float | None) -> list[int]:
    poller = select.poll()
    for descriptor in descriptors:
        poller.register(descriptor, select.POLLIN)
    wakes = _state.wake is not None and _state.first is None
    if wakes and _state.wake is not None:
        poller.register(_state.wake[0], select.POLLIN)
    if _here.gives_up_at is not None:
        # Only the first signal wakes a wait, so this one looks for more.
        timeout_ms = _LOOK_MS if timeout_ms is None else min(timeout_ms, _LOOK_MS)
    # Subtle: a signal between `check` and `poll` is not lost, because its byte waits in the socket.
    events = poller.poll(None if timeout_ms is None else max(0.0, timeout_ms))
    return [descriptor for descriptor, _ in events if descriptor in descriptors]


def _take(state: _State, first: signal.Signals) -> None:
    """Keep the first signal, and wake what waits."""
    if state.first is not None:
        return
    state.first, state.first_ns = first, monotonic_ns()
    if state.wake is not None:
        with contextlib.suppress(BlockingIOError):
            state.wake[1].send(b"\0")
    _say(state, state.waits_for)


def _note(number: int, _frame: FrameType | None) -> None:
    if _state.first is None:
        _take(_state, signal.Signals(number))
    else:
        _state.later_count += 1
        if _state.on_later is not None and not _state.waits_for:
            _state.on_later()
    if _here.is_computing and not _here.shield_depth:
        asked = interruption()
        assert asked is not None, "a signal arrived"
        raise asked
