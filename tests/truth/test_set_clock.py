"""A wall clock that is set during a run changes no figure of it, and is reported."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import numpy as np
import pytest
from tests.fixtures.command import Command, RunningCommand, eventually, server_options, under_way
from tests.fixtures.set_clock import SetClock

from pgdyno.store.experiment import Store
from pgdyno.store.folder import ExperimentFolder

HOUR_S = 3600.0
CLIENTS = 2
INTERRUPTED = 130


def _await_more(running: RunningCommand, store: Path) -> None:
    """Return when more of the measured phase is kept than now, and ten samples more of waits."""

    def measured() -> int:
        kept = under_way(store, "intervals.jsonl")
        return sum(path.read_bytes().count(b'"measure"') for path in kept)

    def sampled() -> int:
        kept = b"".join(path.read_bytes() for path in under_way(store, "waits.jsonl"))
        whole, _, _ = kept.rpartition(b"\n")
        return len({json.loads(line)["time_ns"] for line in whole.splitlines()})

    before, samples = measured(), sampled()
    eventually(
        lambda: measured() > before and sampled() >= samples + 10,
        unless=lambda: running.process.poll() is not None,
    )


def _run(pgdyno: Command, clock: SetClock, tmp_path: Path, *steps_s: float) -> ExperimentFolder:
    """Carry out a run in which the clock is set to each of `steps_s`, some time apart."""
    (tmp_path / "work.sql").write_text("SELECT sum(x) FROM generate_series(1, 3000) AS x;\n")
    target = clock.cluster.target
    clock.set_by(0.0)
    running = pgdyno.start(
        "bench",
        *server_options(target),
        *("-f", tmp_path / "work.sql", "-c", str(CLIENTS), "-T", "10min", "--warmup", "0s", "-q"),
        env=clock.environment,
    )
    _await_more(running, pgdyno.store)
    for step_s in steps_s:
        clock.set_by(step_s)
        _await_more(running, pgdyno.store)
    running.signal(signal.SIGINT)
    said = running.wait()
    assert said.code == INTERRUPTED, said.err
    return Store(pgdyno.store).find("last")


@pytest.mark.parametrize("steps_s", [(HOUR_S,), (-HOUR_S, 0.0)], ids=["forwards", "there and back"])
def test_no_figure_of_a_run_moves_with_the_wall_clock(
    set_clock: SetClock, pgdyno: Command, tmp_path: Path, steps_s: tuple[float, ...]
) -> None:
    folder = _run(pgdyno, set_clock, tmp_path, *steps_s)
    analysis = folder.analysis()
    assert analysis is not None
    [run] = folder.runs()
    apart_ns = np.diff(run.intervals()["time_ns"])
    assert (apart_ns > 0).all()
    assert apart_ns.sum() < HOUR_S / 2 * 1e9
    doubts = {warning["kind"]: warning["message"] for warning in analysis["warnings"]}
    assert f"this host by {steps_s[0]:+.1f} s" in doubts["clock_set"]
    # Clients that never wait: clients = throughput x latency, whatever the wall clock says.
    busy = analysis["tps"]["value"] * analysis["latency_ms"]["mean"]["value"] / 1e3
    assert busy == pytest.approx(CLIENTS, rel=0.1)
    where = analysis["where_the_time_goes"]
    assert where is not None, analysis["where_the_time_goes_not_computed_because"]
    assert 0 < where["server_ms"] <= 1.1 * where["latency_ms"]
    assert 0 < analysis["seconds"] < HOUR_S / 2
