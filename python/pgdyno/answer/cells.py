"""What the program of a load finds in each cell: in the runs of one variant, or of one load."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from pgdyno.analysis.compare_findings import CompareFindings
from pgdyno.analysis.findings import CellFindings, CurveFindings
from pgdyno.analysis.verdicts import Doubt
from pgdyno.answer.own import own_answer, program_of_run
from pgdyno.loop.journal import Visit
from pgdyno.loop.load_numbers import LoadNumbers
from pgdyno.programs.registry import program_named
from pgdyno.quantities import counted
from pgdyno.spec.experiment import Experiment
from pgdyno.spec.planned import Cell


def cells_of(
    experiment: Experiment,
    rounds: Sequence[Visit],
    numbers: Mapping[int, LoadNumbers],
    *,
    compare: CompareFindings | None,
    curves: Sequence[CurveFindings],
) -> tuple[CellFindings, ...]:
    """Return the findings of each cell of an answer with variants or levels, in their order.

    A design may create many variants; only those that its answer compares are cells of it. If there
    is a single one, nothing was compared, and it is the cell.
    """
    compared = compare.variants if compare else ()
    names = [variant.name for variant in compared if variant.runs or len(compared) == 1]
    order = names or list(dict.fromkeys(curve.variant for curve in curves))
    visits: defaultdict[Cell, list[Visit]] = defaultdict(list)
    for visit in rounds:
        if _variant(visit.planned.cell) in order:
            visits[visit.planned.cell].append(visit)

    def place(cell: Cell) -> tuple[int, tuple[int, ...], float, int]:
        return order.index(_variant(cell)), cell.script_indexes, cell.rate_tps or 0, cell.clients

    cells = []
    for cell in sorted(visits, key=place):
        runs = [(visit.stored, numbers[visit.planned.number]) for visit in visits[cell]]
        program = program_of_run(runs[0][1])
        own = own_answer(program).together(runs)
        if own is not None:
            is_main = compare is not None or _is_peak(cell, curves, experiment)
            cells.append(
                CellFindings(_name(cell, list(visits), experiment), program.name, own, is_main)
            )
    return tuple(cells)


def doubts_of_cells(cells: Sequence[CellFindings]) -> Iterator[Doubt]:
    """Yield the doubts of the main cells, an equal one once with the names of its cells."""
    named: dict[Doubt, list[str]] = {}
    for cell in cells:
        if cell.is_main:
            for doubt in own_answer(program_named(cell.program)).doubts(cell.own):
                named.setdefault(doubt, []).append(cell.name)
    for doubt, names in named.items():
        yield replace(doubt, message=f"{', '.join(names)}: {doubt.message}")


def _variant(cell: Cell) -> str:
    return cell.variant.name if cell.variant is not None else ""


def _is_peak(cell: Cell, curves: Sequence[CurveFindings], experiment: Experiment) -> bool:
    script, variant = _script(cell, experiment), _variant(cell)
    names = (script, variant, f"{script}, {variant}")
    return any(
        (curve.variant, curve.curve.peak.clients) == (variant, cell.clients)
        and curve.script in names
        for curve in curves
    )


def _script(cell: Cell, experiment: Experiment) -> str:
    return experiment.all_scripts()[cell.script_indexes[0]].name


def _name(cell: Cell, cells: Sequence[Cell], experiment: Experiment) -> str:
    """Return what tells a cell from the others: variant, script, load."""
    words = [cell.variant.name] if cell.variant is not None else []
    if len({other.script_indexes for other in cells}) > 1:
        words.append(_script(cell, experiment))
    if len({(other.clients, other.rate_tps) for other in cells}) > 1 or not words:
        is_open = cell.rate_tps is not None
        word = experiment.program.client_word
        words.append(f"{cell.rate_tps:,.0f} tps" if is_open else counted(cell.clients, word))
    return ", ".join(words)
