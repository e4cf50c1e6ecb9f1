"""Verbs that take a stored result: a watch, and two results with the same number."""

from __future__ import annotations

import shutil

import pytest
from tests.fixtures.command import Command, server_options

from pgdyno.server.target import Target


@pytest.mark.parametrize(
    "words",
    [
        ("diff", "1", "1"),
        ("export", "1"),
        ("export", "1", "--table", "intervals"),
        ("run", "--resume", "1"),
    ],
    ids=" ".join,
)
def test_a_command_for_runs_refuses_a_healthy_watch_and_says_why(
    pgdyno: Command, database15: Target, words: tuple[str, ...]
) -> None:
    assert pgdyno("watch", *server_options(database15), "--duration", "1s").code == 0
    said = pgdyno(*words)
    assert said.code == 1, said.err
    assert " is a watch: it has no experiment and no runs." in said.error.replace("\n", " ")
    assert "pgdyno show 1" in said.error


def test_diff_of_two_watches_names_the_command_that_compares_them(
    pgdyno: Command, database15: Target
) -> None:
    for _ in range(2):
        assert pgdyno("watch", *server_options(database15), "--duration", "1s").code == 0
    said = pgdyno("diff", "1", "2")
    assert said.code == 1
    assert "pgdyno watch --of 2 --compare-to 1" in " ".join(said.error.split())


def test_two_results_with_the_same_number_are_both_listed_and_named_by_their_folders(
    pgdyno: Command, database15: Target
) -> None:
    assert pgdyno("watch", *server_options(database15), "--duration", "1s").code == 0
    [folder] = pgdyno.store.glob("watch-*")
    shutil.copytree(folder, folder.with_name("from-another-store"))
    listed = pgdyno("list", "--json").document["results"]
    assert [result["number"] for result in listed] == [1, 1]
    assert "another result has this number" in " ".join(pgdyno("list").out.split())
    for handle in ("1", "last"):
        refused = pgdyno("show", handle)
        assert "2 results have the number 1" in refused.error
        assert "from-another-store" in refused.error
    assert pgdyno("show", "from-another-store").code == 0
