"""The Universal Scalability Law fitted to a load curve, as weighted linear least squares."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pgdyno.analysis.arrays import FloatArray
from pgdyno.analysis.estimate import Estimate, without_interval

# Which of (contention, coherency) are free; a coefficient that is not free is 0.
_SUBSETS = ((0, 1, 2), (0, 1), (0, 2), (0,))


@dataclass(frozen=True, slots=True)
class Usl:
    """X(N) = gamma N / (1 + alpha (N - 1) + beta N (N - 1)).

    gamma: tps of one client, unit "tps"; alpha: contention, beta: coherency, unit "1".
    A coefficient is identified if the data show that it is not 0; `reason` says what is missing.
    `error_ratio`: root mean square of the relative error over levels. If it is much larger than the
    intervals of the levels, the law does not describe this server.
    """

    gamma: Estimate
    alpha: Estimate
    beta: Estimate
    alpha_is_identified: bool
    beta_is_identified: bool
    reason: str
    error_ratio: float

    def tps_at(self, clients: FloatArray) -> FloatArray:
        """Return the fitted throughput at each number of clients (> 0, fractions allowed)."""
        return _law(clients, self.gamma.value, self.alpha.value, self.beta.value)


def fit_usl(
    clients: FloatArray, tps: FloatArray, replicates: FloatArray, *, run_count: int
) -> Usl | None:
    """Return the law fitted to mean throughput by level; None with fewer than 3 levels.

    Args: clients and tps, shape (levels,), ascending clients; replicates, shape (B, levels),
    bootstrap draws of tps. With B = 0 there are no intervals, and no coefficient is identified.
    Source: Gunther 1993 and 2007. N/X is linear in 1/gamma, alpha/gamma, beta/gamma, so the fit
    needs no iteration and no starting values. Weights are 1/(N/X)^2, because relative errors of
    throughput are alike over levels. Every set of free coefficients is tried, so that alpha and
    beta are not below 0.
    Limits: without levels after the peak, the data say little about beta.
    """
    if clients.size < 3:
        return None
    gamma, alpha, beta = (float(part[0]) for part in _solve(clients, tps[None, :]))
    fitted = _law(clients, gamma, alpha, beta)
    error_ratio = math.sqrt(float(np.mean((tps / fitted - 1) ** 2)))
    if replicates.shape[0] == 0:
        return Usl(
            without_interval(gamma, "tps"),
            without_interval(alpha, "1"),
            without_interval(beta, "1"),
            alpha_is_identified=False,
            beta_is_identified=False,
            reason="only one run per level: without intervals, nothing can be identified",
            error_ratio=error_ratio,
        )
    draws = _solve(clients, replicates)
    # The constraint makes a coefficient 0 if the best fit is below 0.
    has_alpha = bool(np.mean(draws[1] <= 0) < 0.025)
    has_beta = bool(np.mean(draws[2] <= 0) < 0.025) and _falls_after_peak(tps, replicates)
    return Usl(
        _from_draws(gamma, draws[0], "tps", run_count),
        _from_draws(alpha, draws[1], "1", run_count),
        _from_draws(beta, draws[2], "1", run_count),
        alpha_is_identified=has_alpha,
        beta_is_identified=has_beta,
        reason=_reason(has_alpha, has_beta),
        error_ratio=error_ratio,
    )


def _law(
    clients: FloatArray,
    gamma: float | FloatArray,
    alpha: float | FloatArray,
    beta: float | FloatArray,
) -> FloatArray:
    bound = 1 + alpha * (clients - 1) + beta * clients * (clients - 1)
    return np.asarray(gamma * clients / bound, dtype=np.float64)


def _solve(clients: FloatArray, tps: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return gamma, alpha, beta for each row of `tps`, shape (rows,) each."""
    columns = np.stack([np.ones_like(clients), clients - 1, clients * (clients - 1)], axis=1)
    weight = tps / clients  # With this weight, every target is 1.
    best = _least_squares(columns, weight, _SUBSETS[0])
    # Three free coefficients fit best. If their values are allowed, no other set is better.
    rest = np.flatnonzero(~_is_allowed(best))
    best_misfit = np.full(rest.size, np.inf)
    for subset in _SUBSETS[1:]:
        full = _least_squares(columns, weight[rest], subset)
        misfit = (((full @ columns.T) * weight[rest] - 1) ** 2).sum(axis=1)
        better = _is_allowed(full) & (misfit < best_misfit)
        best[rest[better]] = full[better]
        best_misfit[better] = misfit[better]
    return 1 / best[:, 0], best[:, 1] / best[:, 0], best[:, 2] / best[:, 0]


def _is_allowed(coefficients: FloatArray) -> npt.NDArray[np.bool_]:
    first, second, third = coefficients.T
    allowed: npt.NDArray[np.bool_] = (first > 0) & (second >= 0) & (third >= 0)
    return allowed


def _least_squares(columns: FloatArray, weight: FloatArray, subset: tuple[int, ...]) -> FloatArray:
    """Return, for each row of weights, the coefficients that fit 1 at every level; others are 0.

    Args: columns, shape (levels, 3); weight, shape (rows, levels); subset, which are free.
    """
    free = columns[:, subset]
    count = len(subset)
    products = (free[:, :, None] * free[:, None, :]).reshape(-1, count * count)
    normal = ((weight * weight) @ products).reshape(-1, count, count)
    # The columns are scaled because N(N - 1) reaches 1e6, which makes the equations inexact.
    scale = np.sqrt(np.diagonal(normal, axis1=1, axis2=2))
    normal = normal / (scale[:, :, None] * scale[:, None, :])
    right = (weight @ free) / scale
    solution = np.zeros((weight.shape[0], columns.shape[1]))
    solution[:, subset] = np.linalg.solve(normal, right[:, :, None])[:, :, 0] / scale
    return solution


def _from_draws(value: float, draws: FloatArray, unit: str, run_count: int) -> Estimate:
    low, high = (float(bound) for bound in np.quantile(draws, (0.025, 0.975)))
    return Estimate(value, min(low, value), max(high, value), run_count, unit, "between_runs")


def _falls_after_peak(tps: FloatArray, replicates: FloatArray) -> bool:
    """Return whether throughput after the best level is significantly lower."""
    best = int(np.argmax(tps))
    if best == tps.size - 1:
        return False
    return bool(np.mean(replicates[:, -1] < replicates[:, best]) > 0.975)


def _reason(has_alpha: bool, has_beta: bool) -> str:
    missing = []
    if not has_alpha:
        missing.append("alpha cannot be distinguished from 0")
    if not has_beta:
        missing.append("beta is not identified: throughput does not fall clearly after a peak")
    return "; ".join(missing)
