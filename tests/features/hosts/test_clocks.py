"""Offsets of clocks from probes whose true offset the test knows."""

from __future__ import annotations

import random

import pytest

from pgdyno.features.hosts.clocks import (
    PROBES_AFTER,
    PROBES_BEFORE,
    ClockOffset,
    Probe,
    drift_ppm,
    offset_from,
)

SECOND_NS = 1_000_000_000


def probes(
    count: int, at_ns: int, offset_s: float, ppm: float, *, chance: random.Random
) -> list[Probe]:
    """Probe a clock that is `offset_s` ahead at instant 0 and gains `ppm`; the ways are unequal."""

    def there(instant_ns: float) -> int:
        return round(instant_ns * (1 + ppm / 1e6) + offset_s * SECOND_NS)

    made = []
    for _ in range(count):
        way_out_ns, way_back_ns = (chance.expovariate(1 / 2e6) + 5e4 for _ in range(2))
        received_ns = at_ns + way_out_ns
        replied_ns = received_ns + 20_000
        answered_ns = replied_ns + way_back_ns
        made.append(Probe(at_ns, there(received_ns), there(replied_ns), round(answered_ns)))
        at_ns = round(answered_ns) + 100_000
    return made


@pytest.mark.parametrize("offset_s", [-2.0, 0.0, 2.0])
@pytest.mark.parametrize("ppm", [-50.0, 0.0, 50.0])
def test_the_true_offset_and_drift_are_within_the_reported_bounds(
    offset_s: float, ppm: float
) -> None:
    for seed in range(50):
        chance = random.Random(seed)
        before = offset_from(probes(PROBES_BEFORE, 0, offset_s, ppm, chance=chance))
        after = offset_from(probes(PROBES_AFTER, 60 * SECOND_NS, offset_s, ppm, chance=chance))
        for seen in (before, after):
            true_ns = offset_s * SECOND_NS + seen.at_ns * ppm / 1e6
            # The clock drifts during the probe too, by less than a microsecond.
            assert abs(seen.offset_ns - true_ns) <= seen.error_ns + 1000
            assert seen.error_ns < 2_000_000
        drift, error = drift_ppm(before, after)
        assert abs(drift - ppm) <= error + 0.1


def test_the_probe_with_the_shortest_way_decides() -> None:
    slow = Probe(0, 9_000, 9_000, 10_000)
    fast = Probe(20_000, 20_700, 20_800, 21_100)
    assert offset_from([slow, fast]) == ClockOffset(20_550, 200, 500)
