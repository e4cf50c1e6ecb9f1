"""What a verb prints of an answer: one screen, unless somebody asks for all of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.fixtures.command import Command
from tests.outputs.rendered import stored_results
from tests.report import examples

from pgdyno.cli import output
from pgdyno.cli.list import result_lines
from pgdyno.cli.measure import show
from pgdyno.designs import words_of
from pgdyno.store.experiment import ListedExperiment


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


def listed(number: int) -> ListedExperiment:
    """Return a line of the list with an answer of two lines."""
    return ListedExperiment(
        number=number,
        verb="bench",
        name="night",
        began_ns=number * 10**9,
        run_count=1,
        incomplete_count=0,
        is_sealed=True,
        sentence="tps 1,000. " * 12,
        folder=Path(str(number)),
        is_complete=True,
        judged_count=1,
        valid_count=1,
        undo_count=0,
        is_journal_damaged=False,
        altered=(),
        is_number_shared=False,
        notes=(),
    )


def test_a_list_has_the_newest_results_first() -> None:
    rows = [listed(number) for number in range(1, 21)]
    lines = result_lines(rows, show_all=False).splitlines()
    assert lines[0].startswith("#20 ")
    assert lines[-1] == "12 older results: pgdyno list --all"
    assert len(lines) == 25
    everything = result_lines(rows, show_all=True)
    assert "older" not in everything
    assert everything.splitlines()[-3].startswith("#1 ")
    assert result_lines(rows[:8], show_all=False).count("#") == 8
