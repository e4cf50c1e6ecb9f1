"""From the runs of a tuning to its answer: what was proved, and what each setting brings."""

from __future__ import annotations

from dataclasses import replace

from pgdyno.answer.answer import Answer, Measurements
from pgdyno.loop.history import measured
from pgdyno.loop.journal import excluded
from pgdyno.tune.design import Tune
from pgdyno.tune.findings import findings_of


def tune_answer(seen: Measurements) -> Answer:
    """Return the answer of a tuning, also of one that was interrupted."""
    design = Tune(seen.experiment)
    history = tuple(measured(v.planned, v.stored, took_ns=v.took_ns) for v in seen.rounds)
    reasons = excluded(seen.folder)
    tuning = design.tuning(history, frozenset(reasons))
    tuning.next()
    found = findings_of(
        tuning,
        design.whole_now,
        design.major,
        metric=seen.experiment.metric(),
        is_more_better=design.is_more_better,
    )
    # The server's own words are in the journal, by the id of the variant.
    failures = tuple(
        (name, reasons.get(name.replace(" ", "-"), why)) for name, why in found.failures
    )
    return Answer(found.sentence(), own=replace(found, failures=failures))
