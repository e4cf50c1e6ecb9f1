"""Facts of the machine that a bench ran on; they are kept with its ratios."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from pathlib import Path

from bench.yardsticks import ROOT
from pgdyno.engine.records import Hello
from pgdyno.server.find import Binaries


def facts(binaries: Binaries, engine: Hello) -> dict[str, str]:
    """Return label -> value: processor, memory, kernel, PostgreSQL, build."""
    return {
        "processor": _first(Path("/proc/cpuinfo"), r"model name\s*: (.*)") or platform.machine(),
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": _memory(),
        "kernel": kernel(),
        "PostgreSQL": f"{binaries.version} ({binaries.bin_dir})",
        "engine": f"{engine.engine_version}, {engine.build_profile} build, poller {engine.poller}",
        "commit": engine.commit or _commit(),
    }


def kernel() -> str:
    """Return the system with the first two numbers of its version, such as "Linux 6.18"."""
    return f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}"


def _memory() -> str:
    kib = int(_first(Path("/proc/meminfo"), r"MemTotal:\s+(\d+)") or 0)
    return f"{kib / (1 << 20):.1f} GiB"


def _first(path: Path, pattern: str) -> str:
    match = re.search(pattern, path.read_text()) if path.exists() else None
    return match[1] if match else ""


def _commit() -> str:
    said = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return said.stdout.strip() or "unknown"
