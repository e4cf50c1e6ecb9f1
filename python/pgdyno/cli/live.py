"""Progress while something runs: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace

from pgdyno.analysis.rounding import milliseconds
from pgdyno.cli import speak
from pgdyno.clock import monotonic_ns
from pgdyno.measure.progress import Moment, Progress
from pgdyno.spec.units import duration_text

_LIVE_EVERY_NS = 250_000_000
_PLAIN_EVERY_NS = 10_000_000_000


@dataclass(slots=True)
class Live(Progress):
    """Shows phase, elapsed of total, tps, p99 and failures of the run under way.

    Without a terminal: a line every ten seconds of a run, and one when it ended.
    """

    plain_every_ns: int = _PLAIN_EVERY_NS
    _shown_ns: int = 0
    _last: Moment | None = None
    _said: Moment | None = None

    def said(self, text: str) -> None:
        """Write a step that was reached."""
        speak.note(text)

    def moved(self, moment: Moment) -> None:
        """Show where the run stands, at most four times a second."""
        now_ns = monotonic_ns()
        if self._last is None:
            self._shown_ns = now_ns if not speak.is_terminal() else 0
        self._last = moment
        every_ns = _LIVE_EVERY_NS if speak.is_terminal() else self.plain_every_ns
        if now_ns - self._shown_ns < every_ns:
            return
        self._shown_ns = now_ns
        if speak.is_terminal():
            speak.live(fitting(moment, shutil.get_terminal_size().columns - 1))
        else:
            self._said = moment
            speak.note(line(moment))

    def ended(self) -> None:
        """Take the live line away, or say plainly where the run stood at its end."""
        speak.clear_live()
        if self._last is not None and self._last is not self._said and not speak.is_terminal():
            speak.note(line(self._last))
        self._last = self._said = None


def fitting(moment: Moment, width: int) -> str:
    """Return the state of a run in one line; where it is narrow the figures stay, names go."""
    shown = line(moment)
    if len(shown) > width and moment.position:
        shown = line(replace(moment, label=""))
    if len(shown) > width:
        shown = line(replace(moment, label="", position=""))
    return shown


def line(moment: Moment) -> str:
    """Return the state of a run in one line."""
    parts = [part for part in (moment.position, moment.label, moment.phase) if part]
    if moment.total_ns:
        parts.append(f"{moment.elapsed_ns / 1e9:.0f} of {duration_text(moment.total_ns)}")
    if moment.tps is not None:
        parts.append(f"{moment.tps:,.0f} tps")
    if moment.p99_ms is not None:
        parts.append(f"p99 {milliseconds(moment.p99_ms)}")
    if moment.rows_per_second is not None:
        parts.append(f"{moment.rows_per_second:,.0f} rows/s")
    if moment.mb_per_second is not None:
        parts.append(f"{moment.mb_per_second:,.0f} MB/s")
    if moment.failed_count:
        parts.append(f"{moment.failed_count:,} failed")
    if moment.eta_ns:
        parts.append(f"{duration_text(moment.eta_ns)} left")
    return "  ".join(parts)
