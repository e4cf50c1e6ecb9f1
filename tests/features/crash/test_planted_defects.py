"""A disk that forgets more than a disk may: the test of a crash must see it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fixtures import needs
from tests.fixtures.prove import Proved

from pgdyno.errors import PgdynoError
from pgdyno.features.crash.crash import CrashShow, crash
from pgdyno.features.crash.record import CrashRecord
from pgdyno.features.crash.request import CrashRequest
from pgdyno.measure.run_progress import RunProgress
from pgdyno.server.find import find
from pgdyno.store.experiment import Store

pytestmark = pytest.mark.pg
DEFECTS = ("fsync_ignored", "directory_fsync_dropped", "reordered_across_sync")
# Crashes of one try: each of the nine phases twice.
CRASHES = 18
TRIES = 20


class FoundError(PgdynoError):
    """The defect was found, so the try is over."""

    kind = "found"


class UntilFound(CrashShow):
    """Ends the crashes at the first that lost or damaged something."""

    def __init__(self) -> None:
        self.progress = RunProgress()

    def crashed(self, record: CrashRecord, of_count: int) -> None:
        if record.lost or record.is_corrupt:
            raise FoundError("found")


def crashes_until_found(defect: str, seed: int, place: Path, crash_dir: Path) -> int:
    """Return how many crashes a try needs to find the defect; 0 if none of them does."""
    request = CrashRequest(
        kind="power",
        crashes=CRASHES,
        seed=seed,
        clients=8,
        binaries=find(version="15"),
        controls=False,
        defect=defect,
        data_dir=crash_dir,
        allow_tmpfs=True,
    )
    outcome = crash(request, Store(place), UntilFound())
    assert outcome.error is None or isinstance(outcome.error, FoundError), outcome.error
    return int(outcome.document["crashes"]) if outcome.error is not None else 0


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_planted_defect_of_the_disk_is_found(
    defect: str, can_lose_power: None, crash_dir: Path, tmp_path: Path
) -> None:
    needs.postgresql("15")
    assert crashes_until_found(defect, 1, tmp_path, crash_dir)


@pytest.mark.slow
@pytest.mark.parametrize("defect", DEFECTS)
def test_a_planted_defect_is_found_in_every_try(
    defect: str, can_lose_power: None, crash_dir: Path, tmp_path: Path, proved: Proved
) -> None:
    needs.postgresql("15")
    needed = [
        crashes_until_found(defect, seed, tmp_path, crash_dir) for seed in range(1, TRIES + 1)
    ]
    successes = [count for count in needed if count]
    proved(
        f"tries that find the planted defect {defect}",
        required=f"{TRIES} of {TRIES}",
        seen=f"{len(successes)} of {TRIES}; mean {sum(successes) / len(successes):.1f} crashes",
    )
    assert len(successes) == TRIES, needed
