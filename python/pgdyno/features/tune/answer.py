"""Makes the answer of a tuning from its runs: the proved gain, reasons, each setting's part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from pgdyno.analysis.compare import compare, log_ratios
from pgdyno.analysis.compare_findings import CompareFindings, ContrastFindings
from pgdyno.analysis.estimate import mean_between_runs
from pgdyno.analysis.losses import Loss
from pgdyno.analysis.rounding import change_text
from pgdyno.answer.answer import Answer, Measurements
from pgdyno.answer.compared import Compared
from pgdyno.features.tune.budget import time_spent
from pgdyno.features.tune.design import Tune
from pgdyno.features.tune.findings import FROM_FORMULA, NOT_MEASURED, Changed, SloHeld, TuneFindings
from pgdyno.features.tune.statements import Proposed
from pgdyno.features.tune.tuning import Tuning
from pgdyno.features.tune.verdict import findings_of
from pgdyno.loop.counter_growth import counters_of
from pgdyno.loop.history import each_transaction, measured
from pgdyno.loop.journal import Visit, excluded
from pgdyno.loop.load_numbers import LoadNumbers
from pgdyno.loop.losses import price_of_loss
from pgdyno.loop.run_needs import unseen_needs
from pgdyno.plan.designs.compare import better_of
from pgdyno.plan.history import History
from pgdyno.quantities import counted
from pgdyno.settings.rule import rule_of
from pgdyno.spec.designs import METRIC_WORDS
from pgdyno.spec.planned import PlannedVariant

# Counters that explain a gain: collector and column, and the name of its growth per transaction.
_PER_TRANSACTION = (
    ("wal.bytes", "WAL per transaction", "bytes"),
    ("wal.full_page_images", "full-page images per transaction", ""),
    ("database.blks_read", "pages read per transaction", ""),
    ("database.temp_bytes", "temporary files per transaction", "bytes"),
    ("database.tup_returned", "rows read per transaction", ""),
)
_CHECKPOINTS = ("checkpointer", "checkpoints_requested")


def tune_answer(seen: Measurements) -> Answer:
    """Return the answer of a tuning, also of one that was interrupted."""
    design = Tune(seen.experiment)
    ran = seen.rounds_planned_by
    # The pilots are a part of the time, so the plan is another one without them.
    every = (*seen.pilots, *ran)
    history = tuple(measured(visit) for visit in every)
    reasons = excluded(seen.folder)
    tuning = design.tuning(history, frozenset(reasons))
    tuning.next()
    ended = design.target.why_ended(history)
    names = (*design.asked.settings_searched(), *design.asked.together)
    findings = findings_of(
        tuning,
        design.whole_now,
        design.major,
        metric=seen.experiment.metric(),
        is_more_better=design.is_more_better,
        why_ended=ended or _why_invalid(seen, tuning),
        doubts=unseen_needs(names, [v.stored for v in seen.rounds]),
    )
    # The journal has the server's messages, by the id of the variant.
    ids = {
        trial.name: design.variant_of(trial.candidate).id
        for trial in tuning.trials
        if trial.failure
    }
    tried = tuple(
        replace(trial, failure=refused_words(reasons[ids[trial.name]]))
        if ids.get(trial.name) in reasons
        else trial
        for trial in findings.tried
    )
    findings = replace(
        findings,
        tried=tried,
        slo=_slo_held(design, tuning, history),
        budget=time_spent(
            [visit.took_ns for visit in every],
            [visit.spent_ns for visit in every],
            [visit.planned.measure_ns or 0 for visit in every],
            failed_ns=sum(visit.failed_ns for visit in every),
            around_ns=design.asked.around_ns or 0,
        ),
        losses=_losses(seen, design, history),
        budget_ns=design.asked.budget_ns,
        formula_of=design.asked.formula_of,
        left_out=design.asked.left_out,
    )
    findings = replace(findings, formula=tuple(_formula(design, findings)))
    compared, findings = _compared(seen, design, tuning, findings)
    return Answer(findings.sentence(), compare=compared, own=findings)


def _formula(design: Tune, findings: TuneFindings) -> Iterator[Proposed]:
    """Yield the values of rules that were not proved, and not proved to be useless."""
    proposed = {setting.name for setting in findings.settings}
    settled = {
        name
        for trial in findings.tried
        if trial.decision in ("better", "worse", "no better", "failed")
        for name in trial.settings
    }
    word, whole = METRIC_WORDS[findings.metric], findings.whole_set
    for name, new in design.asked.formula.items():
        if name in proposed or (name in settled and not proposed):
            continue
        is_of_set = whole is not None and whole.ratio is not None and name in whole.settings
        why = [FROM_FORMULA if is_of_set else NOT_MEASURED]
        single = (t for t in findings.tried if t.tells and t.name == f"{name}={new}")
        why += [f"alone: {word} {change_text(t.ratio)}" for t in single if t.ratio is not None]
        why += filter(None, [design.asked.reasons.get(name)])
        rule = rule_of(name, design.major)
        assert rule is not None, "a formula is of a setting of this version"
        yield Proposed(name, design.whole_now[name], new, "; ".join(why), rule.needs)


def refused_words(reason: str) -> str:
    """Return why a value could not be measured, in the words of the server."""
    return f"refused by the server: {reason}"


def _losses(seen: Measurements, design: Tune, history: History) -> tuple[Loss, ...]:
    """Return what crashes took with the proposed settings."""
    by_variant = price_of_loss().losses_by_variant(seen.folder)
    if not by_variant:
        return ()
    priced = design.priced(history, frozenset(excluded(seen.folder)))
    return tuple(loss for variant in priced for loss in by_variant.get(variant.id, ()))


def _why_invalid(seen: Measurements, tuning: Tuning) -> str:
    """Return why the proposal does not count, or "": at most half of its runs are valid."""
    if not tuning.adopted:
        return ""
    within = tuning.rounds_with(tuning.best)
    valid = [
        seen.valid[visit.planned.number] for visit in seen.rounds if visit.planned.round in within
    ]
    if not valid or 2 * sum(valid) > len(valid):
        return ""
    if not any(valid):
        return f"no run of the best settings is valid ({counted(len(valid), 'run')})"
    return f"{sum(valid)} of {counted(len(valid), 'run')} of the best settings are valid, too few"


def _slo_held(design: Tune, tuning: Tuning, history: History) -> SloHeld | None:
    if not tuning.adopted or design.asked.slo is None:
        return None
    within = tuning.rounds_with(tuning.best)
    before, after = (
        design.target.held(history, within, design.variant_of(candidate).id)
        for candidate in (tuning.base, tuning.best)
    )
    return SloHeld(design.asked.slo, *before, *after)


def _compared(
    seen: Measurements, design: Tune, tuning: Tuning, findings: TuneFindings
) -> tuple[CompareFindings, TuneFindings]:
    """Return the best settings against yours as a comparison, and the changed counters.

    Without better settings the comparison has only yours.
    """
    base = seen.experiment.planned_variants()[0]
    within = tuning.rounds_with(tuning.best) if findings.verdict == "better" else ()
    both = (base, design.variant_of(tuning.best))
    visits = [
        visit
        for visit in seen.rounds
        if visit.planned.round in within and visit.planned.cell.variant in both
    ]
    if not visits:
        return Compared(replace(seen, visits=()), only=[base]).findings(), findings
    order = _variants_of(visits)
    winner = order[-1]
    compared = Compared(replace(seen, visits=visits), only=order)
    contrast = _contrast(compared, winner, base)
    contrasts = () if contrast is None else (replace(contrast, sentence=findings.sentence()),)
    changed = tuple(_changed(visits, seen.numbers, base, winner))
    return compared.findings(contrasts=contrasts), replace(findings, changed=changed)


def _variants_of(visits: Sequence[Visit]) -> list[PlannedVariant]:
    """Return the measured variants, the old settings first."""
    seen = dict.fromkeys(visit.planned.cell.variant for visit in visits)
    return sorted(
        (variant for variant in seen if variant is not None), key=lambda variant: variant.id != "0"
    )


def _contrast(
    compared: Compared, winner: PlannedVariant, against: PlannedVariant
) -> ContrastFindings | None:
    table = compared.table([against, winner])
    if not table:
        return None
    ratios = log_ratios([row[0] for row in table], [row[1] for row in table])
    deciding = compare(ratios, looks="fixed", better=better_of(compared.metric))
    return compared.contrast(winner, against, deciding)


def _changed(
    visits: Sequence[Visit],
    numbers: Mapping[int, LoadNumbers],
    base: PlannedVariant,
    winner: PlannedVariant,
) -> Iterator[Changed]:
    """Yield each counter that both variants have and that is not zero in both."""
    of = {
        variant: [visit for visit in visits if visit.planned.cell.variant == variant]
        for variant in (base, winner)
    }
    for counter, name, unit in _PER_TRANSACTION:
        before, after = (
            [
                value
                for visit in of[variant]
                if (value := each_transaction(visit.stored, numbers[visit.planned.number], counter))
                is not None
            ]
            for variant in (base, winner)
        )
        if before and after and any((*before, *after)):
            yield Changed(name, mean_between_runs(before, unit), mean_between_runs(after, unit))
    before, after = ([_checkpoints(visit) for visit in of[variant]] for variant in (base, winner))
    if any((*before, *after)):
        words = "requested checkpoints per run"
        yield Changed(words, mean_between_runs(before, ""), mean_between_runs(after, ""))


def _checkpoints(visit: Visit) -> float:
    collector, counter = _CHECKPOINTS
    growths = counters_of(visit.stored, collector)
    return float(
        sum(growth.by_column[counter].sum() for growth in growths if counter in growth.by_column)
    )
