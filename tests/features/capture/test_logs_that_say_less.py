"""Logs that lack something: a note names what is not known; statements have their reasons."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.clusters import new_database, run_sql
from tests.fixtures.command import Command, Said, server_options

from pgdyno.features.capture import file
from pgdyno.features.capture.model import Capture
from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.server.target import Target

LOGS = Path(__file__).parent / "logs"


@pytest.fixture(scope="module")
def shop(pg15: ScratchCluster) -> Iterator[Target]:
    """A database with the tables of the logs."""
    for target in new_database(pg15):
        run_sql(target, (LOGS / "shop.sql").read_text())
        run_sql(target, "CREATE TABLE b AS SELECT g AS id FROM generate_series(1, 100) g")
        run_sql(target, "ANALYZE")
        yield target


class Logs:
    """Captures a log of `LOGS`, written for the database of the target."""

    def __init__(self, pgdyno: Command, target: Target, folder: Path) -> None:
        self._pgdyno, self._target, self._folder = pgdyno, target, folder

    def said(self, text: str) -> Said:
        """Return what `capture` says about a log."""
        log = self._folder / "some.log"
        (self._folder / "some.capture").unlink(missing_ok=True)
        names = ("@shop", "@mir_src")
        for name in names:
            text = text.replace(name, f"@{self._target.database}")
        log.write_text(text)
        options = (*server_options(self._target), "-o", self._folder / "some.capture")
        return self._pgdyno("capture", *options, "--log", log, "--json", "-")

    def captured(self, name: str) -> tuple[Capture, dict[str, Any]]:
        """Return the capture of a log, and the document that `capture` prints."""
        said = self.said((LOGS / name).read_text())
        assert said.code == 0, said.err
        return file.read(self._folder / "some.capture"), said.document


@pytest.fixture
def logs(pgdyno: Command, shop: Target, tmp_path: Path) -> Logs:
    return Logs(pgdyno, shop, tmp_path)


def calls_of(capture: Capture, begin: str) -> int:
    return sum(s.counters.calls for s in capture.statements if s.text.startswith(begin))


def test_slow_statements_alone_have_no_coverage_and_no_rate(logs: Logs) -> None:
    capture, document = logs.captured("l01_slow_only.log")
    assert capture.header.is_partial
    assert document["coverage"]["calls_ratio"] is None
    assert document["coverage"]["time_ratio"] is None
    assert any("fast statements are missing" in note for note in capture.notes)


def test_a_log_without_names_of_databases_says_so(logs: Logs) -> None:
    capture, _ = logs.captured("l03_two_databases_no_d.log")
    assert any("has no %d" in note for note in capture.notes)
    capture, _ = logs.captured("l04_t_one_second.log")
    assert not any("has no %d" in note for note in capture.notes)


def test_whole_seconds_give_the_rate_of_the_seconds(logs: Logs) -> None:
    capture, _ = logs.captured("l04_t_one_second.log")
    assert capture.profile.commits / capture.profile.seconds == pytest.approx(40)
    assert any("known to 1 s" in note for note in capture.notes)


@pytest.mark.parametrize("name", ["l06_azure_prefix.log", "l08_verbose.log"])
def test_prefixes_of_services_and_verbose_messages_are_read(name: str, logs: Logs) -> None:
    capture, _ = logs.captured(name)
    assert calls_of(capture, "SELECT owner FROM account") == 20


def test_a_fetch_from_a_portal_is_no_call(logs: Logs) -> None:
    capture, _ = logs.captured("l11_fetch_from.log")
    assert calls_of(capture, "SELECT id, owner") == 10
    [statement] = [s for s in capture.statements if s.text.startswith("SELECT id, owner")]
    assert statement.counters.time_ms == pytest.approx(10 * (3.0 + 9 * 0.3), rel=0.01)


def test_statements_that_cannot_be_sent_again_have_their_own_reasons(logs: Logs) -> None:
    capture, _ = logs.captured("l10_mixed.log")
    reasons = sorted((item.reason, item.calls) for item in capture.left_out)
    assert reasons == [("empty", 1), ("several", 1), ("several", 1)]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("l16_missing_table.log", "a table or function of the statement is not in the capture"),
        ("l17_two_statements.log", "several statements in one text"),
    ],
)
def test_a_log_of_which_nothing_can_be_sent_again_says_why(
    name: str, words: str, logs: Logs
) -> None:
    said = logs.said((LOGS / name).read_text())
    assert said.code != 0
    assert words in " ".join(said.err.split())


def test_a_log_with_the_newest_message_first_is_refused(logs: Logs) -> None:
    lines = (LOGS / "l06_azure_prefix.log").read_text().splitlines(keepends=True)
    said = logs.said("".join(reversed(lines)))
    assert said.code == 1
    assert "older than the first" in said.error
    assert "oldest first" in said.error


def test_a_statement_whose_parameters_have_no_type_is_left_out_and_the_others_run(
    logs: Logs, pgdyno: Command, pg15: ScratchCluster, tmp_path: Path
) -> None:
    capture, _ = logs.captured("l18_untyped_parameters.log")
    left_out = [(item.reason, item.text) for item in capture.left_out]
    assert left_out == [("refused", "SELECT $1 + $2 AS n")]
    for copy in new_database(pg15):
        path, where = tmp_path / "some.capture", server_options(copy)
        assert pgdyno("init", path, *where).code == 0
        said = pgdyno("bench", "-b", path, *where, "-c", "1", "-T", "1s", "--json")
        assert said.code in (0, 3), said.err
        [script] = said.document["scripts"]
        assert script["transactions"] > 0
        assert not script["failures"]


def test_parameters_of_failed_statements_are_not_missing(logs: Logs) -> None:
    """What failed is not reproduced; its parameters are logged by another setting."""
    at = "2026-07-01 10:00:0{}.000 UTC [77] app@shop "
    select = "SELECT id FROM b WHERE id = $1"
    lines = []
    for second in range(5):
        lines += [
            f"{at.format(second)}ERROR:  canceling statement due to user request",
            f"{at.format(second)}STATEMENT:  {select}",
        ]
    lines += [
        f"{at.format(6)}LOG:  duration: 0.100 ms  execute <unnamed>: {select}",
        f"{at.format(6)}DETAIL:  parameters: $1 = '7'",
    ]
    said = logs.said("\n".join(lines) + "\n")
    assert "transactions of the logs failed; they are not reproduced: 5" in said.out
    assert "parameters" not in " ".join(said.document["notes"])
