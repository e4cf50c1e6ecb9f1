"""The findings of a tuning, drawn from its search: the verdict, and each setting's effect."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pgdyno.analysis.estimate import Estimate
from pgdyno.features.tune.catalogue import Needs, catalogue, needs_of, rule_of
from pgdyno.features.tune.findings import SettingEffect, Tried, TuneFindings, Verdict
from pgdyno.features.tune.space import Point
from pgdyno.features.tune.storage import STORAGE
from pgdyno.features.tune.trial import Effect, Trial
from pgdyno.features.tune.tuning import Tuning


def findings_of(
    tuning: Tuning,
    now: Point,
    major: int,
    *,
    metric: str,
    is_more_better: bool,
    why_ended: str = "",
) -> TuneFindings:
    """Return what a tuning found, also one that was interrupted.

    Args: now, the present values; major, the server's version; why_ended, why no candidate could
    be compared, "" if they could.
    """
    proved = tuning.proved()
    winner = tuning.best
    is_proved = proved is not None and proved[1].log_ratios and tuning.is_decided
    candidate = proved[0] if proved is not None else winner
    changed = {n: v for n, v in candidate.settings.items() if v != now.get(n)}
    alone = tuning.attribution()
    verdict: Verdict = "nothing better" if why_ended or tuning.reason else "unproved"
    if winner is not tuning.base and not why_ended:
        verdict = "unproved"
        if is_proved and proved is not None:
            verdict = "better" if proved[1].is_above_zero else "not confirmed"
            verdict = verdict if tuning.is_attributed else "not attributed"
    of_winner = [name for name, value in winner.settings.items() if value != now.get(name)]
    against = tuning.against_rules()
    return TuneFindings(
        metric=metric,
        is_more_better=is_more_better,
        verdict=verdict,
        reason=why_ended or tuning.reason,
        settings=_restarts_first(
            _setting(name, value, now, major, alone.get(name), is_more_better)
            for name, value in changed.items()
            if verdict in ("better", "unproved")
        ),
        idle=tuple(name for name in of_winner if name not in changed),
        promised=ratio_of(tuning.promised(), is_more_better),
        proved=ratio_of(proved[1], is_more_better) if proved is not None else None,
        against_rules=ratio_of(against, is_more_better) if against is not None else None,
        rules=tuning.rules.name if tuning.rules is not None else "",
        trial_count=len(tuning.trials),
        tried=tuple(_tried(trial, is_more_better) for trial in tuning.trials),
    )


def _setting(
    name: str,
    value: str,
    now: Point,
    major: int,
    effect: Effect | None,
    is_more_better: bool,
) -> SettingEffect:
    ratio = ratio_of(effect, is_more_better) if effect is not None else None
    choice = STORAGE.get(name)
    if choice is not None:
        old = now.get(name, "")
        return SettingEffect(
            name, old, value, choice.risk_of(value), "new cluster", ratio, choice.price
        )
    entry, rule = catalogue()[name], rule_of(name, major)
    needs: Needs = needs_of(rule) if rule is not None else "reload"
    old = now.get(name, "")
    price = entry.price_of(old, value, rule)
    return SettingEffect(name, old, value, entry.risk, needs, ratio, price)


def _restarts_first(settings: Iterable[SettingEffect]) -> tuple[SettingEffect, ...]:
    return tuple(sorted(settings, key=lambda setting: setting.needs != "restart"))


def _tried(trial: Trial, is_more_better: bool) -> Tried:
    return Tried(
        name=trial.candidate.name,
        settings=trial.candidate.settings,
        against=trial.against,
        pair_count=len(trial.effect.log_ratios),
        ratio=ratio_of(trial.effect, is_more_better),
        failure=trial.failure,
    )


def ratio_of(effect: Effect, is_more_better: bool) -> Estimate | None:
    """Return the ratio of the metric: the inverse of the goal's where less is better."""
    if not effect.log_ratios:
        return None
    if is_more_better:
        return effect.estimate()
    return replace(
        effect, log_ratios=tuple(-log_ratio for log_ratio in effect.log_ratios)
    ).estimate()
