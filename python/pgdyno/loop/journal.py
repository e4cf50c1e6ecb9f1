"""The decisions in the store, and the runs that followed from them.

Each line of `plan.jsonl` is one decision: a variant at its first use, a run, a failed run, an
excluded variant, an end. Results of versions that did not write variants refer to them by their
position in the spec.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from pgdyno.analysis.findings import RepeatedRun
from pgdyno.analysis.verdicts import Doubt
from pgdyno.spec.experiment import Experiment
from pgdyno.spec.planned import Cell, PlannedRun, PlannedVariant, Stop
from pgdyno.spec.variant import Variant
from pgdyno.store.folder import ExperimentFolder
from pgdyno.store.stored_run import StoredRun


@dataclass(frozen=True, slots=True)
class Visit:
    """One planned run and its stored result.

    `spent_ns`: the time of each step; results of earlier versions do not have it. `failed_ns`: the
    time of the failed runs between the complete run before and this one.
    """

    planned: PlannedRun
    stored: StoredRun
    took_ns: int
    spent_ns: Mapping[str, int] = field(default_factory=dict)
    failed_ns: int = 0


def record_decision(folder: ExperimentFolder, decision: PlannedRun | Stop) -> None:
    """Append a decision; it is on the disk when this returns."""
    if isinstance(decision, Stop):
        folder.add_decision({"decision": "stop", "reason": decision.reason})
        return
    variant = decision.cell.variant
    used = dict.fromkeys((*(() if variant is None else (variant,)), *decision.turns))
    known = _recorded(folder.decisions()) if used else {}
    for new in used:
        if new.id not in known:
            fields = new.spec.model_dump(mode="json", by_alias=True, exclude_defaults=True)
            folder.add_decision({"decision": "variant", "id": new.id, "variant": fields})
    cell = {**_fields(decision.cell), "variant": None if variant is None else variant.id}
    turns = [turn.id for turn in decision.turns]
    folder.add_decision({"decision": "run", **_fields(decision), "cell": cell, "turns": turns})


def record_finished(
    folder: ExperimentFolder,
    number: int,
    took_ns: int,
    spent_ns: Mapping[str, int] = MappingProxyType({}),
) -> None:
    """Append that a run is complete, with its whole time and the time of each step."""
    done = {"decision": "done", "number": number, "took_ns": took_ns}
    folder.add_decision({**done, "spent_ns": dict(spent_ns)})


def record_failed(folder: ExperimentFolder, number: int, elapsed_ns: int) -> None:
    """Append that a run failed, with the time that it took."""
    folder.add_decision({"decision": "failed", "number": number, "elapsed_ns": elapsed_ns})


def repeat(
    folder: ExperimentFolder, number: int, place: str, doubt: Doubt, elapsed_ns: int
) -> None:
    """Append that a complete run does not count and is repeated, because of a disturbance.

    Args: place, what the run has in common with its repetition.
    """
    entry = {"decision": "repeated", "number": number, "place": place, "kind": doubt.kind}
    folder.add_decision({**entry, "why": doubt.message, "elapsed_ns": elapsed_ns})


def repeated(folder: ExperimentFolder) -> tuple[RepeatedRun, ...]:
    """Return the runs that were repeated because something outside disturbed them, in order."""
    return tuple(
        RepeatedRun(decision["number"], decision["kind"], decision["why"])
        for decision in folder.decisions()
        if decision["decision"] == "repeated"
    )


def failed_since(folder: ExperimentFolder) -> int:
    """Return the time of the failed runs since the last complete run, in ns."""
    return _failed_before(folder.decisions())[None]


def exclude(folder: ExperimentFolder, variant: str, reason: str, *, run: int | None = None) -> None:
    """Append that a variant cannot be measured, with the failed run that showed it."""
    folder.add_decision({"decision": "excluded", "variant": variant, "reason": reason, "run": run})


def excluded(folder: ExperimentFolder) -> dict[str, str]:
    """Return the ids of the variants that could not be measured, and why."""
    return {
        str(decision["variant"]): str(decision["reason"])
        for decision in folder.decisions()
        if decision["decision"] == "excluded"
    }


def resume(folder: ExperimentFolder, elapsed_ns: int = 0) -> None:
    """Append that the experiment goes on from here, and how long opening the servers took."""
    folder.unseal()
    folder.add_decision({"decision": "resumed", "elapsed_ns": elapsed_ns})


def resumed_count(folder: ExperimentFolder) -> int:
    """Return how often the experiment was interrupted and continued."""
    return sum(decision["decision"] == "resumed" for decision in folder.decisions())


def stopped_by(folder: ExperimentFolder) -> str:
    """Return why the last plan ended; "" if it did not end."""
    reasons = [
        decision["reason"] for decision in folder.decisions() if decision["decision"] == "stop"
    ]
    return str(reasons[-1]) if reasons else ""


def visits(folder: ExperimentFolder) -> list[Visit]:
    """Return every completed run with its plan, in order.

    The store keeps what an interrupted or failed run measured, but the plan goes on as if the run
    had never begun. If the lab was killed between its decision and the run, the decision is made
    again under the same number: the last one counts.
    """
    return [visit for visit, is_done in _stored(folder) if is_done]


def shown_visits(folder: ExperimentFolder) -> list[Visit]:
    """Return the runs for an answer: `visits`, and perhaps an incomplete run.

    If no detail run is complete, an interrupted one is used, because a part is better than no
    answer. An interrupted pilot is used only if there is no other run. A part without a completed
    transaction is not used.
    """
    visits_done = list(_stored(folder))
    has_detail = any(visit.planned.purpose == "detail" for visit, is_done in visits_done if is_done)
    parts = () if has_detail else ("detail", "pilot") if len(visits_done) == 1 else ("detail",)
    return [
        visit
        for visit, is_done in visits_done
        if is_done or (visit.planned.purpose in parts and _has_completed(visit))
    ]


def _has_completed(visit: Visit) -> bool:
    return bool(visit.stored.summary.get("counts", {}).get("completed", 1) > 0)


def _stored(folder: ExperimentFolder) -> Iterator[tuple[Visit, bool]]:
    """Yield every stored run with its plan, in order, and whether it is known to be complete."""
    decisions = folder.decisions()
    stored = {run.number: run for run in folder.runs()}
    done = {
        decision["number"]: decision for decision in decisions if decision["decision"] == "done"
    }
    for decision in decisions:
        if decision["decision"] == "repeated":
            done.pop(decision["number"], None)
    took_ns = {number: entry["took_ns"] for number, entry in done.items()}
    before_ns = _failed_before(decisions)
    # Old stores have no "done" entries: if they have a stop, runs without a variant are done.
    is_old = not took_ns and any(decision["decision"] == "stop" for decision in decisions)
    ran = [decision for decision in decisions if decision["decision"] == "run"]
    known = _recorded(decisions)
    if {str(decision["cell"]["variant"]) for decision in ran} - {"None", *known}:
        known = {variant.id: variant for variant in variants(folder)}
    planned = {decision["number"]: _planned(decision, known) for decision in ran}
    for number, run in sorted(planned.items()):
        if number in stored:
            usual_ns = run.warm_ns + run.measure_ns
            spent_ns = done.get(number, {}).get("spent_ns", {})
            visit = Visit(
                run,
                stored[number],
                took_ns.get(number, usual_ns),
                spent_ns,
                before_ns.get(number, 0),
            )
            yield visit, number in took_ns or (is_old and run.cell.variant is None)


def _failed_before(decisions: Sequence[Mapping[str, Any]]) -> dict[int | None, int]:
    """Return the time of failed and repeated runs, and of resuming, before each complete run.

    None stands for the run that is complete next.
    """
    failed_ns: dict[int | None, int] = {None: 0}
    for decision in decisions:
        if decision["decision"] in ("failed", "repeated", "resumed"):
            failed_ns[None] += decision.get("elapsed_ns", 0)
        elif decision["decision"] == "done":
            failed_ns[decision["number"]] = failed_ns[None]
            failed_ns[None] = 0
    return failed_ns


def experiment_of(folder: ExperimentFolder) -> Experiment:
    """Return the experiment that a result answers. Raises: pydantic.ValidationError."""
    return Experiment.model_validate(folder.asked())


def variants(folder: ExperimentFolder) -> tuple[PlannedVariant, ...]:
    """Return every variant: those of the spec in their order, then those of the design."""
    experiment = experiment_of(folder)
    given = {variant.id: variant for variant in experiment.planned_variants()}
    return tuple({**given, **_recorded(folder.decisions()), **given}.values())


def _recorded(decisions: list[dict[str, Any]]) -> dict[str, PlannedVariant]:
    return {
        decision["id"]: PlannedVariant(decision["id"], Variant.model_validate(decision["variant"]))
        for decision in decisions
        if decision["decision"] == "variant"
    }


def _planned(decision: dict[str, Any], known: dict[str, PlannedVariant]) -> PlannedRun:
    # Older results have fields that no run has now.
    own = {field.name for field in dataclasses.fields(PlannedRun)}
    fields = {name: value for name, value in decision.items() if name in own}
    cell = dict(fields.pop("cell"))
    named = cell.pop("variant")
    turns = tuple(known[str(turn)] for turn in fields.pop("turns", ()))
    return PlannedRun(
        turns=turns,
        cell=Cell(
            tuple(cell.pop("script_indexes")),
            variant=None if named is None else known[str(named)],
            **cell,
        ),
        **fields,
    )


def _fields(shown: PlannedRun | Cell) -> dict[str, Any]:
    return {field.name: getattr(shown, field.name) for field in dataclasses.fields(shown)}
