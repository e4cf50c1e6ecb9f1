"""What telemetry costs whoever works on the same cores: its own time, and what they lose beyond it.

Throughput on and off tells the same, on a machine whose speed holds for minutes. This holds beside
neighbours that change it by half from second to second: see bench/null_server/src/bin/bystander.rs.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from bench import processes
from bench.loads import Measured
from bench.watching import REACH_CORE_RATIO, watching
from bench.yardsticks import program_path
from pgdyno.process import signals
from pgdyno.server.scratch import ScratchCluster

_GRACE_S = 30.0
_BEGUN_S = 1.0


def allowed() -> Measured:
    """Return what telemetry may cost."""
    return replace(Measured("limit", 1, 0.0, 0, 1, 0), watch_core_ratio=REACH_CORE_RATIO)


def disturbed(server: ScratchCluster, memory_bytes: int, seconds: float) -> Measured:
    """Return what telemetry took of a core, and what bystanders lost to it besides."""
    before = _lost_core_ratio(memory_bytes, seconds)
    with watching(server, 0.0) as watched:
        signals.sleep(_BEGUN_S)
        beside = _lost_core_ratio(memory_bytes, seconds)
    measured = Measured("bystander", 1, 0.0, 0, round(2 * seconds * 1e9), 0)
    return replace(measured, watch_core_ratio=watched.core_ratio + beside - before)


def _lost_core_ratio(memory_bytes: int, seconds: float) -> float:
    """Return the share of a core that bystanders spend more where somebody else ran meanwhile."""
    program = program_path("pgdyno-bystander")
    argv: list[str | Path] = [program, str(memory_bytes), str(round(seconds))]
    ended = processes.run(argv, timeout_s=seconds + _GRACE_S)
    return float(json.loads(ended.stdout)["lost_ns"]) / (round(seconds) * 1e9)
