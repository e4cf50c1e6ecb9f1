"""Every figure that names the same quantity is the same number: page, text and JSON document."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import pytest
from tests.features.watch.examples import DOCUMENT, findings, text_of, watch_page
from tests.report import examples, variant_examples
from tests.report.quantities import figures_of, in_document, number_in, page_problems
from tests.report.quantities_in_text import (
    WIDTH,
    compared_problems,
    tuned_problems,
)

from pgdyno.analysis.estimate import Estimate
from pgdyno.analysis.findings import Panel, Series
from pgdyno.designs import blocks_of, document_of, page_of, words_of
from pgdyno.report.markdown import answer_markdown

_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")


@pytest.mark.parametrize("name", variant_examples.EXAMPLES)
def test_every_figure_of_compared_variants_is_that_of_the_document(name: str) -> None:
    experiment = variant_examples.EXAMPLES[name]()
    document = document_of(experiment)
    assert page_problems(page_of(experiment), document) == []
    assert list(compared_problems(words_of(experiment, WIDTH), document)) == []


@pytest.mark.parametrize("is_alone", [False, True])
def test_every_figure_of_a_tuning_is_that_of_the_document(is_alone: bool) -> None:
    experiment = variant_examples.tuned(is_alone=is_alone)
    document = document_of(experiment)
    assert page_problems(page_of(experiment), document) == []
    assert list(tuned_problems(words_of(experiment, WIDTH), document)) == []


def test_a_tuning_without_an_answer_proposes_nothing() -> None:
    experiment = variant_examples.tuned(verdict="not known")
    markdown = answer_markdown(blocks_of(experiment), stem="tune")
    for text in (page_of(experiment), words_of(experiment, WIDTH), markdown):
        assert re.search(r"ALTER SYSTEM|[Pp]roved settings|>proposed, against", text) is None
        assert "work_mem=1GB was not tried" in text


@pytest.mark.parametrize("name", ["bench", "sweep"])
def test_every_figure_of_a_page_is_that_of_the_document(name: str) -> None:
    experiment = examples.EXAMPLES[name]()
    document = document_of(experiment)
    assert page_problems(page_of(experiment), document) == []


@pytest.mark.parametrize("name", ["bench", "sweep"])
def test_figures_of_one_quantity_are_rounded_alike(name: str) -> None:
    for quantity, texts in figures_of(page_of(examples.EXAMPLES[name]())).items():
        numbers = sorted({number_in(text) for text in texts})
        for (low, _), (high, half) in pairwise(numbers):
            # The column of the parts has the decimals that make it add up by eye.
            assert high - low <= 1.01 * max(half, number_in(texts[0])[1]), (quantity, texts)


def test_no_percentile_looks_larger_than_the_maximum() -> None:
    experiment = examples.bench()
    assert experiment.run is not None
    slow = Estimate(1_996.0, 1_900.0, 2_100.0, 20, "ms", "within_run")
    known = experiment.run.latency
    latency = replace(known, percentiles={**known.percentiles, "p99": slow}, max_ms=1_998.0)
    page = page_of(replace(experiment, run=replace(experiment.run, latency=latency)))
    assert {text.strip() for text in figures_of(page)["latency_ms.p99"]} == {"1,996", "1,996 ms"}


def test_figures_of_a_watch_are_those_of_its_document_and_its_text() -> None:
    page, text = watch_page(findings()), text_of(DOCUMENT)
    assert page_problems(page, DOCUMENT) == []
    for texts in figures_of(page).values():
        assert len({number_in(words)[0] for words in texts}) == 1
    for quantity in ("sessions_at_work.mean", "tps", "statements.0.share_ratio"):
        truth = in_document(DOCUMENT, quantity)
        shown = [number_in(match)[0] for match in _NUMBER.findall(text)]
        assert any(abs(value - truth) <= 0.005 * truth for value in shown), quantity


def _panel(key: str, *names: str) -> Panel:
    """Return a panel whose points have another mean than the document's figures."""
    return Panel(key, key, "", (0.5, 1.5), tuple(Series(name, (1.0, 5.0)) for name in names))


@pytest.mark.parametrize("how", ["counted", "sampled"])
def test_the_legend_of_a_watch_shows_the_figures_of_its_document(how: str) -> None:
    document = DOCUMENT | {"sessions_at_work": DOCUMENT["sessions_at_work"] | {"how": how}}
    panels = (
        _panel("tps", "committed", "rolled back"),
        _panel("waits", "Lock:transactionid", "other"),
        _panel("wal", "generated"),
        _panel("session_time", "at work"),
    )
    page = watch_page(findings(document=document, panels=panels))
    assert page_problems(page, document) == []
    shown = figures_of(page)
    assert "mean 1,902" in shown["tps"]
    assert "mean 12.9" in shown["waits.0.sessions"]
    assert "mean 11" in shown["wal_bytes_per_second"]
    # If the answer does not use the server's count, the line of the count has no mean.
    assert ("mean 22.7" in shown["sessions_at_work.mean"]) is (how == "counted")
    # A mean of the points would be 3; only a line that the document does not know has it.
    assert len(re.findall(r"mean 3(?:\.0*)?<", page)) == 1
