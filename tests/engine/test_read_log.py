"""The engine's verb read-log: files in their order, packed files, damage, and what is refused."""

from __future__ import annotations

import gzip
import json
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pgdyno.engine.executable import engine_path

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


def read(*paths: Path, prefix: str | None = None) -> tuple[int, list[Any]]:
    option = [] if prefix is None else ["--prefix", prefix]
    argv = [engine_path(), "read-log", *option, *paths]
    done = subprocess.run(argv, capture_output=True, check=False, timeout=60)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


def log(first: int, last: int) -> bytes:
    rng = random.Random(first)  # An archive of it has many blocks.
    lines = (
        f"2026-11-24 10:{number // 60:02}:{number % 60:02}.000 UTC [7]"
        f" LOG:  duration: 1.000 ms  statement: SELECT {number}, '{rng.randbytes(100).hex()}'\n"
        for number in range(first, last)
    )
    return "".join(lines).encode()


def numbers(lines: list[Any]) -> list[int]:
    """Return the first constant of each part of a session: there, after eight numbers."""
    return [int(line[8][1][0]) for line in lines if isinstance(line, list)]


def test_rotated_and_packed_files_are_read_in_the_order_of_their_times(tmp_path: Path) -> None:
    current, packed, oldest = (tmp_path / name for name in ("a.log", "b.log.1", "c.log.2"))
    current.write_bytes(log(200, 300))
    packed.write_bytes(gzip.compress(log(100, 150)) + gzip.compress(log(150, 200)))
    oldest.write_bytes(zstd.compress(log(0, 50)) + zstd.compress(log(50, 100)))
    code, lines = read(current, packed, oldest)
    assert code == 0
    assert numbers(lines) == list(range(300))
    assert [Path(line["file"]["path"]).name for line in lines if "file" in line] == [
        "c.log.2",
        "b.log.1",
        "a.log",
    ]
    assert sum("shape" in line for line in lines) == 1
    assert lines[-1]["end"]["statements"] == 300


def test_the_whole_part_of_a_cut_archive_is_read_and_the_damage_is_named(tmp_path: Path) -> None:
    path, second = tmp_path / "a.gz", tmp_path / "a.next"
    packed = gzip.compress(log(0, 3000))
    path.write_bytes(packed[: len(packed) * 2 // 3])
    second.write_bytes(log(3000, 3001))
    code, lines = read(path, second)
    assert code == 0
    [damaged] = [line["damaged"] for line in lines if "damaged" in line]
    assert damaged["path"] == str(path)
    assert len(numbers(lines)) > 1000
    assert numbers(lines)[-1] == 3000


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"not a log\n" * 20, "prefix"),
        (None, "file"),
        (zstd.compress(b"x" * 1000)[:10], "file"),
    ],
)
def test_other_files_are_refused_with_their_name(
    content: bytes | None, kind: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.log"
    if content is not None:
        path.write_bytes(content)
    code, lines = read(path)
    assert code == 1
    assert (lines[-1]["refused"]["kind"], lines[-1]["refused"]["path"]) == (kind, str(path))


def peak_of(path: Path) -> tuple[int, dict[str, Any]]:
    """Return the peak memory of reading a log, bytes, and the last line that the reader writes."""
    argv = [engine_path(), "read-log", path]
    peak_kib = 0
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as reader:
        assert reader.stdout is not None
        last = b""
        while chunk := reader.stdout.read(1 << 20):
            last = (last + chunk)[-4096:]
            status = Path(f"/proc/{reader.pid}/status").read_text()
            seen = re.search(r"VmHWM:\s*(\d+) kB", status)
            # A reader that has just ended has no memory any more.
            peak_kib = max(peak_kib, int(seen[1]) if seen else 0)
    assert reader.returncode == 0
    return peak_kib << 10, json.loads(last.splitlines()[-1])["end"]


def packed_log(path: Path, size_bytes: int) -> int:
    """Write a packed log of at least this size; return the number of its statements."""
    line = "2026-11-24 10:00:{:02}.000 UTC [{}] LOG:  duration: 1.000 ms  statement: SELECT {}\n"
    text = "".join(line.format(n % 60, n, n) for n in range(20_000)).encode()
    frame, count = zstd.compress(text), size_bytes // len(text) + 1
    with path.open("wb") as packed:
        for _ in range(count):
            packed.write(frame)
    return 20_000 * count


@pytest.mark.parametrize(
    "size_bytes", [30_000_000, pytest.param(5_000_000_000, marks=pytest.mark.slow)]
)
def test_a_log_of_any_size_takes_bounded_memory(size_bytes: int, tmp_path: Path) -> None:
    path = tmp_path / "a.zst"
    statements = packed_log(path, size_bytes)
    peak_bytes, end = peak_of(path)
    assert end["bytes"] >= size_bytes
    assert end["statements"] == statements
    assert 1 << 20 < peak_bytes < 64 << 20


def test_files_of_two_formats_are_refused(tmp_path: Path) -> None:
    stderr, other = tmp_path / "a.log", tmp_path / "a.json"
    stderr.write_bytes(log(0, 2))
    record = {"timestamp": "2026-11-24 10:00:00.000 UTC", "error_severity": "LOG", "message": "x"}
    other.write_text(json.dumps(record) + "\n")
    code, lines = read(stderr, other)
    assert (code, lines[-1]["refused"]["kind"]) == (1, "formats")
