"""Reviews the settings of a server: which need attention and why, and which differ from rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from pgdyno.features.doctor.checks.memory import buffers_fitting
from pgdyno.features.doctor.finding import VERDICTS, Verdict
from pgdyno.features.tune.contradictions import Attention, contradictions
from pgdyno.features.tune.memory import MemorySum, memory_sum
from pgdyno.features.tune.server_settings import Reviewed
from pgdyno.quantities import format_bytes
from pgdyno.server.configuration import Setting
from pgdyno.settings.formula import Machine
from pgdyno.settings.published import RULES, Fit, Recommended, practical, recommend, rule_set
from pgdyno.settings.rule import MAJORS, Needs, rule_of
from pgdyno.settings.table import Entry, accepted_values, catalogue
from pgdyno.settings.value import is_far

if TYPE_CHECKING:
    from pgdyno.features.doctor.check_facts import CheckFacts

# Check of the doctor -> the setting it is about; of all others that is the one of the same name.
SETTING_OF_CHECK: Mapping[str, str] = {
    "archiving": "archive_mode",
    "checkpoint_pace": "checkpoint_completion_target",
    "damage_ignored": "zero_damaged_pages",
    "maintenance_memory": "maintenance_work_mem",
    "memory_at_the_peak": "work_mem",
    "memory_rule": "work_mem",
    "parallel_workers": "max_parallel_workers_per_gather",
    "prepared_transactions": "max_prepared_transactions",
    "statement_logging": "log_statement",
    "statements": "shared_preload_libraries",
    "synchronous_standbys": "synchronous_standby_names",
    "tracking": "track_counts",
}
# Of these checks another setting is the cause if it is the one that somebody set.
_OTHER_CAUSE = {"statement_logging": "log_min_duration_statement"}
# What is wrong with these comes first, and explains the sums of memory for all connections.
_EXPLAINING = {"max_connections": "max_connections", "maintenance_memory": "maintenance_work_mem"}
_PER_CONNECTION = ("work_mem", "temp_buffers")
# A limit of WAL by the free space is a multiple of this, so that two looks propose the same value.
_STEP_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Explained:
    """One setting with all facts about it. `entry`: None if the catalogue does not have it."""

    name: str
    present: Setting
    entry: Entry | None
    needs: Needs
    rules: Mapping[str, Recommended]

    @property
    def meaning(self) -> str:
        """Return the effect of the setting in one sentence."""
        if self.entry is not None:
            return self.entry.meaning
        if self.present.description:
            return f"{self.present.description.rstrip('.')}."
        if self.present.objection:
            return "Not a setting of this version, or a value that it refuses."
        accepted = accepted_values().get(self.name)
        return accepted.about if accepted is not None else "A setting of an extension."

    @property
    def price(self) -> str:
        """Return what the change from the default to this value costs."""
        if self.entry is None:
            return ""
        return self.entry.price_of(self.present.built_in, self.present.value, self.present.rule)

    def differs_from(self, rules: str) -> bool:
        """Return whether a rule recommends another value; for numbers, by more than twice."""
        recommended = self.rules.get(rules)
        # For max_connections a rule has only the assumption of its author.
        if recommended is None or recommended.text is None or self.name == "max_connections":
            return False
        if recommended.text == self.present.built_in and not self.present.is_set:
            return False
        return is_far(self.present.rule, self.present.value, recommended.text)


@dataclass(frozen=True, slots=True)
class Review:
    """The answer of `pgdyno settings`."""

    target: str
    machine: Machine
    attention: tuple[Attention, ...]
    changed: tuple[Explained, ...]
    known: Mapping[str, Explained]
    every: Mapping[str, Explained]
    memory: MemorySum
    pending: tuple[str, ...]
    total_count: int
    is_file: bool = False

    @property
    def fine(self) -> tuple[Explained, ...]:
        """Return the settings that differ from the default and need no attention."""
        named = {attention.setting for attention in self.attention}
        return tuple(setting for setting in self.changed if setting.name not in named)

    @property
    def worst(self) -> Verdict:
        """Return the worst verdict."""
        return self.attention[0].verdict if self.attention else "good"

    def against(self, rules: str) -> list[Explained]:
        """Return the settings on which a published rule says something else."""
        return [setting for setting in self.known.values() if setting.differs_from(rules)]


def review(given: Reviewed, machine: Machine, *, is_file: bool = False) -> Review:
    """Judge every setting; pure."""
    fits = _fits(given.facts)
    rules = {
        rule_id: practical(recommend(rule_set(rule_id), machine, fits), machine)
        for rule_id in RULES
    }
    entries = catalogue()
    explained = {
        name: Explained(
            name,
            setting,
            entries.get(name),
            setting.rule.needs,
            {rule: values[name] for rule, values in rules.items() if name in values},
        )
        for name, setting in given.settings.items()
    }
    wanted = {name for rule in rules.values() for name in rule}
    reasons = list(_attention(given))
    reasons += _harmful(given, known={reason.setting for reason in reasons})
    attention = sorted(reasons, key=lambda attention: VERDICTS.index(attention.verdict))
    return Review(
        target=given.target,
        machine=machine,
        attention=tuple(attention),
        changed=tuple(
            setting for _, setting in sorted(explained.items()) if setting.present.is_changed
        ),
        known={
            name: setting
            for name, setting in explained.items()
            if name in entries or name in wanted
        },
        every=explained,
        memory=memory_sum(given.facts),
        pending=tuple(
            sorted(name for name, setting in given.settings.items() if setting.is_pending)
        ),
        total_count=len(given.settings),
        is_file=is_file,
    )


def _fits(facts: CheckFacts) -> dict[str, Fit]:
    """Return what lowers values of rules to the server's data and to its free disk.

    The doctor wants twice max_wal_size to be free.
    """
    fits: dict[str, Fit] = {}
    data_bytes, wal = facts.data_bytes, facts.wal or facts.data
    if data_bytes is not None:
        fits["shared_buffers"] = (partial(buffers_fitting, data_bytes=data_bytes), "the data")
    if wal is not None and wal.total_bytes:
        room = f"the free {format_bytes(wal.free_bytes)} of its disk"
        for name, share in (("max_wal_size", 2), ("min_wal_size", 4)):
            most_bytes = max(wal.free_bytes, 4 * _STEP_BYTES) // share
            most_bytes -= most_bytes % _STEP_BYTES
            fits[name] = (partial(min, most_bytes), room)
    return fits


def _attention(given: Reviewed) -> Iterator[Attention]:
    """Yield refused values, contradictions, and findings of the doctor."""
    for name, setting in given.settings.items():
        if setting.objection:
            seen = f"the server does not start: {setting.objection}"
            yield Attention(name, "bad", seen, "remove it")
    named: set[str] = set()
    for contradiction in contradictions(given.facts.on_server()):
        named.add(contradiction.setting)
        yield contradiction
    for finding in sorted(given.findings, key=lambda finding: finding.id not in _EXPLAINING):
        name, seen, mend = SETTING_OF_CHECK.get(finding.id, finding.id), finding.seen, finding.mend
        if finding.verdict not in ("bad", "warn") or rule_of(name, MAJORS[-1]) is None:
            continue
        if name == "shared_preload_libraries" and name not in finding.mend:
            continue  # The library is loaded; what is missing in the database is not a setting.
        other = _OTHER_CAUSE.get(finding.id, name)
        if not _is_set(given, name) and _is_set(given, other):
            name = other
        present = given.settings.get(name)  # A role may not see every setting.
        if name in _PER_CONNECTION and present is not None and not present.is_set:
            # The number of connections is the reason, not the default of this setting.
            if not named.isdisjoint(_EXPLAINING.values()):
                continue
            name, mend = "max_connections", "a pooler, and a lower max_connections (restart)"
        if present is not None and seen == f"{name} = {present.value}":
            if name in named:
                continue
            seen = finding.why
        named.add(name)
        yield Attention(name, finding.verdict, seen, mend)


def _is_set(given: Reviewed, name: str) -> bool:
    return name in given.settings and given.settings[name].is_changed


def _harmful(given: Reviewed, *, known: Set[str]) -> Iterator[Attention]:
    """Yield values that are harmful on every server, for settings without another reason."""
    for name, setting in given.settings.items():
        accepted = accepted_values().get(name)
        if (
            accepted is None
            or name in known
            or not setting.is_set
            or setting.value == setting.built_in
        ):
            continue
        if not accepted.has(setting.rule, setting.value):
            seen = f"{name} = {setting.value}: {accepted.harm}"
            mend = f"{name} = {setting.built_in}"
            if accepted.shown != setting.built_in:
                mend += f" (the default), or {accepted.shown}"
            yield Attention(name, accepted.verdict, seen, mend)
