"""What a tuning found: the settings that were proved, each with its effect, and the verdict."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

from pgdyno.analysis.estimate import Estimate
from pgdyno.analysis.losses import Loss
from pgdyno.analysis.rounding import change_text
from pgdyno.features.tune.budget import TimeSpent
from pgdyno.features.tune.catalogue import Needs, Risk
from pgdyno.features.tune.space import Point
from pgdyno.features.tune.stages import NOTHING_BETTER
from pgdyno.quantities import counted, percent
from pgdyno.spec.designs import METRIC_WORDS

Verdict = Literal["better", "nothing better", "not confirmed", "not attributed", "unproved"]
_MARGIN_RATIO = 0.02


@dataclass(frozen=True, slots=True)
class SettingEffect:
    """One setting of the result: what it changes, and what it alone brings.

    `ratio`: the metric with it against without it; None where it was not measured alone.
    """

    name: str
    old: str
    new: str
    risk: Risk
    needs: Needs
    ratio: Estimate | None
    price: str = ""


@dataclass(frozen=True, slots=True)
class Tried:
    """One candidate of the search; `ratio` of the metric is against `against`, the best then."""

    name: str
    settings: Point
    against: str
    pair_count: int
    ratio: Estimate | None
    failure: str


@dataclass(frozen=True, slots=True)
class Changed:
    """One counter of the server, in the proof: with the old settings and with the new ones."""

    name: str
    before: Estimate
    after: Estimate


@dataclass(frozen=True, slots=True)
class SloHeld:
    """How many runs of the proof met the latency target, and how many runs there were."""

    target: str
    before_count: int
    before_runs: int
    after_count: int
    after_runs: int

    def sentence(self) -> str:
        """Return "p99=20ms was met in 8 of 8 runs, with your settings in 0 of 8"."""
        return (
            f"{self.target} was met in {self.after_count} of {self.after_runs} runs, with your"
            f" settings in {self.before_count} of {self.before_runs}"
        )


@dataclass(frozen=True, slots=True)
class EqualServerFindings:
    """One of several equal servers: where it is, how fast, and what the proof showed on it alone.

    `level`: the metric with the old settings, against the first server; None of the first one.
    `lost`: why it was lost during the tuning, "" if it was not.
    """

    number: int
    target: str
    run_count: int
    level: Estimate | None
    proved: Estimate | None
    lost: str

    def sentence(self, metric: str) -> str:
        """Return "12 runs; tps with your settings -30 % (-32 to -28) against server 1; ..."."""
        said = [counted(self.run_count, "run")]
        if self.level is not None:
            change = change_text(self.level)
            said.append(f"{METRIC_WORDS[metric]} with your settings {change} against server 1")
        if self.proved is not None:
            said.append(
                f"in the proof, on it alone: {METRIC_WORDS[metric]} {change_text(self.proved)}"
            )
        if self.lost:
            said.append(f"LOST: {self.lost}")
        return "; ".join(said)


@dataclass(frozen=True, slots=True)
class TuneFindings:
    """The answer of a tuning. Ratios are of the metric: new / old.

    `promised`: what the search saw of its winner; `proved`: what fresh runs of the settings below
    showed, the only figure that counts; `idle`: settings of the winner that made no difference;
    `changed`: counters of the server before and after; `slo`: runs of the proof that met the
    latency target, None without a target or without a proof; `budget`: what the time was spent on;
    `servers`: the equal servers that shared the runs, empty if there was one server;
    `server_differences`: how they differ, in sentences; `losses`: what crashes took with these
    settings, empty if this was not measured.
    """

    metric: str
    is_more_better: bool
    verdict: Verdict
    reason: str
    settings: tuple[SettingEffect, ...]
    idle: tuple[str, ...]
    promised: Estimate | None
    proved: Estimate | None
    against_rules: Estimate | None
    rules: str
    trial_count: int
    tried: tuple[Tried, ...]
    changed: tuple[Changed, ...] = ()
    slo: SloHeld | None = None
    budget: TimeSpent | None = None
    servers: tuple[EqualServerFindings, ...] = ()
    server_differences: tuple[str, ...] = ()
    losses: tuple[Loss, ...] = ()

    @property
    def is_undecided(self) -> bool:
        """Return whether the search ended without an answer."""
        return self.verdict not in ("better", "nothing better")

    @property
    def failures(self) -> tuple[tuple[str, str], ...]:
        """Return the candidates that failed, with the server's own words."""
        return tuple((trial.name, trial.failure) for trial in self.tried if trial.failure)

    @property
    def optimism_points(self) -> float | None:
        """Return by how many percentage points the search's promise exceeded the proof.

        None while there is no proof. Above 0 the promise was too good, which is usual.
        """
        if self.promised is None or self.proved is None:
            return None
        sign = 1 if self.is_more_better else -1
        return sign * (self.promised.value - self.proved.value) * 100

    def effect_of(self, setting: SettingEffect) -> Estimate | None:
        """Return what a setting brings alone, None if unknown; a single one brings the proof."""
        return self.proved if setting.ratio is None and len(self.settings) == 1 else setting.ratio

    @property
    def weakens_durability(self) -> tuple[SettingEffect, ...]:
        """Return the settings that may lose or damage data."""
        return tuple(setting for setting in self.settings if setting.risk == "durability")

    @property
    def needs_restart(self) -> tuple[str, ...]:
        """Return the settings that a reload does not change."""
        return tuple(setting.name for setting in self.settings if setting.needs == "restart")

    def sentence(self) -> str:
        """Return the answer in one sentence, with the servers that were lost."""
        lost = [
            f"server {server.number} was lost after {counted(server.run_count, 'run')}"
            for server in self.servers
            if server.lost
        ]
        return "; ".join([self._verdict_words(), *lost])

    def _verdict_words(self) -> str:
        tried = f"{self.trial_count} candidate{'s' * (self.trial_count != 1)}"
        has_failed = self.tried != () and len(self.failures) == len(self.tried)
        if self.verdict == "nothing better" and (has_failed or self.reason != NOTHING_BETTER):
            return f"nothing was compared: {self.reason or 'every candidate failed'}"
        if self.verdict == "nothing better":
            return (
                f"nothing better than your settings, beyond {percent(_MARGIN_RATIO)}, was found in"
                f" {tried}"
            )
        promised = f"the search had promised {change_text(self.promised)}" if self.promised else ""
        if self.verdict == "unproved" and not promised and self.reason:
            return f"not known: {self.reason}"
        if self.verdict == "unproved" and not promised:
            return f"not finished: nothing better than your settings in {tried} so far"
        if self.verdict == "unproved":
            return f"unproved: {promised}, and {self.reason or 'the proof did not finish'}"
        assert self.proved is not None, "a proof that finished has a figure"
        said = f"{METRIC_WORDS[self.metric]} {change_text(self.proved)} against your settings"
        slo = f"; {self.slo.sentence()}" if self.slo is not None else ""
        if self.verdict == "not attributed":
            return (
                f"not attributed: {said}, but {self.reason}, so none is proposed; {promised}{slo}"
            )
        if self.verdict == "not confirmed":
            return f"not confirmed: {said}; {promised}{slo}"
        rules = ""
        if self.against_rules is not None:
            rules = f", {change_text(self.against_rules)} against {self.rules}"
        return f"proved: {said}{rules} ({promised}){slo}"

    def as_document(self) -> dict[str, Any]:
        """Return `pgdyno.tune/1`, without what every result has."""
        return {
            "metric": self.metric,
            "verdict": self.verdict,
            "reason": self.reason,
            "settings": [
                {
                    "name": setting.name,
                    "old": setting.old,
                    "new": setting.new,
                    "class": setting.risk,
                    "needs": setting.needs,
                    "price": setting.price,
                    "ratio": _document(self.effect_of(setting)),
                }
                for setting in self.settings
            ],
            "without_effect": list(self.idle),
            "promised": _document(self.promised),
            "proved": _document(self.proved),
            "against_rules": _document(self.against_rules),
            "rules": self.rules or None,
            "promised_minus_proved_points": self.optimism_points,
            "trial_count": self.trial_count,
            "tried": [
                {
                    "candidate": trial.name,
                    "settings": dict(trial.settings),
                    "against": trial.against,
                    "pair_count": trial.pair_count,
                    "ratio": _document(trial.ratio),
                    "failure": trial.failure or None,
                }
                for trial in self.tried
            ],
            "losses": [loss.as_document() for loss in self.losses],
            "failures": [{"candidate": name, "why": why} for name, why in self.failures],
            "slo": asdict(self.slo) if self.slo is not None else None,
            "budget": asdict(self.budget) if self.budget is not None else None,
            "servers": [
                {
                    "number": server.number,
                    "target": server.target,
                    "run_count": server.run_count,
                    "level": _document(server.level),
                    "proved": _document(server.proved),
                    "lost": server.lost or None,
                }
                for server in self.servers
            ],
            "server_differences": list(self.server_differences),
            "counters": [
                {
                    "name": change.name,
                    "before": _document(change.before),
                    "after": _document(change.after),
                }
                for change in self.changed
            ],
        }


def _document(estimate: Estimate | None) -> dict[str, Any] | None:
    if estimate is None:
        return None
    document = asdict(estimate)
    return {name: None if _is_odd(value) else value for name, value in document.items()}


def _is_odd(value: object) -> bool:
    return isinstance(value, float) and not math.isfinite(value)
