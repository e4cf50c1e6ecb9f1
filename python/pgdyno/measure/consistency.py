"""Checks after every load and every run whether the rows of a dataset are consistent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import psycopg

from pgdyno.clock import monotonic_ns
from pgdyno.engine.records import ScriptShape
from pgdyno.errors import PgdynoError, ServerError
from pgdyno.measure.run_progress import RunProgress
from pgdyno.programs.registry import program_of
from pgdyno.quantities import duration_text
from pgdyno.server.connect import Connection, connect
from pgdyno.server.dataset import inspection as datasets
from pgdyno.server.dataset.conditions import ConsistencyRule, OwnData, check, own_data
from pgdyno.server.dataset.kinds import KINDS, kind_of
from pgdyno.server.target import Target
from pgdyno.spec.dataset import Dataset

_NO_ANSWER = "the server did not answer after the run"


# Examines the data of a program after a run, with what it noted before; keys of the check.
Examination = Callable[[Connection], Mapping[str, Any]]


def conditions_after(
    dataset: datasets.Dataset, scripts: Sequence[ScriptShape]
) -> tuple[ConsistencyRule, ...]:
    """Return the conditions that a run with these scripts could have violated."""
    is_written = any(not script.reads_only for script in scripts)
    known = KINDS.get(dataset.kind)
    is_checked = is_written and known is not None and dataset.state == "complete"
    return known.conditions if is_checked and known is not None else ()


def note_before_run(
    control: Callable[[], Connection],
    dataset: datasets.Dataset,
    scripts: Sequence[ScriptShape],
) -> Examination | None:
    """Let the program of the run note what it needs about its data; None if it notes nothing."""
    data = own_data(program_of([script.program for script in scripts]))
    # The base class notes and examines nothing.
    if type(data) is OwnData or not conditions_after(dataset, scripts):
        return None
    try:
        with control() as connection:
            connection.execute("SET statement_timeout = 0")
            datasets.use_tables(connection)
            noted = data.before_run(connection, dataset.options)
    except (psycopg.Error, PgdynoError):
        return None  # Without a connection the load fails as well, and says so.
    return None if noted is None else lambda connection: data.after_run(connection, noted)


def check_after_run(
    control: Callable[[], Connection],
    conditions: tuple[ConsistencyRule, ...],
    examination: Examination | None = None,
) -> dict[str, Any]:
    """Return the result of the data check after a run, as a document.

    If the server does not answer any more, the document has the reason instead of a verdict.
    """
    began_ns = monotonic_ns()
    try:
        with control() as connection:
            verdicts = _violations(connection, conditions)
            own = examination(connection) if examination is not None else {}
    except (psycopg.Error, PgdynoError) as error:
        words = error.message if isinstance(error, PgdynoError) else str(error).partition("\n")[0]
        return {"why_not": words.rstrip(".") or _NO_ANSWER}
    spent_ns = monotonic_ns() - began_ns
    return {"conditions": verdicts, **own, "duration_ns": spent_ns}


def require_consistent(
    dataset: Dataset, target: Target, *, verb: str, progress: RunProgress
) -> None:
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
            hint="load the data again; --no-check skips this check",
        )
        error.has_run = True
        raise error
    spent = duration_text(monotonic_ns() - began_ns)
    progress.said(f"consistency: {len(conditions)} of {len(conditions)} conditions hold ({spent})")


def _violations(
    connection: Connection, conditions: tuple[ConsistencyRule, ...]
) -> list[dict[str, Any]]:
    """Return each condition with its violations by part of the data, as documents."""
    connection.execute("SET statement_timeout = 0")
    datasets.use_tables(connection)
    return [
        {
            "number": verdict.condition.number,
            "rule": verdict.condition.rule,
            "violations": {str(part): n for part, n in verdict.violations_by_part.items()},
        }
        for verdict in sorted(
            check(connection, conditions), key=lambda verdict: verdict.condition.number
        )
    ]
