"""A disk that forgets more than a disk may: the test of a crash must see it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fixtures import needs

from pgdyno.crash.crash import CrashShow, crash
from pgdyno.crash.crashers import CrashRequest
from pgdyno.measure.run_progress import Progress
from pgdyno.server.find import find
from pgdyno.store.experiment import Store

pytestmark = pytest.mark.pg
DEFECTS = ("fsync_ignored", "directory_fsync_dropped", "reordered_across_sync")
# Crashes of one try: each of the nine phases once.
CRASHES = 9


class Silent(CrashShow):
    """Shows nothing."""

    def __init__(self) -> None:
        self.progress = Progress()


# One try for `make test`, and nineteen more for `make prove`.
SEEDS = [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 21))]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("defect", DEFECTS)
def test_a_planted_defect_of_the_disk_is_found(
    defect: str, seed: int, can_lose_power: None, tmp_path: Path
) -> None:
    needs.postgresql("15")
    request = CrashRequest(
        kind="power",
        crashes=CRASHES,
        seed=seed,
        clients=8,
        binaries=find(version="15"),
        controls=False,
        defect=defect,
    )
    document = crash(request, Store(tmp_path), Silent()).document
    assert document["lost"] or document["corrupt"], document["sentence"]
