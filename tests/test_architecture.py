"""ARCHITECTURE.md describes the tree: its rooms and its paths are those of the code."""

from __future__ import annotations

import re

import pytest
from tests.tidy.python_rules import ARROW
from tests.tidy.source import ROOT, tree

from pgdyno.feature import features

_LINES_MAX = 200
_TEXT = (ROOT / "ARCHITECTURE.md").read_text()


def test_the_rooms_are_in_the_order_that_imports_keep() -> None:
    table = _TEXT.split("\n## The rooms\n")[1].split("\n## ")[0]
    cells = re.findall(r"^\| (`[^|]*`) \|", table, re.MULTILINE)
    names = [name for cell in cells for name in re.findall(r"`([^`]*)`", cell)]
    rooms = [re.sub(r"^pgdyno/|\.py$|/$", "", name) for name in names if "crates/" not in name]
    assert rooms == [name for names in ARROW for name in names]


def test_the_document_can_be_read_at_one_sitting_and_names_every_feature() -> None:
    assert len(_TEXT.splitlines()) <= _LINES_MAX
    assert all(f"`{feature.name}`" in _TEXT for feature in features())


@pytest.mark.parametrize("document", ["ARCHITECTURE.md", "docs/adding.md"])
def test_every_file_that_a_document_names_exists(document: str) -> None:
    paths = [f"/{source.path}" for source in tree()]
    named = set(re.findall(r"`([\w./-]+\.(?:py|rs|js))`", (ROOT / document).read_text()))
    exact = {name for name in named if not re.search(r"NAME|GROUP|toy", name)}
    assert not {name for name in exact if not any(path.endswith(f"/{name}") for path in paths)}
