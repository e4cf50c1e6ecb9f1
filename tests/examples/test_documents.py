"""What README and the documents show can be typed: command lines parse, specs are read."""

from __future__ import annotations

import contextlib
import re
import shlex
import tomllib
from pathlib import Path

import click
import pytest
from tests.site.shorter import FORMS
from tests.site.shown import BLOCKS, DOCUMENTS, commands

from pgdyno.cli.main import _run, pgdyno
from pgdyno.server.find import find
from pgdyno.spec.base import Spec
from pgdyno.spec.designs import MatrixDesign
from pgdyno.spec.experiment import Server
from pgdyno.spec.file import read_spec

ROOT = Path(__file__).parents[2]
# Verbs whose plan can be shown without a server.
PLANNED = ("bench", "sweep", "compare")


LINES = [
    (shown.page, shown.typed)
    for shown in commands()
    if shown.typed.startswith("pgdyno ") and shown.typed not in FORMS
]
# The tables that a document shows without the rest of the file.
PARTS: dict[str, type[Spec]] = {"design": MatrixDesign, "server": Server}
SPECS = [
    text
    for path in DOCUMENTS
    for language, text in BLOCKS.findall(path.read_text())
    if language == "toml"
]


def test_the_documents_have_commands_and_specs() -> None:
    assert len(LINES) > 20
    assert SPECS


@pytest.mark.parametrize(("document", "line"), LINES, ids=[line[:70] for _, line in LINES])
def test_a_command_line_of_the_documents_can_be_typed(
    document: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in re.findall(r"[\w/]+\.(?:sql|conf|log|txt)", line):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("SELECT 1;\n" if name.endswith(".sql") else "")
    for folder in re.findall(r"bin=([\w/-]+)", line):  # Builds that only the reader has.
        build = tmp_path / Path(folder).parent.name
        build.symlink_to(find().bin_dir)
        line = line.replace(folder, str(build))
    _, verb, *arguments = shlex.split(line)
    if verb == "pgbench":
        return  # The drop-in reads its own.
    command = pgdyno.get_command(pgdyno.make_context("pgdyno", [verb]), verb)
    assert command is not None
    if "--print-collector" not in arguments:
        with contextlib.suppress(click.exceptions.Exit):  # `-b list` ends while it is read.
            command.make_context(verb, list(arguments))
    needs_capture = any(argument.endswith(".capture") for argument in arguments)
    if verb in PLANNED and not {"-h", "--host"} & set(arguments) and not needs_capture:
        assert _run([verb, *arguments, "--dry-run"]) == 0, f"{document}: {line}"


@pytest.mark.parametrize("text", SPECS)
def test_a_spec_of_the_documents_can_be_read(text: str, tmp_path: Path) -> None:
    if "[experiment]" not in text:  # A part of a file: each of its tables is read alone.
        for table, content in tomllib.loads(text).items():
            PARTS[table].model_validate(content)
        return
    for name in re.findall(r'file = "([^"]+)"', text):
        (tmp_path / name).write_text("SELECT 1;\n")
    path = tmp_path / "spec.toml"
    path.write_text(text)
    assert read_spec(path).experiment.name


# The second level of sections 1 to 5 of the TPC-C specification, revision 5.11.
CLAUSES_OF_SECTIONS = {1: 6, 2: 8, 3: 5, 4: 3, 5: 7}


def clause_rows() -> list[tuple[str, str]]:
    """Return the clauses and the answer of each row of the table in docs/tpcc.md."""
    text = (ROOT / "docs" / "tpcc.md").read_text().partition("| clause | about | pgdyno |")[2]
    rows = [line.split("|") for line in text.splitlines()[2:]]
    assert all(len(cells) == 5 for cells in rows)
    return [(cells[1], cells[3]) for cells in rows]


def test_each_row_of_the_specification_is_implemented_an_option_or_a_deviation() -> None:
    answers = [answer for _, answer in clause_rows()]
    # An option and a deviation say which.
    right = re.compile(r" (implemented( |: .+)|(option|deviation): .+)")
    assert [answer for answer in answers if right.fullmatch(answer) is None] == []
    words = re.compile("implement|option|deviat")
    assert [answer for answer in answers if len(words.findall(answer)) > 1] == []


def test_no_clause_of_sections_1_to_5_is_without_a_row() -> None:
    clauses = ",".join(clauses for clauses, _ in clause_rows())
    for section, count in CLAUSES_OF_SECTIONS.items():
        for number in range(1, count + 1):
            # Not the end of a longer number, as 5.7 is in 5.2.5.7.
            clause = rf"(?<![\d.]){section}\.{number}(?!\d)"
            assert re.search(clause, clauses), f"no row has {section}.{number}"
