"""Writes a long run of random numbers as the lab stores it, to measure the report of an hour.

It has every collector of a server on this host, samples of waits ten times a second, and
distributions of each statement every second.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from bench.generated import BEGAN_NS, SECOND_NS, counts_of, distribution, interval
from pgdyno.loop.journal import record_decision, record_finished
from pgdyno.observe.catalogue import every_collector
from pgdyno.observe.collector import Column
from pgdyno.spec.designs import BenchDesign
from pgdyno.spec.experiment import Experiment, PgbenchDataset, Scratch, Script, Server, Workload
from pgdyno.spec.file import to_toml
from pgdyno.spec.planned import Cell, PlannedRun, Stop
from pgdyno.store.experiment import Store
from pgdyno.store.folder import ExperimentFolder
from pgdyno.store.run_writer import RunWriter

CLIENTS = 16
TPS = 4_000
# Only this number of seconds has separate distributions, because drawing them takes long. Later
# seconds repeat them: they are then too far apart for a compressor to profit.
_DISTINCT_SECONDS = 300
_WARM_S = 2
_CHECKPOINT_S = 300
_STATEMENTS = (
    "BEGIN;",
    "UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;",
    "SELECT abalance FROM pgbench_accounts WHERE aid = :aid;",
    "UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;",
    "UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = :bid;",
    "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (:tid, :bid, :aid, ...);",
    "END;",
)
_EVENTS = ("", "IO:WalSync", "LWLock:WALWrite", "Lock:transactionid", "Client:ClientRead",
           "IO:DataFileRead", "LWLock:BufferContent", "Lock:tuple", "IO:WALWrite")  # fmt: skip
_TABLES = ("pgbench_accounts", "pgbench_branches", "pgbench_history", "pgbench_tellers")
_PROCESSES = ("load", "observer", "checkpointer", "background writer", "walwriter",
              "autovacuum launcher", "autovacuum worker", "client backend")  # fmt: skip
_CORES = 8
# The key of each collector's rows; a collector that is not named has one row.
_KEYS: Mapping[str, Sequence[tuple[str | int, ...]]] = {
    "database": [("ours",), ("others",)],
    "io": [(kind, "relation", how) for kind in _PROCESSES for how in ("normal", "vacuum")],
    "locks": [
        (locked, mode)
        for locked in ("relation", "transactionid", "virtualxid", "tuple")
        for mode in ("RowExclusiveLock", "AccessShareLock", "ExclusiveLock")
    ],
    "slru": [(name,) for name in ("Xact", "Subtrans", "MultiXactOffset", "Notify", "CommitTs")],
    "statements": [("pgdyno", number) for number in range(1, 41)],
    "tables": [("public", name) for name in _TABLES],
    "indexes": [("public", name, f"{name}_pkey") for name in _TABLES],
    "wait_sampling": [(event, 1) for event in _EVENTS if event],
    "sessions": [
        ("pgdyno", "dyno", name, state)
        for name in ("pgdyno/bench/", "psql")
        for state in ("active", "idle", "idle in transaction")
    ],
    "conflicts": [("lock",), ("snapshot",)],
    "objects": [("unused index", "public.pgbench_tellers_pkey", "")],
    "sizes": [("database", "pgdyno"), ("tablespace", "pg_default"), ("wal", "")],
    "buffers": [("relation", name) for name in _TABLES],
    "backends": [(name,) for name in _PROCESSES],
    "process_usage": [(name,) for name in _PROCESSES],
    "footprint": [(name,) for name in _PROCESSES],
    "programs": [("engine",), ("lab",)],
    "cpu": [("all",), *((str(core),) for core in range(_CORES))],
    "disk": [("nvme0n1",), ("nvme1n1",)],
    "network": [("lo",), ("eth0",)],
    "pressure": [("cpu",), ("memory",), ("io",)],
    "throttling": [("lab",), ("server",)],
    "temperature": [("nvme", "nvme0n1", "Composite"), ("k10temp", "hwmon2", "Tctl")],
    "energy": [("package-0",), ("package-0/dram",)],
    "space": [("data",), ("wal",)],
    "observer": [(collector.name,) for collector in every_collector().values()],
}
# Collectors that a run on one host without a pooler does not have; collectors written separately.
_ABSENT = {"pooler", "pooler_traffic", "outside", "replication", "slots", "progress", "functions"}
_ABSENT |= {"load_cpu", "load_scheduler", "load_memory", "load_network", "load_tcp"}
_APART = {"waits", "log"}


def generate_hour(store: Store, *, seconds: int = 3600) -> ExperimentFolder:
    """Write a bench of 16 clients that lasted `seconds`."""
    rng = np.random.default_rng(19)
    asked = Experiment(
        name="an hour",
        server=Server(scratch=Scratch()),
        dataset=PgbenchDataset(scale=50),
        workload=Workload(
            scripts=(Script(builtin="tpcb-like"),),
            clients=CLIENTS,
            duration=f"{seconds}s",
            warmup=f"{_WARM_S}s",
        ),
        design=BenchDesign(),
    )
    folder = store.create(asked.name, "bench")
    folder.write_spec(to_toml(asked))
    server = {"is_local": True, "data_storage": {"device": "nvme0n1"}, "dataset": {"scale": 50}}
    folder.write_facts({"server": server, "target_line": "generated", "rows": []})
    planned = PlannedRun(
        1, "detail", 0, Cell((0,), CLIENTS), _WARM_S * SECOND_NS, seconds * SECOND_NS, seed=1
    )
    record_decision(folder, planned)
    with folder.begin_run(1, "tpcb-like, 16 clients", {"work": {"threads": 1}}) as writer:
        for record in _records(seconds, rng):
            writer.add_record(record)
        _write_telemetry(writer, seconds, rng)
        _write_waits(writer, seconds, rng)
        texts = {str(number): f"SELECT {number}" for number in range(1, 41)}
        writer.write_json("server.json", {"reset": {}, "totals": None, "statement_texts": texts})
        writer.finish()
    record_finished(folder, 1, (seconds + 5) * SECOND_NS)
    record_decision(folder, Stop("measured"))
    folder.seal()
    return folder


def _records(seconds: int, rng: np.random.Generator) -> Iterator[dict[str, Any]]:
    shapes = [{"line": 5 + place, "text": text} for place, text in enumerate(_STATEMENTS)]
    script = {"name": "tpcb-like", "weight": 1, "reads_only": False, "statements": shapes}
    yield {"record": "hello", "time_ns": BEGAN_NS, "engine_version": "0", "scripts": [script]}
    total = 0
    for tenth in range(1, 10 * seconds + 1):
        completed = int(rng.poisson(TPS / 10))
        total += completed
        yield interval(BEGAN_NS + tenth * SECOND_NS // 10, completed, clients=CLIENTS)
    distinct = [_second(rng) for _ in range(min(seconds, _DISTINCT_SECONDS))]
    whole: dict[str, list[Any]] = {}
    for second in range(seconds):
        for took_ns, shown in distinct[second % len(distinct)]:
            whole.setdefault(json.dumps(_which(shown)), []).append(took_ns)
            yield shown | {
                "record": "histogram",
                "time_ns": BEGAN_NS + (second + 1) * SECOND_NS,
                "interval_ns": SECOND_NS,
                "phase": "measure",
            }
    yield _summary(seconds, total, whole)


def _second(rng: np.random.Generator) -> list[tuple[Any, dict[str, Any]]]:
    """Return the durations of one second and their distributions, of transactions and statements.

    Durations have a long tail, as in loads whose sessions wait for each other.
    """
    made = []
    level_ns = 4e6 * float(np.exp(rng.normal(0, 0.1)))
    for place in (None, *range(len(_STATEMENTS))):
        middle_ns = level_ns if place is None else level_ns / (3 + place)
        took_ns = np.exp(rng.normal(np.log(middle_ns), 0.7, size=TPS)).astype(np.int64)
        which = {} if place is None else {"script": 0, "statement": place}
        measured = "latency" if place is None else "statement"
        made.append((took_ns, distribution(took_ns, measured=measured, **which)))
    return made


def _which(shown: Mapping[str, Any]) -> dict[str, Any]:
    return {name: shown[name] for name in ("measured", "script", "statement") if name in shown}


def _summary(seconds: int, total: int, whole: Mapping[str, list[Any]]) -> dict[str, Any]:
    ended_ns = BEGAN_NS + seconds * SECOND_NS
    # A part of the hour is enough: charts and comparisons use the distributions of each second.
    parts = {which: np.concatenate(took_ns[:_DISTINCT_SECONDS]) for which, took_ns in whole.items()}
    return {
        "record": "summary",
        "time_ns": ended_ns,
        "ending": "completed",
        "phases": [{"phase": "measure", "began_ns": BEGAN_NS, "ended_ns": ended_ns}],
        "counts": counts_of(total),
        "transactions_committed_all_phases": total,
        "scripts": [{"counts": counts_of(total), "failures": {}}],
        "failures": {},
        "distributions": [
            distribution(took_ns, **json.loads(which)) for which, took_ns in parts.items()
        ],
        "unfinished_ages_ns": [],
        "threads": [],
        **dict.fromkeys(("connections_lost", "reconnects", "bytes_sent", "bytes_received"), 0),
        "round_trips": 7 * total,
        "cpu_user_ns": 100_000_000 * seconds,
        "cpu_system_ns": 50_000_000 * seconds,
        "resident_bytes_max": 0,
    }


def _write_telemetry(writer: RunWriter, seconds: int, rng: np.random.Generator) -> None:
    for collector in every_collector().values():
        if collector.name in _ABSENT | _APART:
            continue
        every_s = max(1, collector.interval_ns // SECOND_NS)
        keys = _KEYS.get(collector.name, [()])
        rows = [
            _rows(collector.columns, key, range(0, seconds + 1, every_s), every_s, rng)
            for key in keys
        ]
        # In the order of a real run: all rows of one instant, then those of the next.
        writer.add_samples(collector.name, itertools.chain(*zip(*rows, strict=True)))
    for number, second in enumerate(range(0, seconds, _CHECKPOINT_S), 1):
        moment_ns = BEGAN_NS + second * SECOND_NS
        words = {"severity": "LOG", "sqlstate": "", "what": "time", "kind": "checkpoint"}
        numbers = {"number": number, "happened_ns": moment_ns, "duration_ns": 10**9}
        stamp = {"time_ns": moment_ns, "interval_ns": 2 * SECOND_NS, "size_bytes": None}
        writer.add_samples("log", [{**stamp, **numbers, **words}])


def _rows(
    columns: Sequence[Column],
    key: tuple[str | int, ...],
    instants: range,
    every_s: int,
    rng: np.random.Generator,
) -> list[dict[str, Any]]:
    """Return the rows of one key: counters that grow, gauges that vary."""
    names = [column.name for column in columns if column.nature == "key"]
    assert len(names) == len(key), f"{names} are not as many as {key}"
    series: dict[str, list[Any]] = {
        name: [value] * len(instants) for name, value in zip(names, key, strict=True)
    }
    for column in columns:
        if column.nature != "key":
            series[column.name] = _values(column, len(instants), every_s, rng)
    series["time_ns"] = [BEGAN_NS + second * SECOND_NS for second in instants]
    series["interval_ns"] = [every_s * SECOND_NS if second else 0 for second in instants]
    return [dict(zip(series, values, strict=True)) for values in zip(*series.values(), strict=True)]


def _values(column: Column, count: int, every_s: int, rng: np.random.Generator) -> list[Any]:
    if column.dtype == "text":
        return [""] * count
    if column.name in ("steal_ns", "throttled_ns", "stats_reset_ns", "checkpoints_requested"):
        return [0] * count
    if column.name == "checkpoints_timed":
        return [place * every_s // _CHECKPOINT_S for place in range(count)]
    middle = {"ns": 5e7, "bytes": 2e6}.get(column.unit, 300.0)
    drawn = (middle * rng.gamma(4, 0.25, size=count)).astype(np.int64)
    if column.nature == "counter":
        drawn = np.cumsum(drawn * every_s)
    values: list[Any] = drawn.tolist()
    return [float(value) for value in values] if column.dtype == "float64" else values


def _write_waits(writer: RunWriter, seconds: int, rng: np.random.Generator) -> None:
    shares = rng.dirichlet(np.arange(len(_EVENTS), 0, -1), size=10 * seconds)
    for tenth, share in enumerate(shares):
        moment_ns = BEGAN_NS + tenth * SECOND_NS // 10 + int(rng.integers(0, SECOND_NS // 20))
        counts = rng.multinomial(CLIENTS, share).tolist()
        rows = (
            {
                "time_ns": moment_ns,
                "interval_ns": SECOND_NS // 10,
                "backend_type": "client backend",
                "state": "active",
                "wait_event": event,
                "query_id": place % len(_STATEMENTS) + 1,
                "ours": 1,
                "count": count,
            }
            for place, (event, count) in enumerate(zip(_EVENTS, counts, strict=True))
            if count
        )
        writer.add_samples("waits", rows)
