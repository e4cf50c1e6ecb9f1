"""Measures how long the disk takes to make 8 kB durable. Every commit waits this long.

It writes a file, so it runs only on request. The method is that of pg_test_fsync for fdatasync:
write one block to a preallocated file, flush, repeat.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from pgdyno.clock import monotonic_ns
from pgdyno.errors import SpecError
from pgdyno.observe.host import disk
from pgdyno.process import signals

BLOCK_BYTES = 8192
_FILE_BLOCKS = 256
_FLUSHES_MAX = 2000


@dataclass(frozen=True, slots=True)
class FlushTimes:
    """Latencies of flushes in one folder.

    `device_flushes`: the kernel's count of flushes of the disks during the measurement, including
    those of other programs; None if the kernel does not count them.
    """

    folder: str
    flush_count: int
    latency_ns_p50: int
    latency_ns_p99: int
    latency_ns_max: int
    device_flushes: int | None


def measure(
    folder: Path, *, devices: tuple[str, ...], seconds: float = 2.0, root: Path = Path("/")
) -> FlushTimes:
    """Write and flush blocks in `folder`, and return the latencies.

    The file has no name and no longer exists afterwards.
    Args: devices, the disks of the folder, whose flushes are counted.
    Raises: SpecError if the folder is not writable; InterruptedByUser.
    """
    before = _device_flushes(root, devices)
    try:
        with tempfile.TemporaryFile(dir=folder, prefix=".pgdyno-flush-") as file:
            latencies_ns = _flush_blocks(file.fileno(), seconds)
    except OSError as error:
        raise SpecError(
            f"--flush {folder}: cannot write a file there: {error.strerror or error}.",
            hint="name a folder on the WAL's disk that this user may write to",
        ) from None
    after = _device_flushes(root, devices)
    counted = None if before is None or after is None else after - before
    ordered = sorted(latencies_ns)
    return FlushTimes(
        folder=str(folder),
        flush_count=len(ordered),
        latency_ns_p50=ordered[len(ordered) // 2],
        latency_ns_p99=ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)],
        latency_ns_max=ordered[-1],
        device_flushes=counted,
    )


def _flush_blocks(descriptor: int, seconds: float) -> list[int]:
    block = os.urandom(BLOCK_BYTES)
    os.pwrite(descriptor, block * _FILE_BLOCKS, 0)
    os.fsync(descriptor)
    latencies_ns: list[int] = []
    deadline_ns = monotonic_ns() + int(seconds * 1e9)
    while len(latencies_ns) < _FLUSHES_MAX and (not latencies_ns or monotonic_ns() < deadline_ns):
        signals.check()
        os.pwrite(descriptor, block, len(latencies_ns) % _FILE_BLOCKS * BLOCK_BYTES)
        began_ns = monotonic_ns()
        os.fdatasync(descriptor)
        latencies_ns.append(monotonic_ns() - began_ns)
    return latencies_ns


def _device_flushes(root: Path, devices: tuple[str, ...]) -> int | None:
    """Return the kernel's count of flushes for these devices."""
    rows = []
    with contextlib.suppress(OSError, ValueError):
        rows = disk.parse((root / "proc/diskstats").read_text())
    counts = [row["flushes"] for row in rows if row["device"] in devices]
    known = [count for count in counts if isinstance(count, int)]
    return sum(known) if known and len(known) == len(counts) else None
