"""The result file of a release, and docs/performance.md, which is written from that file.

A bench of all rows replaces `bench/results/<version>.json`, so that every row of a release comes
from one commit on one machine. Other benches keep their rows under target/bench; an interrupted one
goes on with `--continue FILE`.
`python -m bench.release FILE` writes the page again.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from bench.contest import Answer, shown
from bench.yardsticks import ROOT
from pgdyno.analysis.estimate import Estimate
from pgdyno.errors import SpecError

RESULTS = ROOT / "bench" / "results"
PARTS = ROOT / "target" / "bench"
PAGE = ROOT / "docs" / "performance.md"

_HEAD = """<!-- written by `make bench`; do not edit -->
# Performance of pgdyno itself

`make bench` compares pgdyno with pgbench (the binary itself, on the same server, with the same
number of threads), and with a bare loop of epoll_wait, recv and send. It measures both programs in
turn, in an order that cancels drift. A ratio is pgdyno's value divided by the other program's, with
its 95 % interval. A row passes when the whole interval is on the right side of the aim, falls short
when the whole interval is on the wrong side, and is open otherwise.
`bench/results/` of the sources has every run behind these rows.

"""
_TAIL = """
## What the rows mean

- **vs bare loop**: the bare loop sends the same bytes and does nothing else. No client can need
  less.
- **tps**: on one host the server gets the CPU that the client does not need, so tps follows client
  CPU.
- **`-S` prepared, 8 clients**: 93 % of the engine's CPU is kernel time. Most of that wakes the
  server's process for each statement. This share was profiled on an AMD EPYC.
- **8,000 connections, 2,000 tx/s**: each transaction sleeps and wakes twice. The row against the
  bare loop shows that hardly less is possible.
- **Another processor gives other ratios.** On 2 cores of an AMD EPYC, commit 11b6fa78 needed
  0.718 (0.706 to 0.731) of pgbench's CPU at 8 clients, 0.449 (0.432 to 0.466) at 64, 0.529 (0.490
  to 0.572) at 250, and 0.123 (0.114 to 0.133) with 8,000 connections. On an AMD EPYC, `init` at
  scale 50 on a user's server took 0.98 (0.82 to 1.16) of the time of `pgbench -i` in one
  measurement, and 0.87 (0.73 to 1.05) in a later one of 12 pairs.
- **tpcc-like statements**: client CPU of one round trip. Both programs use the null server, which
  lists the results of the statements. At a real pace it answers as late as the real server did.
- **init tpcc**: the bytes of all nine tables and the time of the whole load with its keys, against
  one COPY of stock by psql without a key. go-tpc is not measured: no package of it was available.
- **init**: loading is one chain of steps in the server, and locks keep the steps from overlapping
  ([profile](loading.md)).
- **telemetry, collectors vs 2 % of a core**: CPU time of the collectors and of their backends,
  divided by the allowed 2 % of one core.
- **telemetry and what a load loses to it**: the same, plus the CPU time that the load's statements
  need because telemetry evicted their data from the CPU caches ([telemetry](telemetry.md)).
- **report of an hour**: the time and the size of the HTML page of a run of one hour.

## Start and size

| what | seen | at most |
|---|---|---|
| CPU time of `--help` of a verb (click alone: 0.05 s) | 0.09 to 0.17 s | 0.20 s |
| CPU time of a Tab with 10,000 results, bash, zsh, fish | 6, 6, 13 ms | 60 ms |
| CPU time of `list` | 0.12 to 0.15 s | 0.25 s |
| engine, static, x86_64, without line tables | 7.2 MB | 8.4 MB |
| engine, aarch64, without line tables | 6.6 MB | 8.4 MB |
| wheel of the lab | 2.2 MB | 3.1 MB |
| CPU time to build one engine | 4.7 min | - |
| Debian package, with all Python packages and a PostgreSQL | 54 MB | - |
| CPU time of `make release` in a fresh clone | 16 to 25 min | - |
| `make release` in a fresh clone, 2 cores, other programs ran | 14 to 101 min | - |

The time of `make release` depends on the other programs of the machine. In the run of 14 min 10 s,
`make build` took 4 minutes and each of the three engines of the release 2.7 to 2.9. In the run of
33 min 33 s, other programs used both cores, and one engine took 12.5 minutes. Both runs needed 17
minutes of CPU time. In the run of 101 min, about 25 programs waited for the two cores, and one
engine took more than 40 minutes; this run needed 25 minutes of CPU time. With `make build` done
before and an idle machine, a run took 7 min 44 s.
"""


@dataclass
class Part:
    """The rows measured so far; `rows` are as they are in the file.

    `finished`: the names in `rows.ROWS` that need no further run; `missing`: name -> why it was not
    measured.
    """

    started: datetime
    facts: dict[str, str]
    finished: list[str] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, answers: list[Answer]) -> None:
        """Add answers of a name, with date, commit and PostgreSQL version."""
        origin = {
            "of": name,
            "date": f"{self.started:%Y-%m-%d}",
            "commit": self.facts["commit"][:8],
            "postgresql": self.facts["PostgreSQL"].split(" ")[0],
        }
        self.rows += [{**answer.as_document(), **origin} for answer in answers]

    @property
    def falls_short(self) -> bool:
        """Return whether a row missed its aim or was not measured."""
        return bool(self.missing) or any(row["verdict"] == "falls short" for row in self.rows)

    def document(self) -> dict[str, Any]:
        """Return the result as a JSON document."""
        return {
            "format": "pgdyno.bench-ratios/3",
            "started_utc": self.started.isoformat(timespec="seconds"),
            "machine": self.facts,
            "finished": self.finished,
            "rows": self.rows,
            "not_measured": self.missing,
        }


def part_of(path: Path, started: datetime, facts: dict[str, str]) -> Part:
    """Return the finished rows of an interrupted bench, to go on with them.

    Raises: SpecError if another commit, server or machine was measured.
    """
    kept = json.loads(path.read_text(encoding="utf-8"))
    for name, value in kept["machine"].items():
        if facts.get(name) != value:
            raise SpecError(
                f"{path} was measured with {name} {value}, and here it is {facts.get(name)}.",
                hint="all rows of a release come from one commit: measure all of them again",
            )
    rows = [row for row in kept["rows"] if row["of"] in kept["finished"]]
    return Part(started, facts, kept["finished"], rows)


def keep_part(document: dict[str, Any]) -> Path:
    """Write the rows measured so far; return the file, which has the start time as its name."""
    PARTS.mkdir(parents=True, exist_ok=True)
    started = datetime.fromisoformat(document["started_utc"])
    path = PARTS / f"{started:%Y-%m-%d-%H%M}.json"
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return path


def publish(document: dict[str, Any], version: str) -> Path:
    """Replace the result file of the release and the page; return the result file."""
    path = RESULTS / f"{version}.json"
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page(document), encoding="utf-8")
    return path


def page(document: dict[str, Any]) -> str:
    """Return docs/performance.md."""
    machine = document["machine"]
    lines = [
        f"Measured on {machine['cores']} cores of {machine['processor']}, {machine['memory']}, "
        f"{machine['kernel']}; server, client and",
        f"pgdyno on one host. pgdyno {machine['engine']}.",
        "",
        "| row | ratio (95 % interval) | pairs | aim | verdict | date | commit | PostgreSQL |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in document["rows"]:
        cells = (
            row["row"],
            shown(Estimate(**row["ratio"])),
            str(len(row["pairs"])),
            row["reach"],
            row["verdict"],
            row["date"],
            row["commit"],
            row["postgresql"],
        )
        lines.append(f"| {' | '.join(cells)} |")
    lines += [
        f"| {name} | not measured: {why} | | | | | | |"
        for name, why in document["not_measured"].items()
    ]
    return _HEAD + "\n".join(lines) + "\n" + _TAIL


if __name__ == "__main__":
    PAGE.write_text(page(json.loads(Path(sys.argv[1]).read_text())), encoding="utf-8")
