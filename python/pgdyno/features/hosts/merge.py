"""Adds the records of several engines up, as if one engine had written them: pure.

Counts add up, histograms add up bucket by bucket, and a percentile is never averaged. The intervals
of the hosts are joined by their numbers within a phase, and not by their times: so a clock that
drifts moves no transaction to another interval.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from pgdyno.engine import records
from pgdyno.features.hosts.merge_summary import added, merged_distributions, of_lost_host, whole

_PHASES: tuple[records.PhaseName, ...] = ("connect", "prepare", "warm", "measure", "drain")


@dataclass(slots=True)
class Tick:
    """One interval of a host, with the histograms that followed it."""

    interval: records.Interval
    histograms: list[records.HistogramRecord] = field(default_factory=list)


@dataclass(slots=True)
class Stream:
    """What one host has sent: ticks that are not merged yet, and what is known of its run.

    `measured`, `histograms`: its measured phase so far, for a host that is lost before its summary.
    """

    name: str
    phase: int = 0
    begins_ns: dict[int, int] = field(default_factory=dict)
    ends_ns: dict[int, int] = field(default_factory=dict)
    ticks: deque[Tick] = field(default_factory=deque)
    is_open: bool = False
    is_over: bool = False
    last: records.Interval | None = None
    connecting: records.Connecting | None = None
    summary: records.Summary | None = None
    measured: list[records.Interval] = field(default_factory=list)
    histograms: list[records.TimeDistribution] = field(default_factory=list)
    histograms_max: int = 30

    def keep(self, record: records.HistogramRecord) -> None:
        """Keep a histogram of the measured phase; many are added up from time to time."""
        self.histograms.append(record)
        if len(self.histograms) > self.histograms_max:
            self.histograms = merged_distributions(self.histograms)
            self.histograms_max = 2 * len(self.histograms) + 30

    def has_left(self, phase: int) -> bool:
        """Return whether no further interval of `phase` will come."""
        return self.is_over or self.phase > phase

    def has_tick(self, phase: int) -> bool:
        """Return whether the next tick is complete, and belongs to `phase`."""
        if not self.ticks or (self.is_open and len(self.ticks) == 1):
            return False
        return _PHASES.index(self.ticks[0].interval.phase) == phase


class Merge:
    """Takes the records of each host, and yields those of the whole load."""

    def __init__(self, names: Sequence[str]) -> None:
        self.streams = [Stream(name) for name in names]
        self._phase = 0
        self._has_begun = False
        self._hello: records.Hello | None = None
        self._said: set[tuple[str, str]] = set()

    def add(self, place: int, record: records.Record) -> Iterator[records.Record]:
        """Take one record of a host; yield what is complete now."""
        stream = self.streams[place]
        if isinstance(record, records.Hello):
            if self._hello is None:
                self._hello = record
                yield record
        elif isinstance(record, records.HistogramRecord):
            if stream.ticks:
                stream.ticks[-1].histograms.append(record)
            if record.phase == "measure":
                stream.keep(record)
        elif isinstance(record, records.Interval):
            stream.ticks.append(Tick(record))
            stream.is_open = True
            if record.phase == "measure":
                stream.measured = [added(stream.measured, record)]
        elif isinstance(record, records.Phase):
            self._follow_phase(stream, record)
        elif isinstance(record, records.Connecting):
            stream.connecting = record
            yield self._connecting(record)
        elif isinstance(record, records.Warning_ | records.Failure):
            if (record.message, record.kind) not in self._said:
                self._said.add((record.message, record.kind))
                words = f"load host {stream.name}: {record.message}"
                yield record.model_copy(update={"message": words})
        elif isinstance(record, records.Summary):
            stream.summary, stream.is_over, stream.is_open = record, True, False
        yield from self._complete()

    def lose(self, place: int) -> Iterator[records.Record]:
        """Take note that a host is lost; yield what is complete without it."""
        self.streams[place].is_over = True
        self.streams[place].is_open = False
        yield from self._complete()

    def summary(self) -> records.Summary | None:
        """Return the summary of the whole load; None if no host has part."""
        known = [stream.summary for stream in self.streams if stream.summary is not None]
        if not known:
            return None
        lost = [
            of_lost_host(
                stream.measured[0],
                merged_distributions(stream.histograms),
                len(known[0].scripts),
            )
            for stream in self.streams
            if stream.summary is None and stream.measured
        ]
        return whole([*known, *lost])

    def _follow_phase(self, stream: Stream, record: records.Phase) -> None:
        phase = _PHASES.index(record.phase)
        stream.is_open = False
        if record.event == "begin":
            stream.phase = phase
            stream.begins_ns[phase] = record.time_ns
        else:
            stream.ends_ns[phase] = record.time_ns

    def _connecting(self, record: records.Connecting) -> records.Connecting:
        known = [stream.connecting for stream in self.streams if stream.connecting is not None]
        made_count = sum(part.made_count for part in known)
        wanted_count = sum(part.wanted_count for part in known)
        return record.model_copy(
            update={"made_count": made_count, "wanted_count": max(wanted_count, made_count)}
        )

    def _complete(self) -> Iterator[records.Record]:
        while self._phase < len(_PHASES):
            phase = self._phase
            ready = [stream for stream in self.streams if stream.has_tick(phase)]
            if any(s not in ready and not s.has_left(phase) for s in self.streams):
                return
            begins_ns = [s.begins_ns[phase] for s in self.streams if phase in s.begins_ns]
            if begins_ns and not self._has_begun:
                self._has_begun = True
                yield records.Phase(time_ns=min(begins_ns), phase=_PHASES[phase], event="begin")
            if ready:
                yield from self._tick(ready)
                continue
            # A host that has left the phase without an end is lost.
            ends_ns = [s.ends_ns[phase] for s in self.streams if phase in s.ends_ns]
            if self._has_begun and ends_ns:
                yield records.Phase(time_ns=max(ends_ns), phase=_PHASES[phase], event="end")
            self._phase, self._has_begun = phase + 1, False

    def _tick(self, ready: Iterable[Stream]) -> Iterator[records.Record]:
        """Yield one interval of all hosts. One without it has its last levels."""
        ticks = []
        for stream in ready:
            tick = stream.ticks.popleft()
            stream.last = tick.interval
            ticks.append(tick)
        first = ticks[0].interval
        total = first.model_copy(
            update={
                "time_ns": max(tick.interval.time_ns for tick in ticks),
                "interval_ns": max(tick.interval.interval_ns for tick in ticks),
                "cpu_ns": 0,
            }
        )
        for tick in ticks[1:]:
            total = added([total], tick.interval.model_copy(update={"cpu_ns": 0}))
        total = total.model_copy(update=self._levels())
        yield total
        known = [histogram for tick in ticks for histogram in tick.histograms]
        for name in dict.fromkeys(histogram.phase for histogram in known):
            own = [histogram for histogram in known if histogram.phase == name]
            for distribution in merged_distributions(own):
                yield records.HistogramRecord(
                    **distribution.model_dump(),
                    time_ns=total.time_ns,
                    interval_ns=max(histogram.interval_ns for histogram in own),
                    phase=name,
                )

    def _levels(self) -> dict[str, int]:
        """Return the sums of what was at the end of the last interval of each host."""
        last = [(stream, stream.last) for stream in self.streams if stream.last is not None]
        names = ("in_flight", "backlog", "connections", "thinking")
        present = [part for stream, part in last if not (stream.is_over and not stream.ticks)]
        levels = {name: sum(getattr(part, name) for part in present) for name in names}
        return levels | {"cpu_ns": sum(part.cpu_ns for _, part in last)}


class MergedLoading:
    """Adds the progress of all hosts up."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._begun: set[str] = set()
        self._rows: dict[str, dict[int, records.Progress]] = {}
        self._pieces: dict[str, dict[int, records.Pieces]] = {}
        self._summaries: list[records.Summary] = []

    def add(self, place: int, record: records.Record) -> Iterator[records.Record]:
        """Take one record of a host; yield that of the whole load. Ends of phases are left out.

        A host reports its share of the rows done, but the rows of the whole table as `rows_total`;
        its `total_count` of pieces is that of its share.
        """
        if isinstance(record, records.Progress):
            rows = self._rows.setdefault(record.table, {})
            rows[place] = record
            done = sum(part.rows_done for part in rows.values())
            yield record.model_copy(update={"rows_done": min(done, record.rows_total)})
        elif isinstance(record, records.Pieces):
            pieces = self._pieces.setdefault(record.phase, {})
            pieces[place] = record
            done = sum(part.done_count for part in pieces.values())
            total = sum(part.total_count for part in pieces.values())
            yield record.model_copy(update={"done_count": done, "total_count": total})
        elif isinstance(record, records.Summary):
            self._summaries.append(record)
        elif isinstance(record, records.Phase):
            if record.event == "begin" and record.phase not in self._begun:
                self._begun.add(record.phase)
                yield record
        elif isinstance(record, records.Failure) or (
            isinstance(record, records.Warning_) and place > 0
        ):
            words = f"load host {self._names[place]}: {record.message}"
            yield record.model_copy(update={"message": words})
        elif not isinstance(record, records.Hello) or place == 0:
            yield record

    def lose(self, place: int) -> Iterator[records.Record]:
        """Do nothing: no record waits for another host."""
        del place
        return iter(())

    def summary(self) -> records.Summary | None:
        """Return the summary with the rows and bytes of all hosts; None if no host has one."""
        known = self._summaries
        if not known:
            return None
        endings = {summary.ending for summary in known}
        worst = next(end for end in ("aborted", "stopped", "completed") if end in endings)
        facts = [summary.init for summary in known if summary.init is not None]
        total = facts[0].model_copy(
            update={
                "rows": sum(part.rows for part in facts),
                "bytes_sent": sum(part.bytes_sent for part in facts),
            }
        )
        return known[0].model_copy(update={"ending": worst, "init": total})
