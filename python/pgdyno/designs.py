"""The table of designs: for each kind its spec model, planner, answer, and how it is shown.

`[design] kind = ...` in a spec is a key of `DESIGNS`. `spec.designs.MODELS` has the same keys (a
test checks this). docs/adding.md says how to add a design. The modules for pages and Markdown are
imported when they are first used, because importing them takes longer than making a page.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pgdyno.analysis.findings import ExperimentFindings
from pgdyno.answer import answer
from pgdyno.answer.answer import MakeAnswer, run_answer
from pgdyno.answer.comparison import (
    comparison_answer,
    factorial_answer,
    matrix_answer,
    passes_answer,
)
from pgdyno.answer.curves import sweep_answer
from pgdyno.errors import PgdynoError, StoreError
from pgdyno.feature import FeatureTable
from pgdyno.loop.journal import shown_visits
from pgdyno.plan.design import Design
from pgdyno.plan.designs.bench import Bench
from pgdyno.plan.designs.compare import Compare
from pgdyno.plan.designs.fixed_rounds import Factorial, Matrix, Passes
from pgdyno.plan.designs.sweep import Sweep
from pgdyno.report.block_text import answer_text
from pgdyno.report.blocks import BlockAnswer
from pgdyno.report.compare_blocks import compare_blocks
from pgdyno.report.compare_documents import compare_body
from pgdyno.report.documents import Document, document_with, run_body, sweep_body
from pgdyno.report.run_blocks import run_blocks
from pgdyno.report.sweep_blocks import sweep_blocks
from pgdyno.report.text_page import WIDTH
from pgdyno.spec.experiment import Experiment
from pgdyno.store.folder import ExperimentFolder


@dataclass(frozen=True, slots=True)
class Kind:
    """One design: the class that plans its runs, the function for the answer, how it is shown.

    `blocks`: the answer, from which every form is drawn. `document`: the additional keys of its
    JSON.
    """

    design: type[Design[Any]]
    answer: MakeAnswer
    blocks: Callable[[ExperimentFindings], BlockAnswer]
    document: Callable[[ExperimentFindings], Document]


DESIGNS: FeatureTable[Kind] = FeatureTable(
    "designs",
    {
        "bench": Kind(Bench, run_answer, run_blocks, run_body),
        "sweep": Kind(Sweep, sweep_answer, sweep_blocks, sweep_body),
        "compare": Kind(Compare, comparison_answer, compare_blocks, compare_body),
        "factorial": Kind(Factorial, factorial_answer, compare_blocks, compare_body),
        "matrix": Kind(Matrix, matrix_answer, compare_blocks, compare_body),
        "passes": Kind(Passes, passes_answer, compare_blocks, compare_body),
    },
)


def design_of(experiment: Experiment) -> type[Design[Any]]:
    """Return the class that plans the runs of an experiment."""
    return DESIGNS[experiment.design.kind].design


def answer_of(folder: ExperimentFolder) -> ExperimentFindings:
    """Return the findings of a stored experiment, from its files alone.

    Raises: StoreError if no run of the folder counts; the message says what the folder has.
    """
    return answer.answer_of(folder, _kind_of(folder).answer)


def answer_so_far(
    folder: ExperimentFolder | None, error: PgdynoError | None
) -> ExperimentFindings | None:
    """Return the findings of an experiment that has just ended, or None if they cannot be made.

    An interrupted experiment has the findings of its stored runs.
    Args: error, the error that ended the experiment early, else None.
    Raises: PgdynoError if the findings cannot be made although the experiment ended normally.
    """
    if folder is None or (error is not None and not _has_something(folder)):
        return None
    try:
        return answer_of(folder)
    except PgdynoError:
        if error is None:
            raise
        return None


def _has_something(folder: ExperimentFolder) -> bool:
    return bool(shown_visits(folder))


def blocks_of(findings: ExperimentFindings) -> BlockAnswer:
    """Return an answer as blocks."""
    return DESIGNS[findings.kind].blocks(findings)


def words_of(findings: ExperimentFindings, width: int = WIDTH) -> str:
    """Return an answer as text, in lines of at most `width` characters."""
    return answer_text(blocks_of(findings), width)


def page_of(findings: ExperimentFindings) -> str:
    """Return an answer as one offline page."""
    from pgdyno.report.html import answer_page

    return answer_page(blocks_of(findings))


def document_of(findings: ExperimentFindings) -> Document:
    """Return the JSON document of an answer: `pgdyno.bench/1`, `pgdyno.compare/1` and so on."""
    return document_with(findings, DESIGNS[findings.kind].document(findings))


def _kind_of(folder: ExperimentFolder) -> Kind:
    spec = folder.asked()
    if "design" not in spec:
        raise StoreError(
            f"{folder.folder} has no specification of an experiment.",
            hint="it was removed or changed: measure again, or restore the folder from a copy",
        )
    return DESIGNS[spec["design"]["kind"]]
