"""WHICH crash next: the moments of all crashes follow from the seed. Pure.

Every crash begins with a copy of the same data. Therefore crashes are independent, and crash 17 of
seed 3 is the same crash again in a command that makes only this one.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

Phase = Literal[
    "load",
    "checkpoint",
    "UPDATE",
    "WAL switch",
    "CREATE INDEX",
    "VACUUM",
    "DDL",
    "idle",
    "recovery",
]
PHASES: tuple[Phase, ...] = get_args(Phase)
# Clients of a failover are at work, and a standby has no recovery that could crash.
FAILOVER_PHASES: tuple[Phase, ...] = PHASES[:-2]
_SHORTEST_LOAD_NS = 400_000_000
_LONGEST_LOAD_NS = 1_000_000_000
# Redo of the little WAL of these loads takes tens of milliseconds, a statement at least 5 ms.
_LONGEST_PAUSES_NS: Mapping[Phase, int] = {"load": 1, "idle": 400_000_000, "recovery": 60_000_000}
_LONGEST_WORK_NS = 4_000_000
_SEED_BITS = 63


@dataclass(frozen=True, slots=True)
class PlannedCrash:
    """When one crash happens, and the seed of what survives it.

    `load_ns`: how long the load runs until the crash. `pause_ns`: idle time after it (phase idle),
    the time of redo until the second crash (phase recovery), or how long a statement of the phase
    works before the crash, if none worked at the end of the load. `seed`: for the load and for the
    survivors.
    """

    number: int
    phase: Phase
    load_ns: int
    pause_ns: int
    seed: int


def planned_crashes(
    count: int, seed: int, phases: Sequence[Phase] = PHASES
) -> tuple[PlannedCrash, ...]:
    """Return the crashes 1 to `count`; a longer plan begins with the same crashes.

    The phases follow each other in blocks: each block has every phase once, in an order of its
    seed, so any number of crashes covers the phases as evenly as possible.
    """
    planned: list[PlannedCrash] = []
    for number in range(1, count + 1):
        block, place = divmod(number - 1, len(phases))
        order = list(phases)
        random.Random(f"{seed}/block/{block}").shuffle(order)
        draw = random.Random(f"{seed}/crash/{number}")
        phase = order[place]
        longest_ns = _LONGEST_PAUSES_NS.get(phase, _LONGEST_WORK_NS)
        planned.append(
            PlannedCrash(
                number=number,
                phase=phase,
                load_ns=draw.randrange(_SHORTEST_LOAD_NS, _LONGEST_LOAD_NS),
                pause_ns=draw.randrange(longest_ns),
                seed=draw.getrandbits(_SEED_BITS),
            )
        )
    return tuple(planned)
