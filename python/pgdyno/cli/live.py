"""The state of a run while it is measured: a live line, or without a terminal a line at times."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from pgdyno.cli import output
from pgdyno.clock import monotonic_ns
from pgdyno.measure.run_progress import Moment, RunProgress
from pgdyno.quantities import duration_text, fixed, milliseconds, plain_decimals

_LIVE_EVERY_NS = 250_000_000
_PLAIN_EVERY_NS = 10_000_000_000


@dataclass(slots=True)
class Live(RunProgress):
    """Shows phase, elapsed and total time, tps, p99 and failures of the present run.

    Without a terminal there is a line every ten seconds of a run, and a line at its end.
    """

    plain_every_ns: int = _PLAIN_EVERY_NS
    _shown_ns: int = 0
    _last: Moment | None = None
    _said: Moment | None = None

    def said(self, text: str) -> None:
        """Write the step that has started."""
        output.note(text)

    def moved(self, moment: Moment) -> None:
        """Show the state of the run, at most four times a second."""
        now_ns = monotonic_ns()
        if self._last is None:
            self._shown_ns = now_ns if not output.is_terminal() else 0
        self._last = moment
        every_ns = _LIVE_EVERY_NS if output.is_terminal() else self.plain_every_ns
        if now_ns - self._shown_ns < every_ns:
            return
        self._shown_ns = now_ns
        if output.is_terminal():
            output.live(fitting(moment, shutil.get_terminal_size().columns - 1))
        else:
            self._said = moment
            output.note(line(moment))

    @contextmanager
    def doing(self, words: str) -> Iterator[None]:
        """Name the work of the block if it lasts longer than two seconds."""
        with output.doing(words):
            yield

    def ended(self) -> None:
        """Erase the live line, or write the last state of the run as a line."""
        output.clear_live()
        if self._last is not None and self._last is not self._said and not output.is_terminal():
            output.note(line(self._last))
        self._last = self._said = None


def fitting(moment: Moment, width: int) -> str:
    """Return the state of a run in one line; if there is little room, names are left out."""
    shown = line(moment)
    if len(shown) > width and moment.position:
        shown = line(replace(moment, label=""))
    if len(shown) > width:
        shown = line(replace(moment, label="", position=""))
    return shown


def line(moment: Moment) -> str:
    """Return the state of a run in one line."""
    if moment.wanted_count:
        parts = [moment.position, moment.label, connections_text(moment)]
        return "  ".join(part for part in parts if part)
    parts = [part for part in (moment.position, moment.label, moment.phase) if part]
    if moment.total_ns:
        parts.append(f"{moment.elapsed_ns / 1e9:.0f} of {duration_text(moment.total_ns)}")
    if moment.tps is not None:
        parts.append(f"{_of_now(moment.tps, 4)} tps")
    if moment.own is not None:
        value, unit = moment.own
        parts.append(f"{_of_now(value, 4)} {unit}")
    if moment.p99_ms is not None:
        parts.append(f"p99 {milliseconds(moment.p99_ms)}")
    if moment.rows_per_second is not None:
        parts.append(f"{_of_now(moment.rows_per_second)} rows/s")
    if moment.mb_per_second is not None:
        parts.append(f"{moment.mb_per_second:,.0f} MB/s")
    if moment.failed_count:
        parts.append(f"{moment.failed_count:,} failed")
    if moment.eta_ns:
        parts.append(f"{duration_text(moment.eta_ns)} left")
    return "  ".join(parts)


def _of_now(rate: float, digits: int = 3) -> str:
    """Return a rate of the last seconds with few digits, because further digits always change."""
    return fixed(rate, min(0, plain_decimals(rate, digits)))


def connections_text(moment: Moment) -> str:
    """Return the progress of connecting: `connecting 3,120 of 8,000 (120/s, 41 s left)`."""
    made = f"{moment.phase} {moment.made_count:,} of {moment.wanted_count:,}"
    if moment.made_per_second is None:
        return made
    left = f", {duration_text(moment.eta_ns)} left" if moment.eta_ns else ""
    return f"{made} ({moment.made_per_second:,.0f}/s{left})"
