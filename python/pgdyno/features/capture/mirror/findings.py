"""How alike a load is to its source, statement by statement.

A statement is alike if its share of the calls, its rows and its blocks a call are near those of the
source, and it does not fail. The verdict is the share of the source's time, and of its calls, in
statements that are alike. What is not known is not alike.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pgdyno.analysis.estimate import Estimate
from pgdyno.quantities import percent, plain

Verdict = Literal["alike", "not alike", "unknown", "left out"]
Counters = Mapping[str, float]
# A quantity may differ by this share, or by one row or two blocks.
RATIO_LIMIT, ROWS_LIMIT, BLOCKS_LIMIT = 0.25, 1.0, 2.0
# Less than a row a call is compared, too: a search that finds nothing is not alike.
_FEW_ROWS, _ROWS_SHARE, _ROWS_SLACK = 2.0, 0.5, 0.05
FAILED_MAX = 0.01
# With so few expected calls, none at all is chance. Of more, chance may explain this share: what
# the source hardly shows is not alike because nobody can tell.
_CALLS_MIN, _CALLS_SHARE = 5.0, 0.5
# A load with less of the source's time in statements that are alike is doubted.
ALIKE_MIN = 0.9


@dataclass(frozen=True, slots=True)
class CallWork:
    """What one call of a statement did on one side, on average; None: not counted."""

    calls: float
    share_ratio: float | None = None
    time_ms: float | None = None
    rows: float | None = None
    blocks: float | None = None
    wal_bytes: float | None = None
    temp_blocks: float | None = None
    failures: float = 0.0

    def as_document(self) -> dict[str, float | None]:
        """Return it as keys of a JSON document."""
        names = ("calls", "share_ratio", "time_ms", "rows", "blocks", "wal_bytes", "temp_blocks")
        return {**{name: getattr(self, name) for name in names}, "failures": self.failures}


@dataclass(frozen=True, slots=True)
class StatementLikeness:
    """A statement of the source, and what became of it. `number`: by which users name it."""

    number: int
    id: str
    text: str
    source: CallWork
    copy: CallWork
    verdict: Verdict
    reason: str
    time_ratio: float | None
    calls_ratio: float
    is_fitted: bool = False

    def as_document(self) -> dict[str, Any]:
        """Return it as keys of a JSON document."""
        return {
            "number": self.number,
            "id": self.id,
            "text": self.text,
            "verdict": self.verdict,
            "reason": self.reason,
            "time": self.time_ratio,
            "calls": self.calls_ratio,
            "is_fitted": self.is_fitted,
            "source": self.source.as_document(),
            "copy": self.copy.as_document(),
        }


@dataclass(frozen=True, slots=True)
class FailedKind:
    """Failed tries of one statement with one code. `text`: "" if the statement is not known."""

    text: str
    code: str
    message: str
    count: int


@dataclass(frozen=True, slots=True)
class Likeness:
    """How alike a run is to its source.

    `statements`: those with most of the source's time first. `reproduced_calls_ratio`,
    `reproduced_time_ratio`: the shares of the source that the load really sent. `lacks`: why
    no share of the whole source is known; "" if it is. `not_sent`: texts of statements that the
    load lacks because they could do harm.
    """

    file: str
    reads_only: bool
    reproduced_calls_ratio: float | None
    reproduced_time_ratio: float | None
    statements: tuple[StatementLikeness, ...]
    failed: tuple[FailedKind, ...]
    transactions: int
    lacks: str = ""
    figures: Mapping[str, Estimate] = field(default_factory=dict)
    not_sent: tuple[str, ...] = ()

    @property
    def alike_time(self) -> float | None:
        """Return the share of the source's time in statements that are alike."""
        times = [own.time_ratio for own in self.statements]
        if self.lacks or None in times:
            return None
        return math.fsum(t for own, t in self._alike(times) if t)

    @property
    def alike_calls(self) -> float | None:
        """Return the share of the source's calls in statements that are alike."""
        calls = [own.calls_ratio for own in self.statements]
        return None if self.lacks else math.fsum(c for _, c in self._alike(calls) if c)

    def _alike(
        self, shares: Sequence[float | None]
    ) -> Iterator[tuple[StatementLikeness, float | None]]:
        pairs = zip(self.statements, shares, strict=True)
        return (pair for pair in pairs if pair[0].verdict == "alike")

    @property
    def share(self) -> float | None:
        """Return the share that decides: of the time, or of the calls if no time is known."""
        return self.alike_calls if self.alike_time is None else self.alike_time

    @property
    def not_known(self) -> str:
        """Return why nothing is known about the whole source; "" if something is.

        Unknown is not alike: where only the copy is not counted, the shares are 0.
        """
        sent = [own for own in self.statements if own.verdict != "left out"]
        is_counted = not sent or any(own.copy.rows is not None for own in sent)
        if self.lacks or is_counted or all(own.source.rows is None for own in sent):
            return self.lacks
        return "the copy's rows and blocks are not counted (CREATE EXTENSION pg_stat_statements)"

    @property
    def others(self) -> tuple[StatementLikeness, ...]:
        """Return the statements that are not alike, left out, or not known."""
        return tuple(own for own in self.statements if own.verdict != "alike")

    @property
    def alike_texts(self) -> frozenset[str]:
        """Return the texts of the statements that are alike."""
        return frozenset(own.text for own in self.statements if own.verdict == "alike")

    @property
    def sentence(self) -> str:
        """Return the answer in a sentence."""
        only = " (without statements that write)" if self.reads_only else ""
        if self.not_known:
            return f"alike: not known{only}: {self.not_known}"
        time, calls = self.alike_time, self.alike_calls
        shares = [] if time is None else [f"{percent(time)} of the time"]
        shares += [] if calls is None else [f"{percent(calls)} of the calls"]
        words = f"alike{only}: {', '.join(shares)}"
        worst = next(iter(self.others), None)
        if worst is None or not (worst.time_ratio or worst.calls_ratio):
            return words
        share = percent(worst.time_ratio if worst.time_ratio is not None else worst.calls_ratio)
        return f"{words}; not: {shortened(worst.text)} ({share}): {worst.reason}"


def shortened(text: str, most: int = 60) -> str:
    """Return the beginning of a statement on one line."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 2]}.."


@dataclass(frozen=True, slots=True)
class CopySeen:
    """What was counted while the copy was loaded.

    `calls`: by text, as the engine sent them. `counters`: by text, of the server; None if it does
    not count statements. `transactions`: all that ended. `failed`: failed tries.
    """

    calls: Mapping[str, float]
    counters: Mapping[str, Counters] | None
    transactions: int = 0
    failed: tuple[FailedKind, ...] = ()


def summed(seen: Sequence[CopySeen]) -> CopySeen:
    """Return what several runs counted: sums. What one of them does not know is not known."""
    counters = [run.counters for run in seen]
    kinds: dict[tuple[str, str], FailedKind] = {}
    for failed in (failed for run in seen for failed in run.failed):
        before = kinds.get((failed.text, failed.code))
        count = failed.count + (before.count if before else 0)
        kinds[failed.text, failed.code] = FailedKind(
            failed.text, failed.code, (before or failed).message, count
        )
    return CopySeen(
        calls=_added([run.calls for run in seen]),
        counters=None if None in counters else _added_counters([c for c in counters if c]),
        transactions=sum(run.transactions for run in seen),
        failed=tuple(kinds.values()),
    )


def _added(counts: Sequence[Mapping[str, float]]) -> dict[str, float]:
    names = dict.fromkeys(name for of_run in counts for name in of_run)
    return {name: math.fsum(of_run.get(name, 0.0) for of_run in counts) for name in names}


def _added_counters(counters: Sequence[Mapping[str, Counters]]) -> dict[str, Counters]:
    texts = dict.fromkeys(text for of_run in counters for text in of_run)
    return {text: _added([run[text] for run in counters if text in run]) for text in texts}


def likeness_of(source: Mapping[str, Any], copy: CopySeen) -> Likeness:
    """Compare a run with its source.

    Args: source, as `features.capture.mirror.source.source_document` made it.
    """
    rows = source["statements"]
    ranked = sorted(range(len(rows)), key=lambda place: -rows[place]["counters"]["time_ms"])
    whole_calls = math.fsum(row["counters"]["calls"] for row in rows)
    whole_ms = math.fsum(row["counters"]["time_ms"] for row in rows)
    sent = [row for row in rows if not row["reason"]]
    failures = _failures(copy)
    sums = (
        math.fsum(row["counters"]["calls"] for row in sent),
        math.fsum(copy.calls.get(row["text"], 0.0) for row in sent) + math.fsum(failures.values()),
    )
    works = [
        (_work_of_source(row["counters"], sums[0]), _work_of_copy(row, copy, failures, sums[1]))
        for row in rows
    ]
    both = [work for row, work in zip(rows, works, strict=True) if not row["reason"]]
    pace = _pace(both)
    by_text = {row["text"]: copy for row, (_, copy) in zip(rows, works, strict=True)}
    compared = []
    for number, (row, (mine, theirs)) in enumerate(zip(rows, works, strict=True), 1):
        own = row["counters"]
        verdict, reason = _judged(row, mine, theirs, mine.calls * pace, by_text)
        compared.append(
            StatementLikeness(
                number=number,
                id=row["id"],
                text=row["text"],
                source=mine,
                copy=theirs,
                verdict=verdict,
                reason=reason,
                time_ratio=own["time_ms"] / whole_ms if whole_ms else None,
                calls_ratio=own["calls"] / whole_calls if whole_calls else 0.0,
                is_fitted=bool(row.get("is_fitted")),
            )
        )
    return Likeness(
        file=str(source["file"]),
        reads_only=bool(source["reads_only"]),
        reproduced_calls_ratio=_sent(source["reproduced_calls"], both, pace),
        reproduced_time_ratio=_sent(source["reproduced_time"], both, pace, of_time=True),
        statements=tuple(compared[place] for place in ranked),
        failed=copy.failed,
        transactions=copy.transactions,
        lacks=str(source["lacks"]),
        not_sent=tuple(source.get("not_sent", ())),
    )


def _failures(copy: CopySeen) -> dict[str, float]:
    counts: dict[str, float] = {}
    for failed in copy.failed:
        counts[failed.text] = counts.get(failed.text, 0.0) + failed.count
    return counts


def _work_of_source(own: Counters, whole: float) -> CallWork:
    calls = own["calls"]
    return _work(own, calls, share_ratio=_quotient(calls, whole), failures=0.0)


def _work_of_copy(
    row: Mapping[str, Any], copy: CopySeen, failures: Mapping[str, float], whole: float
) -> CallWork:
    text = row["text"]
    failed = failures.get(text, 0.0)
    calls = copy.calls.get(text, 0.0) + failed
    counted = (copy.counters or {}).get(text)
    share = _quotient(calls, whole)
    # The server does not count what is prepared by others, but the calls of other sessions.
    if counted is None or counted["calls"] <= copy.calls.get(text, 0.0) / 2:
        return CallWork(calls=calls, share_ratio=share, failures=failed)
    own = _work(counted, counted["calls"], share_ratio=share, failures=failed)
    return CallWork(**{**{n: getattr(own, n) for n in CallWork.__slots__}, "calls": calls})


def _work(own: Counters, calls: float, *, share_ratio: float | None, failures: float) -> CallWork:
    def mean(*names: str) -> float | None:
        return _quotient(math.fsum(own[name] for name in names), calls) if is_counted else None

    is_counted = bool(own.get("is_counted"))  # A log has calls and times alone.
    return CallWork(
        calls=calls,
        share_ratio=share_ratio,
        time_ms=_quotient(own["time_ms"], calls),
        rows=mean("rows"),
        blocks=mean("hit_blocks", "read_blocks"),
        wal_bytes=mean("wal_bytes"),
        temp_blocks=mean("temp_read_blocks", "temp_written_blocks"),
        failures=failures,
    )


def _pace(works: Sequence[tuple[CallWork, CallWork]]) -> float:
    """Return how many calls the copy had for one of the source.

    The median of the source's calls, if most of them are near it: then a statement that is missing
    or repeated on the copy does not make all others differ. Else the ratio of all calls.
    """
    whole = math.fsum(source.calls for source, _ in works)
    passed, median = 0.0, 0.0
    for source, copy in sorted(works, key=lambda work: work[1].calls / max(work[0].calls, 1e-9)):
        passed += source.calls
        if passed >= whole / 2:
            median = copy.calls / max(source.calls, 1e-9)
            break
    near = math.fsum(
        source.calls
        for source, copy in works
        if abs(copy.calls - median * source.calls) <= RATIO_LIMIT * median * source.calls
    )
    if median and near > whole / 2:
        return median
    return (_quotient(math.fsum(copy.calls for _, copy in works), whole)) or 0.0


def _sent(
    planned: float | None,
    works: Sequence[tuple[CallWork, CallWork]],
    pace: float,
    *,
    of_time: bool = False,
) -> float | None:
    """Return which share of the source was really sent. Args: planned, what the load has of it.

    Few calls vary by chance, so a statement that has nearly as many as expected has all of them.
    """

    def share(source: CallWork, copy: CallWork) -> float:
        expected = source.calls * pace
        is_whole = copy.calls > expected - 3 * math.sqrt(expected) or expected < _CALLS_MIN
        return 1.0 if is_whole else copy.calls / expected

    sizes = [own.calls * ((own.time_ms or 0.0) if of_time else 1.0) for own, _ in works]
    sent = math.fsum(size * share(*work) for size, work in zip(sizes, works, strict=True))
    if planned is None or not any(sizes):
        return planned
    return planned * sent / math.fsum(sizes)


def _judged(
    row: Mapping[str, Any],
    source: CallWork,
    copy: CallWork,
    expected: float,
    works: Mapping[str, CallWork],
) -> tuple[Verdict, str]:
    """Return the verdict on a statement, with the reason if it is not alike.

    Args: expected, how many calls the copy has if the mix is that of the source; works, what all
    statements did on the copy, by text.
    """
    if row["reason"]:
        return "left out", str(row["reason"])
    if not copy.calls:
        if expected < _CALLS_MIN:
            return "unknown", "too rare for the time of this run"
        return "not alike", f"never carried out: {_missing(row.get('needs', ()), works)}"
    reasons = list(_differences(source, copy, expected))
    if reasons:
        return "not alike", "; ".join(reasons)
    if source.rows is None:
        return "unknown", "rows and blocks of the source are not known"
    if copy.rows is None:
        return "unknown", "rows and blocks of the copy are not counted"
    # If earlier calls did nothing, because tables were empty, the logged calls did all the work.
    ratio = float(row.get("counted_ratio", 1))
    at_most = replace(
        source, rows=source.rows * max(ratio, 1), blocks=(source.blocks or 0) * max(ratio, 1)
    )
    if ratio < 1 - RATIO_LIMIT or any(_differences(at_most, copy, expected)):
        calls = plain(source.calls * ratio)
        return "unknown", f"its rows and blocks are a mean of {calls} calls, the log has others"
    return "alike", ""


def _missing(needs: Sequence[Mapping[str, Any]], works: Mapping[str, CallWork]) -> str:
    """Return which parameter had no value, and why. Args: needs, as `job.needs_of` made it."""
    reasons = ["a value that it needs was missing"]
    for need in needs:
        place, giver = f"${need['parameter']}", works.get(need.get("text", ""))
        if "column" in need:
            reasons.append(
                f"{place} needs a value of {need['column']}, but the copy has no such value"
            )
        elif giver is None or not giver.calls:
            return f"{place} comes from {shortened(need['text'], 40)}, which was not carried out"
        elif giver.rows == 0:
            return f"{place} comes from {shortened(need['text'], 40)}, which found no rows"
        else:
            reasons.append(f"{place} comes from {shortened(need['text'], 40)}, which gave no value")
    return reasons[:2][-1]


def _differences(source: CallWork, copy: CallWork, expected: float) -> Iterator[str]:
    if copy.failures > FAILED_MAX * copy.calls:
        yield f"{percent(copy.failures / copy.calls)} of its calls fail"
    # Few calls vary by chance, on both sides: those of the source are scaled to the copy's pace.
    pace = expected / max(source.calls, 1.0)
    chance = 3 * math.sqrt(expected * (1 + pace))
    limit = max(RATIO_LIMIT * expected, min(chance, max(_CALLS_MIN, _CALLS_SHARE * expected)))
    if expected and abs(copy.calls - expected) > limit:
        yield f"{plain(copy.calls)} calls, not {plain(expected)}"
    if source.rows is not None and copy.rows is not None:
        limit = max(RATIO_LIMIT * source.rows, _rows_slack(source, copy))
        if abs(source.rows - copy.rows) > limit:
            rows = f"{plain(source.rows)} rows -> {plain(copy.rows)} rows a call"
            yield f"finds no rows, not {plain(source.rows)}" if not copy.rows else rows
    if source.blocks is not None and copy.blocks is not None:
        limit = max(RATIO_LIMIT * source.blocks, BLOCKS_LIMIT)
        if abs(source.blocks - copy.blocks) > limit:
            yield f"{plain(source.blocks)} -> {plain(copy.blocks)} blocks a call"


def _rows_slack(source: CallWork, copy: CallWork) -> float:
    """Return by how many rows two means may differ, however few they are.

    One row, but below two rows a call finds its row or not: only what chance does is allowed.
    """
    rows = source.rows or 0.0, copy.rows or 0.0
    if min(rows) >= _FEW_ROWS:
        return ROWS_LIMIT
    spreads = [abs(own * (1 - own)) for own in rows]
    calls = max(source.calls, 1.0), max(copy.calls, 1.0)
    chance = 3 * math.sqrt(math.fsum(a / b for a, b in zip(spreads, calls, strict=True)))
    return max(min(chance, _ROWS_SHARE * max(rows)), _ROWS_SLACK)


def _quotient(value: float | None, by: float | None) -> float | None:
    return None if value is None or not by else value / by
