"""Noise with a known truth: independent, autocorrelated, drifting."""

from __future__ import annotations

import numpy as np

from pgdyno.analysis.arrays import FloatArray


def autocorrelated(
    rng: np.random.Generator, phi: float, series_count: int, length: int
) -> FloatArray:
    """Return AR(1) series of variance 1, shape (series_count, length), from their steady state."""
    shocks = rng.standard_normal((series_count, length))
    series = np.empty_like(shocks)
    series[:, 0] = shocks[:, 0]
    for i in range(1, length):
        series[:, i] = phi * series[:, i - 1] + np.sqrt(1 - phi**2) * shocks[:, i]
    return series
