"""The table of designs: for each kind its spec model, planner, answer, and how it is shown.

`[design] kind = ...` in a spec is a key of `DESIGNS`. `spec.designs.MODELS` has the same keys (a
test checks this). ARCHITECTURE.md says how to add a design. The modules for pages and Markdown are
imported when they are first used, because importing them takes longer than making a page.
"""

from __future__ import annotations

import tomllib
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
from pgdyno.errors import PgdynoError
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
from pgdyno.report.run_text import curve_text, run_text
from pgdyno.report.text_page import WIDTH
from pgdyno.spec.experiment import Experiment
from pgdyno.store.folder import ExperimentFolder

Pictures = dict[str, bytes]


@dataclass(frozen=True, slots=True)
class AnswerForms:
    """How one kind of answer is shown; `document`: the additional keys of its JSON."""

    text: Callable[[ExperimentFindings, int], str]
    page: Callable[[ExperimentFindings], str]
    markdown: Callable[[ExperimentFindings, str], tuple[str, Pictures]]
    document: Callable[[ExperimentFindings], Document]


@dataclass(frozen=True, slots=True)
class Kind:
    """One design: the class that plans its runs, the function for the answer, how it is shown."""

    design: type[Design[Any]]
    answer: MakeAnswer
    shown: AnswerForms


def _page(findings: ExperimentFindings) -> str:
    from pgdyno.report.html import render

    return render(findings)


def of_blocks(
    blocks: Callable[[ExperimentFindings], BlockAnswer],
    document: Callable[[ExperimentFindings], Document],
) -> AnswerForms:
    """Return the forms of an answer whose every form is drawn from its blocks."""

    def page(findings: ExperimentFindings) -> str:
        from pgdyno.report.html import answer_page

        return answer_page(blocks(findings))

    def markdown(findings: ExperimentFindings, stem: str) -> tuple[str, Pictures]:
        from pgdyno.report.markdown import answer_markdown, answer_pictures

        answer = blocks(findings)
        return answer_markdown(answer, stem=stem), answer_pictures(answer, stem)

    return AnswerForms(
        lambda findings, width: answer_text(blocks(findings), width), page, markdown, document
    )


def _markdown(findings: ExperimentFindings, stem: str) -> tuple[str, Pictures]:
    from pgdyno.report.markdown import markdown_of

    return markdown_of(findings, stem=stem)


_RUN = AnswerForms(run_text, _page, _markdown, run_body)
_CURVES = AnswerForms(curve_text, _page, _markdown, sweep_body)
_COMPARED = of_blocks(compare_blocks, compare_body)

DESIGNS: FeatureTable[Kind] = FeatureTable(
    "designs",
    {
        "bench": Kind(Bench, run_answer, _RUN),
        "sweep": Kind(Sweep, sweep_answer, _CURVES),
        "compare": Kind(Compare, comparison_answer, _COMPARED),
        "factorial": Kind(Factorial, factorial_answer, _COMPARED),
        "matrix": Kind(Matrix, matrix_answer, _COMPARED),
        "passes": Kind(Passes, passes_answer, _COMPARED),
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


def words_of(findings: ExperimentFindings, width: int = WIDTH) -> str:
    """Return an answer as text, in lines of at most `width` characters."""
    return DESIGNS[findings.kind].shown.text(findings, width)


def page_of(findings: ExperimentFindings) -> str:
    """Return an answer as one offline page."""
    return DESIGNS[findings.kind].shown.page(findings)


def markdown_of(findings: ExperimentFindings, *, stem: str) -> tuple[str, Pictures]:
    """Return an answer as Markdown, and its pictures as SVG by file name.

    Args: stem, the start of the pictures' names.
    """
    return DESIGNS[findings.kind].shown.markdown(findings, stem)


def document_of(findings: ExperimentFindings) -> Document:
    """Return the JSON document of an answer: `pgdyno.bench/1`, `pgdyno.compare/1` and so on."""
    return document_with(findings, DESIGNS[findings.kind].shown.document(findings))


def _kind_of(folder: ExperimentFolder) -> Kind:
    return DESIGNS[tomllib.loads(folder.spec())["design"]["kind"]]
