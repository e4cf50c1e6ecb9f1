"""Reads conditions as users write them: `p99<20ms`, `tps_ratio>=0.97`, `new-order.p90<5s`.

Options such as `--check`, `--keep`, `--abort-if` and `--slo`, and the same keys of a spec, hold
such texts. A text that is not a condition raises SpecError, whose hint says what may be written.
"""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass
from typing import Literal, get_args

from pgdyno.errors import SpecError
from pgdyno.programs.registry import own_metrics

Sign = Literal["<", "<=", ">", ">="]
_FORM = re.compile(
    r"\s*(?:(?P<of>[^\s<>][^<>]*)\.)?(?P<name>[a-z0-9_]+)\s*(?P<sign>[<>]=?)\s*"
    r"(?P<limit>[0-9]+(?:\.[0-9]+)?)\s*(?P<unit>[a-zA-Z]*)\s*"
)
_IS_MET = dict(
    zip(get_args(Sign), (operator.lt, operator.le, operator.gt, operator.ge), strict=True)
)
LATENCIES = ("mean", "p50", "p90", "p95", "p99", "p999")
_OWN = own_metrics()
METRICS = ("tps", *_OWN, "cpu_per_tx", "wal_per_tx", "duration", *LATENCIES)
RESULT_FIGURES = (*METRICS, *(f"{name}_ratio" for name in METRICS))
"""Figures of a result. A ratio compares the result with a base."""
WATCHED = ("tps", *LATENCIES)
"""Figures that are known every second during a run."""
OF_A_TYPE = ("tps", *LATENCIES)
"""Figures that each transaction type and each script has."""
_MEMORY = re.compile(r"\s*memory\s*<=?\s*(?P<limit>[0-9]+(?:\.[0-9]+)?)\s*%\s*")
# The unit of each metric, and how many of this unit one of each unit that may be written is. A
# number without a unit has the unit of the metric. Latencies and CPU time are in ms.
_IN_MS = {"us": 1e-3, "ms": 1.0, "s": 1e3, "min": 6e4}
_UNITS: dict[str, tuple[str, dict[str, float]]] = {
    "duration": ("s", {unit: size / 1e3 for unit, size in _IN_MS.items()}),
    "wal_per_tx": ("bytes", {"B": 1.0, "kB": 1024.0, "MB": 1048576.0}),
    "tps": ("1/s", {"tps": 1.0}),
    **{name: (metric.unit, {}) for name, metric in _OWN.items()},
}


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition.

    Args: unit, of `limit`: ms, s, bytes, 1/s, 1/min, or 1 for a ratio; of, the transaction type or
    script that the condition is about, "" for the whole load.
    """

    text: str
    name: str
    sign: Sign
    limit: float
    unit: str
    of: str = ""

    @property
    def figure(self) -> str:
        """Return the figure's name, such as "p99" or "new-order.p90"."""
        return f"{self.of}.{self.name}" if self.of else self.name

    @property
    def is_upper_limit(self) -> bool:
        """Return whether smaller values meet the condition."""
        return self.sign in ("<", "<=")

    def is_met(self, value: float) -> bool:
        """Return whether a value, in the unit of the metric, meets the condition."""
        return bool(_IS_MET[self.sign](value, self.limit))


def condition_from(
    text: str, names: tuple[str, ...] = RESULT_FIGURES, *, takes_types: bool = False
) -> Condition:
    """Parse a condition.

    Args: names, the figures that the condition may be about; takes_types, whether the condition
    may be about one transaction type, such as `new-order.p99<5ms`.
    Raises: SpecError. Its hint lists the known figures or the known units.
    """
    match = _FORM.fullmatch(text)
    if match is None or match["name"] not in names:
        raise SpecError(
            f"{text!r} is not a condition. Write NAME<LIMIT or NAME>LIMIT.",
            hint=f"for example {_example(names)}; NAME is one of {', '.join(names)}",
        )
    return _condition(text, match, takes_types=takes_types)


def memory_limit_from(text: str) -> float | None:
    """Return the limit of a condition such as "memory<70%" as a share of RAM, 0..1.

    Returns: None if the text is a condition on another figure.
    Raises: SpecError if the text is about memory and its limit is not a share of RAM.
    """
    match = _MEMORY.fullmatch(text)
    share = None if match is None else float(match["limit"]) / 100
    if share is None and not re.match(r"\s*memory\b", text):
        return None
    if share is None or not 0 < share <= 1:
        raise SpecError(
            f"{text!r} is not a condition on memory.",
            hint="write a share of the RAM, above 0 and at most 100 %, for example memory<70%",
        )
    return share


def slo_from(text: str) -> Condition:
    """Parse a latency target such as `p99=20ms`, `p99<20ms`, or of one type `new-order.p90=5s`.

    Raises: SpecError. Its hint lists the known figures or the known units.
    """
    match = _FORM.fullmatch(re.sub(r"(?<![<>])=", "<", text, count=1))
    if match is None or match["name"] not in LATENCIES or match["sign"] not in ("<", "<="):
        raise SpecError(
            f"{text!r} is not a latency target. Write NAME=LIMIT.",
            hint=f"for example p99=20ms; NAME is one of {', '.join(LATENCIES)}",
        )
    target = _condition(text, match, takes_types=True)
    if target.limit == 0:
        raise SpecError(
            f"{text!r}: the limit of a latency must be above 0.", hint="for example p99=20ms"
        )
    return target


def _example(names: tuple[str, ...]) -> str:
    return "p99<20ms" if "p99" in names else f"{names[0]}>1"


def _condition(text: str, match: re.Match[str], *, takes_types: bool) -> Condition:
    """Return the condition of a match of `_FORM`.

    Args: text, as the user wrote it, for messages.
    Raises: SpecError about the transaction type or the unit.
    """
    name, unit, of = match["name"], match["unit"], match["of"] or ""
    if of and not takes_types:
        raise SpecError(
            f"{text!r} names one transaction type, but this target is for the whole load.",
            hint=f"leave out {of!r} and the dot",
        )
    if of and name not in OF_A_TYPE:
        raise SpecError(
            f"{text!r}: a single transaction type has no {name}.",
            hint=f"for one type, name one of {', '.join(OF_A_TYPE)}",
        )
    base, factors = ("1", {}) if name.endswith("_ratio") else _UNITS.get(name, ("ms", _IN_MS))
    if unit and unit not in factors:
        raise SpecError(
            f"{text!r}: {unit} is not a unit of {name}.",
            hint=f"units: {', '.join(factors)}" if factors else "write the number without a unit",
        )
    sign: Sign = match["sign"]  # type: ignore[assignment]
    limit = float(match["limit"]) * factors.get(unit, 1.0)
    return Condition(match[0].strip(), name, sign, limit, base, of)
