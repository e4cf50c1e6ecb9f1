"""Makes the curves of a sweep from its runs: one curve for every script of every variant."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pgdyno.analysis.capacity import Capacity, LoadLimit, capacity
from pgdyno.analysis.curve import LoadCurve, load_curve
from pgdyno.analysis.estimate import Estimate, mean_between_runs
from pgdyno.analysis.findings import CurveFindings
from pgdyno.analysis.speed_up import SpeedUp, speed_up
from pgdyno.analysis.split_verdicts import why_mean_withheld
from pgdyno.analysis.where import WhereTheTimeGoes, mean_over_runs
from pgdyno.answer.answer import Answer, Measurements
from pgdyno.answer.judging import cpu_busy_ratio
from pgdyno.answer.sentences import limit_sentence, sweep_sentence
from pgdyno.answer.served import cost_of
from pgdyno.answer.time_split import time_split
from pgdyno.errors import AnalysisError
from pgdyno.feature import Metric
from pgdyno.loop.history import measured, own_metric_of
from pgdyno.loop.journal import Visit, excluded
from pgdyno.loop.load_numbers import LoadNumbers
from pgdyno.plan.designs.sweep import Sweep, SweepCurve, trials_of, why_no_load
from pgdyno.plan.history import History
from pgdyno.programs.registry import program_named
from pgdyno.spec.experiment import UNCHANGED

_SEED = 20_260_104
_CURVE_LATENCIES = ("p50", "p95", "p99")
Numbers = Mapping[int, LoadNumbers]


def sweep_answer(seen: Measurements) -> Answer:
    """Return the answer of a sweep: its curves."""
    sweep = Sweep(seen.experiment)
    history = _trials((*seen.visits, *seen.without), seen.numbers, sweep.slo)
    why = why_no_load(history, sweep.slo)
    curves = _curves(seen, sweep, () if why else history)
    words = ""
    if sweep.slo is not None and why:
        kept = f"{sweep.slo.name} <= {sweep.slo.limit_ms:g} ms"
        words = f" It is not known which load keeps {kept}: {why}"
    return Answer(sweep_sentence(curves) + words, curves=curves)


def _curves(seen: Measurements, sweep: Sweep, history: History) -> tuple[CurveFindings, ...]:
    """Return the curve of every line that was measured; the variants of a script are neighbours.

    Args: history, the trials of the search for the load that meets the latency target.
    """
    numbers, rounds = seen.numbers, seen.rounds
    curves: list[CurveFindings] = []
    references: dict[int, tuple[SweepCurve, CurveFindings]] = {}
    for line in sweep.lines(frozenset(excluded(seen.folder))):
        of_line = [visit for visit in rounds if line.is_of(visit.planned.cell)]
        curve = _curve([(visit, numbers[visit.planned.number]) for visit in of_line])
        if curve is None:
            continue
        held = _capacity(sweep.slo, history, line)
        program = program_named(sweep.experiment.all_scripts()[line.script].builtin)
        metric = next(iter(program.metrics), None)
        variant = UNCHANGED if line.variant is None else line.variant.spec
        findings = CurveFindings(
            script=_name(sweep, line),
            curve=curve,
            limit=_limit(of_line, numbers, curve),
            capacity=held,
            cost=None if held is None else cost_of(variant, held.load),
            variant=line.variant.name if line.variant is not None else "",
            rate_name=metric.name if metric is not None else "",
            rates={} if metric is None else _rates(metric, of_line, numbers),
            client_word=program.client_word,
        )
        if line.script in references:
            reference, its = references[line.script]
            ratio = _speed_up(rounds, numbers, line, reference, its.curve.knee.clients)
            findings = replace(findings, speed_up=ratio)
        references.setdefault(line.script, (line, findings))
        curves.append(findings)
    return tuple(curves)


def _name(sweep: Sweep, line: SweepCurve) -> str:
    script = sweep.experiment.all_scripts()[line.script].name
    if line.variant is None:
        return script
    is_only = len({other.script for other in sweep.lines()}) == 1
    return line.variant.name if is_only else f"{script}, {line.variant.name}"


def _rates(metric: Metric, of_line: Sequence[Visit], numbers: Numbers) -> dict[int, Estimate]:
    """Return a program's metric by level; nothing if a run did not measure it."""
    by_level: dict[int, list[float]] = {}
    for visit in of_line:
        value = own_metric_of(metric, numbers[visit.planned.number])
        if value is None:
            return {}
        by_level.setdefault(visit.planned.cell.clients, []).append(value)
    return {level: mean_between_runs(values, metric.words) for level, values in by_level.items()}


def _trials(done: Sequence[Visit], numbers: Numbers, target: LoadLimit | None) -> History:
    purposes = ("capacity", "round") if target and target.is_closed else ("capacity",)
    return tuple(
        measured(visit, numbers.get(visit.planned.number))
        for visit in sorted(done, key=lambda visit: visit.planned.number)
        if visit.planned.purpose in purposes
    )


def _capacity(target: LoadLimit | None, history: History, line: SweepCurve) -> Capacity | None:
    trials = trials_of(history, line, target) if target is not None else []
    return capacity(trials, target) if target is not None and trials else None


def _curve(of_line: list[tuple[Visit, LoadNumbers]]) -> LoadCurve | None:
    """Return the curve of one line from the rounds that visited every level; None without one."""
    levels = {visit.planned.cell.clients for visit, _ in of_line}
    by_level = {
        level: [pair for pair in of_line if pair[0].planned.cell.clients == level]
        for level in levels
    }
    least = min((len(runs) for runs in by_level.values()), default=0)
    # After an interrupted last round some levels have an additional run. If a level has only one
    # run, one run of every level is used.
    kept = [pair for runs in by_level.values() for pair in (runs if least > 1 else runs[:1])]
    if not kept:
        return None
    try:
        return load_curve(
            [visit.planned.cell.clients for visit, _ in kept],
            [load.tps.value for _, load in kept],
            seed=_SEED,
            latency_ns={
                name: [load.latency.percentiles[name].value * 1e6 for _, load in kept]
                for name in _CURVE_LATENCIES
            },
        )
    except AnalysisError:
        return None


def _speed_up(
    rounds: Sequence[Visit],
    numbers: Numbers,
    line: SweepCurve,
    reference: SweepCurve,
    knee_clients: int,
) -> SpeedUp | None:
    """Return the variant's speed-up from the rounds that measured both; None without a round."""
    runs: dict[tuple[int, int], dict[SweepCurve, float]] = {}
    for visit in rounds:
        for side in (line, reference):
            if side.is_of(visit.planned.cell):
                key = visit.planned.cell.clients, visit.planned.round
                runs.setdefault(key, {})[side] = numbers[visit.planned.number].tps.value
    ratios: dict[int, list[float]] = {}
    for (clients, _), both in sorted(runs.items()):
        if len(both) == 2:
            ratios.setdefault(clients, []).append(math.log(both[line] / both[reference]))
    least = min(map(len, ratios.values()), default=0)
    kept = {clients: values[: None if least > 1 else 1] for clients, values in ratios.items()}
    try:
        return speed_up(kept, knee_clients=knee_clients)
    except AnalysisError:
        return None


def _limit(of_line: list[Visit], numbers: Numbers, curve: LoadCurve) -> str:
    """Return in words the largest part of a transaction's time at the knee."""
    at_knee = [v for v in of_line if v.planned.cell.clients == curve.knee.clients]
    splits: list[WhereTheTimeGoes] = []
    busy: list[float] = []
    for visit in at_knee:
        of_run = numbers[visit.planned.number]
        split = time_split(visit.stored, of_run)
        splits += [split] if split is not None else []
        ratio = cpu_busy_ratio(visit.stored, of_run)
        busy += [ratio] if ratio is not None else []
    if not splits or why_mean_withheld(mean := mean_over_runs(splits)):
        return ""
    return limit_sentence(mean, sum(busy) / len(busy) if busy else None)
