"""The answer of a toy verb is one function; text, page, Markdown and JSON draw its blocks."""

from __future__ import annotations

import re

from markupsafe import Markup

from pgdyno.report.block_text import answer_text
from pgdyno.report.blocks import (
    BlockAnswer,
    BlockSection,
    DocumentKeys,
    Drawing,
    LabelledLine,
    TableBlock,
    TableColumn,
    Tile,
    head_of_document,
    keys_of,
)
from pgdyno.report.html import answer_page
from pgdyno.report.markdown import answer_markdown

DOCUMENT = {
    "number": 7,
    "name": "fair",
    "pgdyno_version": "0.1",
    "target": "market | square",
    "sentence": "Two of three toys <work>.",
    "is_complete": False,
}


def toy_blocks(sold: int) -> BlockAnswer:
    """Return the whole answer of the verb `toy`."""
    toys = TableBlock(
        "Each toy",
        (
            TableColumn("toy"),
            TableColumn("sold", "pieces"),
            TableColumn("why", meaning="reason", is_words=True),
        ),
        (("ball", str(sold), "it rolls"), ("top", "0", "it fell")),
        short_row_count=1,
        tones={(1, 1): "bad"},
    )
    return BlockAnswer(
        head_of_document("toy", DOCUMENT),
        (
            Tile("sold", str(sold), "pieces", quantity="sold"),
            LabelledLine("prices", "low"),
            LabelledLine("prices", "and falling", "doubt"),
            LabelledLine("weather", "dry", level="full"),
            BlockSection(
                "Toys", "toys", "Toys", "What was on the table.", (Drawing(Markup("<svg/>")), toys)
            ),
            DocumentKeys({"sold": sold}),
        ),
        method="Toys are counted.",
    )


def test_the_short_text_has_lines_and_the_first_rows_and_the_full_text_has_all() -> None:
    short = answer_text(toy_blocks(3))
    assert short.splitlines() == [
        "target      market | square",
        "answer      Two of three toys <work>.",
        "prices      low",
        "            and falling",
        "toy    sold pieces",
        "ball             3",
        "saved       #7, ended early: results until then   pgdyno report 7",
    ]
    full = answer_text(toy_blocks(3), level="full").splitlines()
    assert "weather     dry" in full
    assert "top              0" in full


def test_the_page_has_the_tile_the_lines_the_picture_and_the_table() -> None:
    page = answer_page(toy_blocks(3), ["sold out at noon"])
    assert '<a href="#toys">Toys</a>' in page
    assert "Two of three toys &lt;work&gt;." in page
    assert 'data-quantity="sold">3<small>pieces</small>' in page
    assert '<dd class="amber">and falling</dd>' in page
    assert "<svg/>" in page
    assert '<td class="red" data-label="sold pieces">0</td>' in page
    assert "<dd>sold out at noon</dd>" in page
    assert "Toys are counted. This file needs no" in page


def test_markdown_has_neither_links_nor_pictures_nor_lines_of_a_hostile_name() -> None:
    hostile = "a\\| ![x](http://h/p) [y](javascript:z)\n# forged `c` <img src=x>"
    remark = answer_markdown(toy_blocks(3), [hostile]).partition("- **note**: ")[2]
    line = remark.splitlines()[0]
    assert line.replace("\\\\", "").count("\\|") == 1  # The cell ends nowhere inside.
    assert not re.search(r"(?<!\\)[\[\]`]", line)
    assert "# forged" in line
    assert "<" not in line


def test_markdown_has_the_same_with_markup_escaped() -> None:
    text = answer_markdown(toy_blocks(3), ["sold out at noon"])
    assert text.startswith("# Two of three toys &lt;work>.\n")
    assert "pgdyno toy #7, ended early, market \\| square" in text
    assert "| sold | 3 pieces |" in text
    assert "- **prices**: and falling" in text
    assert "- **note**: sold out at noon" in text
    assert "| top | 0 | it fell |" in text


def test_json_has_the_keys_of_the_blocks() -> None:
    assert keys_of(toy_blocks(3).blocks) == {"sold": 3}
