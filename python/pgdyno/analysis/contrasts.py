"""Contrasts between more than two cells: effects of factors, interactions, cumulative passes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import numpy.typing as npt

from pgdyno.analysis.arrays import FloatArray
from pgdyno.analysis.compare import Better, Comparison, compare, holm
from pgdyno.analysis.estimate import Estimate, t_beyond, t_quantile
from pgdyno.errors import AnalysisError

# The least variance of a cell, as a share of the mean of all.
_VARIANCE_LEAST = 0.05


@dataclass(frozen=True, slots=True)
class Effect:
    """A main effect or a two-way interaction, as a ratio of the metric.

    `terms`: (factor, level) against the factor's first level. One term: the metric at that level
    over the metric at the first, averaged over the other factors. Two terms: the factor by which
    one term changes the effect of the other. `p_adjusted_ratio`: after Holm over all effects.
    `aliased_with`: effects that this design cannot tell from this one.
    """

    terms: tuple[tuple[str, str], ...]
    ratio: Estimate
    p_value_ratio: float
    p_adjusted_ratio: float
    aliased_with: tuple[str, ...]

    @property
    def is_sure(self) -> bool:
        """Return whether the effect is certain, all effects taken together."""
        return self.p_adjusted_ratio < 0.05

    @property
    def name(self) -> str:
        """The terms in words: "shared_buffers=4GB x wal_compression=on"."""
        return _name(self.terms)


@dataclass(frozen=True, slots=True)
class PassEffect:
    """One pass of cumulative changes against the base and against the previous pass."""

    name: str
    to_base: Comparison
    to_previous: Comparison


def factorial(
    factors: Mapping[str, Sequence[str]],
    cells: Sequence[Mapping[str, str]],
    metric: npt.ArrayLike,
    *,
    level: float = 0.95,
) -> tuple[Effect, ...]:
    """Return all main effects, then all two-way interactions that the design can see.

    Args: factors, name -> its levels, the reference first; cells, factor -> level of each cell, all
    combinations or a balanced fraction of them; metric, shape (rounds, cells), > 0.
    Raises: AnalysisError if shapes differ, there are fewer than 2 rounds, or the choice of cells
    mixes main effects with each other.
    Source: contrasts of cell means with the round as block (Montgomery, "Design and Analysis of
    Experiments"), where each cell has its scatter: Student's t with the degrees of freedom of
    Satterthwaite 1946; Holm 1979. The scatter of a contrast from its values by round alone has 2
    degrees of freedom after 3 rounds: chance made it small in every twentieth experiment.
    Limits: intervals are 95 % each; judge many effects together by `p_adjusted_ratio`. If one cell
    scatters 5 times as much as all others, 3 rounds cover 93 %.
    """
    logs = _log_metric(metric, len(cells))
    round_count = logs.shape[0]
    variances = _cell_variances(logs)
    weights = _main_weights(factors, cells) | _interaction_weights(factors, cells)
    effects = []
    for terms, weight in weights.items():
        mean = float((logs @ weight).mean())
        parts = variances * weight**2 / round_count
        error, degrees = math.sqrt(parts.sum()), _degrees(parts, round_count)
        half = t_quantile(0.5 + level / 2, degrees) * error
        low, high = math.exp(mean - half), math.exp(mean + half)
        ratio = Estimate(math.exp(mean), low, high, round_count, "1", "between_runs")
        aliases = tuple(_name(other) for other in _aliases(terms, weights))
        effects.append(Effect(terms, ratio, _p_value(mean, error, degrees), 1.0, aliases))
    adjusted = holm([effect.p_value_ratio for effect in effects])
    return tuple(
        replace(effect, p_adjusted_ratio=float(p))
        for effect, p in zip(effects, adjusted, strict=True)
    )


def passes(
    names: Sequence[str], metric: npt.ArrayLike, *, better: Better = "more"
) -> tuple[PassEffect, ...]:
    """Return every pass after the base against the base and against the previous pass.

    Args: names, of the passes, the base first; metric, shape (rounds, passes), > 0.
    Source: paired t by round; all contrasts share the level (Bonferroni), so all intervals hold
    together with 95 % confidence.
    Limits: if one pass makes several changes, their effects cannot be separated.
    """
    logs = _log_metric(metric, len(names))
    if len(names) < 2:
        raise AnalysisError(f"passes need a base and at least one change, got {len(names)}")
    # Two contrasts for each pass after the base, but one for the first: its previous pass is the
    # base.
    level = 1 - 0.05 / (2 * len(names) - 3)
    effects = []
    for i in range(1, len(names)):
        to_base = compare(logs[:, i] - logs[:, 0], looks="fixed", better=better, level=level)
        moved = logs[:, i] - logs[:, i - 1]
        to_previous = compare(moved, looks="fixed", better=better, level=level)
        effects.append(PassEffect(names[i], to_base, to_previous))
    return tuple(effects)


_Terms = tuple[tuple[str, str], ...]


def _log_metric(metric: npt.ArrayLike, cell_count: int) -> FloatArray:
    values = np.asarray(metric, dtype=np.float64)
    if values.ndim != 2 or values.shape[1] != cell_count or values.shape[0] < 2:
        raise AnalysisError(
            f"the metric needs at least 2 rounds of {cell_count} cells, got shape {values.shape}"
        )
    if not (np.isfinite(values) & (values > 0)).all():
        raise AnalysisError("a ratio needs metrics above 0")
    return np.log(values)


def _main_weights(
    factors: Mapping[str, Sequence[str]], cells: Sequence[Mapping[str, str]]
) -> dict[_Terms, FloatArray]:
    weights: dict[_Terms, FloatArray] = {}
    for factor, levels in factors.items():
        reference = _share(cells, {factor: levels[0]})
        for name in levels[1:]:
            here = _share(cells, {factor: name})
            if here is None or reference is None:
                raise AnalysisError(f"no cell has {factor} = {name} or {levels[0]}")
            weights[((factor, name),)] = here - reference
    for contrast, other in combinations(weights, 2):
        if (
            contrast[0][0] != other[0][0]
            and abs(_likeness(weights[contrast], weights[other])) > 1e-9
        ):
            raise AnalysisError(
                f"the chosen cells do not separate {_name(contrast)} from {_name(other)}",
                hint="use all combinations, or a balanced fraction of them",
            )
    return weights


def _interaction_weights(
    factors: Mapping[str, Sequence[str]], cells: Sequence[Mapping[str, str]]
) -> dict[_Terms, FloatArray]:
    weights: dict[_Terms, FloatArray] = {}
    for (factor, levels), (other, others) in combinations(factors.items(), 2):
        for a in levels[1:]:
            for b in others[1:]:
                corners = [
                    _share(cells, {factor: x, other: y})
                    for x, y in ((a, b), (levels[0], others[0]), (a, others[0]), (levels[0], b))
                ]
                if any(corner is None for corner in corners):
                    continue  # A fraction without all four corners cannot see this interaction.
                both, neither, first, second = (c for c in corners if c is not None)
                weights[((factor, a), (other, b))] = both + neither - first - second
    return weights


def _share(cells: Sequence[Mapping[str, str]], wanted: Mapping[str, str]) -> FloatArray | None:
    """Return the weights that average the cells with these levels; None without such a cell."""
    member = np.array(
        [all(cell[factor] == name for factor, name in wanted.items()) for cell in cells]
    )
    return member / member.sum() if member.any() else None


def _aliases(terms: _Terms, weights: Mapping[_Terms, FloatArray]) -> list[_Terms]:
    factors = {factor for factor, _ in terms}
    return [
        other
        for other, weight in weights.items()
        if {factor for factor, _ in other} != factors
        and abs(_likeness(weights[terms], weight)) > 1e-9
    ]


def _likeness(first: FloatArray, other: FloatArray) -> float:
    return float(first @ other / (np.linalg.norm(first) * np.linalg.norm(other)))


def _cell_variances(logs: FloatArray) -> FloatArray:
    """Return the variance of each cell without that of the rounds, shape (cells,).

    What is left after the means of rounds and cells has a part of every other cell, which is taken
    off: E[r_c] = s_c^2 (k - 2) / k + sum(s^2) / k^2 for k cells.
    """
    round_count, count = logs.shape
    left = logs - logs.mean(axis=0) - logs.mean(axis=1, keepdims=True) + logs.mean()
    seen = (left**2).sum(axis=0) / (round_count - 1)
    shared = seen.sum() / (count - 1)
    if count <= 2:
        # Their difference by round shows only the sum of both.
        return np.full(count, shared)
    own = (seen - shared / count) * count / (count - 2)
    # By chance the difference may be negative.
    return np.asarray(np.maximum(own, _VARIANCE_LEAST * shared))


def _degrees(parts: FloatArray, round_count: int) -> float:
    """Return the degrees of freedom of a sum of variances. Source: Satterthwaite 1946."""
    squares = float((parts**2).sum())
    most = (round_count - 1) * (parts.size - 1)
    if squares == 0:
        return most
    seen = float(parts.sum()) ** 2 * (round_count - 1) / squares
    return min(max(seen, round_count - 1), most)


def _p_value(mean: float, error: float, degrees: float) -> float:
    if error == 0:
        return 1.0 if mean == 0 else 0.0
    return t_beyond(abs(mean) / error, degrees)


def _name(terms: _Terms) -> str:
    return " x ".join(f"{factor}={name}" for factor, name in terms)
