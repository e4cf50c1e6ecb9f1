"""Writes an experiment of random numbers as the lab stores it, to measure the lab itself."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from typing import Any

import numpy as np

from pgdyno.analysis.compare import shuffled
from pgdyno.analysis.histogram import Histogram
from pgdyno.engine.records import Counts
from pgdyno.loop.journal import record_decision, record_finished
from pgdyno.observe.catalogue import columns_of
from pgdyno.spec.designs import CompareDesign
from pgdyno.spec.experiment import (
    Experiment,
    PgbenchDataset,
    Scratch,
    Script,
    Server,
    Variant,
    Workload,
)
from pgdyno.spec.file import to_toml
from pgdyno.spec.planned import Cell, PlannedRun, Stop
from pgdyno.store.experiment import Store
from pgdyno.store.folder import ExperimentFolder

SECOND_NS = 1_000_000_000
BEGAN_NS = 1_790_000_000 * SECOND_NS
NAMES = ("before", "after")
_SECONDS = 5
_EACH_S = 10
_KEYS = {"cpu": ["all"], "throttling": ["lab", "server"], "backends": ["load", "checkpointer"]}
_KEYS |= {"database": ["ours"], "wal": [""], "checkpointer": [""]}


def generate(
    store: Store,
    *,
    rounds: int,
    effect_ratio: float,
    noise_ratio: float,
    distinct: int = 40,
    prices: tuple[str | None, str | None] = (None, None),
) -> ExperimentFolder:
    """Write a comparison of two variants whose second is faster by `effect_ratio`.

    Args: rounds, of two runs each; distinct, the number of runs with separate numbers: the rest are
    copies of these runs, because writing costs more than the work that is measured.
    """
    rng = np.random.default_rng(17)
    asked = Experiment(
        name="generated",
        server=Server(scratch=Scratch()),
        dataset=PgbenchDataset(),
        workload=Workload(
            scripts=(Script(builtin="select-only"),), clients=4, duration="5s", warmup="2s"
        ),
        variant=tuple(Variant(name=n, price=p) for n, p in zip(NAMES, prices, strict=True)),
        design=CompareDesign(budget="24h"),
    )
    folder = store.create(asked.name, "compare")
    folder.write_spec(to_toml(asked))
    folder.write_facts({"server": {"is_local": True}, "target_line": "generated", "rows": []})
    for number in range(1, 2 * rounds + 1):
        place = (number - 1) // 2
        variant = shuffled((0, 1), 1, place % (distinct // 4 * 2))[(number - 1) % 2]
        cell = Cell((0,), 4, variant=asked.planned_variants()[variant])
        planned = PlannedRun(number, "round", place + 1, cell, 0, _SECONDS * SECOND_NS, seed=1)
        record_decision(folder, planned)
        if number <= distinct:
            tps = 1000 * (1 + effect_ratio * variant) * float(np.exp(rng.normal(0, noise_ratio)))
            _write(folder, number, tps, rng)
        else:
            _copy(folder, number, (number - 1) % (distinct // 4 * 4) + 1)
        record_finished(folder, number, _EACH_S * SECOND_NS)
    record_decision(folder, Stop("decided"))
    return folder


def _write(folder: ExperimentFolder, number: int, tps: float, rng: np.random.Generator) -> None:
    began_ns = BEGAN_NS + number * _EACH_S * SECOND_NS
    with folder.begin_run(number, f"run {number}", {"work": {"threads": 1}}) as writer:
        for record in _records(began_ns, tps, rng):
            writer.add_record(record)
        for name, keys in _KEYS.items():
            for second in range(_SECONDS + 1):
                moment_ns = began_ns + second * SECOND_NS
                writer.add_samples(name, [_sample(name, key, moment_ns, second) for key in keys])
        for tenth in range(10 * _SECONDS):
            event = ("IO:WalSync", "", "LWLock:WALWrite")[tenth % 3]
            writer.add_samples("waits", [_waiting(event, began_ns + tenth * SECOND_NS // 10)])
        writer.write_json("server.json", {"reset": {}, "totals": None, "plans": {}})
        writer.finish()


def _records(began_ns: int, tps: float, rng: np.random.Generator) -> Iterator[dict[str, Any]]:
    statement = {"line": 1, "text": "SELECT 1"}
    script = {"name": "select-only", "weight": 1, "reads_only": True, "statements": [statement]}
    yield {"record": "hello", "time_ns": began_ns, "engine_version": "0", "scripts": [script]}
    total = 0
    every = []
    for tenth in range(1, 10 * _SECONDS + 1):
        completed = int(rng.poisson(tps / 10))
        total += completed
        yield interval(began_ns + tenth * SECOND_NS // 10, completed, clients=4)
        if tenth % 10 == 0:
            took_ns = rng.gamma(4, 4 / tps / 4 * 1e9, size=int(tps)).astype(np.int64)
            every.append(took_ns)
            yield distribution(took_ns) | {
                "record": "histogram",
                "time_ns": began_ns + tenth * SECOND_NS // 10,
                "interval_ns": SECOND_NS,
                "phase": "measure",
            }
    whole = np.concatenate(every)
    ended_ns = began_ns + _SECONDS * SECOND_NS
    yield {
        "record": "summary",
        "time_ns": ended_ns,
        "ending": "completed",
        "phases": [{"phase": "measure", "began_ns": began_ns, "ended_ns": ended_ns}],
        "counts": counts_of(total),
        "transactions_committed_all_phases": total,
        "scripts": [{"counts": counts_of(total), "failures": {}}],
        "failures": {},
        "distributions": [
            distribution(whole),
            distribution(whole, measured="statement", script=0, statement=0),
        ],
        "unfinished_ages_ns": [],
        "threads": [],
        **dict.fromkeys(("connections_lost", "reconnects", "round_trips", "bytes_sent"), 0),
        **dict.fromkeys(("bytes_received", "cpu_user_ns", "cpu_system_ns"), 0),
        "resident_bytes_max": 0,
    }


def interval(time_ns: int, completed: int, *, clients: int) -> dict[str, Any]:
    """Return the record of a tenth of a second with this number of completed transactions."""
    return {
        "record": "interval",
        "time_ns": time_ns,
        "interval_ns": SECOND_NS // 10,
        "phase": "measure",
        "counts": counts_of(completed),
        "completed_by_script": [completed],
        "latency_sum_ns": completed * 4_000_000,
        "in_flight": clients,
        "backlog": 0,
        "connections": clients,
        "cpu_ns": 5_000_000,
    }


def counts_of(completed: int) -> dict[str, int]:
    done = {"scheduled": completed, "started": completed, "completed": completed}
    return dict.fromkeys(Counts.model_fields, 0) | done


def distribution(took_ns: Any, *, measured: str = "latency", **which: int) -> dict[str, Any]:
    histogram = Histogram.from_values_ns(took_ns)
    return {
        "measured": measured,
        **which,
        "count": histogram.transaction_count,
        "sum_ns": histogram.sum_ns,
        "min_ns": histogram.min_ns,
        "max_ns": histogram.max_ns,
        "buckets": histogram.buckets(),
    }


def _sample(name: str, key: str, moment_ns: int, second: int) -> dict[str, Any]:
    row: dict[str, Any] = {"time_ns": moment_ns, "interval_ns": SECOND_NS if second else 0}
    for column in columns_of(name):
        grows = second * 100_000_000 if column.nature == "counter" else 1
        is_bad = column.name in ("steal_ns", "throttled_ns")
        row[column.name] = key if column.dtype == "text" else 0 if is_bad else grows
    return row


def _waiting(event: str, moment_ns: int) -> dict[str, Any]:
    return {
        "time_ns": moment_ns,
        "interval_ns": SECOND_NS // 10,
        "backend_type": "client backend",
        "state": "active",
        "wait_event": event,
        "query_id": 1,
        "ours": 1,
        "count": 3,
    }


def _copy(folder: ExperimentFolder, number: int, of: int) -> None:
    runs = folder.folder / "runs"
    shutil.copytree(runs / f"{of:04d}", runs / f"{number:04d}")
    identity = {"format": 1, "number": number, "label": f"run {number}"}
    (runs / f"{number:04d}" / "run.json").write_text(json.dumps(identity))
