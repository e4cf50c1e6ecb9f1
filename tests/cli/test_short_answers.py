"""What a verb prints of an answer: one screen, unless somebody asks for all of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.fixtures.command import Command
from tests.outputs.rendered import stored_results
from tests.report import examples

from pgdyno.cli import output
from pgdyno.cli.measure import show
from pgdyno.designs import words_of


def test_an_answer_is_one_screen_and_v_prints_it_all(
    capsys: pytest.CaptureFixture[str],
) -> None:
    findings = examples.sweep()
    show(findings, None, Path("/tmp/report.html"), is_whole=False)
    short = capsys.readouterr().out.splitlines()
    show(findings, None, Path("/tmp/report.html"), is_whole=True)
    whole = capsys.readouterr().out.splitlines()
    assert len(short) <= 25 < len(whole)
    assert whole[:-1] == words_of(findings, output.width()).splitlines()
    assert "pgdyno show -v" in short[-1]
    assert any(line.startswith("report") for line in short)


def test_every_stored_kind_is_shown_on_one_screen(pgdyno: Command, tmp_path: Path) -> None:
    for name, folder in stored_results(tmp_path):
        store = folder.folder.parent
        short = pgdyno("show", "--store", store).out.splitlines()
        whole = pgdyno("show", "-v", "--store", store)
        assert whole.code == 0, (name, whole.err)
        assert len(short) <= 25, name
        assert len(whole.out.splitlines()) >= len(short), name
        again = pgdyno("show", "--json", "--store", store).out
        assert json.loads(again)["format"].startswith("pgdyno."), name
