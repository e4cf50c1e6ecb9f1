"""Runs functions at the same time, each in its own thread; the main thread waits and serves them.

Some steps belong to the main thread, such as the start of a child that must end with this process.
A thread asks for such a step with `in_main_thread` and waits for its result. A signal is raised
once in each of the threads, so each ends what it has begun; the main thread waits for all.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from pgdyno.process import signals

T = TypeVar("T")


class _Service:
    """The steps that threads ask the main thread for. A byte in the pipe announces each."""

    def __init__(self) -> None:
        self._asked: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None]
        self._asked = queue.SimpleQueue()
        self._reader, self._writer = os.pipe2(os.O_CLOEXEC)

    def ask(self, step: Callable[[], T]) -> T:
        """Return the result of a step that the main thread carries out; called by a thread."""
        future: Future[T] = Future()
        self._put((step, future))
        return future.result()

    def leave(self) -> None:
        """Announce that a thread has ended."""
        self._put(None)

    def serve(self, count: int) -> None:
        """Carry out the steps until `count` threads have left; called by the main thread."""
        while count:
            signals.wait_readable([self._reader], None)
            os.read(self._reader, 1)
            asked = self._asked.get_nowait()
            if asked is None:
                count -= 1
                continue
            step, future = asked
            try:
                future.set_result(step())
            except BaseException as error:
                future.set_exception(error)

    def close(self) -> None:
        """Close the pipe; no thread may be left."""
        os.close(self._reader)
        os.close(self._writer)

    def _put(self, asked: tuple[Callable[[], Any], Future[Any]] | None) -> None:
        self._asked.put(asked)
        os.write(self._writer, b"\0")


_service: _Service | None = None


def side_by_side(tasks: Sequence[Callable[[], T]]) -> list[T]:
    """Run the tasks at the same time and return their results, in the order of the tasks.

    A single task runs in the calling thread. Must be called in the main thread.
    Raises: the error of the first task that failed, after all tasks have ended.
    """
    global _service
    if len(tasks) == 1:
        return [tasks[0]()]
    assert threading.current_thread() is threading.main_thread(), "the main thread serves"
    assert _service is None, "tasks do not start further tasks"
    service = _service = _Service()
    futures: list[Future[T]] = [Future() for _ in tasks]
    threads = [
        threading.Thread(target=_carry_out, args=(task, future, service), name=f"task {place}")
        for place, (task, future) in enumerate(zip(tasks, futures, strict=True), start=1)
    ]
    try:
        # The threads see the signals themselves, and they need the main thread until they end.
        with signals.shielded():
            for thread in threads:
                thread.start()
            service.serve(len(threads))
            for thread in threads:
                thread.join()
    finally:
        _service = None
        service.close()
    return [future.result() for future in futures]


def in_main_thread(step: Callable[[], T]) -> T:
    """Return the result of a step that the main thread carries out for a task.

    Raises: what the step raises.
    """
    assert _service is not None, "only a task of side_by_side has the main thread at its service"
    return _service.ask(step)


def _carry_out(task: Callable[[], T], future: Future[T], service: _Service) -> None:
    try:
        with signals.taking_part():
            future.set_result(task())
    except BaseException as error:
        future.set_exception(error)
    finally:
        service.leave()
