"""The design `tune`: its planner, its answer, and how the answer is shown."""

from __future__ import annotations

from pgdyno.analysis.findings import ExperimentFindings
from pgdyno.designs import AnswerForms, Kind, Pictures
from pgdyno.features.tune.answer import tune_answer
from pgdyno.features.tune.design import Tune
from pgdyno.features.tune.text import tune_body, tune_text


def _page(findings: ExperimentFindings) -> str:
    from pgdyno.features.tune.page import tune_page

    return tune_page(findings)


def _markdown(findings: ExperimentFindings, stem: str) -> tuple[str, Pictures]:
    from pgdyno.features.tune.page import tune_markdown

    return tune_markdown(findings, stem)


TUNE = Kind(Tune, tune_answer, AnswerForms(tune_text, _page, _markdown, tune_body))
