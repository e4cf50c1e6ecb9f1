"""The recorded arrivals of a capture as the rate of an open loop."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from pgdyno.errors import SpecError
from pgdyno.features.capture.file import capture_at
from pgdyno.spec.units import duration_ns

_SCALED = re.compile(r"([0-9]+(?:\.[0-9]+)?)x|flat")
# More phases than this would only be noise: a rate of a second is a count with an error.
_PHASES_MAX = 60
_TPS_MIN = 0.001


def is_recorded(given: object) -> bool:
    """Return whether a rate names the recorded arrivals of a capture."""
    return isinstance(given, str) and _SCALED.fullmatch(given.strip()) is not None


def rate_of(given: str, captures: Sequence[Path], duration: str | None) -> str:
    """Return the phases of a rate such as `2x` or `flat`.

    Args: captures, those of the load; duration, of the measured phase: a longer one repeats the
    recorded arrivals. A recording ends when it is over, and `2x` takes half of its time.
    Raises: SpecError unless the load has one capture, and it has arrivals.
    """
    asked = _SCALED.fullmatch(given.strip())
    assert asked is not None, f"{given} is not a recorded rate"
    if len(captures) != 1:
        raise SpecError(
            f"--rate {given} needs one capture, whose recorded arrivals it uses.",
            hint="name the file of one capture (-b FILE), or give a number",
        )
    capture = capture_at(captures[0])
    arrivals = capture.arrivals
    recorded = arrivals.transactions
    mean_tps = sum(recorded) / (len(recorded) * arrivals.interval_s) if recorded else 0.0
    if mean_tps <= 0:
        raise SpecError(
            f"--rate {given}: the capture has no arrivals from second to second.",
            hint="give a number, or leave the rate out for a closed loop",
        )
    if asked[1] is None:
        return _text(mean_tps)
    factor = float(asked[1])
    if factor <= 0:
        raise SpecError(f"--rate {given}: the factor must be above 0.", hint="--rate 1x")
    steps = [count / arrivals.interval_s * factor for count in recorded]
    is_once = capture.recording is not None
    phases = _phases(steps, arrivals.interval_s / (factor if is_once else 1))
    length_s = sum(seconds for _, seconds in phases)
    times = 1
    if duration is not None and not is_once:
        times = max(1, -(-duration_ns(duration) // round(length_s * 1e9)))
    whole = _within(phases * times, None if duration is None else duration_ns(duration) / 1e9)
    return ",".join(f"{_text(tps)}:{seconds:g}s" for tps, seconds in whole)


def options_of(given: str, path: Path) -> dict[str, str]:
    """Return the options of the program for a rate: transactions begin at their recorded times."""
    asked = _SCALED.fullmatch(given.strip())
    if asked is None or asked[1] is None or capture_at(path).recording is None:
        return {}
    return {"speed": str(max(1, round(100 * float(asked[1]))))}


def _phases(steps: Sequence[float], interval_s: float) -> list[tuple[float, float]]:
    """Return rates with their seconds: neighbours share one if there are too many."""
    width = -(-len(steps) // _PHASES_MAX)
    groups = [steps[begin : begin + width] for begin in range(0, len(steps), width)]
    return [(sum(group) / len(group), round(len(group) * interval_s, 3)) for group in groups]


def _within(phases: list[tuple[float, float]], most_s: float | None) -> list[tuple[float, float]]:
    """Return the phases of the first `most_s` seconds."""
    kept: list[tuple[float, float]] = []
    left_s = float("inf") if most_s is None else most_s
    for tps, seconds in phases:
        if left_s < 0.001:
            break
        kept.append((tps, round(min(seconds, left_s), 3)))
        left_s -= seconds
    return kept


def _text(tps: float) -> str:
    return f"{max(tps, _TPS_MIN):.3f}".rstrip("0").rstrip(".")
