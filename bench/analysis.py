"""python -m bench.analysis [RUNS]: planning and analysis of an experiment of 500 runs.

Prints the seconds of wall clock and of CPU; the aim is 5 s in total. The experiment is generated (a
comparison of two variants), so no server is needed.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.generated import generate
from pgdyno.clock import monotonic_ns
from pgdyno.designs import answer_of, page_of
from pgdyno.loop.history import history_of
from pgdyno.plan.designs.compare import Compare
from pgdyno.spec.experiment import Experiment
from pgdyno.store.experiment import Store

REACH_S = 5.0


def main(runs: int) -> int:
    """Generate, measure and print; return 0 if planning and analysis meet the aim."""
    with tempfile.TemporaryDirectory(prefix="pgdyno-bench-") as place:
        folder = generate(
            Store(Path(place)), rounds=runs // 2, effect_ratio=0.001, noise_ratio=0.05
        )
        experiment = Experiment.model_validate(tomllib.loads(folder.spec()))
        answer_of(
            folder
        )  # Imports modules and fills the page cache, as in an experiment that ends.
        print(f"{runs} runs{'':24}wall      CPU", flush=True)
        history, wall_s = timed("reading the history", lambda: history_of(folder))
        timed("50 of its decisions", lambda: decisions(experiment, history))
        findings, analysed_s = timed("the analysis", lambda: answer_of(folder))
        timed("the page", lambda: page_of(findings))
    # Only a resumed experiment reads its history; otherwise the history is in memory.
    total_s = wall_s + analysed_s
    print(f"{'history and analysis':32}{total_s:6.2f} s of {REACH_S:.0f} s")
    return 0 if total_s <= REACH_S else 1


def decisions(experiment: Experiment, history: Any) -> None:
    """Decide again after every tenth run; a running experiment decides after each run."""
    for end in range(0, len(history), 10):
        Compare(experiment).next_run(history[:end])


def timed(name: str, work: Callable[[], Any]) -> tuple[Any, float]:
    """Do the work, print its time, and return its result and its seconds."""
    began_ns, cpu_s = monotonic_ns(), _cpu_s()
    made = work()
    wall_s, cpu_s = (monotonic_ns() - began_ns) / 1e9, _cpu_s() - cpu_s
    print(f"{name:32}{wall_s:6.2f} s {cpu_s:6.2f} s", flush=True)
    return made, wall_s


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 500))
