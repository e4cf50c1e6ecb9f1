"""How much runs scatter within the levels of a curve, when each has only a few."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pgdyno.analysis.arrays import FloatArray
from pgdyno.errors import AnalysisError

_SHARED_DEGREES = 4.0  # weight of the scatter of all levels against a level's own


@dataclass(frozen=True, slots=True, eq=False)
class Scatter:
    """Standard error of each level's mean, and its degrees of freedom; 0 with one run a level."""

    error_values: FloatArray
    degrees: float

    @property
    def is_known(self) -> bool:
        """True if there are runs enough to tell."""
        return self.degrees > 0


def scatter_of(levels: Sequence[FloatArray]) -> Scatter:
    """Return the standard error of every level's mean, steadied by that of all levels.

    Args: levels, the runs of each: logarithms of a metric, or log ratios.
    Raises: AnalysisError if some levels have one run and some several.
    Three runs know their own scatter badly. Each level's variance is averaged with the mean
    variance of all levels, which weighs as much as 4 degrees of freedom.
    Source: moderated variance, Smyth 2004, with a fixed prior weight.
    """
    sizes = np.array([level.size for level in levels])
    if (sizes == 1).all():
        return Scatter(np.zeros(len(levels)), 0)
    if (sizes == 1).any():
        raise AnalysisError(
            "some loads have one run and some several: a curve needs at least 2 runs of each"
        )
    own = np.array([level.var(ddof=1) for level in levels])
    shared = float(np.average(own, weights=sizes - 1))
    variance = (_SHARED_DEGREES * shared + (sizes - 1) * own) / (_SHARED_DEGREES + sizes - 1)
    # Degrees of freedom by the variance of this average (Satterthwaite 1946); 2 / its variance.
    least, total = float(sizes.min() - 1), float((sizes - 1).sum())
    part = _SHARED_DEGREES / (_SHARED_DEGREES + least)
    degrees = 1 / ((1 - part) ** 2 / least + (part**2 + 2 * part * (1 - part)) / total)
    return Scatter(np.sqrt(variance / sizes), degrees)
