"""The truth table: when a control holds, and when it needs another crash."""

from __future__ import annotations

import pytest
from tests.features.crash.records import BAD, crash, losing

from pgdyno.features.crash.controls import CONTROLS, Control, is_settled, judged

ALL_ON = Control("all on", "nothing lost", tries=2)
NO_FSYNC = Control("fsync = off", "lost or corrupt", tries=3)
ASYNCHRONOUS = Control("synchronous_commit = off", "only a suffix", tries=3)
TORN = Control("full_page_writes = off", "corruption found", tries=3)
HOLED = crash(lost=5, lost_ns=1, is_suffix=False)
DAMAGED = crash(checks=(BAD,))
DEAD = crash(recovery_error="could not locate a valid checkpoint record", answered_ns=None)


@pytest.mark.parametrize("control", [NO_FSYNC, ASYNCHRONOUS, TORN])
def test_a_control_that_shows_nothing_in_all_its_tries_does_not_hold(control: Control) -> None:
    records = [crash(number) for number in range(1, 4)]
    assert not is_settled(control, records[:2])
    assert is_settled(control, records)
    assert not judged(control, records).holds


def test_all_on_holds_only_if_no_crash_lost_or_damaged_anything() -> None:
    assert not is_settled(ALL_ON, [crash()])
    assert judged(ALL_ON, [crash(), crash(2)]).holds
    for wrong in (losing(), DAMAGED, DEAD):
        assert is_settled(ALL_ON, [wrong])
        assert not judged(ALL_ON, [wrong]).holds


def test_one_loss_is_enough_for_a_control_that_must_lose() -> None:
    assert is_settled(ASYNCHRONOUS, [crash(), losing(2)])
    seen = judged(ASYNCHRONOUS, [crash(), losing(2)])
    assert (seen.holds, seen.seen) == (True, "30 commits lost, a suffix")


def test_a_hole_contradicts_a_suffix() -> None:
    assert is_settled(ASYNCHRONOUS, [HOLED])
    assert not judged(ASYNCHRONOUS, [HOLED]).holds
    assert not judged(ASYNCHRONOUS, [losing(), DAMAGED]).holds


def test_damage_must_be_found_where_pages_are_torn() -> None:
    assert not judged(TORN, [losing()]).holds
    assert judged(TORN, [crash(), DAMAGED]).seen == "pg_checksums: block 3 is torn"
    assert judged(TORN, [DEAD]).holds


def test_a_server_that_does_not_come_back_is_a_loss() -> None:
    assert judged(NO_FSYNC, [DEAD]).holds
    assert judged(NO_FSYNC, [losing()]).holds


def test_every_kind_has_a_control_that_must_lose_something() -> None:
    for kind, controls in CONTROLS.items():
        assert any(control.expected != "nothing lost" for control in controls), kind


def test_a_crash_before_any_commit_shows_nothing_and_is_repeated_at_most_twice() -> None:
    stood_still = crash(acknowledged=0)
    assert not is_settled(ALL_ON, [stood_still, crash(2)])
    assert not judged(ALL_ON, [stood_still, stood_still]).holds
    seen = judged(ALL_ON, [stood_still, crash(2), crash(3)])
    assert (seen.holds, seen.crashes, seen.repeated_count) == (True, 2, 1)
    assert "1 crash repeated" in seen.seen
    assert not is_settled(ALL_ON, [stood_still] * 3)
    assert is_settled(ALL_ON, [stood_still] * 4)
