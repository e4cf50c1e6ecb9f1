"""Every figure that names the same quantity is the same number: page, text and JSON document."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from typing import Any

import pytest
from tests.report import examples
from tests.watch.examples import DOCUMENT, findings

from pgdyno.analysis.estimate import Estimate
from pgdyno.cli.watch_text import text_of
from pgdyno.designs import document_of
from pgdyno.report.html import render
from pgdyno.report.watch_page import watch_page

# A factor from the document's unit to the page's.
FACTORS = {"wal_bytes_per_second": 1e-6, "hit_ratio": 100.0, "share_ratio": 100.0}
_VOID = {"meta", "br", "img", "input", "link", "hr"}
_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")


class Figures(HTMLParser):
    """Collects the text of every element that names its quantity."""

    def __init__(self) -> None:
        super().__init__()
        self._open: list[str] = []
        self.found: dict[str, list[str]] = defaultdict(list)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _VOID:
            return
        self.handle_data(" ")
        quantity = dict(attrs).get("data-quantity") or ""
        self._open.append(quantity)
        if quantity:
            self.found[quantity].append("")

    def handle_endtag(self, tag: str) -> None:
        self._open.pop()

    def handle_data(self, data: str) -> None:
        for quantity in filter(None, self._open):
            self.found[quantity][-1] += data


def figures_of(page: str) -> dict[str, list[str]]:
    """Return every figure of a page as text, by its quantity."""
    figures = Figures()
    figures.feed(page)
    assert len(figures.found) > 3
    return figures.found


def number_in(text: str) -> tuple[float, float]:
    """Return the first number of a text, and half a unit of its last digit that is not a zero."""
    match = _NUMBER.search(text)
    assert match is not None, text
    whole, _, decimals = match[0].replace(",", "").partition(".")
    if decimals:
        return float(f"{whole}.{decimals}"), 0.5 * 10.0 ** -len(decimals)
    zeros = len(whole) - len(whole.rstrip("0"))
    # At least two digits of a number are right.
    return float(whole), 0.5 * 10.0 ** min(zeros, max(len(whole) - 2, 0))


def in_document(document: Any, quantity: str) -> float:
    """Return the number at a place of the document: "curves.0.peak.tps", "where.Lock:tuple"."""
    path, _, part = quantity.replace("p99.9", "p999").partition("where.")
    value = document
    for key in filter(None, path.split(".")):
        value = value[int(key)] if isinstance(value, list) else value[key]
    if part:
        where = value["where_the_time_goes"]
        parts = {time_part["name"]: time_part["ms"] for time_part in where["parts"]}
        return float({**parts, "not explained": where["residual_ms"]}[part])
    if isinstance(value, dict):
        assert value.get("unit") != "ns" or "latency" in quantity, value
        return float(value["value"]) * (1e-6 if value.get("unit") == "ns" else 1.0)
    return float(value) * FACTORS.get(quantity.rpartition(".")[2], 1.0)


def problems(page: str, document: Any) -> list[str]:
    """Return every figure that is another number than the document's."""
    wrong = []
    for quantity, texts in figures_of(page).items():
        truth = in_document(document, quantity)
        for text in texts:
            shown, half = number_in(text)
            if abs(shown - truth) > 1.01 * half:
                wrong.append(f"{quantity}: {text.strip()!r}, in the document {truth}")
    return wrong


@pytest.mark.parametrize("name", ["bench", "sweep"])
def test_every_figure_of_a_page_is_that_of_the_document(name: str) -> None:
    experiment = examples.EXAMPLES[name]()
    document = document_of(experiment)
    assert problems(render(experiment), document) == []


@pytest.mark.parametrize("name", ["bench", "sweep"])
def test_figures_of_one_quantity_are_rounded_alike(name: str) -> None:
    for quantity, texts in figures_of(render(examples.EXAMPLES[name]())).items():
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
    page = render(replace(experiment, run=replace(experiment.run, latency=latency)))
    assert {text.strip() for text in figures_of(page)["latency_ms.p99"]} == {"1,996", "1,996 ms"}


def test_figures_of_a_watch_are_those_of_its_document_and_its_text() -> None:
    page, text = watch_page(findings()), text_of(DOCUMENT)
    assert problems(page, DOCUMENT) == []
    for texts in figures_of(page).values():
        assert len({number_in(words)[0] for words in texts}) == 1
    for quantity in ("sessions_at_work.mean", "tps", "statements.0.share_ratio"):
        truth = in_document(DOCUMENT, quantity)
        shown = [number_in(match)[0] for match in _NUMBER.findall(text)]
        assert any(abs(value - truth) <= 0.005 * truth for value in shown), quantity
