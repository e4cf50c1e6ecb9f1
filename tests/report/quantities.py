"""Figures by their meaning: those of a page against those of the JSON document."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

Document = dict[str, Any]
# A factor from the document's unit to the page's.
FACTORS = {"wal_bytes_per_second": 1e-6, "hit_ratio": 100.0, "share_ratio": 100.0}
# A ratio of these is not shown as a change.
_NO_CHANGE = ("gini", "p_adjusted")
_VOID = {"meta", "br", "img", "input", "link", "hr"}
_NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?(?:e-?\d+)?")
CHANGE = r"([-+]?[\d.,]+ %(?: \([^)]*\))?)"
_ENDS = re.compile(r"([-+]?[\d.,]*\d) to ([-+]?[\d.,]*\d)")


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
    if "e" in match[0]:
        digits, _, exponent = match[0].partition("e")
        value, half = number_in(digits)
        return value * 10.0 ** int(exponent), half * 10.0 ** int(exponent)
    whole, _, decimals = match[0].replace(",", "").partition(".")
    if decimals:
        return float(f"{whole}.{decimals}"), 0.5 * 10.0 ** -len(decimals)
    zeros = len(whole) - len(whole.rstrip("0"))
    # At least two digits of a number are right.
    return float(whole), 0.5 * 10.0 ** min(zeros, max(len(whole.lstrip("+-")) - 2, 0))


def in_document(document: Any, quantity: str) -> Any:
    """Return what the document has at a place: "curves.0.peak.tps", "where.Lock:tuple".

    A number is in the page's unit. An estimate of a ratio is a change in percent.
    """
    path, _, part = quantity.replace("p99.9", "p999").partition("where.")
    path, is_difference, changed = path.partition("difference.")
    value = document
    for key in filter(None, path.split(".")):
        value = value[int(key)] if isinstance(value, list) else value[key]
    if part:
        where = value["where_the_time_goes"]
        parts = {time_part["name"]: time_part["ms"] for time_part in where["parts"]}
        return float({**parts, "not explained": where["residual_ms"]}[part])
    if is_difference:
        return _part_of(value["where_the_difference_lies"], changed)
    if isinstance(value, dict):
        assert value.get("unit") != "ns" or "latency" in quantity, value
        is_change = value["unit"] == "1" and not quantity.endswith(_NO_CHANGE)
        factor = 100.0 if is_change else 1e-6 if value["unit"] == "ns" else 1.0
        ends = {key: value[key] for key in ("value", "low", "high")}
        return {
            key: None if end is None else (end - is_change) * factor for key, end in ends.items()
        }
    return None if value is None else value * FACTORS.get(quantity.rpartition(".")[2], 1.0)


def _part_of(difference: Document, name: str) -> float | Document:
    if name == "latency":
        return float(difference["latency_ms"])
    [part] = [part for part in difference["parts"] if part["name"] == name]
    return {"value": part["ms"], "low": part["low"], "high": part["high"]}


def page_problems(page: str, document: Any) -> list[str]:
    """Return every figure of a page that is another number than the document's."""
    wrong: list[str] = []
    for quantity, texts in figures_of(page).items():
        if quantity.endswith("difference.rest"):
            wrong += _rest_problems(quantity, page, document)
        elif not _is_failure(quantity, document):
            truth = in_document(document, quantity)
            wrong += [problem for text in texts for problem in problems(quantity, text, truth)]
    return wrong


def problems(quantity: str, text: str, truth: Any) -> Iterator[str]:
    """Yield what is wrong with one figure: its value, and the ends of its interval if shown."""
    value = truth["value"] if isinstance(truth, dict) else truth
    if value is None:
        if re.match(rf"\s*{CHANGE}", text):
            yield f"{quantity}: {text.strip()!r}, not in the document"
        return
    factor = 1e-3 if " us" in text else 1.0
    shown, half = (number * factor for number in number_in(text))
    if abs(shown - value) > 1.01 * half:
        yield f"{quantity}: {text.strip()!r}, in the document {value}"
    ends = _ENDS.search(text)
    if ends is None or not isinstance(truth, dict):
        return
    for name, end in zip(("low", "high"), ends.groups(), strict=True):
        shown_end, half_end = number_in(end)
        if truth[name] is None or abs(shown_end - truth[name]) > 1.01 * max(half, half_end):
            yield f"{quantity}: {text.strip()!r}, {name} in the document {truth[name]}"


def _is_failure(quantity: str, document: Any) -> bool:
    """Return whether the page has the server's own words instead of a figure."""
    place, _, name = quantity.rpartition(".")
    if not place.startswith("tried.") or name != "ratio":
        return False
    return document["tried"][int(place.removeprefix("tried."))]["failure"] is not None


def _rest_problems(quantity: str, page: str, document: Any) -> Iterator[str]:
    """Yield a rest that does not complete the whole list of parts to the difference."""
    at, figures = quantity.removesuffix("rest"), figures_of(page)
    named = [name for name in figures if name.startswith(at) and name != quantity]
    parts = [in_document(document, name)["value"] for name in named if name != f"{at}latency"]
    rest = in_document(document, f"{at}latency") - math.fsum(parts)
    # The first screen may have fewer parts; its list has no rest then.
    for text in figures[quantity]:
        yield from problems(quantity, text, rest)
