"""A wall clock that is set during a run changes no figure of it, and is reported."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tests.fixtures.command import Command, RunningCommand, eventually, server_options, under_way
from tests.fixtures.set_clock import SetClock

from pgdyno.clock import read_pair
from pgdyno.engine.executable import engine_path
from pgdyno.store.experiment import Store
from pgdyno.store.folder import ExperimentFolder

HOUR_S = 3600.0
SECOND_NS = 1_000_000_000
CLIENTS = 2
INTERRUPTED = 130


def _await_more(
    running: RunningCommand, store: Path, *, intervals: int = 1, samples: int = 10
) -> None:
    """Return when so much more of the measured phase is kept than now, and of samples of waits."""

    def measured() -> int:
        kept = under_way(store, "intervals.jsonl")
        return sum(path.read_bytes().count(b'"measure"') for path in kept)

    def sampled() -> int:
        kept = b"".join(path.read_bytes() for path in under_way(store, "waits.jsonl"))
        whole, _, _ = kept.rpartition(b"\n")
        return len({json.loads(line)["time_ns"] for line in whole.splitlines()})

    measured_before, sampled_before = measured(), sampled()
    eventually(
        lambda: measured() >= measured_before + intervals and sampled() >= sampled_before + samples,
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


def test_the_load_engine_has_the_clock_that_was_set(set_clock: SetClock) -> None:
    """It reads clocks without libc; a shim that does not reach it would prove nothing."""
    set_clock.set_by(HOUR_S)
    said = subprocess.run(
        [engine_path(), "run"],
        input=b"no job\n",
        env={**os.environ, **set_clock.environment},
        capture_output=True,
        check=False,
        timeout=60,
    )
    set_clock.set_by(0.0)
    [record] = [json.loads(line) for line in said.stdout.splitlines()]
    ahead_ns = record["time_ns"] - read_pair().unix_ns
    assert ahead_ns == pytest.approx(HOUR_S * SECOND_NS, abs=HOUR_S / 2 * SECOND_NS)


def test_terminals_neither_hurry_nor_wait_when_the_clock_is_set_while_they_think(
    set_clock: SetClock, pgdyno: Command
) -> None:
    terminals, factor = 100, 0.2
    # Clause 5.2.5 for a deck of 23 cards: keying and thinking of each type.
    cycle_s = factor * (10 * (18 + 12) + 10 * (3 + 12) + (2 + 10) + (2 + 5) + (2 + 5)) / 23
    where = server_options(set_clock.cluster.target)
    set_clock.set_by(0.0)
    assert pgdyno("init", "tpcc", *where, "--warehouses", "1", "--no-check").code == 0
    running = pgdyno.start(
        *("bench", *where, "-b", "tpcc-like", "--terminals", str(terminals), "--connections", "8"),
        *("--think-factor", str(factor), "-T", "10min", "--warmup", "0s", "--no-check", "-q"),
        env=set_clock.environment,
    )
    # With a wall clock, the first step would end all pauses at once, and the second would make
    # every pause last for two hours.
    for step_s in (0.0, HOUR_S, -HOUR_S):
        set_clock.set_by(step_s)
        _await_more(running, pgdyno.store, intervals=40, samples=0)
    running.signal(signal.SIGINT)
    said = running.wait()
    assert said.code == INTERRUPTED, said.err
    folder = Store(pgdyno.store).find("last")
    analysis = folder.analysis()
    assert analysis is not None
    [run] = folder.runs()
    began_ns, ended_ns = run.measured_span_ns()
    measured_s = (ended_ns - began_ns) / SECOND_NS
    assert 0 < measured_s < HOUR_S / 2
    # No terminal thinks longer than the run lasts.
    thinking_s = run.summary["clients"]["think_time_ns"] / SECOND_NS
    assert 0 < thinking_s <= 1.01 * terminals * measured_s
    # If all pauses had ended at the first step, a pause would be 0.7 of the specified one on
    # average; by chance alone the mean of some 300 pauses differs from it by 6 %.
    assert thinking_s / run.summary["counts"]["completed"] > 0.75 * cycle_s
    assert 0 < analysis["latency_ms"]["mean"]["value"] < measured_s * 1e3
