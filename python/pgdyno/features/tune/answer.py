"""Makes the answer of a tuning from its runs: the proved gain, reasons, each setting's part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from pgdyno.analysis.compare import compare, log_ratios
from pgdyno.analysis.compare_findings import CompareFindings, ContrastFindings
from pgdyno.analysis.estimate import mean_between_runs
from pgdyno.analysis.losses import Loss
from pgdyno.answer.answer import Answer, Measurements
from pgdyno.answer.comparison import Compared
from pgdyno.features.tune.budget import time_spent
from pgdyno.features.tune.design import Tune
from pgdyno.features.tune.findings import Changed, EqualServerFindings, SloHeld, TuneFindings
from pgdyno.features.tune.stages import PROOF_LEVEL
from pgdyno.features.tune.tuning import Tuning
from pgdyno.features.tune.verdict import findings_of, ratio_of
from pgdyno.loop.counter_growth import counters_of
from pgdyno.loop.history import each_transaction, measured
from pgdyno.loop.journal import Visit, excluded
from pgdyno.loop.load_numbers import LoadNumbers
from pgdyno.loop.losses import losses_by_variant
from pgdyno.plan.designs.compare import better_of
from pgdyno.plan.history import History, elapsed_ns
from pgdyno.quantities import counted
from pgdyno.spec.planned import PlannedVariant, server_id

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
    history = tuple(measured(visit) for visit in ran)
    reasons = excluded(seen.folder)
    tuning = design.tuning(history, frozenset(reasons))
    tuning.next()
    findings = findings_of(
        tuning,
        design.whole_now,
        design.major,
        metric=seen.experiment.metric(),
        is_more_better=design.is_more_better,
        why_ended=design.why_no_candidate_counts(history),
    )
    # The journal has the server's messages, by the id of the variant.
    tried = tuple(
        replace(trial, failure=reasons.get(trial.name.replace(" ", "-"), trial.failure))
        if trial.failure
        else trial
        for trial in findings.tried
    )
    if why := design.why_not_known(history):
        findings = _not_proved(findings, why)
    findings = replace(
        findings,
        tried=tried,
        slo=_slo_held(design, tuning, history),
        budget=time_spent(
            [visit.took_ns for visit in ran],
            [visit.spent_ns for visit in ran],
            failed_ns=sum(visit.failed_ns for visit in ran),
            elapsed_ns=elapsed_ns(history),
        ),
        servers=_servers(seen, design, tuning, reasons),
        server_differences=_differences(seen, design),
        losses=_losses(seen, design, history),
    )
    compared, findings = _proof(seen, design, tuning, _if_valid(seen, design, tuning, findings))
    return Answer(findings.sentence(), compare=compared, own=findings)


def _losses(seen: Measurements, design: Tune, history: History) -> tuple[Loss, ...]:
    """Return what crashes took with the proposed settings."""
    by_variant = losses_by_variant(seen.folder)
    if not by_variant:
        return ()
    priced = design.priced(history, frozenset(excluded(seen.folder)))
    return tuple(loss for variant in priced for loss in by_variant.get(variant.id, ()))


def _if_valid(
    seen: Measurements, design: Tune, tuning: Tuning, findings: TuneFindings
) -> TuneFindings:
    """Return the findings; without a proof if at least half of its runs are not valid."""
    proof = tuning.proof
    if proof is None or findings.proved is None:
        return findings
    before = design.rounds_before(proof.name)
    valid = [
        seen.valid[visit.planned.number]
        for visit in seen.rounds
        if before < visit.planned.round <= before + _ROUNDS_MAX
    ]
    if 2 * sum(valid) > len(valid):
        return findings
    reason = f"{sum(valid)} of {counted(len(valid), 'run')} of the proof are valid, too few"
    if not any(valid):
        reason = f"no run of the proof is valid ({counted(len(valid), 'run')})"
    return _not_proved(findings, reason)


def _not_proved(findings: TuneFindings, reason: str) -> TuneFindings:
    return replace(findings, verdict="unproved", reason=reason, proved=None, settings=())


def _servers(
    seen: Measurements, design: Tune, tuning: Tuning, reasons: Mapping[str, str]
) -> tuple[EqualServerFindings, ...]:
    """Return the findings about each of several equal servers; empty for a single server."""
    first, *others = tuning.spread.servers
    if not others:
        return ()
    places = (seen.folder.facts() or {}).get("servers", {})
    proof = tuning.proof
    servers = []
    for number in (first, *others):
        level = tuning.level(number) if number != first else None
        alone = None if proof is None else proof.gain(proof.winner.name, server=number)
        servers.append(
            EqualServerFindings(
                number=number,
                target=places.get(str(number), ""),
                run_count=sum(visit.planned.server_number == number for visit in seen.rounds),
                level=ratio_of(level, design.is_more_better) if level is not None else None,
                proved=ratio_of(alone, design.is_more_better) if alone is not None else None,
                lost=reasons.get(server_id(number), ""),
            )
        )
    return tuple(servers)


def _differences(seen: Measurements, design: Tune) -> tuple[str, ...]:
    """Return how several equal servers were measured, and how they differ."""
    if len(design.experiment.server.numbers) < 2:
        return ()
    order = "at the same time" if design.is_at_once else "one after another, in turn"
    known = (seen.folder.facts() or {}).get("server_differences", ())
    return (f"they were measured {order}", *known)


def _slo_held(design: Tune, tuning: Tuning, history: History) -> SloHeld | None:
    proof = tuning.proof
    if proof is None or design.asked.slo is None:
        return None
    before, after = (
        design.slo_held(history, proof.name, design.variant_of(candidate).id)
        for candidate in (tuning.base, proof.winner)
    )
    return SloHeld(design.asked.slo, *before, *after)


def _proof(
    seen: Measurements, design: Tune, tuning: Tuning, findings: TuneFindings
) -> tuple[CompareFindings, TuneFindings]:
    """Return the runs of the last proof as a comparison, and the findings with changed counters.

    Without a proof the comparison has only the old settings.
    """
    base = seen.experiment.planned_variants()[0]
    proof = tuning.proof
    if proof is None:
        return Compared(replace(seen, visits=()), only=[base]).findings(), findings
    before = design.rounds_before(proof.name)
    visits = [
        replace(visit, planned=replace(visit.planned, round=visit.planned.round - before))
        for visit in seen.rounds
        if before < visit.planned.round <= before + _ROUNDS_MAX
    ]
    order = _variants_of(visits)
    winner = next((variant for variant in order if variant.name == proof.winner.name), None)
    if winner is None:  # The best settings failed in their first run of the proof.
        return Compared(replace(seen, visits=()), only=[base]).findings(), findings
    compared = Compared(replace(seen, visits=visits), only=order)
    contrasts = [
        contrast
        for against in order
        if against != winner and against.name in (base.name, findings.rules)
        if (contrast := _contrast(compared, winner, against)) is not None
    ]
    if contrasts:
        # The comparison with the old settings has the whole answer as its sentence.
        contrasts[0] = replace(contrasts[0], sentence=findings.sentence())
    changed = tuple(_changed(visits, seen.numbers, base, winner))
    return compared.findings(contrasts=tuple(contrasts)), replace(findings, changed=changed)


_ROUNDS_MAX = 1000


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
    deciding = compare(ratios, looks="fixed", better=better_of(compared.metric), level=PROOF_LEVEL)
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
