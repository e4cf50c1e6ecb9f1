"""Makes the answer of designs with variants: every variant against its reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from pgdyno.analysis.compare import compare
from pgdyno.analysis.compare_findings import CompareFindings, LevelGrid
from pgdyno.analysis.contrasts import Effect, factorial, passes
from pgdyno.answer.answer import Answer, Measurements
from pgdyno.answer.compare_words import comparison_sentence
from pgdyno.answer.compared import Compared, Contrasts
from pgdyno.errors import AnalysisError
from pgdyno.loop.history import measured
from pgdyno.plan.designs.compare import Compare, better_of
from pgdyno.plan.designs.fixed_rounds import Factorial, Matrix
from pgdyno.spec.planned import PlannedVariant
from pgdyno.spec.variant import Variant


def comparison_answer(seen: Measurements) -> Answer:
    """Return every variant against the reference, by the rule with which the design stopped."""
    compared = Compared(seen)
    # The pilots count for the number of rounds, so that the last look here is the planned one.
    planned_by = (*map(measured, seen.pilots), *compared.history)
    standings = Compare(seen.experiment).standings(planned_by, compared.excluded_ids)
    contrasts = tuple(
        compared.contrast(
            standing.variant, standing.reference, standing.comparison, standing=standing
        )
        for standing in standings
        if standing.comparison is not None
    )
    return _answer(compared.findings(contrasts=contrasts))


def passes_answer(seen: Measurements) -> Answer:
    """Return every pass against the first pass, and against the previous pass."""
    compared = Compared(seen)
    order = compared.usable
    table = compared.table(order)
    to_base, steps = [], []
    if len(table) >= 2:
        names = [variant.name for variant in order]
        pass_results = passes(names, table, better=better_of(compared.metric))
        for place, result in enumerate(pass_results, 1):
            to_base.append(compared.contrast(order[place], order[0], result.to_base))
            steps.append(compared.contrast(order[place], order[place - 1], result.to_previous))
    return _answer(
        compared.findings(
            contrasts=tuple(to_base), steps=tuple(steps), added=seen.experiment.variants
        )
    )


def factorial_answer(seen: Measurements) -> Answer:
    """Return the effect of each factor."""
    return _effects_answer(seen, Factorial(seen.experiment))


def matrix_answer(seen: Measurements) -> Answer:
    """Return the effect of each factor, and the levels of one factor in each other cell."""
    return _effects_answer(seen, Matrix(seen.experiment), has_contrasts=True)


def _effects_answer(
    seen: Measurements, design: Factorial | Matrix, *, has_contrasts: bool = False
) -> Answer:
    compared = Compared(seen)
    order = compared.usable
    factors = {f.name: [level.name for level in f.levels] for f in design.asked.factors}
    by_variant = zip(design.variants(), design.asked.levels_by_variant(), strict=True)
    cells = [levels for variant, levels in by_variant if variant in order]
    effects: tuple[Effect, ...] = ()
    # There are too few rounds, or a cell could not start: then no effect can be estimated.
    with suppress(AnalysisError):
        effects = factorial(factors, cells, compared.table(order))
    # The number of clients, or how busy they are, is what the others are compared at.
    at = [f.name for f in design.asked.factors if all(_is_load(level) for level in f.levels)]
    varied = next((name for name in factors if name not in at), [*factors][-1])
    contrasts: Contrasts = ()
    if effects and has_contrasts and varied not in at:
        contrasts = _by_cell(compared, order, cells, varied)
    findings = compared.findings(effects=effects, contrasts=contrasts)
    return _answer(replace(findings, grid=_grid(order, cells, varied)))


def _grid(
    order: Sequence[PlannedVariant], cells: Sequence[Mapping[str, str]], varied: str
) -> LevelGrid:
    """Return where each variant is in the grid of the factors' levels."""
    names: dict[str, dict[str, str]] = {}
    for variant, levels in zip(order, cells, strict=True):
        row = ", ".join(level for factor, level in levels.items() if factor != varied)
        names.setdefault(row, {})[levels[varied]] = variant.name
    return LevelGrid(" and ".join(name for name in cells[0] if name != varied), varied, names)


def _by_cell(
    compared: Compared,
    order: Sequence[PlannedVariant],
    cells: Sequence[Mapping[str, str]],
    varied: str,
) -> Contrasts:
    """Return each later level of a factor against its first level, in every cell of the others.

    All intervals hold together with 95 %.
    """
    references: dict[tuple[str, ...], PlannedVariant] = {}
    pairs = []
    for variant, levels in zip(order, cells, strict=True):
        others = tuple(level for factor, level in levels.items() if factor != varied)
        if levels[varied] == cells[0][varied]:
            references[others] = variant
        elif others in references:
            pairs.append((variant, references[others]))
    table, places = np.log(compared.table(order)), {v: place for place, v in enumerate(order)}
    return tuple(
        compared.contrast(
            variant,
            reference,
            compare(
                table[:, places[variant]] - table[:, places[reference]],
                looks="fixed",
                better=better_of(compared.metric),
                level=1 - 0.05 / len(pairs),
            ),
        )
        for variant, reference in pairs
    )


def _is_load(level: Variant) -> bool:
    return level.changes().keys() <= {"clients", "idle", "active"}


def _answer(findings: CompareFindings) -> Answer:
    return Answer(comparison_sentence(findings), compare=findings)
