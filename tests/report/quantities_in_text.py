"""Figures by their meaning: those of texts and sentences against those of the JSON document."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path

from tests.report.quantities import (
    CHANGE,
    Document,
    in_document,
    page_problems,
    problems,
)

from pgdyno.designs import answer_of
from pgdyno.designs import words_of as words_of_result
from pgdyno.report.forest import metric_name
from pgdyno.report.parts import words_of
from pgdyno.spec.designs import METRIC_WORDS
from pgdyno.store.experiment import Store

# So wide that no line is wrapped.
WIDTH = 10_000
_NAMED = r"([^,;()]+?) (?:fell by|rose by|by) ([\d.,]*\d)"


def stored_problems(store: Path, document: Document) -> list[str]:
    """Return each figure on page and text of the last result that is another in the document."""
    folder = Store(store).find("last")
    wrong = page_problems(folder.report_path.read_text(), document)
    text = words_of_result(answer_of(folder), WIDTH)
    if document["format"] == "pgdyno.tune/1":
        return [*wrong, *tuned_problems(text, document)]
    return [*wrong, *compared_problems(text, document)] if "variants" in document else wrong


def sentence_problems(sentence: str, contrast: Document) -> Iterator[str]:
    """Yield each change and each time of a verdict that is another number in the document."""
    for name, words in METRIC_WORDS.items():
        for text in re.findall(rf"(?<![\w-]){re.escape(words)} {CHANGE}", sentence):
            yield from problems(name, text, in_document(contrast, f"ratios.{name}"))
    # On a disturbed machine the sentence also says why the interval is wide.
    because = re.sub(r"the interval is wide because [^;.]*", "", sentence).partition("because ")[2]
    if " changed its plan: " in because:
        return
    for name, text in re.findall(_NAMED, because):
        part = in_document(contrast, f"difference.{name.strip()}")
        yield from problems(name, text, abs(part["value"]))
    for text in re.findall(r"\(([\d.,]+) ms (?:less|more) in total\)", because):
        total = in_document(contrast, "difference.latency")
        yield from problems("total", text, abs(total))


def compared_problems(text: str, document: Document) -> Iterator[str]:
    """Yield each figure in the text of a comparison that is another number in the document.

    Args: text, in lines of `WIDTH`.
    """
    blocks = _blocks(text)
    metric = document["metric"]
    cells = next((lines for head, lines in blocks.items() if head.startswith("cells: ")), [])
    yield from _cell_problems(cells, document)
    for place, variant in enumerate(document["variants"]):
        if variant["runs"] and not cells:
            yield from _variant_problems(_row(blocks["variants"], variant["name"]), variant, metric)
        if "verdict" not in variant:
            continue
        assert variant["sentence"] in text
        yield from sentence_problems(variant["sentence"], variant)
        [head] = [h for h in blocks if h.startswith(f"{variant['name']} against")]
        for name in variant["ratios"]:
            if row := _row(blocks[head], metric_name(name)):
                truth = in_document(document, f"variants.{place}.ratios.{name}")
                yield from problems(name, row, truth)
        yield from _pair_problems(_row(blocks[head], "by round"), variant)
        yield from _difference_problems(blocks[head], variant)
    for place, effect in enumerate(document["effects"]):
        truth = in_document(document, f"effects.{place}.ratio")
        row = _row(blocks[f"Effects on {metric_name(metric)}"], effect["name"])
        yield from problems(effect["name"], row, truth)
        for said in re.findall(rf"[:,] {re.escape(effect['name'])} {CHANGE}", document["sentence"]):
            yield from problems(effect["name"], said, truth)
    for place, step in enumerate(document["steps"]):
        name = f"{step['name']} after {step['against']}"
        row = _row(blocks["Each pass compared with the pass before"], name)
        truth = in_document(document, f"steps.{place}.ratios.{metric}")
        yield from problems(name, row, truth)


def _blocks(text: str) -> dict[str, list[str]]:
    """Return the indented lines below each line that is not indented."""
    blocks: dict[str, list[str]] = {}
    head = ""
    for line in text.splitlines():
        if line.startswith("  "):
            blocks.setdefault(head, []).append(line)
        else:
            head = line.removesuffix(" (no interval yet)")
    return blocks


def _row(lines: list[str], name: str) -> str:
    """Return what follows the name at the beginning of a line, "" without such a line."""
    rows = [line for line in lines if line.startswith(f"  {name}  ")]
    return rows[0].removeprefix(f"  {name}  ").strip() if rows else ""


def _variant_problems(row: str, variant: Document, metric: str) -> Iterator[str]:
    names = [n for n in dict.fromkeys((metric, "tps", "p99")) if n in variant["metrics"]]
    figures = row.split(", ")
    for name, figure in zip(names, figures, strict=False):
        truth = in_document(variant, f"metrics.{name}")
        yield from problems(name, figure.removeprefix(metric_name(name)), truth)
    yield from problems("runs", figures[-1], variant["runs"])


def _cell_problems(lines: list[str], document: Document) -> Iterator[str]:
    """Check the grid of a factorial, one of whose factors is in the columns."""
    rows = [re.split(r"  +", line.strip()) for line in lines]
    named = {frozenset(variant["name"].split(", ")): variant for variant in document["variants"]}
    for name, *cells in rows[1:]:
        for head, cell in zip(rows[0][1:], cells, strict=True):
            variant = named[frozenset([*name.split(", "), head.partition("=")[2]])]
            yield from problems("cell", cell, in_document(variant, f"metrics.{document['metric']}"))


def _pair_problems(row: str, variant: Document) -> Iterator[str]:
    said = row.rpartition("%: ")[2].split()
    for text, pair in zip(reversed(said), reversed(variant["pairs"]), strict=False):
        yield from problems("by round", text, (pair["variant"] / pair["reference"] - 1) * 100)


def _difference_problems(lines: list[str], variant: Document) -> Iterator[str]:
    heads = [line for line in lines if line.startswith("  where the difference of ")]
    if not heads:
        return
    total = in_document(variant, "difference.latency")
    yield from problems("difference", heads[0].removeprefix("  where the difference of"), total)
    parts = variant["where_the_difference_lies"]["parts"]
    shown = []
    for line in lines:
        row = re.fullmatch(r"    (\S.*?)  +([-+]?[\d.,]+)(?:  +(.*))?", line)
        if row is None:
            continue
        words, change, ends = row.groups(default="")
        if words == "rest":
            yield from problems("rest", change, total - math.fsum(part["ms"] for part in shown))
            continue
        [part] = [
            part
            for part in parts
            if words in (words_of(part["name"]), f"{words_of(part['name'])} ({part['name']})")
        ]
        shown.append(part)
        truth = {"value": part["ms"], "low": part["low"], "high": part["high"]}
        yield from problems(part["name"], f"{change} ({ends})", truth)
    assert shown


def tuned_problems(text: str, document: Document) -> Iterator[str]:
    """Yield each figure in the text of a tuning that is another number in the document.

    Args: text, in lines of `WIDTH`.
    """
    word = METRIC_WORDS[document["metric"]]
    for place, setting in enumerate(document["settings"]):
        truth = in_document(document, f"settings.{place}.ratio")
        head = f"{setting['name']} = {setting['new']}, was {setting['old']}: "
        after = " ".join(text.partition(head)[2].split())
        assert after, setting
        alone = re.match(rf"alone: {word} {CHANGE}", after)
        assert (alone is None) == (truth is None)
        if alone is not None:
            yield from problems(setting["name"], alone[1], truth)
        for code in (document["conf"], document["apply"]):
            change = re.search(rf"was {re.escape(setting['old'])}; .*alone: {word} {CHANGE}", code)
            assert (change is None) == (truth is None)
            if change is not None:
                yield from problems(setting["name"], change[1], truth)
    for said in re.findall(rf"proved better: {word} {CHANGE}", text):
        yield from problems("proved", said, in_document(document, "proved"))
    for place, trial in enumerate(document["tried"]):
        if trial["ratio"] is not None:
            said = re.search(rf"{re.escape(trial['candidate'])}  [^:]+: {word} {CHANGE}", text)
            if said is not None:
                truth = in_document(document, f"tried.{place}.ratio")
                yield from problems(trial["candidate"], said[1], truth)
    for place, counter in enumerate(document["counters"]):
        before, _, after = text.partition(f"{counter['name']}: ")[2].partition(" -> ")
        yield from problems("before", before, in_document(document, f"counters.{place}.before"))
        end = after.partition("\n")[0]
        yield from problems("after", end, in_document(document, f"counters.{place}.after"))
