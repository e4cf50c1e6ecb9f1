"""What programs and features add to an answer: blocks and keys.

The part `shown` of a program (`programs/registry.py`) makes the blocks. This room knows no program.
"""

from __future__ import annotations

from collections.abc import Iterator

from pgdyno.analysis.findings import ExperimentFindings, RunFindings
from pgdyno.feature import features
from pgdyno.programs.registry import part_of, program_named
from pgdyno.report.blocks import BlockSection


def own_shown(run: RunFindings | None) -> BlockSection | None:
    """Return what the program of a run adds, None if it adds nothing."""
    if run is None or run.program.own is None:
        return None
    part = part_of(program_named(run.program.name), "shown")
    if part is None:
        return None
    shown = part.shown_of(run)
    assert isinstance(shown, BlockSection), f"shown_of of {run.program.name} returns a BlockSection"
    return shown


def sections_by_features(run: RunFindings) -> Iterator[BlockSection]:
    """Yield the sections that features add to the answer of a run."""
    for feature in features():
        if feature.name in run.added and "run_sections" in feature.parts:
            yield from feature.part("run_sections")(run.added[feature.name])


def own_of_cells(findings: ExperimentFindings) -> BlockSection | None:
    """Return what the program adds to an answer of several cells, None if it adds nothing."""
    if not findings.cells:
        return None
    part = part_of(program_named(findings.cells[0].program), "shown")
    assert part is not None, f"{findings.cells[0].program} finds something and shows it"
    has_run = own_shown(findings.run) is not None
    shown = part.shown_of_cells(findings.cells, has_run=has_run)
    assert isinstance(shown, BlockSection), "shown_of_cells returns a BlockSection"
    return shown
