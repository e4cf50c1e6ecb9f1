"""What a tuning found: the settings that were proved, each with its effect, and what to apply."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

from pgdyno.analysis.estimate import Estimate
from pgdyno.analysis.rounding import change_text
from pgdyno.tune.catalogue import Needs, Risk, catalogue, needs_of, rule_of
from pgdyno.tune.search import Effect, Tuning
from pgdyno.tune.space import Point

Verdict = Literal["better", "nothing better", "not confirmed", "unproved"]
# What people read of a goal that is to be small: less is better.
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
class TuneFindings:
    """The answer of a tuning. Ratios are of the metric: new / old.

    `promised`: what the search saw of its winner; `proved`: what fresh runs of the settings below
    showed, the only figure that counts; `idle`: settings of the winner that made no difference.
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
    failures: tuple[tuple[str, str], ...]

    @property
    def weakens_durability(self) -> tuple[SettingEffect, ...]:
        """Return the settings that may lose or damage data."""
        return tuple(one for one in self.settings if one.risk == "durability")

    @property
    def needs_restart(self) -> tuple[str, ...]:
        """Return the settings that a reload does not change."""
        return tuple(one.name for one in self.settings if one.needs == "restart")

    def sentence(self) -> str:
        """Return the answer in one sentence."""
        tried = f"{self.trial_count} candidate{'s' * (self.trial_count != 1)}"
        if self.verdict == "nothing better":
            return (
                f"nothing better than your settings, beyond {_MARGIN_RATIO:.0%}, was found in"
                f" {tried}"
            )
        promised = f"the search had promised {change_text(self.promised)}" if self.promised else ""
        if self.verdict == "unproved":
            return f"unproved: {promised}, and the proof did not finish"
        assert self.proved is not None, "a proof that finished has a figure"
        said = f"{self.metric} {change_text(self.proved)} against your settings"
        if self.verdict == "not confirmed":
            return f"not confirmed: {said}; {promised}"
        rules = ""
        if self.against_rules is not None:
            rules = f", {change_text(self.against_rules)} against {self.rules}"
        return f"proved: {said}{rules} ({promised})"

    def as_document(self) -> dict[str, Any]:
        """Return `pgdyno.tune/1`, without what every result has."""
        return {
            "metric": self.metric,
            "verdict": self.verdict,
            "reason": self.reason,
            "settings": [
                {
                    "name": one.name,
                    "old": one.old,
                    "new": one.new,
                    "class": one.risk,
                    "needs": one.needs,
                    "price": one.price,
                    "ratio": _document(one.ratio),
                }
                for one in self.settings
            ],
            "without_effect": list(self.idle),
            "promised": _document(self.promised),
            "proved": _document(self.proved),
            "against_rules": _document(self.against_rules),
            "trial_count": self.trial_count,
            "failures": [{"candidate": name, "why": why} for name, why in self.failures],
        }


def findings_of(
    tuning: Tuning, now: Point, major: int, *, metric: str, is_more_better: bool
) -> TuneFindings:
    """Return what a tuning found, also one that was interrupted.

    Args: now, the present values; major, the server's version.
    """
    proved = tuning.proved()
    winner = tuning.best
    is_proved = proved is not None and proved[1].log_ratios and tuning.reason != ""
    candidate = proved[0] if proved is not None else winner
    changed = {n: v for n, v in candidate.settings.items() if v != now.get(n)}
    alone = tuning.attribution()
    verdict: Verdict = "nothing better"
    if winner is not tuning.base:
        verdict = "unproved"
        if is_proved and proved is not None:
            verdict = "better" if proved[1].interval()[0] > 0 else "not confirmed"
    of_winner = [name for name, value in winner.settings.items() if value != now.get(name)]
    against = tuning.against_rules()
    return TuneFindings(
        metric=metric,
        is_more_better=is_more_better,
        verdict=verdict,
        reason=tuning.reason,
        settings=tuple(
            _setting(name, value, now, major, alone.get(name), is_more_better)
            for name, value in changed.items()
            if verdict in ("better", "unproved")
        ),
        idle=tuple(name for name in of_winner if name not in changed),
        promised=_ratio(tuning.promised(), is_more_better),
        proved=_ratio(proved[1], is_more_better) if proved is not None else None,
        against_rules=_ratio(against, is_more_better) if against is not None else None,
        rules=tuning.rules.name if tuning.rules is not None else "",
        trial_count=tuning.trial_count,
        failures=tuple((one.name, why) for one, why in tuning.failures),
    )


def conf_fragment(found: TuneFindings) -> str:
    """Return the settings as lines of postgresql.conf, each with what it changes."""
    lines = [f"# pgdyno tune: {found.sentence()}"]
    for one in found.settings:
        effect = f"{found.metric} {change_text(one.ratio)}" if one.ratio else "effect not alone"
        lines.append(
            f"{one.name} = '{one.new}'  # was {one.old}; {effect}; {one.risk}, {one.needs}"
        )
    return "\n".join(lines)


def alter_system(found: TuneFindings) -> str:
    """Return the statements that set everything; a restart is named first."""
    lines = []
    if found.needs_restart:
        lines.append(f"-- needs a restart: {', '.join(found.needs_restart)}")
    lines += [f"ALTER SYSTEM SET {one.name} = '{one.new}';" for one in found.settings]
    return "\n".join([*lines, "SELECT pg_reload_conf();"])


def _setting(
    name: str,
    value: str,
    now: Point,
    major: int,
    effect: Effect | None,
    is_more_better: bool,
) -> SettingEffect:
    entry, rule = catalogue()[name], rule_of(name, major)
    needs: Needs = needs_of(rule) if rule is not None else "reload"
    ratio = _ratio(effect, is_more_better) if effect is not None else None
    return SettingEffect(name, now.get(name, ""), value, entry.risk, needs, ratio, entry.price)


def _ratio(effect: Effect, is_more_better: bool) -> Estimate | None:
    """Return the ratio of the metric: the inverse of the goal's where less is better."""
    if not effect.log_ratios:
        return None
    if is_more_better:
        return effect.estimate()
    return Effect(effect.name, tuple(-one for one in effect.log_ratios)).estimate()


def _document(estimate: Estimate | None) -> dict[str, Any] | None:
    if estimate is None:
        return None
    found = asdict(estimate)
    return {name: None if _is_odd(value) else value for name, value in found.items()}


def _is_odd(value: object) -> bool:
    return isinstance(value, float) and not math.isfinite(value)
