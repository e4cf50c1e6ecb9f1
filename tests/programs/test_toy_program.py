"""A program in one folder appears in every form of an answer, in the live line and in the help."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FORMS = (sys.executable, "-m", "tests.programs.toy_forms")


@pytest.fixture(scope="module")
def forms() -> dict[str, Any]:
    printed = subprocess.run(FORMS, cwd=ROOT, capture_output=True, text=True, check=True)
    forms: dict[str, Any] = json.loads(printed.stdout)
    return forms


def test_the_text_has_its_sentence_its_line_its_table_and_its_doubt(forms: dict[str, Any]) -> None:
    text = forms["text"]
    assert "The market sold with 4 stalls." in text
    assert "\nsales  " in text
    assert "good     sold pieces" in text
    assert "doubt     Sales take too long." in text
    assert "-> open another stall" in text


def test_the_page_has_its_section_its_tile_its_table_and_its_chart(forms: dict[str, Any]) -> None:
    page = forms["page"]
    assert '<a href="#toy">Toy</a>' in page
    assert '<section class="part" id="toy"><h2>Market</h2>' in page
    assert "sales of the toy" in page
    assert "Goods of the market" in page
    assert ">ripe</td>" in page
    assert "Sales by second" in page


def test_markdown_has_its_table(forms: dict[str, Any]) -> None:
    _, _, table = forms["markdown"].partition("**Goods of the market**")
    assert table.lstrip().startswith("| good | sold pieces | why |")


def test_json_has_its_keys_and_its_doubt(forms: dict[str, Any]) -> None:
    document = forms["json"]
    assert document["sales"]["unit"] == "sales/h"
    assert document["lines_sold"] > 0
    assert "toy_limit" in [warning["kind"] for warning in document["warnings"]]


def test_the_live_line_has_its_metric(forms: dict[str, Any]) -> None:
    assert "2 tps  7,200 sales/h" in forms["live"]


def test_the_help_names_its_metric_its_types_and_its_word_for_clients(
    forms: dict[str, Any],
) -> None:
    said = {name: " ".join(forms[name].split()) for name in ("compare", "sweep")}
    assert "sales for toy" in said["compare"]
    assert "[tps|nopm|sales|" in said["compare"]
    assert "3 per street if stalls think" in said["compare"]
    assert "--stalls" in said["compare"]
    # Lines of the help end at hyphens, too.
    assert "toy-sale.p90=0.001swithtoy" in "".join(forms["sweep"].split())
