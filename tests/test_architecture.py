"""ARCHITECTURE.md describes the tree: its lists, its counts and its paths are those of the code."""

from __future__ import annotations

import re
from functools import cache

import pytest
from tests.tidy.python_rules import ARROW, PROGRAM_NAMES
from tests.tidy.source import PROGRAM_PARTS, ROOT, tree

NUMBERS = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "nine": 9}


@cache
def architecture() -> str:
    """Return the document, with single spaces, for sentences that span lines."""
    return re.sub(r"\s+", " ", (ROOT / "ARCHITECTURE.md").read_text())


@cache
def section(heading: str) -> str:
    """Return the text below a heading, up to the next heading of this level or a higher one."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    level = len(heading.partition(" ")[0])
    below = text.split(f"\n{heading}\n")[1]
    return re.split(rf"^#{{1,{level}}} ", below, maxsplit=1, flags=re.MULTILINE)[0]


def steps(heading: str) -> int:
    """Return how many numbered steps a section has."""
    return len(re.findall(r"^\d+\. ", section(heading), re.MULTILINE))


def test_the_rooms_are_in_the_order_that_imports_keep() -> None:
    table = section("## The rooms")
    cells = re.findall(r"^\| (`[^|]*`) \|", table, re.MULTILINE)
    names = [name for cell in cells for name in re.findall(r"`([^`]*)`", cell)]
    rooms = [re.sub(r"^pgdyno/|\.py$|/$", "", name) for name in names if "crates/" not in name]
    assert rooms == [name for names in ARROW for name in names]


def test_the_parts_of_a_thread_are_the_fields_of_its_loop() -> None:
    source = (ROOT / "crates/engine/src/thread/mod.rs").read_text()
    struct = source.split("struct Loop<")[1].split("}")[0]
    fields = re.findall(r"^    (\w+): ", struct, re.MULTILINE)
    paragraph = section("### A thread is a loop over parts that own their state").split("\n\n")[0]
    listed = re.findall(r"`(\w+)`", paragraph.partition("keeps its fields private:")[2])
    assert sorted(listed) == sorted({*fields, "Shard"} - {"plan", "shard"})


def test_the_files_of_a_program_belong_to_the_rooms_that_the_document_names() -> None:
    text = section("### A program answers for itself")
    named = dict(re.findall(r"`(\w+)\.py`\s+to\s+`(\w+)/`", text))
    assert named.pop("load") == "programs"
    assert named == {name: PROGRAM_PARTS[name] for name in named}
    assert set(PROGRAM_PARTS.values()) == set(named.values())


@pytest.mark.parametrize(
    ("heading", "sentence"),
    [
        ("## How to add a dataset", r"It needs (\w+) places"),
        ("## How to add a design", r"At most (\w+) files"),
        ("## How to add a collector", r"At most (\w+) files"),
    ],
)
def test_a_guide_has_as_many_steps_as_it_says(heading: str, sentence: str) -> None:
    counted = re.search(sentence, re.sub(r"\s+", " ", section(heading)))
    assert counted is not None
    assert steps(heading) == NUMBERS[counted[1]]


def test_a_program_with_a_dataset_touches_the_files_that_the_sentence_adds_up() -> None:
    sentence = re.search(
        r"touches (\w+) files outside its own folders: the (\w+) of .How to add a dataset. \(its"
        r" places ([^)]*)\) and (\w+) of the contract \(([^)]*)\)",
        re.sub(r"\s+", " ", architecture()),
    )
    assert sentence is not None
    total, of_dataset, of_contract = (NUMBERS[sentence[place]] for place in (1, 2, 4))
    assert of_dataset == steps("## How to add a dataset") - 1, "one place is the folder itself"
    assert of_contract == len(re.split(r", | and ", sentence[5]))
    assert total == of_dataset + of_contract


def test_the_files_that_name_a_program_or_a_search_are_as_many_as_it_says() -> None:
    by_tpcc = [source for source in tree() if PROGRAM_NAMES["tpcc"].search(source.text)]
    outside = [source.path for source in by_tpcc if "/tpcc/" not in source.path]
    of_engine = [path for path in outside if re.match(r"crates/.*/src/.*\.rs$", path)]
    of_lab = [path for path in outside if re.match(r"python/.*\.py$", path)]
    counts = re.search(
        r"(\d+) files? of the engine and (\d+) of the lab name the TPC-C-like", architecture()
    )
    assert counts is not None
    assert (len(of_engine), len(of_lab)) == (int(counts[1]), int(counts[2])), (of_engine, of_lab)
    by_tune = [
        source.path
        for source in tree()
        if re.match(r"python/pgdyno/(?!tune/|cli/).*\.py$", source.path)
        and re.search(r"\btune\b", source.text, re.IGNORECASE)
    ]
    counts = re.search(r"Outside its room and `cli/`, (\d+) files name `tune`", architecture())
    assert counts is not None
    assert len(by_tune) == int(counts[1]), by_tune


def test_every_file_that_the_document_names_exists() -> None:
    paths = [f"/{source.path}" for source in tree()]
    named = set(re.findall(r"`([\w./-]+\.(?:py|rs|js))`", architecture()))
    exact = {name for name in named if not re.search(r"NAME|GROUP", name)}
    assert not {name for name in exact if not any(path.endswith(f"/{name}") for path in paths)}
