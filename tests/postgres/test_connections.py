"""Idle, shared and short-lived connections on a real server, as a person asks for them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fixtures.clusters import Make
from tests.fixtures.command import Command, server_options

from pgdyno.server.target import Target


@pytest.fixture
def given(database15: Target, tmp_path: Path) -> tuple[str, ...]:
    """A server of the user's own, and a script that any role may run."""
    script = tmp_path / "one.sql"
    script.write_text("SELECT :client_id;\n")
    return (*server_options(database15), "-f", str(script), "--warmup", "0")


def test_clients_share_connections_while_others_stay_idle(
    given: tuple[str, ...], pgdyno: Command
) -> None:
    said = pgdyno(
        *("bench", *given, "-c", "9", "-t", "40", "-M", "prepared"),
        *("--active", "3", "--idle", "12", "--connect-rate", "200", "--json"),
    )
    assert said.code in (0, 3), said.err
    connections = said.document["connections"]
    assert said.document["transactions"] == 360
    assert (connections["opened_count"], connections["shared_count"]) == (15, 3)
    assert (connections["idle_opened_count"], connections["idle_alive_count"]) == (12, 12)
    assert 0 < connections["wait_ms"]["p50"] <= connections["wait_ms"]["max"]
    shown = pgdyno("show", "-v", "last")
    assert "12 of 12 idle connections answered at the end" in shown.out
    assert "3 connections, mean wait" in shown.out


def test_a_connection_for_each_transaction_is_timed_apart(
    given: tuple[str, ...], pgdyno: Command
) -> None:
    said = pgdyno("bench", *given, "-c", "2", "-t", "15", "-C", "--json")
    assert said.code in (0, 3), said.err
    connections = said.document["connections"]
    assert said.document["transactions"] == 30
    assert connections["is_per_transaction"]
    assert 30 <= connections["opened_count"] <= 32
    assert 0 < connections["connect_ms"]["p50"] <= connections["connect_ms"]["p99"]
    shown = " ".join(pgdyno("show", "-v", "last").out.split())  # Its lines may break anywhere.
    assert "one per transaction" in shown


@pytest.mark.parametrize(("more", "is_named"), [(0, True), (9, False)])
def test_without_a_connection_to_measure_the_network_a_run_says_what_is_missing(
    more: int, is_named: bool, new_cluster: Make, pgdyno: Command, tmp_path: Path
) -> None:
    # Two clients, four sessions of pgdyno, and one that measures the network while they work.
    cluster = new_cluster("15", settings={"max_connections": str(6 + more)})
    (tmp_path / "one.sql").write_text("SELECT pg_sleep(0.005);\n")
    target = cluster.tcp_target
    said = pgdyno(
        *("bench", *server_options(target), "-f", tmp_path / "one.sql", "-c", "2"),
        *("-T", "2s", "--warmup", "0", "--json"),
        env={"PGPASSWORD": target.password.get_secret_value()} if target.password else {},
    )
    assert said.code in (0, 3), said.err
    doubts = [warning["message"] for warning in said.document["warnings"]]
    named = [text for text in doubts if "network was not measured while the load ran" in text]
    assert bool(named) == is_named, doubts
    assert all("because no connection was free for it" in text for text in named)


def test_options_that_exclude_each_other_are_refused_by_name(
    given: tuple[str, ...], pgdyno: Command
) -> None:
    both = pgdyno("bench", *given, "--active", "2", "-C")
    assert both.code == 1
    assert "-C" in both.error
    assert "active" in both.error
    many = pgdyno("bench", *given, "-c", "4", "--idle", "5000")
    assert many.code == 1
    assert "4 clients, 5000 idle connections and" in many.error
