"""A TPC-C-like load whose answer is known: its New-Orders sleep, one after the other."""

from __future__ import annotations

import pytest
from tests.fixtures.clusters import scalar
from tests.fixtures.command import Command, server_options
from tests.fixtures.prove import Proved
from tests.fixtures.stillness import Document, on_a_machine_that_runs
from tests.fixtures.tpcc import new_orders_take

from pgdyno.server.target import Target

pytestmark = pytest.mark.pg
RAN = (0, 3)  # A run of seconds is too short to be valid, and pgdyno says so.
SHORT = ("--warmup", "0s", "--reset", "none", "--no-check", "--json")
MODES = ("statements", "pipeline", "procedures")
NOT_EXPLAINED_RATIO_MAX = 0.05


def test_the_most_terminals_are_those_that_keep_the_target_of_new_order(
    pgdyno: Command, warehouse: Target
) -> None:
    sleep_ms, target_ms = 100, 250
    with new_orders_take(warehouse, sleep_ms / 1e3):
        said = pgdyno(
            *("sweep", *server_options(warehouse), "-b", "tpcc-like", "-c", "1,4", *SHORT),
            *("--rounds", "1", "-T", "1s", "--knee-duration", "1s"),
            *("--slo", f"new-order.p90={target_ms}ms"),
        )
    assert said.code in RAN, said.err
    [curve] = said.document["curves"]
    capacity = curve["capacity"]
    assert capacity["rule"] == f"new-order.p90 <= {target_ms} ms (closed loop)"
    trials = capacity["trials"]
    # The last of three waits for the sleep of two, and sleeps itself: 300 ms, or more.
    assert all(
        trial["latency_ms"] > target_ms for trial in trials if trial["offered_terminals"] > 2
    )
    # On a busy machine fewer keep it, but then these runs have measured so.
    kept = [trial["offered_terminals"] for trial in trials if trial["latency_ms"] <= target_ms]
    assert (capacity["end"], capacity["terminals"]["value"]) == ("found", max(kept))
    assert capacity["failed_by"] == "new-order.p90"


@pytest.mark.parametrize("mode", MODES)
def test_the_wait_of_new_orders_is_their_own_time_in_every_mode(
    pgdyno: Command, warehouse: Target, mode: str
) -> None:
    sleep_ms = 20
    with new_orders_take(warehouse, sleep_ms / 1e3):
        where = _explained(pgdyno, warehouse, mode, "--terminals", "3", "-T", "4s")
    sleeping_ms = {
        kind["name"]: kind["parts"]["wait_events"]["ms"] * kind["events"].get("Timeout:PgSleep", 0)
        for kind in where["types"]
    }
    # Some forty samples saw it, so the mean may be off by half at most.
    assert sleep_ms / 2 < sleeping_ms.pop("new-order") < 2 * sleep_ms
    assert sleeping_ms.keys() >= {"payment", "order-status", "delivery", "stock-level"}
    assert all(ms < sleep_ms / 10 for ms in sleeping_ms.values()), sleeping_ms


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_the_latency_of_a_plain_load_is_explained_in_every_mode(
    pgdyno: Command, database: Target, proved: Proved, mode: str
) -> None:
    said = pgdyno("init", "tpcc", *server_options(database), "--warehouses", "1", "--no-check")
    assert said.code == 0, said.err
    where = _explained(pgdyno, database, mode, "--terminals", "4", "-T", "20s")
    version = scalar(database, "SHOW server_version")
    proved(
        f"where the time of tpcc-like goes, mode {mode}, PostgreSQL {version}",
        required="not explained: at most 5 %, or a doubt says so",
        seen=f"{where['residual_ms'] / where['latency_ms']:+.1%}",
    )


def _explained(pgdyno: Command, target: Target, mode: str, *options: str) -> Document:
    """Return where the time of a run goes; a doubt names a rest that is too large."""
    words = ("bench", *server_options(target), "-b", "tpcc-like", "--mode", mode, *options, *SHORT)

    def measure() -> Document:
        said = pgdyno(*words)
        assert said.code in RAN, said.err
        return said.document

    document = on_a_machine_that_runs(measure)
    where = document["where_the_time_goes"]
    assert where is not None, document["where_the_time_goes_not_computed_because"]
    parts_ms = sum(part["ms"] for part in where["parts"])
    assert parts_ms + where["residual_ms"] == pytest.approx(where["latency_ms"])
    doubts = [warning["kind"] for warning in document["warnings"]]
    is_explained = abs(where["residual_ms"]) <= NOT_EXPLAINED_RATIO_MAX * where["latency_ms"]
    assert is_explained is ("not_explained" not in doubts), (where, doubts)
    # PostgreSQL counts only the last statement of a pipeline.
    assert ("server_time_sampled" in doubts) is (mode == "pipeline"), doubts
    return dict(where)
