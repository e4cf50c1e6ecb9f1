"""Checks the latency targets and conditions that a `[design]` table holds as texts.

The models of `spec/designs.py` call these functions. A wrong text raises ValueError, which the
model reports with its place in the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from pgdyno.errors import SpecError
from pgdyno.programs.program import Program
from pgdyno.programs.registry import programs, types_by_name
from pgdyno.spec.condition import condition_from, memory_limit_from, slo_from

# Latencies that a design can improve.
SLO_METRICS: dict[str, Literal["mean", "p50", "p99"]] = {"mean": "mean", "p50": "p50", "p99": "p99"}


@contextmanager
def _reported_by_the_model() -> Iterator[None]:
    """Turn a SpecError into the error that the model reports with the place in the file."""
    try:
        yield
    except SpecError as error:
        raise ValueError(f"{error.message.rstrip('.')}; {error.hint}") from error


def slo_with_types(text: str) -> str:
    """Check a latency target, also of a transaction type of a program, and return its text.

    Raises: ValueError with the fault and the next step.
    """
    with _reported_by_the_model():
        target = slo_from(text)
    if target.of and target.of not in types_by_name():
        known = "; ".join(
            f"{program.name}: {', '.join(kind.name for kind in program.types)}"
            for program in programs()
            if program.types
        )
        raise ValueError(f"{target.of!r} is not a transaction type; types of {known}")
    return text


def objection_to_type(slo: str | None, program: Program) -> str:
    """Return why the target of a transaction type does not fit the program, or ""."""
    of = "" if slo is None else slo_from(slo).of
    if not of or of in (kind.name for kind in program.types):
        return ""
    owner, _ = types_by_name()[of]
    return (
        f"slo {slo!r} names a transaction type of {owner.name}, but the workload runs other scripts"
    )


def objection_to_metric(metric: str | None, program: Program) -> str:
    """Return why a metric of one program does not fit the program that runs, or ""."""
    owners = [owner for owner in programs() if any(own.name == metric for own in owner.metrics)]
    if not owners or program in owners:
        return ""
    return f"metric {metric} is of {owners[0].name}, but the workload runs other scripts"


def slo_to_improve(text: str) -> str:
    """Check the latency target of a search for better settings, and return its text.

    Raises: ValueError, also if the search cannot improve the figure.
    """
    target = slo_from(slo_with_types(text))
    if not target.of and (name := target.name) not in SLO_METRICS:
        raise ValueError(f"the target must be of {', '.join(SLO_METRICS)}, got {name}")
    return text


def kept_condition(text: str) -> str:
    """Check a condition on candidates of a search, also on memory, and return its text.

    Raises: ValueError with the fault and the next step.
    """
    with _reported_by_the_model():
        if memory_limit_from(text) is None:
            condition_from(text)
    return text
