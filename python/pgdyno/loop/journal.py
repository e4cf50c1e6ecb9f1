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


def decided(folder: ExperimentFolder, decision: PlannedRun | Stop) -> None:
    """Append a decision; it is on the disk when this returns."""
    kind = "run" if isinstance(decision, PlannedRun) else "stop"
    folder.add_decision({"decision": kind, **asdict(decision)})


def visits(folder: ExperimentFolder) -> list[Visit]:
    """Return every complete run with its plan, in order."""
    stored = {run.number: run for run in folder.runs()}
    planned = [
        _planned(decision) for decision in folder.decisions() if decision["decision"] == "run"
    ]
    return [Visit(one, stored[one.number]) for one in planned if one.number in stored]


def _planned(decision: dict[str, Any]) -> PlannedRun:
    fields = {name: value for name, value in decision.items() if name != "decision"}
    cell = fields.pop("cell")
    return PlannedRun(
        cell=Cell(tuple(cell["script_indexes"]), cell["clients"], cell["rate_tps"]), **fields
    )
