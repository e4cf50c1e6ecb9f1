"""The price of a gain: commits that crashes take with the settings of each variant.

The feature in the slot `losses` lets servers crash, and reads what they lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pgdyno.analysis.losses import Loss
from pgdyno.clock import ClockPair
from pgdyno.errors import SpecError
from pgdyno.feature import part
from pgdyno.measure.run_progress import RunProgress
from pgdyno.spec.experiment import Experiment
from pgdyno.spec.planned import PlannedVariant
from pgdyno.store.folder import ExperimentFolder


class LossPrice:
    """Without the feature of crashes, no losses are known; its functions have the same names."""

    def measure_losses(
        self,
        experiment: Experiment,
        variants: Sequence[PlannedVariant],
        folder: ExperimentFolder,
        clock: ClockPair,
        progress: RunProgress,
    ) -> None:
        """Let servers with the settings of each variant crash, and store every crash.

        Raises: ServerError or EngineError if a server or a load does not begin; InterruptedByUser;
        SpecError without the feature of crashes.
        """
        del experiment, variants, folder, clock, progress
        raise SpecError(
            "The price of loss needs crash tests, which are not installed.",
            hint="leave --price-of-loss out, or install pgdyno with all its features",
        )

    def losses_by_variant(self, folder: ExperimentFolder) -> Mapping[str, tuple[Loss, ...]]:
        """Return the losses of each variant that crashed, by its id."""
        del folder
        return {}


def price_of_loss() -> LossPrice:
    """Return what lets servers crash, and reads what they lost."""
    losses: LossPrice | None = part("losses")
    return losses or LossPrice()
