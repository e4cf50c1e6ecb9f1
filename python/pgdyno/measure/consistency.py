"""Checks after every load and every run whether the rows of a dataset are consistent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

from pgdyno.clock import monotonic_ns
from pgdyno.engine.records import ScriptShape
from pgdyno.errors import PgdynoError, ServerError
from pgdyno.measure.run_progress import Progress
from pgdyno.quantities import duration_text
from pgdyno.server import dataset as datasets
from pgdyno.server.connect import Connection, connect
from pgdyno.server.dataset_kinds import KINDS, kind_of
from pgdyno.server.target import Target
from pgdyno.server.tpcc_check import Condition, check
from pgdyno.server.tpcc_draws import FirstOrder, drawn_since, next_orders
from pgdyno.spec.dataset import Dataset

_PROGRAM_THAT_DRAWS = "tpcc-like"
_SAID = "the server did not answer after the run"


@dataclass(frozen=True, slots=True)
class Draws:
    """Which orders a run makes, and NURand's C for last names of the load."""

    first: Sequence[FirstOrder]
    c_last: int


def conditions_after(
    dataset: datasets.Dataset, scripts: Sequence[ScriptShape]
) -> tuple[Condition, ...]:
    """Return the conditions that a run with these scripts could have violated."""
    is_written = any(not script.reads_only for script in scripts)
    known = KINDS.get(dataset.kind)
    is_checked = is_written and known is not None and dataset.state == "complete"
    return known.conditions if is_checked and known is not None else ()


def draws_of_run(
    control: Callable[[], Connection],
    dataset: datasets.Dataset,
    scripts: Sequence[ScriptShape],
) -> Draws | None:
    """Return what tells the orders of the run that begins now; None if it is not TPC-C-like."""
    c_last = dataset.options.get("c_last", "")
    is_tpcc = bool(scripts) and all(script.program == _PROGRAM_THAT_DRAWS for script in scripts)
    if not is_tpcc or not conditions_after(dataset, scripts) or not c_last.isdecimal():
        return None
    try:
        with control() as connection:
            first = next_orders(connection)
    except (psycopg.Error, PgdynoError):
        return None  # The load fails for the same reason, and says so.
    return Draws(first, int(c_last))


def checked_after_run(
    control: Callable[[], Connection],
    conditions: tuple[Condition, ...],
    draws: Draws | None = None,
) -> dict[str, Any]:
    """Return the result of the data check after a run, as a document.

    If the server does not answer any more, the document has the reason instead of a verdict.
    """
    began_ns = monotonic_ns()
    try:
        with control() as connection:
            verdicts = _violations(connection, conditions)
            drawn = _drawn(connection, draws) if draws is not None else []
    except (psycopg.Error, PgdynoError) as error:
        words = error.message if isinstance(error, PgdynoError) else str(error).splitlines()[0]
        return {"why_not": words.rstrip(".") or _SAID}
    spent_ns = monotonic_ns() - began_ns
    return {"conditions": verdicts, "drawn": drawn, "duration_ns": spent_ns}


def require_consistent(dataset: Dataset, target: Target, *, verb: str, progress: Progress) -> None:
    """Check a dataset that was just loaded.

    Raises: ServerError with the conditions that do not hold.
    """
    conditions = kind_of(dataset).conditions
    if not conditions:
        return
    began_ns = monotonic_ns()
    with connect(target, verb=verb, patient=True) as connection:
        violated = [
            verdict for verdict in _violations(connection, conditions) if verdict["violations"]
        ]
    if violated:
        words = "; ".join(
            f"condition {verdict['number']} ({verdict['rule']})" for verdict in violated
        )
        error = ServerError(
            f"The loaded data violate {words}.",
            hint="load them again; --no-check skips this check",
        )
        error.has_run = True
        raise error
    spent = duration_text(monotonic_ns() - began_ns)
    progress.said(f"consistency: {len(conditions)} of {len(conditions)} conditions hold ({spent})")


def _drawn(connection: Connection, draws: Draws) -> list[dict[str, Any]]:
    """Return what the orders of the run drew, as documents."""
    return [
        {
            "name": drawn.name,
            "counts": list(drawn.counts),
            "outside_count": drawn.outside_count,
            "load_c_last": draws.c_last,
        }
        for drawn in drawn_since(connection, draws.first)
    ]


def _violations(connection: Connection, conditions: tuple[Condition, ...]) -> list[dict[str, Any]]:
    """Return each condition with its violations by warehouse, as documents."""
    connection.execute("SET statement_timeout = 0")
    return [
        {
            "number": verdict.condition.number,
            "rule": verdict.condition.rule,
            "violations": {str(w): n for w, n in verdict.violations_by_warehouse.items()},
        }
        for verdict in sorted(
            check(connection, conditions), key=lambda verdict: verdict.condition.number
        )
    ]
