"""A read-only load on a standby: what cannot be done there before a run is left out, and said."""

from __future__ import annotations

from tests.fixtures.clusters import Make
from tests.fixtures.command import Command, server_options
from tests.fixtures.standby import Standby
from tests.measure.test_watched_run import last_run


def test_a_standby_is_measured_with_scripts_that_only_read(
    pgdyno: Command, new_cluster: Make
) -> None:
    primary = new_cluster("15", settings={"max_wal_senders": "4"})
    loaded = pgdyno("init", "-s", "1", *server_options(primary.target))
    assert loaded.code == 0, loaded.err
    with Standby(primary) as standby:
        load = ("-b", "select-only", "-c", "2", "-T", "2", "--warmup", "0s", "--json")
        said = pgdyno("bench", *server_options(standby.target), *load)
        writing = pgdyno("bench", *server_options(standby.target), "-b", "tpcb-like", "-c", "2")
    assert (writing.code, writing.out) == (1, "")
    refused = " ".join(writing.error.split())
    assert "Script tpcb-like writes, but " in refused
    assert "is a standby, which accepts no writes. next: connect to the primary" in refused
    assert said.code in (0, 3), said.err
    assert " standby" in said.document["target"]
    run = last_run(pgdyno.store)
    assert run.summary["counts"]["failed"] == 0
    assert run.summary["counts"]["completed"] > 0
    steps = run.server_json["reset"]["steps"]
    left_out = {step["name"]: step["skipped"] for step in steps if step["skipped"]}
    assert "read-only" in left_out["empty history"]
    assert "during recovery" in left_out["vacuum"]
    assert "checkpoint" not in left_out
