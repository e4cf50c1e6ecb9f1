from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from pgdyno.errors import InterruptedByUser, TerminatedByUser, TimeUsedUp
from pgdyno.process import signals


def raise_here(number: signal.Signals) -> None:
    signal.raise_signal(number)


def test_without_a_signal_nothing_is_raised() -> None:
    with signals.handled():
        signals.check()
        signals.sleep(0.001)
        assert signals.requested() is None


def test_a_signal_is_raised_at_the_next_safe_point_and_only_once() -> None:
    with signals.handled():
        raise_here(signal.SIGINT)
        with pytest.raises(InterruptedByUser) as caught:
            signals.check()
        signals.check()
        assert signals.requested() is signal.SIGINT
    assert caught.value.exit_code == 130


def test_a_block_with_a_limit_is_ended_in_time_and_what_follows_is_not() -> None:
    with signals.handled():
        with signals.ended_after(0.05), pytest.raises(TimeUsedUp) as caught:
            signals.sleep(60)
        signals.sleep(0.001)
        assert signals.requested() is None
        with signals.ended_after(60), signals.ended_after(None):
            signals.sleep(0.001)
        raise_here(signal.SIGINT)
        with pytest.raises(InterruptedByUser):
            signals.sleep(60)
    assert caught.value.exit_code == 5


@pytest.mark.usefixtures("hangups_heard")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_request_to_terminate_has_its_own_exit_code(number: signal.Signals) -> None:
    with signals.handled():
        raise_here(number)
        with pytest.raises(TerminatedByUser) as caught:
            signals.sleep(60)
    assert caught.value.exit_code == 143


def test_under_nohup_a_lost_terminal_ends_nothing() -> None:
    previous = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with signals.handled():
            raise_here(signal.SIGHUP)
            signals.check()
            assert signals.requested() is None
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, previous)


def test_a_second_signal_is_reported_and_interrupts_no_clean_up() -> None:
    said: list[str] = []
    with signals.handled(on_later=lambda: said.append("still cleaning up")):
        raise_here(signal.SIGINT)
        with pytest.raises(InterruptedByUser):
            signals.check()
        raise_here(signal.SIGINT)
        raise_here(signal.SIGTERM)
        signals.sleep(0.001)
        assert signals.later_count() == 2
    assert said == ["still cleaning up"] * 2


def test_a_shielded_block_is_finished_first() -> None:
    steps: list[str] = []
    with signals.handled():
        with signals.shielded():
            raise_here(signal.SIGINT)
            signals.sleep(0.001)
            steps.append("finished")
        with pytest.raises(InterruptedByUser):
            signals.check()
    assert steps == ["finished"]


def test_a_wait_that_a_signal_does_not_end_is_named_once() -> None:
    said: list[str] = []
    with signals.handled(on_wait=said.append):
        with signals.shielded("a first command"):
            assert said == []
            raise_here(signal.SIGINT)
            assert said == ["a first command"]
        with signals.shielded("its way back"), signals.shielded():
            pass
        with pytest.raises(InterruptedByUser):
            signals.check()
    assert said == ["a first command", "its way back"]


def test_a_signal_ends_a_long_sleep_at_once() -> None:
    started = time.monotonic()
    with signals.handled():
        # Begun where the signal is handled: before, it would end the tests themselves.
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGTERM)).start()
        with pytest.raises(TerminatedByUser):
            signals.sleep(120)
    assert time.monotonic() - started < 60


def test_other_threads_are_never_interrupted() -> None:
    raised: list[BaseException] = []

    def collector() -> None:
        try:
            signals.check()
        except InterruptedByUser as error:
            raised.append(error)

    with signals.handled():
        raise_here(signal.SIGINT)
        thread = threading.Thread(target=collector)
        thread.start()
        thread.join()
        with pytest.raises(InterruptedByUser):
            signals.check()
    assert raised == []


def test_an_interruption_that_a_step_took_for_its_own_error_is_not_lost() -> None:
    with signals.handled():
        assert signals.interruption() is None
        raise_here(signal.SIGTERM)
        with pytest.raises(InterruptedByUser):
            signals.check()
        signals.check()  # What was raised once is not raised again.
        assert isinstance(signals.interruption(), TerminatedByUser)


def test_readable_descriptors_are_returned() -> None:
    reader, writer = os.pipe()
    try:
        assert signals.wait_readable([reader], 0.001) == []
        os.write(writer, b"x")
        assert signals.wait_readable([reader], None) == [reader]
    finally:
        os.close(reader)
        os.close(writer)


def test_the_previous_handlers_come_back() -> None:
    before = {number: signal.getsignal(number) for number in signals.HANDLED}
    with signals.handled():
        assert signal.getsignal(signal.SIGINT) is not before[signal.SIGINT]
    assert {number: signal.getsignal(number) for number in signals.HANDLED} == before


def test_a_signal_ends_a_computation_that_has_no_safe_point() -> None:
    for is_raised_before in (False, True):
        with signals.handled():
            if is_raised_before:
                raise_here(signal.SIGINT)
                with pytest.raises(InterruptedByUser):
                    signals.check()
            with signals.raised_at_once(), pytest.raises(InterruptedByUser):
                raise_here(signal.SIGINT)
            # What follows is undisturbed.
            raise_here(signal.SIGINT)
