"""Findings like those of real experiments, made by hand: known numbers, invented noise."""

from __future__ import annotations

import math
import random

from pgdyno.analysis.curve import load_curve
from pgdyno.analysis.estimate import Estimate, without_interval
from pgdyno.analysis.findings import (
    CurveFindings,
    ExperimentFindings,
    Latency,
    Mark,
    OpenLoopFindings,
    Panel,
    RunCounts,
    RunFindings,
    RunTimeline,
    ScriptFindings,
    Series,
    ServerAndLoad,
    StatementFindings,
)
from pgdyno.analysis.verdicts import Doubt
from pgdyno.analysis.where import LatencyPart, WhereTheTimeGoes

SAME_HOST = Doubt(
    "same_host",
    "doubt",
    "The load engine ran on the server's host and took CPU from the server.",
    "compare the CPU of both in the report, or move the engine to another host",
)
ONE_CHECKPOINT = Doubt(
    "checkpoints",
    "doubt",
    "The run covers one checkpoint: it hardly includes the cost of checkpoints.",
    "measure for 600 s (twice checkpoint_timeout) to include it",
)
ENGINE_BUSY = Doubt(
    "engine_busy",
    "not_valid",
    "A thread of the load engine was 97% busy (limit 90%): the load engine was the "
    "bottleneck, not the server.",
    "use more --threads, or a load host with more cores",
)
SERVER_PARTS = (
    ("IO:WALSync", 5.21, 0.17),
    ("LWLock:WALWrite", 0.81, 0.06),
    ("CPU", 0.48, 0.02),
    ("Lock:transactionid", 0.31, 0.05),
)


def estimate(value: float, relative: float, unit: str, n: int = 38) -> Estimate:
    """A number with a symmetrical interval of `relative` half-width, from within one run."""
    half = value * relative
    return Estimate(value, value - half, value + half, n, unit, "within_run")


def latency(scale: float = 1.0, *, relative: float = 0.012) -> Latency:
    percentiles = {"p50": 7.9, "p90": 11.8, "p95": 14.2, "p99": 24.8}
    known = {
        name: estimate(ms * scale, relative * (1 + 1.5 * position), "ms")
        for position, (name, ms) in enumerate(percentiles.items())
    }
    tail = Estimate(61.0 * scale, 55.0 * scale, 70.2 * scale, 38, "ms", "within_run")
    return Latency(estimate(8.46 * scale, relative, "ms"), {**known, "p999": tail}, 212.0 * scale)


def where(scale: float = 1.0) -> WhereTheTimeGoes:
    """Session 3's 8.46 ms: 6.81 on the server, 1.50 network, 0.11 client, 0.04 not explained."""
    server = [
        LatencyPart(name, estimate(ms * scale, half / ms, "ms", n=61), "server")
        for name, ms, half in SERVER_PARTS
    ]
    network = LatencyPart("network", without_interval(1.50 * scale, "ms"), "network")
    client = LatencyPart("client", without_interval(0.11 * scale, "ms"), "client")
    total = estimate(8.46 * scale, 0.012, "ms")
    residual = total.value - sum(part.ms.value for part in (*server, network, client))
    return WhereTheTimeGoes(
        total,
        (*server, network, client),
        residual,
        residual / total.value,
        6.81 * scale,
        6.9 * scale,
    )


# Key, title, unit, how it is drawn, and for each series mean, noise and the depth of the dip.
PANELS = (
    ("tps", "Throughput", "tps", {}, {"completed": (1892.0, 57.0, 0.35)}),
    (
        "latency", "Latency", "ms", {"is_logarithmic": True},
        {"p50": (7.9, 0.4, -0.4), "p95": (14.2, 1.2, -0.6), "p99": (24.8, 3, -1.4)},
    ),
    (
        "waits", "Active sessions by what they wait for", "sessions",
        {"is_stacked": True, "note": "About 10 samples a second at random moments."},
        {
            "CPU or not instrumented": (2.1, 0.4, 0), "IO:WALSync": (8.4, 0.9, -0.3),
            "IO:DataFileRead": (0.7, 0.2, 0), "LWLock:WALWrite": (1.5, 0.3, 0),
            "Lock:transactionid": (0.6, 0.3, 0),
        },
    ),
    (
        "cpu", "CPU of the host", "cores", {"is_stacked": True},
        {
            "user": (0.92, 0.05, 0), "system": (0.41, 0.04, 0),
            "waiting for I/O": (0.22, 0.05, -0.8), "stolen": (0.004, 0.002, 0),
        },
    ),
    (
        "programs", "CPU by program", "cores", {"is_stacked": True},
        {
            "backends of the load": (0.93, 0.05, 0), "server's other processes": (0.09, 0.02, 0),
            "load engine": (0.19, 0.02, 0),
        },
    ),
    ("wal", "WAL", "MB/s", {}, {"WAL generated": (11.2, 0.6, -0.5)}),
    ("disk", "Disk nvme0n1", "MB/s", {}, {"read": (2.1, 0.5, 0), "written": (24, 3, -1.2)}),
    (
        "disk_time", "Disk nvme0n1: time of a request", "ms", {},
        {"write": (0.9, 0.1, -0.5), "flush": (4.9, 0.4, -0.6)},
    ),
)  # fmt: skip


def panels(seconds: int, *, seed: int) -> tuple[Panel, ...]:
    """Return telemetry of a minute or an hour: one value per second, a dip every 300 s."""
    rng = random.Random(seed)
    time_s = tuple(i + 0.5 for i in range(seconds))

    def wave(mean: float, noise: float, dip: float) -> tuple[float, ...]:
        depth = [1 - dip * math.exp(-((t % 300 - 140) ** 2) / 400) for t in time_s]
        return tuple(max(mean * now + rng.gauss(0, noise), 0.0) for now in depth)

    return tuple(
        Panel(
            key, title, unit, time_s,
            tuple(Series(name, wave(*shape)) for name, shape in shapes.items()), **style,
        )
        for key, title, unit, style, shapes in PANELS
    )  # fmt: skip


def marks(seconds: int) -> tuple[Mark, ...]:
    return tuple(
        Mark(float(t), "checkpoint", f"checkpoint complete: 4,{t % 1000:03d} buffers, 95.2 s")
        for t in range(140, seconds, 300)
    )


STATEMENTS = (
    StatementFindings(4, "BEGIN;", 340_623, 0.24, 0.23, 0.4, 0.028),
    StatementFindings(
        5, "UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;",
        340_623, 0.51, 0.44, 1.9, 0.060,
    ),
    StatementFindings(
        6, "SELECT abalance FROM pgbench_accounts WHERE aid = :aid;",
        340_623, 0.27, 0.26, 0.5, 0.032,
    ),
    StatementFindings(
        7, "UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;",
        340_623, 0.42, 0.31, 2.4, 0.050,
    ),
    StatementFindings(
        8, "UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = :bid;",
        340_623, 0.61, 0.33, 4.8, 0.072,
    ),
    StatementFindings(
        9,
        "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime)\n"
        "  VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP);",
        340_623, 0.25, 0.24, 0.5, 0.030,
    ),
    StatementFindings(10, "END;", 340_623, 6.16, 5.7, 18.9, 0.728),
)  # fmt: skip


def script(name: str = "tpcb-like") -> ScriptFindings:
    tps = estimate(1892.0, 0.0164, "tps")
    return ScriptFindings(name, 1, 340_623, {}, tps, latency(), STATEMENTS)


def run(seconds: int = 180, *, clients: int = 16, seed: int = 7) -> RunFindings:
    return RunFindings(
        label=f"tpcb-like, {clients} clients",
        clients=clients,
        tps=estimate(1892.0, 0.0164, "tps"),
        counts=RunCounts(
            round(1892.35 * seconds), round(1892.35 * seconds) + 6021, {}, 0, engine_cpu_s=34.2
        ),
        latency=latency(),
        where=where(),
        scripts=(script(),),
        is_valid=True,
        doubts=(ONE_CHECKPOINT,),
        timeline=RunTimeline(float(seconds), panels(seconds, seed=seed), marks(seconds)),
    )


FACTS = ServerAndLoad(
    target="10.3.0.5:5432/pgbench  PostgreSQL 15.14, scale 500 by pgdyno: 7.3 GB = 1.8x "
    "shared_buffers = 0.26x RAM, nvme0n1 ext4",
    durability="fsync on, full_page_writes on, synchronous_commit on, data checksums on",
    is_durable=True,
    rows=(
        ("CPU", "AMD EPYC 7543, 8 cores, governor performance"),
        ("RAM", "28 GB"),
        ("kernel", "Linux 6.1.0-18"),
        ("data", "/dev/nvme0n1 ext4 (rw,noatime)"),
        ("WAL", "same device as data"),
        ("engine", "pgdyno-engine 0.1.0, release, 4 threads, same host"),
        ("protocol", "prepared"),
        ("warm-up", "6.0 s, found by a pilot run"),
    ),
    settings=(
        ("checkpoint_timeout", "5min", "configuration file"),
        ("max_connections", "276", "command line"),
        ("max_wal_size", "4GB", "configuration file"),
        ("shared_buffers", "4GB", "configuration file"),
        ("track_io_timing", "on", "command line"),
    ),
)
NOTES = (
    "Throughput counts committed transactions only; failed ones are listed separately.",
    "Intervals within a run use batch means of the 100 ms counts, so that neighbouring moments are "
    "not taken for independent ones.",
    "Server time is the delta of pg_stat_database.active_time per transaction; samples of "
    "pg_stat_activity only split it.",
)


def bench(seconds: int = 180) -> ExperimentFindings:
    return ExperimentFindings(
        kind="bench",
        number=41,
        name="bench",
        version="0.1.0",
        started_utc="2026-11-20 14:00:07 UTC",
        seconds=seconds + 24.0,
        sentence="1,892 tps (1,861 to 1,923) with 16 clients; p99 latency 24.8 ms; "
        "62 % of it waits for the WAL to reach the disk.",
        facts=FACTS,
        run=run(seconds),
        doubts=(ONE_CHECKPOINT,),
        notes=NOTES,
    )


def curve(
    script_name: str, peak_tps: float, knee: int, *, limit: str, seed: int, ceiling: int = 256
) -> CurveFindings:
    """Three runs at each of 1, 2, 4, ... clients, around a law that bends at `knee`."""
    rng = random.Random(seed)
    loads, tps, p50, p95, p99 = [], [], [], [], []
    clients = 1
    while clients <= ceiling:
        for _ in range(3):
            alpha, beta = 1 / knee, 0.18 / knee**2
            law = clients / (1 + alpha * (clients - 1) + beta * clients * (clients - 1))
            top = knee / (1 + alpha * (knee - 1) + beta * knee * (knee - 1)) * 1.18
            speed = peak_tps * law / top * rng.gauss(1, 0.011)
            mean_ns = clients / speed * 1e9
            loads.append(clients)
            tps.append(speed)
            p50.append(mean_ns * 0.9 * rng.gauss(1, 0.01))
            p95.append(mean_ns * (1.6 + clients / 200) * rng.gauss(1, 0.02))
            p99.append(mean_ns * (2.1 + clients / 60) * rng.gauss(1, 0.05))
        clients *= 2
    made = load_curve(loads, tps, seed=seed, latency_ns={"p50": p50, "p95": p95, "p99": p99})
    return CurveFindings(script_name, made, limit)


def sweep() -> ExperimentFindings:
    line = curve(
        "tpcb-like", 3410, 24, limit="WAL flush, 5.2 of 9.6 ms at the knee", seed=3, ceiling=64
    )
    return ExperimentFindings(
        kind="sweep",
        number=44,
        name="quartet on nvme0",
        version="0.1.0",
        started_utc="2026-11-20 15:10:42 UTC",
        seconds=1085.0,
        sentence="tpcb-like peaks at 3,410 tps (3,350 to 3,470) with 64 clients; from 32 clients "
        "on more load only adds latency. The limit is the WAL flush.",
        facts=FACTS,
        run=run(60, clients=32),
        curves=(line,),
        runs_total=22,
        runs_valid=22,
        doubts=(SAME_HOST, ONE_CHECKPOINT),
        notes=NOTES,
    )


def quartet() -> ExperimentFindings:
    """Four scripts in one sweep, throughputs far apart."""
    curves = (
        curve("tpcb-like", 3410, 24, limit="WAL flush, 5.2 of 9.6 ms at the knee", seed=3),
        curve("select-only", 61_800, 12, limit="server CPU 97 %", seed=4),
        curve("update-only", 6_120, 28, limit="WAL flush", seed=5),
        curve("insert-only", 8_930, 40, limit="WAL flush", seed=6),
    )
    base = sweep()
    return ExperimentFindings(
        kind="sweep",
        number=45,
        name="quartet",
        version="0.1.0",
        started_utc=base.started_utc,
        seconds=6120.0,
        sentence="tpcb-like peaks at 3,380 tps (3,310 to 3,440) with 64 clients; 32 are enough to "
        "be within 3% of it. select-only peaks at 60,200 tps (59,400 to 61,000) with 32 clients. "
        "update-only peaks at 6,090 tps (5,950 to 6,230) with 64 clients. insert-only peaks at "
        "8,620 tps (8,450 to 8,720) with 64 clients.",
        facts=base.facts,
        run=base.run,
        curves=curves,
        runs_total=109,
        runs_valid=107,
        doubts=(SAME_HOST,),
        notes=NOTES,
    )


def invalid() -> ExperimentFindings:
    """A run that measured its own client, on a server with fsync off, with failures."""
    base = run(12)
    failed = RunFindings(
        label=base.label, clients=64, open_loop=OpenLoopFindings(4000.0),
        tps=estimate(3121.0, 0.08, "tps"),
        counts=RunCounts(37_452, 38_001, {"40001": 12, "40P01": 3}, 15, engine_cpu_s=11.6),
        latency=Latency(
            estimate(812.0, 0.2, "ms"),
            {
                "p50": estimate(640.0, 0.2, "ms"),
                "p99": Estimate(2210.0, 1980.0, None, 4, "ms", "within_run", censored=True),
            },
            5210.0,
        ),
        where=None, scripts=(), is_valid=False, doubts=(ENGINE_BUSY, SAME_HOST),
        timeline=RunTimeline(
            12.0,
            base.timeline.panels,
            (Mark(7.2, "change", "throughput fell from 3,410 to 2,880 tps"),),
        ),
    )  # fmt: skip
    facts = ServerAndLoad(
        target="scratch  PostgreSQL 18.4 (embedded), scale 10 by pgdyno: 153 MB",
        durability="fsync OFF, full_page_writes on, synchronous_commit off: a crash can lose or "
        "corrupt data",
        is_durable=False,
        rows=FACTS.rows[:3],
    )
    return ExperimentFindings(
        kind="bench", number=46, name="bench", version="0.1.0",
        started_utc="2026-11-20 16:00:00 UTC", seconds=31.0,
        sentence="Not valid: the load engine was busy, so this says little about the server.",
        facts=facts, run=failed, runs_valid=0, doubts=(ENGINE_BUSY,), is_complete=False,
    )  # fmt: skip


def tiny() -> ExperimentFindings:
    """One short run: no intervals, no telemetry, no wait events."""
    bare = RunFindings(
        label="select-only", clients=1, timeline=RunTimeline(1.0),
        tps=without_interval(8214.0, "tps"),
        counts=RunCounts(8214, 9003, {}, 0, engine_cpu_s=0.1),
        latency=Latency(
            without_interval(0.1214, "ms"),
            {"p50": without_interval(0.118, "ms"), "p99": without_interval(0.21, "ms")},
            3.1,
        ),
        where=None, scripts=(), is_valid=True, doubts=(),
    )  # fmt: skip
    facts = ServerAndLoad(
        "scratch  PostgreSQL 18.4 (embedded)", "fsync on, full_page_writes on", True
    )
    return ExperimentFindings(
        kind="bench", number=1, name="", version="0.1.0", started_utc="2026-11-20 16:30:00 UTC",
        seconds=4.0, sentence="8,214 tps with 1 client; one run, so without interval.",
        facts=facts, run=bare,
    )  # fmt: skip


EXAMPLES = {
    "bench": bench,
    "sweep": sweep,
    "quartet": quartet,
    "invalid": invalid,
    "tiny": tiny,
    "hour": lambda: bench(3600),
}
