"""Prepares the parts of the time for showing: words, classes, shares, small parts joined."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from pgdyno.analysis.estimate import Estimate, without_interval
from pgdyno.analysis.rounding import decimals_of
from pgdyno.analysis.wait_events import canonical_event
from pgdyno.analysis.where import WhereTheTimeGoes
from pgdyno.quantities import plain_decimals
from pgdyno.report import palette
from pgdyno.report.palette import WAIT_CLASS_NAMES, Role, WaitClass

NOT_EXPLAINED = "not explained"
OTHER = "other"
_FOLD_BELOW_RATIO = 0.01

# The keys are names from `canonical_event`, so that names of every version have words.
_WORDS: dict[str, str] = {
    "cpu": "server CPU",
    "server": "server, not split",
    "waiting for a core": "server CPU: waiting for a core",
    "cpu or not instrumented": "server CPU, or not instrumented",
    "other nodes": "other nodes: work for the coordinator",
    "between nodes, or not instrumented": "between the nodes, or not instrumented",
    "network": "network",
    "client": "client",
    "\\sleep of the script": "client: \\sleep of the script",
    "\\shell of the script": "client: \\shell of the script",
    "waiting for the load engine": "client: replies waiting for the engine",
    "schedule lag": "client: waiting for a free client",
    "wait for a connection": "client: waiting for a connection",
    "wait for a pooled session": "pooler: waiting for a server session",
    "io:walsync": "commit: WAL flush to disk",
    "io:walwrite": "WAL write",
    "lwlock:walwrite": "commit: WAL flush by another session",
    "lwlock:walinsert": "WAL buffers: insert",
    "lwlock:walbufmapping": "WAL buffers: none free",
    "lock:transactionid": "row lock: another transaction",
    "lock:tuple": "row lock: queue for one row",
    "lock:relation": "table lock",
    "lock:extend": "waiting to extend a table",
    "lock:advisory": "advisory lock",
    "io:datafileread": "reading data from disk",
    "io:datafilewrite": "writing data: no clean buffer at hand",
    "io:datafileextend": "extending a table",
    "io:datafileflush": "flushing data",
    "io:datafilesync": "syncing data",
    "io:buffileread": "reading temporary files",
    "io:buffilewrite": "writing temporary files",
    "lwlock:buffercontent": "page busy with another backend",
    "lwlock:buffermapping": "buffer lookup",
    "ipc:bufferio": "page read by another session",
    "lwlock:lockmanager": "lock table",
    "lwlock:procarray": "snapshots: list of transactions",
    "lwlock:xactslru": "transaction status",
    "ipc:syncrep": "waiting for a synchronous standby",
    "client:clientread": "waiting for the next statement",
    "client:clientwrite": "sending the result",
    "timeout:pgsleep": "pg_sleep",
    "timeout:spindelay": "spin lock",
    "timeout:vacuumdelay": "vacuum delay",
}


@dataclass(frozen=True, slots=True)
class TimePart:
    """One part of the mean latency, as shown."""

    name: str
    words: str
    wait: WaitClass
    role: Role
    ms: Estimate
    share_ratio: float

    @property
    def event(self) -> str:
        """Return the name of the wait event, or of the joined events; "" if `words` is enough."""
        is_telling = ":" in self.name or self.words.startswith(f"{OTHER}: ")
        return self.name if is_telling and self.name not in self.words else ""


def words_of(name: str) -> str:
    """Return a wait event or a part in words that do not need knowledge of PostgreSQL's code."""
    return _WORDS.get(canonical_event(name), name)


def parts_of(where: WhereTheTimeGoes) -> tuple[TimePart, ...]:
    """Return all parts, the largest first, the residual last."""
    total = where.latency_ms.value
    sorted_parts = sorted(where.parts, key=lambda part: -part.ms.value)
    looks = palette.shades(tuple(part.name for part in sorted_parts))
    shown = []
    for part, role in zip(sorted_parts, looks, strict=True):
        share = part.ms.value / total if total > 0 else 0.0
        wait = palette.wait_class(part.name)
        shown.append(TimePart(part.name, words_of(part.name), wait, role, part.ms, share))
    residual = where.residual or without_interval(where.residual_ms, "ms")
    shown.append(
        TimePart(
            NOT_EXPLAINED,
            NOT_EXPLAINED,
            "residual",
            palette.shade("residual", 0),
            residual,
            where.residual_ratio,
        )
    )
    return tuple(shown)


def parts_of_all(wheres: Iterable[WhereTheTimeGoes]) -> tuple[tuple[TimePart, ...], ...]:
    """Return the parts of several bars in one chart; a part has the same look in all bars."""
    every = [parts_of(where) for where in wheres]
    largest: dict[str, float] = {}
    for part in (part for parts in every for part in parts):
        largest[part.name] = max(largest.get(part.name, 0.0), part.ms.value)
    names = tuple(sorted(largest, key=lambda name: -largest[name]))
    looks = dict(zip(names, palette.shades(names), strict=True))
    return tuple(tuple(replace(p, role=looks[p.name]) for p in parts) for parts in every)


def legend_of_parts(bars: Iterable[Iterable[TimePart]]) -> tuple[tuple[str, TimePart], ...]:
    """Return the name of each look in the bars and a part with this look, in the bars' order.

    If a class has one look, its name is the class. Otherwise the name of a look is its part. If
    several parts share a look, its name is the class and their number.
    """
    by_look: dict[WaitClass, dict[str, dict[str, TimePart]]] = {}
    for part in (part for bar in bars for part in bar if part.ms.value > 0):
        by_look.setdefault(part.wait, {}).setdefault(part.role.css, {}).setdefault(part.name, part)
    legend = []
    for wait, class_name in WAIT_CLASS_NAMES.items():
        looks = by_look.get(wait, {})
        for css in sorted(looks):
            parts = tuple(looks[css].values())
            several = f"{class_name}: {len(parts)} more"
            name = class_name if len(looks) == 1 else parts[0].words
            legend.append((several if len(looks) > 1 < len(parts) else name, parts[0]))
    return tuple(legend)


def fold(parts: Iterable[TimePart], *, at_most: int) -> tuple[TimePart, ...]:
    """Return at most `at_most` parts: small parts are joined into one, the residual is last.

    The name of the joined part has their number, because a page shows more parts than a text.
    """
    everything = list(parts)
    named = [part for part in everything if part.name != NOT_EXPLAINED]
    residual = [part for part in everything if part.name == NOT_EXPLAINED]
    large = [part for part in named if part.share_ratio >= _FOLD_BELOW_RATIO]
    if len(everything) <= at_most and len(named) - len(large) < 2:
        return (*named, *residual)
    large = large[: max(at_most - len(residual) - 1, 1)]
    small = named[len(large) :]
    names = ", ".join(part.name for part in small[:3]) + (", ..." if len(small) > 3 else "")
    ms = without_interval(sum(part.ms.value for part in small), "ms")
    share = sum(part.share_ratio for part in small)
    return (
        *large,
        TimePart(
            names, f"{OTHER}: {len(small)} parts", "other", palette.shade("other", 0), ms, share
        ),
        *residual,
    )


def shown_decimals(where: WhereTheTimeGoes) -> int:
    """Return the number of decimals, the same for all parts, so that a reader can add them up."""
    latency = where.latency_ms
    return max(decimals_of(latency), plain_decimals(latency.value))


def in_bar_order(parts: Iterable[TimePart]) -> tuple[TimePart, ...]:
    """Return the parts grouped by class, so that one class is one stretch of the bar."""
    order = list(WAIT_CLASS_NAMES)
    return tuple(sorted(parts, key=lambda part: (order.index(part.wait), -part.ms.value)))
