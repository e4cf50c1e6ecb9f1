"""make bench: the engine against pgbench and the yardsticks, in ratios with intervals.

Prints `row, ratio, interval, reach, verdict`; keeps every run in bench/results/<date>-<time>.json
and the table in the .md beside it, row by row. A row passes when its whole 95 % interval lies on
the right side, and is open when the interval straddles.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from bench import loads, machine
from bench.contest import PAIRS_MAX, Answer, hold, shown
from bench.rows import ROWS, Bench
from pgdyno.clock import read_pair
from pgdyno.errors import InterruptedByUser, PgdynoError
from pgdyno.measure.jobs import threads_for
from pgdyno.process import signals
from pgdyno.server.find import Binaries, find, installed
from pgdyno.server.scratch import ScratchCluster, ScratchRequest

RESULTS = Path(__file__).parent / "results"
HEAD = f"{'row':<58} {'ratio (95 % interval)':<28} {'reach':<14} verdict"


def main() -> int:
    """Hold the contests asked for; 0 when no row falls short."""
    options = _options()
    _raise_open_files_limit()
    binaries = find_pgbench(options.pg_version)
    started = datetime.fromtimestamp(read_pair().unix_ns / 1e9, UTC)
    answers: list[Answer] = []
    missing: dict[str, str] = {}
    path = None if options.quick else RESULTS / f"{started:%Y-%m-%d-%H%M}"
    with signals.handled(on_later=_still_cleaning), _told(path), ExitStack() as stack:
        server = stack.enter_context(_server(binaries))
        bench = Bench(
            server=server,
            seconds=3 if options.quick else 5,
            init_scale=5 if options.quick else 50,
            threads=threads_for(8000, None),
            stack=stack,
        )
        _say(f"{server.binaries}: loading scale {options.scale}")
        loads.pgbench_init(binaries, server.target, options.scale)
        facts = machine.facts(binaries, loads.engine_facts(server.target))
        print(HEAD)
        for name in options.rows or ROWS:
            try:
                for contest in ROWS[name](bench):
                    pairs_max = 4 if options.quick else options.pairs
                    for answer in hold(contest, pairs_max=pairs_max, say=_say):
                        answers.append(answer)
                        print(_line(answer), flush=True)
                    if path is not None:  # After each row: an interrupted bench keeps what it has.
                        _keep(path, started, facts, answers, missing)
            except RuntimeError as error:
                missing[name] = str(error)
                print(f"{name:<58} not measured: {error}", flush=True)
    if path is not None:
        _keep(path, started, facts, answers, missing)
    return 1 if missing or any(a.verdict == "falls short" for a in answers) else 0


@contextmanager
def _told(path: Path | None) -> Iterator[None]:
    """Say what an interruption left of what was measured."""
    try:
        yield
    except InterruptedByUser as asked:
        kept = path is not None and path.with_suffix(".md").exists()
        asked.hint = f"the rows until then are in {path}.md" if kept else "nothing was kept"
        raise


def _still_cleaning() -> None:
    _say("Still ending what was started.")


def find_pgbench(version: str | None) -> Binaries:
    """Return an installed PostgreSQL that has pgbench beside it.

    Raises: SpecError if there is none.
    """
    for binaries in installed():
        asked = version in (None, str(binaries.major))
        if asked and binaries.program("pgbench").exists():
            return binaries
    return find(version=version or "15")


def _server(binaries: Binaries) -> ScratchCluster:
    # Everything in memory: what is measured is the client.
    settings = {"shared_buffers": "512MB", "max_wal_size": "4GB"}
    return ScratchCluster.create(ScratchRequest(binaries, clients=300, settings=settings))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "rows", nargs="*", choices=[*ROWS, []], metavar="ROW", help="which rows (default: all)"
    )
    parser.add_argument("--quick", action="store_true", help="4 short pairs a row; keeps nothing")
    parser.add_argument(
        "--pairs", type=int, default=PAIRS_MAX, help=f"at most so many a row (default {PAIRS_MAX})"
    )
    parser.add_argument("--scale", type=int, default=10, help="of the pgbench tables (default 10)")
    parser.add_argument("--pg-version", help="major version of server and pgbench")
    return parser.parse_args()


def _raise_open_files_limit() -> None:
    """Let children open 8,000 connections: pgbench does not raise its own limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _line(answer: Answer) -> str:
    return f"{answer.row:<58} {shown(answer.ratio):<28} {answer.reach:<14} {answer.verdict}"


def _keep(
    path: Path,
    started: datetime,
    facts: dict[str, str],
    answers: list[Answer],
    missing: dict[str, str],
) -> None:
    path.parent.mkdir(exist_ok=True)
    document = {
        "format": "pgdyno.bench-ratios/1",
        "started_utc": started.isoformat(timespec="seconds"),
        "machine": facts,
        "rows": [answer.as_document() for answer in answers],
        "not_measured": missing,
    }
    path.with_suffix(".json").write_text(json.dumps(document, indent=1) + "\n")
    lines = [f"# Ratios of {started:%Y-%m-%d %H:%M} UTC", ""]
    lines += [f"- {label}: {value}" for label, value in facts.items()]
    lines += [
        "",
        "| row | ratio (95 % interval) | pairs | reach | verdict |",
        "|---|---|---|---|---|",
    ]
    for answer in answers:
        cells = (answer.row, shown(answer.ratio), len(answer.pairs), answer.reach, answer.verdict)
        lines.append("| " + " | ".join(str(cell) for cell in cells) + " |")
    lines += [f"| {name} | not measured: {why} | | | |" for name, why in missing.items()]
    path.with_suffix(".md").write_text("\n".join(lines) + "\n")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PgdynoError as error:
        print(f"{error.message}\nhint: {error.hint}", file=sys.stderr)
        sys.exit(error.exit_code)
