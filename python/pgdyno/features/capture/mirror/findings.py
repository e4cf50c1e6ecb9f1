"""How alike a load is to its source: every quantity of both, their ratio, a limit, a verdict."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pgdyno.analysis.estimate import Estimate
from pgdyno.quantities import fixed, percent, shares_words

Verdict = Literal["pass", "short", "unknown"]
Counters = Mapping[str, float]
RATIO_LIMIT = 0.1
SESSIONS_LIMIT = 0.25
CALLS_DISTANCE_MAX = 0.02
WAITS_COSINE_MIN = 0.95
# The source counted its BEGIN if it has this share of the calls that its transactions imply.
_CONTROL, _COUNTED_MIN = re.compile(r"(BEGIN|START|COMMIT|END|ROLLBACK)\b"), 0.5
# Smaller differences count as none: name -> amount a call.
_SLACK = {"rows": 0.05, "blocks": 0.05, "temporary blocks": 0.05, "WAL bytes": 8.0}


@dataclass(frozen=True, slots=True)
class Quantity:
    """One quantity of the source and of the copy.

    `limit`: the largest distance of the ratio from 1, or the limit in `limit_words`; None if the
    quantity is only shown.
    """

    name: str
    source: float | None
    copy: float | None
    limit: float | None
    limit_words: str
    verdict: Verdict

    @property
    def ratio(self) -> float | None:
        """Return copy / source; None if one of them is not known, or the source is 0."""
        if self.source is None or self.copy is None or not self.source:
            return None
        return self.copy / self.source


@dataclass(frozen=True, slots=True)
class TypeLikeness:
    """The quantities of one transaction type."""

    name: str
    quantities: tuple[Quantity, ...]


@dataclass(frozen=True, slots=True)
class Likeness:
    """How alike a run is to its source.

    `reproduced_calls_ratio`, `reproduced_time_ratio`: the shares of the source's calls and time
    whose statements the load has. `file`: the name of the capture. `not_sent`: texts of statements
    that the load lacks because they could do harm.
    """

    file: str
    reads_only: bool
    reproduced_calls_ratio: float | None
    reproduced_time_ratio: float | None
    quantities: tuple[Quantity, ...]
    types: tuple[TypeLikeness, ...]
    figures: Mapping[str, Estimate] = field(default_factory=dict)
    not_sent: tuple[str, ...] = ()

    @property
    def short(self) -> tuple[Quantity, ...]:
        """Return the quantities of the whole load that miss their limits."""
        return tuple(quantity for quantity in self.quantities if quantity.verdict == "short")

    @property
    def sentence(self) -> str:
        """Return the answer in a sentence."""
        by_name = {quantity.name: quantity for quantity in self.quantities}
        shares = shares_words(self.reproduced_calls_ratio, self.reproduced_time_ratio)
        words = [f"{shares} are reproduced"]
        blocks, waits = by_name["blocks a call"], by_name["waits (cosine)"]
        if blocks.ratio is not None:
            words.append(f"blocks a call {fixed(blocks.ratio, 2)}x")
        if waits.copy is not None:
            words.append(f"waits cosine {fixed(waits.copy, 2)}")
        if self.short:
            words.append("short: " + ", ".join(quantity.name for quantity in self.short))
        only = " (only what reads)" if self.reads_only else ""
        return f"{self.verdict}{only}: {'; '.join(words)}"

    @property
    def verdict(self) -> str:
        """Return "alike", "not alike", or that this is not known."""
        known = any(quantity.verdict != "unknown" for quantity in self.quantities)
        return "not alike" if self.short else "alike" if known else "not known how alike"


@dataclass(frozen=True, slots=True)
class CopySeen:
    """What was counted while the copy was loaded.

    `calls`: by text, as the engine sent them. `counters`: by text, of the server; None if it does
    not count statements. `transactions`: by type. `waits`: share of the active time by event; None
    without samples. `updates` and `hot_updates`: of all tables.
    """

    calls: Mapping[str, float]
    counters: Mapping[str, Counters] | None
    transactions: Mapping[str, int]
    waits: Mapping[str, float] | None
    active_sessions: float | None
    updates: float | None
    hot_updates: float | None


def together(seen: Sequence[CopySeen]) -> CopySeen:
    """Return what several runs counted: sums, and means of what has no sum.

    What one of them does not know is not known.
    """
    counters = [run.counters for run in seen]
    waits = [run.waits for run in seen if run.waits is not None]
    active = [run.active_sessions for run in seen if run.active_sessions is not None]
    return CopySeen(
        calls=_added([run.calls for run in seen]),
        counters=None if None in counters else _added_counters([c for c in counters if c]),
        transactions={k: int(n) for k, n in _added([run.transactions for run in seen]).items()},
        waits={name: share / len(waits) for name, share in _added(waits).items()} or None,
        active_sessions=math.fsum(active) / len(active) if active else None,
        updates=_sum([run.updates for run in seen]),
        hot_updates=_sum([run.hot_updates for run in seen]),
    )


def _added(counts: Sequence[Mapping[str, float]]) -> dict[str, float]:
    names = dict.fromkeys(name for of_run in counts for name in of_run)
    return {name: math.fsum(of_run.get(name, 0.0) for of_run in counts) for name in names}


def _added_counters(counters: Sequence[Mapping[str, Counters]]) -> dict[str, Counters]:
    texts = dict.fromkeys(text for of_run in counters for text in of_run)
    return {text: _added([run[text] for run in counters if text in run]) for text in texts}


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) if len(known) == len(values) else None


def likeness_of(source: Mapping[str, Any], copy: CopySeen) -> Likeness:
    """Compare a run with its source.

    Args: source, as `features.capture.mirror.job.source_document` made it.
    """
    expected: dict[str, float] = {}
    for kind in source["templates"]:
        times = kind["rate_tps"] * source["profile"]["seconds"]
        expected |= {text: expected.get(text, 0.0) + times for text in kind["statements"]}
    # The server does not count a BEGIN that is prepared.
    of_source = {
        text: source["statements"][text]
        for text, times in expected.items()
        if not _CONTROL.match(text) or source["statements"][text]["calls"] > _COUNTED_MIN * times
    }
    types = tuple(_of_types(source, of_source, copy))
    return Likeness(
        file=str(source["file"]),
        reads_only=bool(source["reads_only"]),
        reproduced_calls_ratio=source["reproduced_calls"],
        reproduced_time_ratio=source["reproduced_time"],
        quantities=tuple(_of_load(source, of_source, copy)),
        types=types,
        not_sent=tuple(source.get("not_sent", ())),
    )


def _of_load(
    source: Mapping[str, Any], of_source: Mapping[str, Counters], copy: CopySeen
) -> Iterator[Quantity]:
    """Yield the quantities of the whole load."""
    profile = source["profile"]
    counted = {text: calls for text, calls in copy.calls.items() if text in of_source}
    yield _distance({text: own["calls"] for text, own in of_source.items()}, counted)
    yield from _by_call(of_source, _counted(copy))
    calls = math.fsum(own["calls"] for own in of_source.values())
    ended = profile["commits"] + profile["rollbacks"]
    transactions = sum(copy.transactions.values())
    yield _ratio(
        "statements a transaction",
        _quotient(calls, ended) if not source["reads_only"] else None,
        _quotient(math.fsum(counted.values()), transactions),
    )
    yield _ratio(
        "HOT share of updates",
        _quotient(profile["hot_updates"], profile["updates"]),
        _quotient(copy.hot_updates, copy.updates),
    )
    yield _ratio(
        "active sessions",
        profile["active_sessions"] or None,
        copy.active_sessions,
        limit=SESSIONS_LIMIT,
    )
    yield _cosine(profile["waits"], copy.waits)


def _of_types(
    source: Mapping[str, Any], of_source: Mapping[str, Counters], copy: CopySeen
) -> Iterator[TypeLikeness]:
    """Yield the quantities of each transaction type, from the statements that it alone has."""
    whole_tps = math.fsum(kind["rate_tps"] for kind in source["templates"])
    whole = sum(copy.transactions.values())
    users: dict[str, int] = {}
    for kind in source["templates"]:
        for text in kind["statements"]:
            users[text] = users.get(text, 0) + 1
    for kind in source["templates"]:
        texts = [text for text in kind["statements"] if users[text] == 1 and text in of_source]
        name = str(kind["name"])
        share = _ratio(
            "share of the transactions",
            _quotient(kind["rate_tps"], whole_tps),
            _quotient(copy.transactions.get(name, 0), whole),
        )
        known = _counted(copy)
        counters = known and {text: known[text] for text in texts if text in known}
        by_call = _by_call({text: of_source[text] for text in texts}, counters) if texts else ()
        yield TypeLikeness(name, (share, *by_call))


def _counted(copy: CopySeen) -> dict[str, Counters] | None:
    """Return the counters of texts whose calls the server counted, and not only those of others.

    It does not count a BEGIN that is prepared, but the BEGIN of another session.
    """
    if copy.counters is None:
        return None
    sent = copy.calls
    return {t: own for t, own in copy.counters.items() if own["calls"] > sent.get(t, 0) / 2}


_BY_CALL = (
    ("rows a call", ("rows",), "rows"),
    ("blocks a call", ("hit_blocks", "read_blocks"), "blocks"),
    ("blocks hit a call", ("hit_blocks",), "blocks"),
    ("blocks read a call", ("read_blocks",), "blocks"),
    ("blocks dirtied a call", ("dirtied_blocks",), "blocks"),
    ("temporary blocks a call", ("temp_read_blocks", "temp_written_blocks"), "temporary blocks"),
    ("WAL bytes a call", ("wal_bytes",), "WAL bytes"),
)


def _by_call(
    source: Mapping[str, Counters], copy: Mapping[str, Counters] | None
) -> Iterator[Quantity]:
    """Yield what a mean call did, of the statements that the server counted on both sides.

    It counts BEGIN and COMMIT only if they are not prepared.
    """
    if copy:
        both = source.keys() & copy.keys()
        source, copy = ({text: side[text] for text in both} for side in (source, copy))

    def mean(counters: Mapping[str, Counters] | None, names: Sequence[str]) -> float | None:
        if not counters:
            return None
        calls = math.fsum(own["calls"] for own in counters.values())
        if not any(own.get("hit_blocks") or own.get("rows") for own in counters.values()):
            return None  # Only calls and time were counted.
        return _quotient(math.fsum(own[name] for own in counters.values() for name in names), calls)

    for name, names, slack in _BY_CALL:
        yield _ratio(name, mean(source, names), mean(copy, names), slack=_SLACK[slack])
    times = (
        _quotient(
            math.fsum(own["time_ms"] for own in counters.values()),
            math.fsum(own["calls"] for own in counters.values()),
        )
        # A log without durations has no time of any statement.
        or None
        if counters
        else None
        for counters in (source, copy)
    )
    source_ms, copy_ms = times
    yield Quantity(
        "execution time a call (ms)", source_ms, copy_ms, None, "none: other hardware", "unknown"
    )


def _ratio(
    name: str,
    source: float | None,
    copy: float | None,
    *,
    limit: float = RATIO_LIMIT,
    slack: float = 0.0,
) -> Quantity:
    """Return a quantity whose ratio must be near 1."""
    verdict: Verdict = "unknown"
    if source is not None and copy is not None:
        is_near = abs(copy - source) <= max(limit * source, slack)
        verdict = "pass" if is_near else "short"
    return Quantity(name, source, copy, limit, f"within {percent(limit)}", verdict)


def _distance(source: Mapping[str, float], copy: Mapping[str, float]) -> Quantity:
    """Return the total variation between the shares of the calls."""
    wholes = math.fsum(source.values()), math.fsum(copy.values())
    name, words = "mix of calls (distance)", f"at most {CALLS_DISTANCE_MAX:g}"
    if not all(wholes):
        return Quantity(name, None, None, CALLS_DISTANCE_MAX, words, "unknown")
    distance = 0.5 * math.fsum(
        abs(source.get(text, 0) / wholes[0] - copy.get(text, 0) / wholes[1])
        for text in {*source, *copy}
    )
    verdict: Verdict = "pass" if distance <= CALLS_DISTANCE_MAX else "short"
    return Quantity(name, 0.0, distance, CALLS_DISTANCE_MAX, words, verdict)


def _cosine(source: Mapping[str, float], copy: Mapping[str, float] | None) -> Quantity:
    """Return the cosine between the two profiles of wait events."""
    name, words = "waits (cosine)", f"at least {WAITS_COSINE_MIN:g}"
    lengths = [math.hypot(*shares.values()) for shares in (source, copy or {})]
    if not all(lengths) or copy is None:
        return Quantity(name, None, None, WAITS_COSINE_MIN, words, "unknown")
    product = math.fsum(share * copy.get(event, 0.0) for event, share in source.items())
    cosine = product / (lengths[0] * lengths[1])
    verdict: Verdict = "pass" if cosine >= WAITS_COSINE_MIN else "short"
    return Quantity(name, 1.0, cosine, WAITS_COSINE_MIN, words, verdict)


def _quotient(value: float | None, by: float | None) -> float | None:
    return None if value is None or not by else value / by
