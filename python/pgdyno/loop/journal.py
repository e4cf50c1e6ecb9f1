"""The planner's decisions in the store, and the runs that came of them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from pgdyno.spec.planned import Cell, PlannedRun, Stop
from pgdyno.store.folder import ExperimentFolder
from pgdyno.store.stored_run import StoredRun


@dataclass(frozen=True, slots=True)
class Visit:
    """One planned run and what is stored of it."""

    planned: PlannedRun
    stored: StoredRun
    took_ns: int


def decided(folder: ExperimentFolder, decision: PlannedRun | Stop) -> None:
    """Append a decision; it is on the disk when this returns."""
    kind = "run" if isinstance(decision, PlannedRun) else "stop"
    folder.add_decision({"decision": kind, **asdict(decision)})


def finished(folder: ExperimentFolder, number: int, took_ns: int) -> None:
    """Append that a run is done and what all of it took."""
    folder.add_decision({"decision": "done", "number": number, "took_ns": took_ns})


def exclude(folder: ExperimentFolder, variant: int, reason: str, *, run: int | None = None) -> None:
    """Append that a variant cannot be measured, and by which failed run that was learned."""
    folder.add_decision({"decision": "excluded", "variant": variant, "reason": reason, "run": run})


def excluded(folder: ExperimentFolder) -> dict[int, str]:
    """Return the variants that could not be measured, and why."""
    return {
        int(one["variant"]): str(one["reason"])
        for one in folder.decisions()
        if one["decision"] == "excluded"
    }


def resume(folder: ExperimentFolder) -> None:
    """Append that the experiment goes on from here, on servers opened afresh."""
    folder.add_decision({"decision": "resumed"})


def resumed_count(folder: ExperimentFolder) -> int:
    """Return how often the experiment was interrupted and went on."""
    return sum(one["decision"] == "resumed" for one in folder.decisions())


def stopped_by(folder: ExperimentFolder) -> str:
    """Return why the last plan ended; "" while it did not."""
    reasons = [one["reason"] for one in folder.decisions() if one["decision"] == "stop"]
    return str(reasons[-1]) if reasons else ""


def visits(folder: ExperimentFolder) -> list[Visit]:
    """Return every complete run with its plan, in order.

    Of a variant a run counts only once it is known to be done: one that was cut short or failed is
    stored as far as it came, but it is no run of the comparison. A lab killed between its decision
    and the run leaves a decision that is made again under the same number: the last one counts.
    """
    decisions = folder.decisions()
    stored = {run.number: run for run in folder.runs()}
    took_ns = {one["number"]: one["took_ns"] for one in decisions if one["decision"] == "done"}
    planned = {one["number"]: _planned(one) for one in decisions if one["decision"] == "run"}
    return [
        Visit(one, stored[one.number], took_ns.get(one.number, one.warm_ns + one.measure_ns))
        for _, one in sorted(planned.items())
        if one.number in stored and (one.cell.variant is None or one.number in took_ns)
    ]


def _planned(decision: dict[str, Any]) -> PlannedRun:
    fields = {name: value for name, value in decision.items() if name != "decision"}
    cell = dict(fields.pop("cell"))
    return PlannedRun(cell=Cell(tuple(cell.pop("script_indexes")), **cell), **fields)
