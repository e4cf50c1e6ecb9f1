"""What a tuning found: the settings that were proved, each with its effect, and what to apply."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from pgdyno.analysis.estimate import Estimate
from pgdyno.analysis.rounding import change_text
from pgdyno.quantities import counted, percent
from pgdyno.spec.designs import METRIC_WORDS
from pgdyno.tune.catalogue import Needs, Risk, catalogue, needs_of, rule_of
from pgdyno.tune.search import NOTHING_BETTER, Tuning
from pgdyno.tune.space import Point
from pgdyno.tune.storage import STORAGE
from pgdyno.tune.trial import Budget, Effect, Trial

Verdict = Literal["better", "nothing better", "not confirmed", "unproved"]
_MARGIN_RATIO = 0.02
NEEDS_WORDS: dict[Needs, str] = {
    "session": "needs a reload, or SET in a session",
    "reload": "needs a reload",
    "restart": "needs a restart",
    "new cluster": "needs new tables or a new cluster",
}


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
    """One of several equal servers: where it is, how fast, and what was proved on it alone.

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
            said.append(f"proved on it alone: {METRIC_WORDS[metric]} {change_text(self.proved)}")
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
    `together`: proved settings of which none has a certain effect alone; `servers`: the equal
    servers that shared the runs, empty if there was one server; `server_differences`: how they
    differ, in sentences.
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
    budget: Budget | None = None
    together: tuple[str, ...] = ()
    servers: tuple[EqualServerFindings, ...] = ()
    server_differences: tuple[str, ...] = ()

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

    @property
    def weakens_durability(self) -> tuple[SettingEffect, ...]:
        """Return the settings that may lose or damage data."""
        return tuple(setting for setting in self.settings if setting.risk == "durability")

    @property
    def together_text(self) -> str:
        """Return "jit, work_mem: tps +18 % (14 to 22); ..."; "" if a setting is sure alone."""
        if not self.together or self.proved is None:
            return ""
        change = f"{METRIC_WORDS[self.metric]} {change_text(self.proved)}"
        return f"{', '.join(self.together)}: {change}; no setting alone has a certain effect"

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
        if self.verdict == "unproved" and not promised:
            return f"not finished: nothing better than your settings in {tried} so far"
        if self.verdict == "unproved":
            return f"unproved: {promised}, and {self.reason or 'the proof did not finish'}"
        assert self.proved is not None, "a proof that finished has a figure"
        said = f"{METRIC_WORDS[self.metric]} {change_text(self.proved)} against your settings"
        slo = f"; {self.slo.sentence()}" if self.slo is not None else ""
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
                    "ratio": _document(setting.ratio),
                }
                for setting in self.settings
            ],
            "together": list(self.together),
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
            verdict = "better" if proved[1].interval()[0] > 0 else "not confirmed"
    is_one_sure = any(effect.interval()[0] > 0 for effect in alone.values())
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
        trial_count=tuning.trial_count,
        tried=tuple(_tried(trial, is_more_better) for trial in tuning.trials),
        together=tuple(changed)
        if verdict == "better" and len(changed) > 1 and not is_one_sure
        else (),
    )


def conf_fragment(findings: TuneFindings) -> str:
    """Return the settings as lines of postgresql.conf, each with what it changes."""
    lines = [f"# pgdyno tune: {findings.sentence()}", *_restart_comment(findings, "#")]
    for setting in findings.settings:
        lines += [f"# {line}" for line in _comments(findings, setting)]
        mark = "# " if setting.needs == "new cluster" else ""
        lines.append(f"{mark}{setting.name} = {_quoted(setting.new)}")
    return "\n".join(lines)


def alter_system(findings: TuneFindings) -> str:
    """Return the statements that set everything, with comments; a restart is named first."""
    lines = [*_restart_comment(findings, "--")]
    for setting in findings.settings:
        lines += [f"-- {line}" for line in _comments(findings, setting)]
        if setting.needs == "new cluster":
            lines.append(f"-- {setting.name} = {setting.new}")
        else:
            lines.append(f"ALTER SYSTEM SET {setting.name} = {_quoted(setting.new)};")
    return "\n".join([*lines, "SELECT pg_reload_conf();"])


def effect_text(findings: TuneFindings, setting: SettingEffect) -> str:
    """Return what a setting brings: "tps +18 % (14 to 22)", or that it was not measured alone."""
    if setting.ratio is not None:
        return f"{METRIC_WORDS[findings.metric]} {change_text(setting.ratio)}"
    if len(findings.settings) == 1 and findings.proved is not None:
        return f"{METRIC_WORDS[findings.metric]} {change_text(findings.proved)}"
    return "not measured alone"


def _restart_comment(findings: TuneFindings, mark: str) -> Iterable[str]:
    if findings.needs_restart:
        yield f"{mark} needs a restart: {', '.join(findings.needs_restart)}"


def _comments(findings: TuneFindings, setting: SettingEffect) -> Iterable[str]:
    words = NEEDS_WORDS[setting.needs]
    yield f"was {setting.old}; {effect_text(findings, setting)}; class {setting.risk}; {words}"
    if setting.price:
        yield " ".join(setting.price.split())


def _quoted(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


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
    return SettingEffect(name, now.get(name, ""), value, entry.risk, needs, ratio, entry.price)


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


def _document(estimate: Estimate | None) -> dict[str, Any] | None:
    if estimate is None:
        return None
    document = asdict(estimate)
    return {name: None if _is_odd(value) else value for name, value in document.items()}


def _is_odd(value: object) -> bool:
    return isinstance(value, float) and not math.isfinite(value)
