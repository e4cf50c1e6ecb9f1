"""How much work_mem a statement needs so that it writes no temporary files.

The search is pure: it calls a function that executes the statement. It tries each value, because a
sort needs more memory than it writes to disk, so an extrapolation would be wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

BLOCK_BYTES = 8192
WORK_MEM_MIN_BYTES = 64 << 10
_MB = 1 << 20
# The smallest value is known to within a tenth.
_CLOSE_RATIO = 1.1
_TRIES_MAX = 24


@dataclass(frozen=True, slots=True)
class SpillTrial:
    """One execution under one work_mem.

    `temp_bytes`: written to temporary files; 0 where everything stayed in memory. `memory_bytes`:
    of all sorts and hashes, in all processes. `nodes`: those that sort or hash, in words.
    """

    work_mem_bytes: int
    temp_bytes: int
    memory_bytes: int
    duration_ms: float
    nodes: tuple[str, ...]
    is_hash_alone: bool = False
    process_count: int = 1

    @property
    def spills(self) -> bool:
        """Return whether it wrote temporary files."""
        return self.temp_bytes > 0


@dataclass(frozen=True, slots=True)
class Need:
    """What one statement needs. `enough`: None if it spills with every tried value."""

    statement: str
    place: str
    now: SpillTrial
    enough: SpillTrial | None
    tried_count: int

    @property
    def gain_ratio(self) -> float:
        """Return how many times faster it is without temporary files; 1 if nothing changes."""
        if self.enough is None or self.enough.duration_ms <= 0 or not self.now.spills:
            return 1.0
        return self.now.duration_ms / self.enough.duration_ms


Probe = Callable[[int], SpillTrial]
"""Executes the statement with this many bytes of work_mem."""


def trial_of(work_mem_bytes: int, document: Mapping[str, Any]) -> SpillTrial:
    """Return what EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) says of one execution."""
    plan = document["Plan"]
    nodes = list(_nodes(plan))
    working = [node for node in nodes if _memory_bytes(node) or _is_spilled(node)]
    written = int(plan.get("Temp Written Blocks", 0)) * BLOCK_BYTES
    if not written and any(_is_spilled(node) for node in nodes):
        written = BLOCK_BYTES  # A node spilled, but the amount is not known.
    return SpillTrial(
        work_mem_bytes=work_mem_bytes,
        temp_bytes=written,
        memory_bytes=sum(_memory_bytes(node) for node in nodes),
        duration_ms=float(document.get("Execution Time", 0.0)),
        nodes=tuple(_words(node) for node in working),
        is_hash_alone=bool(working) and all("Sort" not in node["Node Type"] for node in working),
        process_count=1 + max((len(node.get("Workers", ())) for node in nodes), default=0),
    )


def search(statement: str, place: str, probe: Probe, *, now_bytes: int, max_bytes: int) -> Need:
    """Return the smallest work_mem with which the statement writes no temporary files.

    The value doubles until the statement no longer spills. Then bisection on a log scale finds the
    limit to within a tenth. Only values that a person would set are tried: whole MB, or whole 64 kB
    below 1 MB.
    Args: place, of the statement in its file; now_bytes, the present work_mem; max_bytes, the
    largest value to try.
    Limits: a plan may change with work_mem, so a larger value may spill and a smaller one not.
    """
    probe(now_bytes)  # Warms the cache: the later executions are comparable.
    now = probe(now_bytes)
    tried = 2
    if not now.spills:
        return Need(statement, place, now, now, tried)
    low, high = now_bytes, now_bytes
    enough: SpillTrial | None = None
    while enough is None and high < max_bytes:
        high = min(_round_bytes(high * 2), max_bytes)
        trial = probe(high)
        tried += 1
        if trial.spills:
            low = high
        else:
            enough = trial
    while enough is not None and high / low > _CLOSE_RATIO and tried < _TRIES_MAX:
        middle = _round_bytes((low * high) ** 0.5)
        if not low < middle < high:
            break
        trial = probe(middle)
        tried += 1
        if trial.spills:
            low = middle
        else:
            enough, high = trial, middle
    return Need(statement, place, now, enough, tried)


@dataclass(frozen=True, slots=True)
class Apart:
    """A statement that needs more than all sessions can have, and how many may run at once."""

    need: Need
    at_one_time_count: int


@dataclass(frozen=True, slots=True)
class Advice:
    """What to set: one value for the server, and values for statements that need more.

    `budget_bytes`: what sorts and hashes may use together, None where memory is not known.
    """

    server_bytes: int | None
    now_bytes: int
    active_count: int
    budget_bytes: int | None
    apart: tuple[Apart, ...]
    why: str


def advise(
    needs: tuple[Need, ...], *, now_bytes: int, active_count: int, budget_bytes: int | None
) -> Advice:
    """Return the smallest values that end the spilling, if the memory is there.

    Args: now_bytes, the present work_mem; active_count, number of statements at work at one time;
    budget_bytes, memory that they may use together, None if not known. The advice assumes that all
    of them execute the largest statement.
    """
    spilling = [need for need in needs if need.now.spills and need.enough is not None]
    if not spilling:
        unsolved = any(need.now.spills for need in needs)
        why = "no value tried is enough" if unsolved else "no statement writes temporary files"
        return Advice(None, now_bytes, active_count, budget_bytes, (), why)
    fitting: list[Need] = []
    apart: list[Apart] = []
    for need in spilling:
        assert need.enough is not None
        if budget_bytes is not None and active_count * need.enough.memory_bytes <= budget_bytes:
            fitting.append(need)
        else:
            room = budget_bytes // max(1, need.enough.memory_bytes) if budget_bytes else 0
            apart.append(Apart(need, int(room)))
    server = max((n.enough.work_mem_bytes for n in fitting if n.enough is not None), default=None)
    why = "memory is not known: give --ram" if budget_bytes is None else ""
    return Advice(server, now_bytes, active_count, budget_bytes, tuple(apart), why)


def _nodes(plan: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from _nodes(child)


def _is_spilled(node: Mapping[str, Any]) -> bool:
    parts = [node, *node.get("Workers", ())]
    return any(
        part.get("Sort Space Type") == "Disk"
        or int(part.get("Hash Batches", 1)) > 1
        or int(part.get("HashAgg Batches", 1)) > 1
        or int(part.get("Disk Usage", 0)) > 0
        or "Sort Space Disk" in part.get("Full-sort Groups", {})
        for part in parts
    )


def _memory_bytes(node: Mapping[str, Any]) -> int:
    """Return the memory of a node in all its processes, without its temporary files."""
    total_kb = 0
    for part in (node, *node.get("Workers", ())):
        if part.get("Sort Space Type") == "Memory":
            total_kb += int(part.get("Sort Space Used", 0))
        total_kb += int(part.get("Peak Memory Usage", 0))
        for groups in ("Full-sort Groups", "Pre-sorted Groups"):
            space = part.get(groups, {}).get("Sort Space Memory", {})
            total_kb += int(space.get("Peak Sort Space Used", 0))
    return total_kb * 1024


def _words(node: Mapping[str, Any]) -> str:
    """Return "Sort external merge", "Hash 8 batches"."""
    kind = str(node["Node Type"])
    if "Sort Method" in node:
        return f"{kind} {node['Sort Method']}"
    batches = int(node.get("Hash Batches", node.get("HashAgg Batches", 1)))
    return f"{kind} {batches} batches" if batches > 1 else kind


def _round_bytes(size_bytes: float) -> int:
    step = _MB if size_bytes >= _MB else WORK_MEM_MIN_BYTES
    return max(WORK_MEM_MIN_BYTES, round(size_bytes / step) * step)
