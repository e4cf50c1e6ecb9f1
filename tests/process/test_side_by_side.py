"""Functions that run at the same time: results, errors, children, and a signal for each of them."""

from __future__ import annotations

import os
import signal
import threading
from functools import partial
from pathlib import Path

import pytest
from tests.fixtures.command import eventually

from pgdyno.errors import InterruptedByUser
from pgdyno.process import child, signals
from pgdyno.process.side_by_side import in_main_thread, side_by_side


def test_tasks_run_at_the_same_time_and_their_results_keep_the_order() -> None:
    meeting = threading.Barrier(3)  # Nobody passes unless all three are there.

    def task(name: str) -> str:
        meeting.wait(timeout=60)
        return name

    assert side_by_side([partial(task, name) for name in "abc"]) == ["a", "b", "c"]


def test_a_single_task_runs_in_the_calling_thread() -> None:
    assert side_by_side([threading.current_thread]) == [threading.main_thread()]


def test_an_error_is_raised_after_all_tasks_have_ended() -> None:
    ended = []

    def fails() -> None:
        raise ValueError("first")

    def takes_longer() -> None:
        signals.sleep(0.2)
        ended.append("second")

    with pytest.raises(ValueError, match="first"):
        side_by_side([fails, takes_longer])
    assert ended == ["second"]


def test_the_main_thread_carries_out_what_a_task_asks_for() -> None:
    def task() -> tuple[threading.Thread, threading.Thread]:
        return in_main_thread(threading.current_thread), threading.current_thread()

    for served, asking in side_by_side([task, task]):
        assert served is threading.main_thread()
        assert asking is not threading.main_thread()


def test_an_error_of_such_a_step_is_raised_in_the_task() -> None:
    def task() -> str:
        with pytest.raises(ZeroDivisionError):
            in_main_thread(lambda: 1 // 0)
        return "went on"

    assert side_by_side([task, task]) == ["went on", "went on"]


def test_a_child_of_a_task_lives_longer_than_the_thread_of_the_task() -> None:
    """The kernel ends a child with the thread that started it: this must be the main thread."""
    started = side_by_side([partial(child.start, ["sleep", "600"])] * 2)
    try:
        assert [process.ends_within(0.2) for process in started] == [False, False]
    finally:
        assert all(process.terminate() != 0 for process in started)


def test_a_signal_is_raised_once_in_every_task_and_once_in_the_main_thread(tmp_path: Path) -> None:
    begun = threading.Barrier(3)
    log = tmp_path / "log"

    def task() -> str:
        begun.wait(timeout=60)
        try:
            signals.sleep(600)
        except InterruptedByUser:
            signals.sleep(0.1)  # Not raised a second time: the clean-up is undisturbed.
            return "ended what it had begun"
        return "was not interrupted"

    def interrupts() -> str:
        begun.wait(timeout=60)
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(InterruptedByUser):
            signals.sleep(600)
        log.write_text("the main thread served until the end")
        return "interrupted itself"

    with signals.handled():
        ended = side_by_side([task, task, interrupts])
        assert ended == ["ended what it had begun"] * 2 + ["interrupted itself"]
        with pytest.raises(InterruptedByUser):
            signals.check()
        signals.check()
    assert log.exists()


def test_a_shield_in_one_task_does_not_shield_the_others() -> None:
    begun = threading.Barrier(2)

    def shielded() -> str:
        with signals.shielded():
            begun.wait(timeout=60)
            os.kill(os.getpid(), signal.SIGINT)
            # Only the main thread runs the handler, when it gets a core.
            assert eventually(signals.requested)
            signals.sleep(0)
        with pytest.raises(InterruptedByUser):
            signals.check()
        return "raised after the block"

    def open_to_it() -> str:
        begun.wait(timeout=60)
        with pytest.raises(InterruptedByUser):
            signals.sleep(600)
        return "raised at once"

    with signals.handled():
        assert side_by_side([shielded, open_to_it]) == ["raised after the block", "raised at once"]
