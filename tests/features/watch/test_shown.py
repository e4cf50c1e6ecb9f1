"""What a watch shows while it lasts: a line for each interval that was seen, and its absence."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.features.watch.samples import SECOND_NS, database, wait
from tests.outputs.rendered import stored_results

from pgdyno.cli import output
from pgdyno.features.watch.segments import document_again
from pgdyno.features.watch.tally import Tally
from pgdyno.features.watch.verbs import watch as verb
from pgdyno.features.watch.verbs.watch import WatchLines
from pgdyno.report.text_page import one_line


@pytest.fixture
def live(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The first line of each screen of a terminal, without the time of day."""
    screens: list[str] = []
    monkeypatch.setattr(output, "is_terminal", lambda: True)
    monkeypatch.setattr(output, "live", lambda *lines: screens.append(lines[0].split(" ", 1)[1]))
    return screens


def show(interval: int, *, sampled: set[int], until: int) -> None:
    """Show a server with 10 tps from its first second on, looking at it twice a second."""
    shown, tally = WatchLines(interval * SECOND_NS, {}), Tally(interval * SECOND_NS)
    for half in range(2, 2 * until + 1):
        second, is_between = divmod(half, 2)
        if second in sampled and not is_between:
            tally.take("database", database(second, 12 * second, interval=interval))
        shown.moved(half * SECOND_NS // 2, tally)


def test_a_line_stays_until_the_next_sample_came(live: list[str]) -> None:
    show(5, sampled={5, 10, 15}, until=17)
    assert live == ["tps 10", "tps 10"]


def test_the_line_of_a_lost_server_shows_how_long_it_is_lost(live: list[str]) -> None:
    show(1, sampled={1, 2, 3}, until=9)
    assert live == ["tps 10", "tps 10", "server not reached for 3 s", "server not reached for 6 s"]


def test_without_a_terminal_the_first_line_comes_as_soon_as_something_was_counted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show(1, sampled=set(range(1, 20)), until=19)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(" ", 1)[1] for line in lines] == ["tps 10", "tps 10"]


def test_the_first_line_shows_sessions_before_counters_have_two_samples(live: list[str]) -> None:
    shown, tally = WatchLines(SECOND_NS, {}), Tally(SECOND_NS)
    tally.take("database", database(1, 12))
    for sample in range(5):
        tally.take("waits", [wait("Lock:tuple", 1, 2)])
        shown.moved(SECOND_NS + sample * SECOND_NS // 10, tally)
    tally.take("database", database(2, 24))
    shown.moved(2 * SECOND_NS, tally)
    assert [line.split("  ")[0] for line in live] == ["active 2/12", "tps 10"]


def test_a_long_statement_is_cut_where_its_room_ends() -> None:
    assert one_line("UPDATE  pgbench_accounts\n SET abalance = 1", 20) == "UPDATE pgbench_acco…"
    assert one_line("SELECT 1", 8) == "SELECT 1"


def test_the_answer_is_printed_before_the_page_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    [folder] = [kept for name, kept in stored_results(tmp_path) if name == "stored-format-1-watch"]
    printed: list[str] = []

    def draw(*_: object) -> str:
        printed.append(capsys.readouterr().out)
        return "<html></html>"

    monkeypatch.setattr("pgdyno.report.html.answer_page", draw)
    given = {"verbose": False, "compared": None, "json_to": None}
    verb._show(given, folder, document_again(folder), None)
    assert "\nanswer " in printed[0]
    assert "\nreport " not in printed[0]
    assert capsys.readouterr().out.startswith("report ")
