"""The experiment "A against A", and the noise of the host that its pairs show."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pgdyno.analysis.arrays import FloatArray
from pgdyno.analysis.compare import NoiseFloor, noise_floor
from pgdyno.analysis.compare_findings import ContrastFindings
from pgdyno.analysis.findings import ExperimentFindings
from pgdyno.errors import AnalysisError
from pgdyno.spec.designs import CompareDesign
from pgdyno.spec.experiment import (
    ExistingDataset,
    Experiment,
    PgbenchDataset,
    Scratch,
    Server,
    Variant,
    Workload,
)
from pgdyno.spec.workload import default_script

MINUTES = (5, 15, 30, 60)
_PAIRS_MIN = 3
# No interval is so narrow, so the budget ends the experiment. A verdict would be false here.
_NEVER = 0.0001


@dataclass(frozen=True, slots=True)
class HostNoise:
    """The result of A against A.

    `detectable_ratio`: minutes -> the smallest difference that is visible in this time.

    `pair_seconds`: the time of one pair of runs, including reset and warm-up.
    """

    contrast: ContrastFindings
    floor: NoiseFloor
    pair_seconds: float
    detectable_ratio: tuple[tuple[int, float], ...]

    @property
    def is_false_verdict(self) -> bool:
        """True if A differs from itself, because of drift or temporary disturbances."""
        return self.contrast.deciding.verdict not in ("no difference", "cannot tell")


def aa_experiment(
    *, dsn: str | None, clients: int, run: str, budget: str, scale: int
) -> Experiment:
    """Return the experiment: one server, one load, the same variant twice.

    On the user's own server the load only reads.
    Raises: pydantic.ValidationError with the value that is not allowed.
    """
    return Experiment(
        name="A against A",
        server=Server(scratch=Scratch() if dsn is None else None, dsn=dsn),
        dataset=PgbenchDataset(scale=scale) if dsn is None else ExistingDataset(),
        workload=Workload(
            scripts=(default_script(is_scratch=dsn is None),),
            clients=clients,
            duration=run,
            warmup="2s",
        ),
        variant=(Variant(name="A"), Variant(name="A again")),
        design=CompareDesign(precision=_NEVER, budget=budget),
    )


def host_noise(findings: ExperimentFindings) -> HostNoise:
    """Return the noise of the host that an A/A experiment shows.

    Raises: AnalysisError if fewer than 3 pairs were measured.
    """
    contrasts = findings.compare.contrasts if findings.compare is not None else ()
    pairs = contrasts[0].pairs if contrasts else ()
    if len(pairs) < _PAIRS_MIN:
        raise AnalysisError(
            f"A noise floor needs {_PAIRS_MIN} pairs of runs, but only {len(pairs)} were measured.",
            hint="set a longer --budget, or a shorter --run",
        )
    ratios = np.log(np.array([pair.ratio for pair in pairs], dtype=np.float64))
    each_s = findings.seconds / len(pairs)
    return HostNoise(
        contrasts[0],
        noise_floor(ratios),
        each_s,
        tuple((minutes, _detectable(ratios, minutes, each_s)) for minutes in MINUTES),
    )


def _detectable(ratios: FloatArray, minutes: int, each_s: float) -> float:
    count = max(_PAIRS_MIN, int(minutes * 60 / each_s))
    return noise_floor(ratios, pair_count=count).detectable_ratio
