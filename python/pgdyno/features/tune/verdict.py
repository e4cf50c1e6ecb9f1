"""The findings of a tuning, drawn from its search: the verdict, and each setting's effect."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from pgdyno.features.tune.findings import SettingEffect, Tried, TuneFindings, Verdict
from pgdyno.features.tune.space import Point
from pgdyno.features.tune.storage import STORAGE
from pgdyno.features.tune.trial import Decision, Trial
from pgdyno.features.tune.tuning import INTERRUPTED, Tuning
from pgdyno.settings.rule import Needs, rule_of
from pgdyno.settings.table import catalogue

# The order of the rows.
_ORDER: tuple[Decision, ...] = (
    "better",
    "not known",
    "no better",
    "worse",
    "not tried",
    "failed",
)


def findings_of(
    tuning: Tuning,
    now: Point,
    major: int,
    *,
    metric: str,
    is_more_better: bool,
    why_ended: str = "",
    doubts: Mapping[str, str] = MappingProxyType({}),
) -> TuneFindings:
    """Return what a tuning found, also one that was interrupted.

    Args: now, the present values; major, the server's version; why_ended, why no candidate could
    be compared, "" if they could; doubts, setting -> why the runs may not show its effect.
    """
    if not tuning.reason:
        tuning.finish(INTERRUPTED)
    gain = tuning.gain()
    verdict: Verdict = "not known"
    if gain is not None and not why_ended:
        verdict = "better"
    elif tuning.is_decided and tuning.has_compared and not tuning.has_failed and not why_ended:
        verdict = "no better"
    is_better = verdict == "better"
    settings = (
        _setting(
            name,
            value,
            now.get(name, ""),
            major,
            ratio=None if effect is None else effect.estimate(is_more_better=is_more_better),
            doubt=doubts.get(name, ""),
        )
        for name, value, effect in tuning.proposed()
    )
    said = why_ended or (tuning.reason if tuning.has_failed or not tuning.is_decided else "")
    return TuneFindings(
        metric=metric,
        is_more_better=is_more_better,
        verdict=verdict,
        reason=said,
        settings=_restarts_first(settings) if is_better else (),
        gain=gain.estimate(is_more_better=is_more_better) if is_better and gain else None,
        tried=tuple(
            _tried(trial, is_more_better, doubts.get(trial.setting, ""))
            for trial in sorted(tuning.trials, key=_place)
        ),
        missing_ns=None if why_ended else tuning.time_missing_ns(),
        untried_ns=tuning.time_untried_ns(),
    )


def _place(trial: Trial) -> tuple[bool, int, float]:
    """Return the place of a row: the formulas together first, then what is better."""
    return trial.role != "set", _ORDER.index(trial.decision), -trial.effect.mean_ratio


def _setting(name: str, value: str, old: str, major: int, **seen: Any) -> SettingEffect:
    if choice := STORAGE.get(name):
        risk, price = choice.risk_of(value), choice.price
        return SettingEffect(name, old, value, risk, "new cluster", price=price, **seen)
    entry, rule = catalogue()[name], rule_of(name, major)
    needs: Needs = "reload" if rule is None else rule.needs
    price = entry.price_of(old, value, rule)
    return SettingEffect(name, old, value, entry.risk, needs, price=price, **seen)


def _restarts_first(settings: Iterable[SettingEffect]) -> tuple[SettingEffect, ...]:
    return tuple(sorted(settings, key=lambda setting: setting.needs != "restart"))


def _tried(trial: Trial, is_more_better: bool, doubt: str) -> Tried:
    return Tried(
        name=trial.name,
        settings=trial.candidate.settings,
        against=trial.against.name,
        pair_count=trial.effect.pair_count,
        ratio=trial.effect.estimate(is_more_better=is_more_better),
        decision=trial.decision,
        failure=trial.failure,
        doubt=doubt if trial.effect.pair_count else "",
        role=trial.role,
    )
