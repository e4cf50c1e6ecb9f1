"""A hundred short runs of the known loads: the intervals hold the truth as often as they claim.

PGDYNO_KNOWN_RUNS=FILE keeps a line a run in this file, and the next call goes on where the last
one ended; PGDYNO_KNOWN_SECONDS is the time that one call may take for each version of PostgreSQL.
scripts/known-loads-table writes the table of docs/method.md from this file.
"""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean

import pytest
from tests.fixtures.clusters import make_cluster, run_sql, scalar
from tests.fixtures.command import Command
from tests.fixtures.prove import Proved
from tests.fixtures.slow_flush import SlowFlush
from tests.truth.known_loads import (
    LOADS,
    Document,
    KnownLoad,
    Truth,
    compared,
    doubts_of,
    measured,
    prepare,
)

from pgdyno.server.target import Target

RUNS_EACH = 5
SECONDS = 2
COVERAGE_MIN = 0.93
TIME_MAX_S = float(os.environ.get("PGDYNO_KNOWN_SECONDS", "750"))


@dataclass(frozen=True)
class Row:
    """One truth of one run. Without a split `part` is "", for a counted part `half_ms` is None."""

    load: str
    version: str
    number: int
    source: str = ""
    part: str = ""
    truth_ms: float = 0.0
    found_ms: float = 0.0
    half_ms: float | None = None
    latency_ms: float = 0.0
    is_inside: bool = False
    is_right: bool = False
    rest_ratio: float = 0.0
    doubts: tuple[str, ...] = ()

    @property
    def is_doubted(self) -> bool:
        """Whether the run itself says that its split does not add up, or that it woke up late."""
        return bool({"not_explained", "timer_lag"} & set(self.doubts)) or not self.part


@pytest.mark.slow
@pytest.mark.pg
def test_intervals_of_known_loads_hold_the_truth(
    pgdyno: Command, slow_flush: SlowFlush, tmp_path: Path, proved: Proved
) -> None:
    number_of = "SELECT current_setting('server_version_num')::int / 10000"
    version = str(scalar(slow_flush.cluster.target, number_of))
    kept = Path(os.environ.get("PGDYNO_KNOWN_RUNS", tmp_path / "known-runs.jsonl"))
    rows = [row for row in _kept(kept) if row.version == version]
    done = {(row.load, row.number) for row in rows}
    loads = (*LOADS, _commit_bound(slow_flush))
    ends = time.monotonic() + TIME_MAX_S
    with make_cluster(version, settings={"shared_buffers": "16MB"}) as small:
        for number in range(RUNS_EACH):
            for load in loads:
                if (load.name, number) in done or time.monotonic() > ends:
                    continue
                commits = load.name == "commit-bound"
                server = slow_flush.cluster.target if commits else small.target
                short = replace(load, seconds=SECONDS)
                with _database(server) as database:
                    prepare(short, database)
                    document = measured(short, pgdyno, database, tmp_path)
                    new = list(_rows(short, database, document, version, number))
                with kept.open("a", encoding="utf-8") as stream:
                    stream.writelines(json.dumps(asdict(row)) + "\n" for row in new)
                rows += new
    _judge(rows, version, proved)


def _judge(rows: list[Row], version: str, proved: Proved) -> None:
    print(*_table(rows), sep="\n")
    split = [row for row in rows if row.part]
    intervals = [row for row in split if row.half_ms is not None]
    counted = [row for row in split if row.half_ms is None]
    inside = sum(row.is_inside for row in intervals)
    right = sum(row.is_right for row in counted)
    runs = {(row.load, row.number) for row in rows}
    seen = f"{inside} of {len(intervals)} intervals, {right} of {len(counted)} counts within 5 %"
    assert all(abs(row.rest_ratio) <= 0.05 or row.is_doubted for row in split), seen
    # A run that says itself that it was disturbed may be wrong.
    inside += sum(row.is_doubted and not row.is_inside for row in intervals)
    right += sum(row.is_doubted and not row.is_right for row in counted)
    assert inside >= COVERAGE_MIN * len(intervals), seen
    assert right >= COVERAGE_MIN * len(counted), seen
    doubted = {(row.load, row.number) for row in rows if row.is_doubted}
    seen += f"; {len(doubted)} runs doubted themselves"
    claim = f"{len(runs)} runs of {SECONDS} s of known loads on {version}"
    proved(claim, required=f"the truth in {COVERAGE_MIN:.0%}", seen=seen)


def _rows(
    load: KnownLoad, database: Target, document: Document, version: str, number: int
) -> Iterator[Row]:
    where, doubts = document["where_the_time_goes"], tuple(doubts_of(document))
    if where is None:
        why = document["where_the_time_goes_not_computed_because"]
        yield Row(load.name, version, number, doubts=(*doubts, why))
        return
    for proof in compared(load, database, document):
        yield Row(
            load.name,
            version,
            number,
            load.source,
            part=" + ".join(proof.names),
            truth_ms=proof.truth_ms,
            found_ms=proof.found_ms,
            half_ms=proof.half_ms or None,
            latency_ms=proof.latency_ms,
            is_inside=proof.is_inside,
            is_right=proof.is_right,
            rest_ratio=where["residual_ratio"],
            doubts=doubts,
        )


def _kept(file: Path) -> list[Row]:
    if not file.exists():
        return []
    return [Row(**json.loads(line)) for line in file.read_text(encoding="utf-8").splitlines()]


def _table(rows: Iterable[Row]) -> Iterator[str]:
    """Return a line for each part of each load: truth, found and the rest, as means."""
    by_part: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in rows:
        by_part[(row.version, row.load, row.part or "no split")].append(row)
    yield "version | load | part | runs | truth ms | found ms | apart | inside | right | doubted"
    for (version, load, part), of_part in sorted(by_part.items()):
        apart = fmean((row.found_ms - row.truth_ms) / (row.latency_ms or 1) for row in of_part)
        texts = [version, load, part, str(len(of_part))]
        texts += [f"{fmean(row.truth_ms for row in of_part):.3f}"]
        texts += [f"{fmean(row.found_ms for row in of_part):.3f}", f"{apart:+.1%}"]
        has_interval = [row for row in of_part if row.half_ms is not None]
        texts += [f"{sum(row.is_inside for row in has_interval)} of {len(has_interval)}"]
        texts += [str(sum(row.is_right for row in of_part))]
        texts += [str(sum(row.is_doubted for row in of_part))]
        yield " | ".join(texts)


@contextmanager
def _database(server: Target) -> Iterator[Target]:
    run_sql(server, "CREATE DATABASE known")
    try:
        yield server.with_database("known")
    finally:
        run_sql(server, "DROP DATABASE known WITH (FORCE)")


def _commit_bound(slow_flush: SlowFlush) -> KnownLoad:
    """Return a load whose flushes a shim makes longer and counts."""

    def flushed(target: Target, document: Document) -> list[Truth]:
        truth_ms = slow_flush.busiest_ns(1) / 1e6 / document["transactions_committed_all_phases"]
        parts = document["where_the_time_goes"]["parts"]
        [flush] = [part["name"] for part in parts if part["name"].casefold() == "io:walsync"]
        return [Truth((flush,), truth_ms)]

    return KnownLoad(
        "commit-bound",
        ("CREATE TABLE written (n int)",),
        "INSERT INTO written VALUES (1);\n",
        flushed,
        forget=slow_flush.forget,
        source="the count of a shim around each flush",
    )
