"""What crashes took with the settings of one variant: the price of a gain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pgdyno.analysis.estimate import Estimate
from pgdyno.quantities import percent

_TOO_FEW = 2
BLIND = "The test cannot see losses here"
EVENTS: Mapping[str, tuple[str, str]] = {
    "kill": ("crash", "crashes"),
    "power": ("power failure", "power failures"),
    "failover": ("failover", "failovers"),
    "command": ("crash", "crashes"),
}


@dataclass(frozen=True, slots=True)
class Loss:
    """What crashes of one kind took with the settings of one variant.

    `seconds`: of acknowledged commits, in the crashes that lost any; None if none did. `gap`: the
    longest time without a commit of a client, None unless a standby took over. `blind`: the
    controls that did not show what they must.
    """

    kind: str
    crashes: int
    share: Estimate | None
    lost: int
    acknowledged: int
    seconds: Estimate | None
    seconds_max: float | None
    gap: Estimate | None
    gap_seconds_max: float | None
    corrupt_count: int
    blind: tuple[str, ...]

    def sentence(self) -> str:
        """Return the loss in words, without the name of the variant."""
        happened = events(self.kind, self.crashes)
        if self.blind:
            return f"{BLIND}: {', '.join(self.blind)} did not show what it must ({happened})"
        if self.corrupt_count:
            return f"{self.corrupt_count} of {happened} left damaged data"
        gap = (
            f"; longest gap of a client, on average {_seconds(self.gap)}"
            if self.gap is not None
            else ""
        )
        assert self.share is not None, "a loss is of crashes"
        if not self.lost:
            most = percent(1.0 if self.share.high is None else self.share.high)
            return f"0 of {happened} lost a commit (at 95 % fewer than {most} do){gap}"
        with_loss = round(self.share.value * self.crashes)
        assert self.seconds is not None, "a loss has a length"
        commits = "1 commit" if self.lost == 1 else f"{self.lost:,} commits"
        return (
            f"{with_loss} of {happened} lost {commits}: on average those of the last "
            f"{_seconds(self.seconds)}, at most {self.seconds_max:.3g} s{gap}"
        )

    def as_document(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {
            "kind": self.kind,
            "crashes": self.crashes,
            "share_with_loss": None if self.share is None else self.share.to_json(),
            "lost": self.lost,
            "acknowledged": self.acknowledged,
            "loss_seconds": None if self.seconds is None else self.seconds.to_json(),
            "loss_seconds_max": self.seconds_max,
            "gap_seconds": None if self.gap is None else self.gap.to_json(),
            "corrupt": self.corrupt_count,
            "blind": list(self.blind),
        }


def _seconds(estimate: Estimate) -> str:
    value = f"{estimate.value:.3g} s"
    # With two values the t factor is 12.7: their interval says nothing.
    if estimate.low is None or estimate.high is None or float(estimate.n) <= _TOO_FEW:
        return f"{value} (no interval: n = {estimate.n:g})"
    return f"{value} ({estimate.low:.3g} to {estimate.high:.3g})"


def events(kind: str, count: int) -> str:
    """Return "1 crash" or "60 power failures"."""
    return f"{count:,} {EVENTS[kind][count != 1]}"
