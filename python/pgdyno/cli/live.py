"""Progress while something runs: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

from pgdyno.cli import speak
from pgdyno.clock import monotonic_ns
from pgdyno.run.progress import Moment, Progress
from pgdyno.spec.units import duration_text

_LIVE_EVERY_NS = 250_000_000
_PLAIN_EVERY_NS = 10_000_000_000


@dataclass(slots=True)
class Live(Progress):
    """Shows phase, elapsed of total, tps, p99 and failures of the run under way."""

    plain_every_ns: int = _PLAIN_EVERY_NS
    _last_ns: int = 0

    def said(self, text: str) -> None:
        """Write a step that was reached."""
        speak.note(text)

    def moved(self, moment: Moment) -> None:
        """Show where the run stands, at most four times a second."""
        now_ns = monotonic_ns()
        every_ns = _LIVE_EVERY_NS if speak.is_terminal() else self.plain_every_ns
        if now_ns - self._last_ns < every_ns:
            return
        self._last_ns = now_ns
        text = line(moment)
        if speak.is_terminal():
            speak.live(text)
        else:
            speak.note(text)

    def ended(self) -> None:
        """Take the live line away."""
        speak.clear_live()


def line(moment: Moment) -> str:
    """Return the state of a run in one line."""
    where = f"{moment.position}  {moment.label}" if moment.position else moment.label
    parts = [where, moment.phase]
    if moment.total_ns:
        parts.append(f"{moment.elapsed_ns / 1e9:.0f} of {duration_text(moment.total_ns)}")
    if moment.tps is not None:
        parts.append(f"{moment.tps:,.0f} tps")
    if moment.p99_ms is not None:
        parts.append(f"p99 {moment.p99_ms:.3g} ms")
    if moment.failed_count:
        parts.append(f"{moment.failed_count:,} failed")
    if moment.eta_ns:
        parts.append(f"{duration_text(moment.eta_ns)} left")
    return "  ".join(parts)
