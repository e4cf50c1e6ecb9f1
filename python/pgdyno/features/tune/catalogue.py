"""The catalogue of settings: what each does, what it risks, and the range worth searching.

`settings/*.toml` has the meaning, the risk and the range, written by people. Type, unit, limits and
what a change needs come from the committed snapshots of pg_settings.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any, Literal

from pgdyno.features.tune.formula import Value, number
from pgdyno.features.tune.machine import Machine
from pgdyno.features.tune.values import amount, text_of
from pgdyno.spec.setting_rules import MAJORS, SettingRule, snapshot

Risk = Literal["safe", "memory", "planner", "durability", "availability"]
RISKS: tuple[Risk, ...] = ("safe", "memory", "planner", "durability", "availability")
Scale = Literal["linear", "log", "choice"]
Needs = Literal["session", "reload", "restart", "new cluster"]
_FILES = ("memory", "wal", "durability", "planner", "io", "sessions")
# pg_settings.context -> what a change needs before the load sees it.
_NEEDS: Mapping[str, Needs] = {
    "user": "session",
    "superuser": "session",
    "backend": "reload",
    "superuser-backend": "reload",
    "sighup": "reload",
    "postmaster": "restart",
    "internal": "new cluster",
}

EVIDENCE: Mapping[str, str] = {
    "backend_writes": "sessions write data pages themselves",
    "buffer_misses": "pages are not found in shared_buffers",
    "checkpoint_writes": "checkpoints write while the load runs",
    "dead_rows": "dead rows are left in tables",
    "forced_checkpoints": "WAL volume forces checkpoints",
    "full_page_images": "much of the WAL is full-page images",
    "jit_time": "statements are compiled",
    "lock_waits": "sessions wait for locks",
    "parallel": "long statements run while cores are idle",
    "plan_costs": "the planner's costs and the measured times disagree",
    "read_waits": "sessions wait for reads of data files",
    "sequential_scans": "tables are read from end to end for few rows",
    "temporary_bytes": "sorts and hashes write temporary files",
    "wal_buffers_full": "WAL buffers are full",
    "wal_flush": "sessions wait for WAL to reach the disk",
}
"""Evidence of a measured run -> its description in words."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One setting of the catalogue.

    `low` and `high`: formulas of the range, None if no range is searched. `special`: values outside
    the range with a special meaning, such as -1. `price`: what a change costs; `price_of_less`:
    what a lower value costs instead, None if the price holds for every change.
    """

    name: str
    meaning: str
    risk: Risk
    source: str
    scale: Scale | None = None
    low: str | None = None
    high: str | None = None
    values: tuple[str, ...] = ()
    special: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    price: str = ""
    price_of_less: str | None = None

    def price_of(self, old: str, new: str, rule: SettingRule | None) -> str:
        """Return what the change from `old` to `new` costs, "" if no cost is known."""
        if self.price_of_less is None or rule is None:
            return self.price
        before, after = amount(rule, old), amount(rule, new)
        is_less = before is not None and after is not None and after < before
        return self.price_of_less if is_less else self.price

    def span(self, machine: Machine, names: Mapping[str, Value]) -> tuple[float, float] | None:
        """Return the range worth searching, in bytes, ms or a plain number.

        Args: names, the values that formulas may use.
        Returns: a range within the server's limits; None for a choice, or if the range is empty.
        Raises: FactMissing if a formula needs a fact that is not known.
        """
        rule = rule_of(self.name, machine.major)
        if self.low is None or self.high is None or rule is None:
            return None
        known = {**machine.names(), **names}
        ends = [text_of(rule, number(formula, known)) for formula in (self.low, self.high)]
        low, high = (amount(rule, text) for text in ends)
        return None if low is None or high is None or low >= high else (low, high)

    def choices(self, machine: Machine) -> tuple[str, ...]:
        """Return the values worth trying that this version knows; empty for a range."""
        rule = rule_of(self.name, machine.major)
        if rule is None:
            return ()
        if rule.vartype == "bool":
            return tuple(value for value in self.values if value in ("on", "off"))
        if rule.vartype != "enum":
            return self.values
        # `on` is another name of pglz since 15.
        others = {"on"} if "pglz" in rule.values and "pglz" in self.values else set()
        return tuple(value for value in self.values if value in rule.values and value not in others)


def needs_of(rule: SettingRule) -> Needs:
    """Return what a change of this setting needs before it has effect, such as a restart."""
    return _NEEDS[rule.context]


def rule_of(name: str, major: int) -> SettingRule | None:
    """Return type, unit and limits of a setting; None if this version does not have it."""
    nearest = min(MAJORS, key=lambda known: abs(known - major))
    return snapshot(nearest).get(name.lower())


@lru_cache(maxsize=1)
def catalogue() -> dict[str, Entry]:
    """Return every setting of the catalogue by name, in the order of the files."""
    return {entry.name: entry for name in _FILES for entry in _read(name)}


def _read(name: str) -> Iterator[Entry]:
    text = (
        files("pgdyno.features.tune").joinpath(f"settings/{name}.toml").read_text(encoding="utf-8")
    )
    for setting, fields in tomllib.loads(text).items():
        yield _entry(setting, dict(fields))


def _entry(name: str, fields: dict[str, Any]) -> Entry:
    lists = {key: tuple(fields.pop(key, ())) for key in ("values", "special", "evidence")}
    return Entry(name=name, risk=fields.pop("class"), **{**fields, **lists})
