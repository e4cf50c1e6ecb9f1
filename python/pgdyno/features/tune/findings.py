"""What a tuning found: the settings that are better, every value that was tried, the verdict."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from pgdyno.analysis.estimate import Estimate
from pgdyno.analysis.losses import Loss
from pgdyno.analysis.rounding import change_text
from pgdyno.features.tune.arms import MARGIN_RATIO
from pgdyno.features.tune.budget import TimeSpent
from pgdyno.features.tune.space import Point
from pgdyno.features.tune.statements import Proposed
from pgdyno.features.tune.trial import Decision, Role
from pgdyno.features.tune.tuning import INTERRUPTED, TIME_OVER
from pgdyno.quantities import counted, duration_text, percent
from pgdyno.settings.rule import Needs
from pgdyno.settings.table import Risk
from pgdyno.spec.designs import METRIC_WORDS

Verdict = Literal["better", "no better", "not known"]
_NAMED_MAX = 3
# An interval that allows a larger gain than this tells little.
_TELLS_RATIO = 0.5
# More time than this is not worth a next step: the machine changes too much for an answer.
_WORTH_NS = 4 * 3_600_000_000_000
FROM_FORMULA, NOT_MEASURED = "from a formula, not proved", "from a formula, not measured"


@dataclass(frozen=True, slots=True)
class SettingEffect:
    """One setting that is proposed: its change, and what it brings on top of those before it.

    `ratio`: the metric with it against without it; None if it was not measured alone. `doubt`: why
    the runs may not show its effect, such as "no run had a checkpoint".
    """

    name: str
    old: str
    new: str
    risk: Risk
    needs: Needs
    ratio: Estimate | None
    price: str = ""
    doubt: str = ""

    @property
    def cost_words(self) -> tuple[str, ...]:
        """Return the class of its risk, and what it costs; nothing for a safe one."""
        return (*((f"class {self.risk}",) * (self.risk != "safe")), *filter(None, [self.price]))


@dataclass(frozen=True, slots=True)
class Tried:
    """One value that was to be measured. `ratio` of the metric is against the settings `against`.

    `name`: such as "work_mem=64MB". `failure`: why it could not be measured, in the words of the
    server, "" if it could. `doubt`: why its runs may not show its effect, "" without a doubt.
    `role`: one value, the set of all formulas, or a setting of the set back at your value.
    """

    name: str
    settings: Point
    against: str
    pair_count: int
    ratio: Estimate | None
    decision: Decision
    failure: str = ""
    doubt: str = ""
    role: Role = "alone"

    @property
    def tells(self) -> bool:
        """Return whether the value has an interval of runs that could show its effect."""
        ratio = self.ratio
        has_interval = ratio is not None and ratio.has_interval and not ratio.is_of_noise
        return has_interval and not self.doubt

    @property
    def verdict_words(self) -> str:
        """Return the decision in words: "no better (at most 3 %)"."""
        if self.decision == "no better":
            return f"no better (less than {percent(MARGIN_RATIO)})"
        return self.failure if self.decision == "failed" else self.decision


@dataclass(frozen=True, slots=True)
class Changed:
    """One counter of the server, with the old settings and with the new ones."""

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
class TuneFindings:
    """The answer of a tuning. Ratios are of the metric: new / old.

    `gain`: the proposed settings against yours, None without any; `tried`: every value, the best
    first; `missing_ns`: how much more time would decide what is open, None if it cannot be told;
    `untried_ns`: what the first pairs of the values that were not tried take; `budget_ns`: the time
    that the user gave; `changed`: counters
    of the server before and after; `slo`: runs that met the latency target, None without a target
    or without a proposal; `budget`: what the time was spent on; `losses`: what crashes took with
    these settings, empty if this was not measured; `formula`: values of published rules that are
    neither proved nor measured to be no better; `formula_of`: the facts that they are computed
    from; `left_out`: setting -> why the evidence speaks for it and what it risks, if its class is
    not searched.
    """

    metric: str
    is_more_better: bool
    verdict: Verdict
    reason: str
    settings: tuple[SettingEffect, ...]
    gain: Estimate | None
    tried: tuple[Tried, ...]
    missing_ns: int | None = None
    untried_ns: int = 0
    budget_ns: int = 0
    changed: tuple[Changed, ...] = ()
    slo: SloHeld | None = None
    budget: TimeSpent | None = None
    losses: tuple[Loss, ...] = ()
    formula: tuple[Proposed, ...] = ()
    formula_of: str = ""
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_undecided(self) -> bool:
        """Return whether the tuning ended without an answer."""
        return self.verdict == "not known"

    def effect_of(self, setting: SettingEffect) -> Estimate | None:
        """Return what a setting brings; a single one brings the whole gain."""
        return self.gain if len(self.settings) == 1 else setting.ratio

    @property
    def weakens_durability(self) -> tuple[SettingEffect, ...]:
        """Return the settings that may lose or damage data."""
        return tuple(setting for setting in self.settings if setting.risk == "durability")

    def sentence(self) -> str:
        """Return the answer in one sentence."""
        if self.verdict == "better":
            assert self.gain is not None, "what is better has a gain"
            said = f"{METRIC_WORDS[self.metric]} {change_text(self.gain)} with {self._listed()}"
            slo = f"; {self.slo.sentence()}" if self.slo is not None else ""
            return f"proved better: {said}{slo}"
        if self.verdict == "no better":
            count = sum(trial.ratio is not None for trial in self.tried)
            values = "the only value" if count == 1 else f"each of {count} values"
            return (
                f"no better value: {values} is better than yours by less than"
                f" {percent(MARGIN_RATIO)}, or worse"
            )
        return f"not known: {'; '.join(self._open_words())}"

    @property
    def whole_set(self) -> Tried | None:
        """Return the trial of all formulas together; None if there was none."""
        return next((trial for trial in self.tried if trial.role == "set"), None)

    @property
    def needs_restart(self) -> tuple[str, ...]:
        """Return the proved settings that a reload does not change."""
        return tuple(setting.name for setting in self.settings if setting.needs == "restart")

    def to_apply(self) -> tuple[Proposed, ...]:
        """Return all values that this answer has to apply, each with its reason."""
        proved = (
            Proposed(s.name, s.old, s.new, "; ".join((self.reason_of(s), *s.cost_words)), s.needs)
            for s in self.settings
        )
        return (*proved, *self.formula)

    def reason_of(self, setting: SettingEffect) -> str:
        """Return "alone: tps +18 % (14 to 22)", or what it brings with all others of the set."""
        word, ratio = METRIC_WORDS[self.metric], self.effect_of(setting)
        if ratio is not None:
            return f"alone: {word} {change_text(ratio)}"
        assert self.gain is not None, "what is better has a gain"
        doubt = f", but {setting.doubt}" if setting.doubt else ""
        return f"measured together: {word} {change_text(self.gain)}{doubt}"

    def next_step(self) -> str:
        """Return what to do if nothing is proved better; "" if the answer says it."""
        compared = [trial for trial in self.tried if trial.ratio is not None]
        if self.verdict == "better" or not compared:
            return ""
        if self.verdict == "no better":
            return "keep your settings: nothing that was tried is worth a change"
        apply = "the values below are a usual start; " if self.formula else "keep your settings; "
        hidden = [trial for trial in compared if trial.doubt and trial.decision == "not known"]
        if hidden and not any(trial.tells for trial in compared):
            return f"{apply}longer runs with -T may show {hidden[0].name}: {hidden[0].doubt}"
        if self.missing_ns is not None and 0 < self.missing_ns <= _WORTH_NS:
            budget = duration_text(self.budget_ns + self.missing_ns).replace(" ", "")
            more = f"pgdyno run --resume last --budget {budget}"
            return f"{apply}to know more, about {duration_text(self.missing_ns)}: {more}"
        return f"{apply}more runs on this machine will hardly tell more: its speed changes too much"

    def _listed(self) -> str:
        """Return "jit = off, work_mem = 64MB", or the first of many and their number."""
        listed = [f"{setting.name} = {setting.new}" for setting in self.settings]
        if (more := len(listed) - _NAMED_MAX) > 1:
            listed = [*listed[:_NAMED_MAX], f"{more} more"]
        return ", ".join(listed)

    def _open_words(self) -> list[str]:
        """Return what is known of the best open value, and what is missing."""
        is_over = self.reason in ("", TIME_OVER, INTERRUPTED)
        if not is_over or all(trial.ratio is None for trial in self.tried):
            return [self.reason or "nothing was compared"]
        said = []
        word = METRIC_WORDS[self.metric]
        still = [t for t in self.tried if t.decision == "not known" and t.ratio is not None]
        whole = self.whole_set
        first = next((t for t in still if t.tells and t.role != "set"), None)
        if whole is not None and whole.ratio is not None:
            said.append(self._set_words(whole, whole.ratio))
        if first is not None and first.ratio is not None:
            change, pairs = change_text(first.ratio), counted(first.pair_count, "pair")
            said.append(f"{first.name} has {word} {change} after {pairs}")
        if not said:
            measured = counted(len(still), "measured value")
            said.append(f"no interval yet that tells anything, {measured}")
        untried = [trial.name for trial in self.tried if trial.decision == "not tried"]
        # The set has the first value of each of its settings.
        if untried and whole is None:
            more = len(untried) - _NAMED_MAX
            listed = ", ".join(untried[:_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
            was = "was" if len(untried) == 1 else "were"
            needs = f" ({duration_text(self.untried_ns)} for a first interval)"
            said.append(f"{listed} {was} not tried{needs if self.untried_ns else ''}")
        if self.reason:
            said.append(self.reason)
        if self.missing_ns is not None and 0 < self.missing_ns <= _WORTH_NS:
            has_interval = any(t.ratio is not None and t.ratio.low is not None for t in self.tried)
            would = "would decide" if has_interval else "would give a first interval"
            said.append(f"about {duration_text(self.missing_ns)} more {would}")
        elif still:
            said.append("the runs scatter too much for a decision")
        return said

    def _set_words(self, whole: Tried, ratio: Estimate) -> str:
        """Return what the measurement of all formulas together showed."""
        word, pairs = METRIC_WORDS[self.metric], counted(whole.pair_count, "pair")
        if not ratio.has_interval or ratio.is_of_noise:
            return f"{pairs} of {whole.name} of PGTune against yours are too few to tell"
        said = f"{whole.name} of PGTune against yours: {word} {change_text(ratio)} after {pairs}"
        most = ratio.high if self.is_more_better else ratio.low
        if whole.decision != "not known" or most is None:
            return said
        if abs(most - 1) > _TELLS_RATIO:
            return f"{said}, which tells little: the speed of this machine changes too much"
        return f"{said}, so a gain of more than {percent(abs(most - 1))} is not likely"

    def as_document(self) -> dict[str, Any]:
        """Return `pgdyno.tune/1`, without what every result has."""
        return {
            "metric": self.metric,
            "verdict": self.verdict,
            "reason": self.reason,
            "tried": [
                {
                    "candidate": trial.name,
                    "settings": dict(trial.settings),
                    "against": trial.against,
                    "pair_count": trial.pair_count,
                    "ratio": _document(trial.ratio),
                    "decision": trial.decision,
                    "failure": trial.failure or None,
                    "doubt": trial.doubt or None,
                }
                for trial in self.tried
            ],
            "missing_s": None if self.missing_ns is None else self.missing_ns / 1e9,
            "untried_s": self.untried_ns / 1e9,
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
            "proved": _document(self.gain),
            "formula": [
                {"name": value.name, "old": value.old, "new": value.value, "why": value.why}
                for value in self.formula
            ],
            "formula_of": self.formula_of or None,
            "left_out": dict(self.left_out),
            "losses": [loss.as_document() for loss in self.losses],
            "slo": asdict(self.slo) if self.slo is not None else None,
            "budget": asdict(self.budget) if self.budget is not None else None,
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
