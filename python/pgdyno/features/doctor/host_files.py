"""Parses the small files of /proc and /sys that checks read; None: the file does not tell."""

from __future__ import annotations

import re

# In version 1, "no limit" is the largest number of whole pages.
_NO_LIMIT_BYTES = 1 << 60


def chosen(text: str) -> str | None:
    """Return the word in brackets: "always [madvise] never" -> "madvise"."""
    match = re.search(r"\[([\w-]+)\]", text)
    return match[1] if match else (text.strip() if len(text.split()) == 1 else None)


def whole(text: str) -> int | None:
    """Return the only number of a file, a whole number."""
    word = text.strip()
    return int(word) if re.fullmatch(r"-?\d+", word) else None


def cpu_cores(cpu_max: str) -> float | None:
    """Return how many cores a cpu.max of version 2 permits; None: no limit."""
    words = cpu_max.split()
    if len(words) != 2 or words[0] == "max":
        return None
    return int(words[0]) / int(words[1])


def cpu_cores_of_quota(quota: str, period: str) -> float | None:
    """Return how many cores cpu.cfs_quota_us of version 1 permits; None: no limit."""
    quota_us, period_us = whole(quota), whole(period)
    if quota_us is None or quota_us < 0 or not period_us:
        return None
    return quota_us / period_us


def memory_limit_bytes(text: str) -> int | None:
    """Return the limit of memory.max or memory.limit_in_bytes; None: no limit."""
    size = whole(text)
    return None if size is None or size >= _NO_LIMIT_BYTES else size


def pressure_percent(text: str) -> float | None:
    """Return the share of the last minute in which a task waited, from a /proc/pressure file."""
    match = re.search(r"^some .*\bavg60=([\d.]+)", text, re.MULTILINE)
    return float(match[1]) if match else None


def is_virtual_machine(cpuinfo: str) -> bool:
    """Return whether the processor reports a hypervisor."""
    return re.search(r"^flags\s*:.*\bhypervisor\b", cpuinfo, re.MULTILINE) is not None
