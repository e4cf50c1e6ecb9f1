"""make bench: the engine against pgbench and the yardsticks, in ratios with intervals.

Prints `row, ratio, interval, aim, verdict`. A row passes when its whole 95 % interval is on the
right side of the aim, and is open when the aim is inside the interval. A bench of all rows replaces
the result file of the release and docs/performance.md (bench/release.py).
"""

from __future__ import annotations

import argparse
import resource
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from bench import loads, machine
from bench.contest import PAIRS_MAX, Answer, hold, shown
from bench.release import Part, keep_part, part_of, publish
from bench.rows import BY_NAME, ROWS, Bench
from pgdyno.clock import read_pair
from pgdyno.errors import InterruptedByUser, PgdynoError
from pgdyno.measure.jobs import threads_for
from pgdyno.process import signals
from pgdyno.server.find import Binaries, find, installed
from pgdyno.server.scratch.cluster import ScratchCluster, ScratchRequest

HEAD = f"{'row':<58} {'ratio (95 % interval)':<28} {'aim':<14} verdict"


def main() -> int:
    """Measure the rows that were named; return 0 if no row falls short."""
    options = _options()
    _raise_open_files_limit()
    binaries = find_pgbench(options.pg_version)
    started = datetime.fromtimestamp(read_pair().unix_ns / 1e9, UTC)
    kept: list[Path] = []
    with signals.handled(on_later=_still_cleaning), _interruption_hint(kept), ExitStack() as stack:
        server = stack.enter_context(_server(binaries))
        bench = Bench(
            server=server,
            seconds=3 if options.quick else 5,
            init_scale=5 if options.quick else 50,
            threads=threads_for(8000, None),
            stack=stack,
            engine_before=options.engine_before,
        )
        facts = machine.facts(binaries, loads.engine_facts(server.target))
        part = Part(started, facts)
        if options.continued is not None:
            part = part_of(options.continued, started, facts)
        _say(f"{server.binaries}: loading scale {options.scale}")
        loads.pgbench_init(binaries, server.target, options.scale)
        print(HEAD)
        for name in options.rows or ROWS:
            if name not in part.finished:
                _measure(name, bench, part, kept, options)
    if not options.quick and set(ROWS) <= {*part.finished, *part.missing}:
        kept[:] = [publish(part.document(), facts["engine"].split(",")[0])]
    for path in kept:
        _say(f"all runs are in {path}")
    return int(part.falls_short)


def _measure(
    name: str, bench: Bench, part: Part, kept: list[Path], options: argparse.Namespace
) -> None:
    """Measure one row, and add its answers to the part; `kept` gets the file that has them."""
    pairs_max = 4 if options.quick else options.pairs
    try:
        for contest in (ROWS | BY_NAME)[name](bench):
            answers = hold(contest, pairs_max=pairs_max, say=_say)
            part.add(name, answers)
            for answer in answers:
                print(_line(answer), flush=True)
            if not options.quick:  # After each contest: an interrupted bench keeps its rows.
                kept[:] = [keep_part(part.document())]
    except RuntimeError as error:
        part.missing[name] = str(error)
        print(f"{name:<58} not measured: {error}", flush=True)
        return
    part.finished.append(name)
    if not options.quick:
        kept[:] = [keep_part(part.document())]


@contextmanager
def _interruption_hint(kept: list[Path]) -> Iterator[None]:
    """Name the file that has the rows measured before an interruption."""
    try:
        yield
    except InterruptedByUser as interruption:
        files = ", ".join(map(str, kept))
        interruption.hint = f"the finished rows are in {files}" if kept else "nothing was kept"
        raise


def _still_cleaning() -> None:
    _say("Clean-up is still running.")


def find_pgbench(version: str | None) -> Binaries:
    """Return an installed PostgreSQL that includes pgbench.

    Raises: SpecError if there is none.
    """
    for binaries in installed():
        asked = version in (None, str(binaries.major))
        if asked and binaries.program("pgbench").exists():
            return binaries
    return find(version=version or "15")


def _server(binaries: Binaries) -> ScratchCluster:
    # All data are in memory, because the client is measured and not the server.
    settings = {"shared_buffers": "512MB", "max_wal_size": "4GB"}
    return ScratchCluster.create(ScratchRequest(binaries, clients=300, settings=settings))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "rows",
        nargs="*",
        choices=[*ROWS, *BY_NAME, []],
        metavar="ROW",
        help="row to measure (default: all)",
    )
    parser.add_argument("--quick", action="store_true", help="4 short pairs per row; keep nothing")
    parser.add_argument(
        "--pairs",
        type=int,
        default=PAIRS_MAX,
        help=f"highest number of pairs of a row (default {PAIRS_MAX})",
    )
    parser.add_argument(
        "--scale", type=int, default=10, help="scale factor of the pgbench tables (default 10)"
    )
    parser.add_argument(
        "--pg-version", help="major version of server and pgbench (default: newest installed)"
    )
    parser.add_argument(
        "--continue",
        dest="continued",
        type=Path,
        metavar="FILE",
        help="go on with an interrupted bench of the same commit, whose rows are in FILE",
    )
    parser.add_argument(
        "--engine-before",
        type=Path,
        metavar="PATH",
        help="older pgdyno-engine, for the row engine-before",
    )
    return parser.parse_args()


def _raise_open_files_limit() -> None:
    """Let children open 8,000 connections: pgbench does not raise its own limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _line(answer: Answer) -> str:
    return f"{answer.row:<58} {shown(answer.ratio):<28} {answer.reach:<14} {answer.verdict}"


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PgdynoError as error:
        print(f"{error.message}\nhint: {error.hint}", file=sys.stderr)
        sys.exit(error.exit_code)
