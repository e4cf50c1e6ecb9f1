"""python -m bench.verdict: what a run costs in addition to its load, and how long a verdict takes.

Carries out examples/commit.toml, synchronous_commit on against off. The aim is at most 10 pairs and
2 minutes in total, and 3 s in addition to each run. Steps are medians over the runs.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import pgdyno
from pgdyno.clock import monotonic_ns
from pgdyno.loop.journal import Visit, visits
from pgdyno.store.folder import ExperimentFolder

SPEC = Path(__file__).resolve().parents[1] / "examples" / "commit.toml"
REACH_PAIRS, REACH_S, REACH_AROUND_S = 10, 120.0, 3.0


def main(spec: Path) -> int:
    """Carry out the experiment and print; return 0 if every aim is met."""
    with tempfile.TemporaryDirectory(prefix="pgdyno-bench-") as place:
        began_ns = monotonic_ns()
        result = pgdyno.run(spec, store=place)
        whole_s = (monotonic_ns() - began_ns) / 1e9
        compared = result.findings.compare
        assert compared is not None, f"{spec} compares nothing"
        [contrast, *_] = compared.contrasts
        done = visits(ExperimentFolder(result.folder))
        print(contrast.sentence)
        around_s = statistics.median(_around_s(visit) for visit in done)
        for name, seconds in _steps(done).items():
            print(f"  {name:28}{seconds:8.2f} s")
        runs_s = sum(visit.took_ns for visit in done) / 1e9
        _reached("around a run (median)", around_s, REACH_AROUND_S)
        _reached("all of it", whole_s, REACH_S)
        print(f"{'before the first and after the last run':40}{whole_s - runs_s:8.2f} s")
        pairs = contrast.deciding.pair_count
        print(f"{'pairs':40}{pairs:8d}   of {REACH_PAIRS}")
    is_fast = whole_s <= REACH_S and around_s <= REACH_AROUND_S
    return 0 if is_fast and pairs <= REACH_PAIRS else 1


def _around_s(visit: Visit) -> float:
    """Return what a run took in addition to warm-up and measuring."""
    return (visit.took_ns - visit.planned.warm_ns - visit.planned.measure_ns) / 1e9


def _steps(done: list[Visit]) -> dict[str, float]:
    """Return the median of every step that a run keeps the time of, in seconds."""
    seconds_by_step: dict[str, list[float]] = {}
    for visit in done:
        document: dict[str, Any] = visit.stored.server_json
        for step in (document.get("reset") or {}).get("steps", ()):
            seconds_by_step.setdefault(step["name"], []).append(step["duration_ns"] / 1e9)
        for phase in visit.stored.summary["phases"]:
            if phase["phase"] in ("connect", "prepare", "drain"):
                lasted_ns = phase["ended_ns"] - phase["began_ns"]
                seconds_by_step.setdefault(phase["phase"], []).append(lasted_ns / 1e9)
    return {name: statistics.median(seconds) for name, seconds in seconds_by_step.items()}


def _reached(name: str, seconds: float, reach_s: float) -> None:
    print(f"{name:40}{seconds:8.2f} s of {reach_s:g} s")


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else SPEC))
