"""The plan of crashes: even over the phases, and the same for the same seed."""

from __future__ import annotations

from collections import Counter

from pgdyno.features.crash.moments import PHASES, planned_crashes


def test_the_same_seed_plans_the_same_crashes() -> None:
    assert planned_crashes(20, 7) == planned_crashes(20, 7)
    assert planned_crashes(20, 7) != planned_crashes(20, 8)


def test_a_longer_plan_begins_with_the_crashes_of_a_shorter_one() -> None:
    assert planned_crashes(60, 7)[:5] == planned_crashes(5, 7)


def test_phases_are_covered_evenly_by_any_number_of_crashes() -> None:
    for count in (3, 8, 20, 60):
        counts = Counter(crash.phase for crash in planned_crashes(count, 1))
        most = [counts[phase] for phase in PHASES]
        assert max(most) - min(most) <= 1, counts


def test_every_crash_has_another_seed_for_its_survivors() -> None:
    assert len({crash.seed for crash in planned_crashes(200, 1)}) == 200


def test_only_idle_servers_wait_long_after_the_load() -> None:
    for crash in planned_crashes(90, 3):
        assert crash.pause_ns < 60_000_000 or crash.phase == "idle"
