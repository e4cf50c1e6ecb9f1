"""How alike the statistics of two columns are. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime, time
from ipaddress import ip_interface
from typing import Any, Literal, TypeAlias

import numpy as np

from pgdyno.engine.distribution import Distribution

DISTANCE_MAX = 0.05
CORRELATION_OFF_MAX = 0.1
RATIO_MAX = 1.1
# Shares that differ by less are alike: that much is chance in a sample of 30,000 rows.
SHARE_OFF_MIN = 0.005
# One value of a distribution, and what its neighbours add because they are not evenly apart.
_STEP = 1.1
# A copy has hundreds of columns: with 2 standard deviations, one in twenty differs by chance.
_CHANCE_SD = 4

Verdict = Literal["pass", "short", "unknown"]
# Shares, numbers of values, bytes: the name of the quantity says which.
Value: TypeAlias = float | None


@dataclass(frozen=True, slots=True)
class Quantity:
    """One quantity of a column, a table or an index, on both sides. None: it is not known.

    `limit`: for the ratio of copy and source, or for their distance.
    """

    name: str
    source: Value
    copy: Value
    limit: Value
    verdict: Verdict

    def as_document(self) -> dict[str, Any]:
        """Return the quantity for a document in JSON."""
        return asdict(self)


def compared(
    source: Distribution,
    copy: Distribution,
    *,
    rows: float,
    source_correlation: float | None,
    copy_correlation: float | None,
) -> list[Quantity]:
    """Return the quantities of a column of the source and of its copy.

    Args: rows, those of the table. In a table of few rows chance alone makes a difference: one
    value is a step of a distribution, and a correlation varies with the root of their number.
    """
    if not _is_known(source):
        names = ("null share", "distinct", "most common", "distance", "correlation")
        return [Quantity(name, None, None, None, "unknown") for name in names]
    frequencies = [(d.hot[0].fraction if d.hot else 0.0) for d in (source, copy)]
    return [
        _share("null share", source.null_fraction, copy.null_fraction),
        ratio("distinct", source.distinct, copy.distinct),
        _share("most common", *frequencies),
        _distance(source, copy, max(DISTANCE_MAX, _STEP / max(rows - 1, 1))),
        _correlation(source_correlation, copy_correlation, rows),
    ]


def _is_known(source: Distribution) -> bool:
    """Return whether there were statistics, or a key says how many values there are."""
    values = source.hot or source.bounds or source.labels or source.element
    return bool(values or source.null_fraction or source.width or source.distinct > 1)


def ratio(name: str, source: float, copy: float, *, slack: float = 1.0) -> Quantity:
    """Return two numbers, alike within 10 % or `slack`."""
    is_near = abs(source - copy) <= slack or (
        min(source, copy) > 0 and max(source, copy) / min(source, copy) <= RATIO_MAX
    )
    return Quantity(name, source, copy, RATIO_MAX, "pass" if is_near else "short")


def _share(name: str, source: float, copy: float) -> Quantity:
    return ratio(name, source, copy, slack=SHARE_OFF_MIN)


def _correlation(source: float | None, copy: float | None, rows: float) -> Quantity:
    limit = CORRELATION_OFF_MAX
    if source is None or copy is None:
        return Quantity("correlation", source, copy, limit, "unknown")
    limit = max(limit, _CHANCE_SD * (1 - source**2) / max(rows, 1) ** 0.5)
    verdict: Verdict = "pass" if abs(source - copy) <= limit else "short"
    return Quantity("correlation", source, copy, limit, verdict)


def _distance(source: Distribution, copy: Distribution, limit: float) -> Quantity:
    distance = ks_distance(source, copy)
    verdict: Verdict = "unknown"
    if distance is not None:
        verdict = "pass" if distance <= limit else "short"
    return Quantity("distance", None if distance is None else 0.0, distance, limit, verdict)


def ks_distance(source: Distribution, copy: Distribution) -> float | None:
    """Return the largest difference of the two cumulative distributions, 0 to 1.

    None if the values have no order, or one side is not known.
    Source: the two-sample statistic of Kolmogorov and Smirnov. Limits: between two bounds of a
    histogram the values are taken as evenly spread.
    """
    both = (source, copy)
    values = [v for d in both for v in (*(hot.value for hot in d.hot), *d.bounds)]
    if any(not d.hot and len(d.bounds) < 2 for d in both):
        return None
    places = _places(source, values)
    if places is None:
        return None
    points = np.unique(np.array(list(places.values())))
    gap = 0.0
    for side in ("left", "right"):
        sums = [_cumulative(d, places, points, is_before=side == "left") for d in both]
        gap = max(gap, float(np.max(np.abs(sums[0] - sums[1]))))
    return gap


def _cumulative(
    distribution: Distribution, places: dict[str, float], points: Any, *, is_before: bool
) -> Any:
    """Return the share of values below each point, or up to it."""
    hot = sorted((places[hot.value], hot.fraction) for hot in distribution.hot)
    common = sum(fraction for _, fraction in hot)
    total = max(1e-12, 1 - distribution.null_fraction)
    sums = np.zeros(len(points))
    if hot:
        at = np.searchsorted([place for place, _ in hot], points, "left" if is_before else "right")
        sums += np.concatenate([[0.0], np.cumsum([fraction for _, fraction in hot])])[at]
    bounds = np.sort(np.array([places[bound] for bound in distribution.bounds]))
    rest = max(0.0, total - common) if len(bounds) > 1 else 0.0
    if rest:
        sums += np.interp(points, bounds, np.linspace(0.0, rest, len(bounds)), left=0, right=rest)
    return sums / max(1e-12, common + rest)


def _places(distribution: Distribution, values: list[str]) -> dict[str, float] | None:
    """Return a number for each value that has the order of the values."""
    try:
        match distribution.kind:
            case "integer" | "real" | "numeric":
                return {value: float(value) for value in values}
            case "date" | "timestamp" | "timestamptz":
                return {value: datetime.fromisoformat(value).timestamp() for value in values}
            case "time":
                times = {value: time.fromisoformat(value) for value in values}
                return {v: t.hour * 3600 + t.minute * 60 + t.second for v, t in times.items()}
            case "uuid":
                return {value: float(int(value.replace("-", ""), 16)) for value in values}
            case "inet":
                return {value: float(int(ip_interface(value).ip)) for value in values}
            case "boolean" | "enum":
                labels = distribution.labels or tuple(sorted(set(values)))
                return {value: float(labels.index(value)) for value in values}
            case "text" | "bytes":
                return _text_places(values)
    except (ValueError, OverflowError):
        return None
    return None


def _text_places(values: list[str]) -> dict[str, float]:
    """Return texts as numbers: their first bytes after what all have in common."""
    encoded = {value: value.encode() for value in values}
    shared = 0
    least, most = min(encoded.values()), max(encoded.values())
    while shared < min(len(least), len(most)) and least[shared] == most[shared]:
        shared += 1
    return {
        value: float(int.from_bytes(text[shared : shared + 12].ljust(12, b"\0"), "big"))
        for value, text in encoded.items()
    }
