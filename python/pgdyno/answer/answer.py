"""Makes the answer of a stored experiment: reads and judges every run, then combines them.

How runs are combined is a function of `Measurements`, which the design chooses
(`pgdyno.designs`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from pgdyno.analysis.compare_findings import CompareFindings
from pgdyno.analysis.findings import (
    CurveFindings,
    ExperimentFindings,
    OpenLoopFindings,
    ProgramFindings,
    RunCounts,
    RunFindings,
    RunTimeline,
    ServerAndLoad,
)
from pgdyno.analysis.split_verdicts import split_doubts
from pgdyno.analysis.verdicts import Doubt, is_valid
from pgdyno.answer.cells import cells_of, doubts_of_cells
from pgdyno.answer.judging import changes_of, doubts_of, doubts_of_rounds, of_others
from pgdyno.answer.offered import backlog_of, late_of, phases_of
from pgdyno.answer.own import added_by_features, own_answer, program_of_run
from pgdyno.answer.sentences import bench_sentence
from pgdyno.answer.served import connections_of
from pgdyno.answer.telemetry import telemetry_findings
from pgdyno.answer.time_split import split_or_why_not
from pgdyno.answer.timeline import checkpoint_count, marks_of, panels_of
from pgdyno.errors import AnalysisError, StoreError
from pgdyno.loop.disturbed import disturbed_by
from pgdyno.loop.history import measured
from pgdyno.loop.journal import Visit, experiment_of, repeated, shown_visits, stopped_by, visits
from pgdyno.loop.load_numbers import LoadNumbers, load_numbers, script_findings
from pgdyno.loop.run_needs import doubts_about_needs
from pgdyno.plan.long_scripts import by_duration, is_by_clock, is_long
from pgdyno.quantities import counted, duration_text, validity_words
from pgdyno.spec.experiment import Experiment
from pgdyno.spec.planned import Cell
from pgdyno.store.folder import ExperimentFolder

# Doubts about conditions that a single execution cannot meet.
_OF_A_DURATION = ("too_short", "littles_law")
# Settings for the place of a server. They do not change how it works.
_PLACES = frozenset({"port", "listen_addresses", "cluster_name", "unix_socket_permissions"})


@dataclass(frozen=True, slots=True)
class Measurements:
    """The input of an answer: the runs that count, their numbers, and which are valid.

    The keys of `numbers` and `valid` are numbers of runs; `run` is the run shown in detail.
    `without`: the runs that completed no transaction and have no numbers. `visits`: all others.
    """

    folder: ExperimentFolder
    experiment: Experiment
    visits: Sequence[Visit]
    numbers: Mapping[int, LoadNumbers]
    valid: Mapping[int, bool]
    run: RunFindings | None
    without: Sequence[Visit] = ()

    @property
    def rounds(self) -> list[Visit]:
        """Return the visits of cells."""
        return [visit for visit in self.visits if visit.planned.purpose == "round"]

    @property
    def pilots(self) -> list[Visit]:
        """Return the pilots. They do not count, but a design may have planned from them."""
        return [visit for visit in visits(self.folder) if visit.planned.purpose == "pilot"]

    @property
    def rounds_planned_by(self) -> list[Visit]:
        """Return the visits from which the design planned, in order, also those without numbers."""
        ran = sorted((*self.visits, *self.without), key=lambda visit: visit.planned.number)
        return [visit for visit in ran if visit.planned.purpose in ("round", "turns")]


@dataclass(frozen=True, slots=True)
class Answer:
    """What one kind of answer adds to the findings; `own`: findings that only this kind has."""

    sentence: str
    curves: tuple[CurveFindings, ...] = ()
    compare: CompareFindings | None = None
    own: Any = None


MakeAnswer = Callable[[Measurements], Answer]


def run_answer(seen: Measurements) -> Answer:
    """Return the answer of a bench: its only run."""
    return Answer(bench_sentence(seen.run))


_ONLY_A_PILOT = Doubt(
    "only_a_pilot",
    "not_valid",
    "Only the pilot was measured. It finds how long the server warms up, so these figures contain"
    " the warm-up.",
    "let the run that follows the pilot end, or give a --warmup",
)


def answer_of(folder: ExperimentFolder, make: MakeAnswer) -> ExperimentFindings:
    """Return the findings of an experiment, from its files alone.

    Args: make, the kind of answer.
    Raises: StoreError if no run of the folder counts; the message says what the folder has.
    AnalysisError if no run completed a transaction.
    """
    experiment = experiment_of(folder)
    facts = folder.facts() or {}
    experiment, done = _counted(experiment, shown_visits(folder), may_be_pilot=make is run_answer)
    if not done:
        incomplete = len(folder.incomplete_folders())
        raise StoreError(
            f"#{folder.number} ({folder.name}) has no run that counts: {len(folder.runs())} "
            f"pilot or shortened, {incomplete} incomplete.",
            hint=f"the raw records are in {folder.folder / 'runs'}",
        )
    numbers = _numbers_of(done)
    without = [visit for visit in done if visit.planned.number not in numbers]
    done = [visit for visit in done if visit.planned.number in numbers]
    server = facts.get("server", {})
    details = [visit for visit in done if visit.planned.purpose in ("detail", "pilot")]
    run = None
    if details:
        last = details[-1]
        run = run_findings(experiment, last, numbers[last.planned.number], server)
        if last.planned.purpose == "pilot":
            run = replace(run, is_valid=False, doubts=(_ONLY_A_PILOT, *run.doubts))
    rounds = [visit for visit in done if visit.planned.purpose == "round"]
    doubts = _doubts_by_run(done, numbers, facts)
    doubts |= {visit.planned.number: (_nothing_completed(visit),) for visit in without}
    judged = _by_cell((*done, *without), doubts)
    valid = {number: is_valid(of_run) for number, of_run in doubts.items()}
    answer = make(Measurements(folder, experiment, done, numbers, valid, run, without))
    cells = cells_of(experiment, rounds, numbers, compare=answer.compare, curves=answer.curves)
    valid_count = sum(valid.values()) + (len(details) if run is not None and run.is_valid else 0)
    run_count = len(doubts) + len(details)
    validity = validity_words(valid=valid_count, total=run_count)
    began_ns = min(folder.began_ns, *(load.began_ns for load in numbers.values()))
    return ExperimentFindings(
        kind=experiment.design.kind,
        number=folder.number,
        name=folder.name,
        version=version("pgdyno"),
        started_utc=f"{datetime.fromtimestamp(folder.began_ns / 1e9, tz=UTC):%Y-%m-%d %H:%M} UTC",
        seconds=(max(load.ended_ns for load in numbers.values()) - began_ns) / 1e9,
        sentence=validity + answer.sentence,
        facts=_facts(facts),
        run=run,
        curves=answer.curves,
        compare=with_validity(answer.compare, validity),
        own=answer.own,
        cells=cells,
        runs_total=run_count,
        runs_valid=valid_count,
        doubts=(
            *doubts_of_rounds(
                [*judged, *_of_detail(details, run if judged else None)],
                run_count=run_count,
                of_variants=answer.compare is not None,
                client_word=experiment.program.client_word,
            ),
            *doubts_of_cells(cells),
            *doubts_about_needs(experiment, done),
        ),
        notes=_notes(experiment, done),
        remarks=folder.remarks(),
        is_complete=bool(stopped_by(folder)),
        repeated=repeated(folder),
    )


def _by_cell(
    visits: Sequence[Visit], doubts: Mapping[int, tuple[Doubt, ...]]
) -> list[tuple[Cell, tuple[Doubt, ...]]]:
    """Return the cell and the doubts of each run that has an entry in `doubts`."""
    cells = {visit.planned.number: visit.planned.cell for visit in visits}
    return [(cells[number], of_run) for number, of_run in doubts.items()]


def _of_detail(
    details: Sequence[Visit], run: RunFindings | None
) -> list[tuple[Cell, tuple[Doubt, ...]]]:
    """Return what others did in the run that is shown whole, next to runs of rounds."""
    return [(details[-1].planned.cell, of_others(run.doubts))] if run else []


def _doubts_by_run(
    done: Sequence[Visit], numbers: Mapping[int, LoadNumbers], facts: Mapping[str, Any]
) -> dict[int, tuple[Doubt, ...]]:
    """Return the doubts of rounds and of trials by the number of the run."""
    rules = {
        "round": _doubts_of_round,
        "turns": _doubts_of_round,
        "capacity": _doubts_of_trial,
    }
    return {
        visit.planned.number: rules[visit.planned.purpose](
            visit, numbers[visit.planned.number], facts
        )
        for visit in sorted(done, key=lambda visit: visit.planned.purpose == "capacity")
        if visit.planned.purpose in rules
    }


def _numbers_of(done: Sequence[Visit]) -> dict[int, LoadNumbers]:
    """Return the numbers of each run that completed a transaction, by the number of the run.

    Raises: AnalysisError if no run did.
    """
    numbers: dict[int, LoadNumbers] = {}
    why_not: AnalysisError | None = None
    for visit in done:
        is_detail = visit.planned.purpose in ("detail", "pilot")
        try:
            numbers[visit.planned.number] = load_numbers(visit.stored, with_intervals=is_detail)
        except AnalysisError as error:
            if visit.stored.summary.get("counts", {}).get("completed"):
                raise
            why_not = why_not or error
    if not numbers and why_not is not None:
        raise why_not
    return numbers


def _nothing_completed(visit: Visit) -> Doubt:
    """Return why a run without a completed transaction has no numbers."""
    planned = visit.planned
    variant = "" if planned.cell.variant is None else f"variant {planned.cell.variant.name}, "
    return Doubt(
        "no_transaction",
        "not_valid",
        f"Run {planned.number} ({variant}{counted(planned.cell.clients, 'client')}) completed no"
        " transaction within its measured time.",
        "set a duration longer than one transaction",
    )


def with_validity(findings: CompareFindings | None, validity: str) -> CompareFindings | None:
    """Return a comparison in which each verdict begins with the validity of its runs."""
    if findings is None or not validity:
        return findings
    contrasts = (
        replace(contrast, sentence=validity + contrast.sentence) for contrast in findings.contrasts
    )
    return replace(findings, contrasts=tuple(contrasts))


def _counted(
    experiment: Experiment, seen: list[Visit], *, may_be_pilot: bool
) -> tuple[Experiment, list[Visit]]:
    """Return the experiment as it was carried out, and the runs that count for its answer.

    Args: may_be_pilot, whether a pilot is shown, with a mark, if there is no other run.
    """
    done = [visit for visit in seen if visit.planned.purpose != "pilot"]
    if not done and may_be_pilot:
        return experiment, seen[-1:]
    first = [visit for visit in seen if visit.planned.round <= 1 and is_by_clock(visit.planned)]
    history = tuple(measured(visit) for visit in first)
    if not is_long(experiment, history):
        return experiment, done
    kept = [visit for visit in done if not is_by_clock(visit.planned)]
    return by_duration(experiment), kept


def _doubts_of_round(
    visit: Visit, numbers: LoadNumbers, facts: Mapping[str, Any]
) -> tuple[Doubt, ...]:
    doubts = doubts_of(
        visit.stored,
        numbers,
        visit.planned,
        _server_of(facts, visit),
        checkpoint_count=0,
        change_seconds=(),
    )
    if is_by_clock(visit.planned):
        return doubts
    # The duration of an execution is its result, so doubts about short runs do not apply.
    return tuple(doubt for doubt in doubts if doubt.kind not in _OF_A_DURATION)


def _doubts_of_trial(
    visit: Visit,
    numbers: LoadNumbers,
    facts: Mapping[str, Any],  # noqa: ARG001
) -> tuple[Doubt, ...]:
    """Return the doubts because of which a trial load says nothing about the server.

    A load that the server does not hold is a result.
    """
    return tuple(
        replace(doubt, message=f"During the search for the capacity: {doubt.message}")
        for doubt in disturbed_by(visit.stored, numbers)
    )


def run_findings(
    experiment: Experiment, visit: Visit, numbers: LoadNumbers, server: Mapping[str, Any]
) -> RunFindings:
    """Return all findings of one run: numbers, time split, doubts, timeline."""
    stored, planned = visit.stored, visit.planned
    changes = changes_of(numbers)
    marks = marks_of(stored, numbers, changes)
    doubts = doubts_of(
        stored,
        numbers,
        planned,
        server,
        checkpoint_count=checkpoint_count(marks),
        change_seconds=changes,
    )
    summary = numbers.summary
    split = split_or_why_not(stored, numbers)
    if split.where is not None:
        doubts = (*doubts, *split_doubts(split.where))
    scripts = script_findings(stored, numbers)
    program = program_of_run(numbers)
    adds = own_answer(program)
    own = adds.findings(stored, numbers, scripts, server)
    if own is not None:
        doubts = (*doubts, *adds.doubts(own))
    return RunFindings(
        label=stored.label,
        clients=planned.cell.clients,
        tps=numbers.tps,
        counts=RunCounts(
            transactions=summary.counts.completed,
            committed_all_phases=summary.transactions_committed_all_phases,
            failures=dict(summary.failures),
            retried=summary.counts.retried,
            engine_cpu_s=(summary.engine.cpu_user_ns + summary.engine.cpu_system_ns) / 1e9,
        ),
        latency=numbers.latency,
        where=split.where,
        where_not=split.why_not,
        scripts=scripts,
        is_valid=is_valid(doubts),
        doubts=doubts,
        open_loop=None
        if planned.cell.rate_tps is None
        else OpenLoopFindings(
            planned.cell.rate_tps,
            phases_of(stored, numbers, experiment.workload, planned),
            backlog_of(stored),
        ),
        timeline=RunTimeline(
            numbers.seconds,
            panels=panels_of(stored, numbers, server.get("data_storage") or {}),
            marks=marks,
            telemetry=telemetry_findings(stored, numbers),
        ),
        late=late_of(stored, numbers, experiment.workload),
        connections=connections_of(numbers, experiment.workload, planned.cell.clients),
        program=ProgramFindings(program.name, own, {} if own is None else own.figures),
        added=added_by_features(stored),
    )


def _server_of(facts: Mapping[str, Any], visit: Visit) -> Mapping[str, Any]:
    """Return the facts of the server that a run was on."""
    variant = visit.planned.cell.variant
    own = facts if variant is None else facts.get("variants", {}).get(variant.id, facts)
    server: Mapping[str, Any] = own.get("server", {})
    return server


def _facts(facts: Mapping[str, Any]) -> ServerAndLoad:
    return ServerAndLoad(
        target=facts.get("target_line", "not known"),
        durability=facts.get("durability_line", "not known"),
        is_durable=bool(facts.get("is_durable", True)),
        rows=tuple((str(label), str(value)) for label, value in facts.get("rows", ())),
        settings=_settings(facts.get("server", {})),
    )


def _settings(server: Mapping[str, Any]) -> tuple[tuple[str, str, str], ...]:
    """Return the settings that somebody chose, without folders and ports: name, value, source.

    If the source is a file of a scratch server, only its name and line are given, because the
    folder no longer exists.
    """
    sources = server.get("setting_sources", {})
    if server.get("is_scratch"):
        sources = {name: source.rpartition("/")[2] for name, source in sources.items()}
    return tuple(
        (name, value, sources[name])
        for name, value in sorted(server.get("settings", {}).items())
        if sources.get(name, "default") not in ("default", "override")
        and not name.startswith("lc_")
        and not name.endswith(("_file", "_directory", "_directories"))
        and name not in _PLACES
    )


def _notes(experiment: Experiment, done: list[Visit]) -> tuple[str, ...]:
    """Return notes on how the experiment was measured, so that a reader can repeat it."""
    last = done[-1]
    work = last.stored.job.get("work", {})
    warm = duration_text(last.planned.warm_ns)
    origin = "a part of the run" if len(done) == 1 else "found by a pilot run"
    if experiment.workload.warmup_ns is not None:
        origin = "set by the user"
    before = "The data were not reset."
    if experiment.reset != "none":
        before = "Before the warm-up, the tables are vacuumed and a checkpoint is written."
    hello = last.stored.hello
    notes = [
        f"Warm-up {warm} ({origin}) before every run. {before}",
        f"Load engine {hello.get('engine_version', '')} ({hello.get('build_profile', '')}, "
        f"{hello.get('poller', '')}), {counted(work.get('threads', 1), 'thread')}, query mode "
        f"{work.get('protocol', '')}, seed {experiment.workload.seed}.",
    ]
    if any(visit.planned.cell.variant is not None for visit in done):
        notes.append(
            "Intervals are between runs: they cover a repetition of the runs (for a mean) or of "
            "the rounds (for a change). docs/method.md explains each method."
        )
    elif any(visit.planned.purpose == "round" for visit in done):
        notes.append(
            "Intervals at the levels of a curve are between runs. Those of the detailed run are "
            "within the run: they do not cover differences between runs."
        )
    else:
        notes.append("Intervals are within one run: they do not cover differences between runs.")
    return tuple(notes)
