"""What PostgreSQL says about each of its settings, from committed snapshots of pg_settings.

`postgres -C` accepts values that the server then refuses, and it needs the server; a spec is
checked before anything starts. `scripts/settings-snapshot` makes the snapshots.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files
from typing import Literal

MAJORS = (14, 15, 16, 17, 18)
BYTES_OF_UNIT = {"B": 1, "kB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
MICROSECONDS_OF_UNIT = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "min": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}
_UNIT = re.compile(r"(\d*)([A-Za-z]+)")
# Names that the server still takes for newer ones (map_old_guc_names).
_OLD_NAMES = {
    "sort_mem": ("work_mem", MAJORS),
    "vacuum_mem": ("maintenance_work_mem", MAJORS),
    "force_parallel_mode": ("debug_parallel_query", (16,)),
    "ssl_ecdh_curve": ("ssl_groups", (18,)),
}
Needs = Literal["session", "reload", "restart", "new cluster"]
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


@dataclass(frozen=True, slots=True)
class SettingRule:
    """One row of pg_settings: the allowed values of a setting, and what a change needs.

    `built_in`: the value without any configuration, in units of `unit`; "" for texts.
    """

    name: str
    vartype: str
    context: str
    unit: str
    low: str
    high: str
    values: tuple[str, ...]
    built_in: str

    @property
    def needs(self) -> Needs:
        """Return what a change needs before it has effect, such as a restart."""
        return _NEEDS[self.context]

    @property
    def is_number(self) -> bool:
        """Return whether the value is a number, perhaps with a unit."""
        return self.vartype in ("integer", "real")


@lru_cache(maxsize=len(MAJORS))
def snapshot(major: int) -> dict[str, SettingRule]:
    """Return the rules of one major version by lower-case name. Args: major, one of `MAJORS`."""
    text = files("pgdyno.settings").joinpath(f"snapshots/{major}.json").read_text(encoding="utf-8")
    rules = (
        SettingRule(name, vartype, context, unit, low, high, tuple(values), built_in)
        for name, vartype, context, unit, low, high, values, built_in in json.loads(text)[
            "settings"
        ]
    )
    return {rule.name.lower(): rule for rule in rules}


def current_name(name: str, major: int) -> str:
    """Return the name of a setting in lower case; of an old name, the one that it stands for."""
    current, majors = _OLD_NAMES.get(name.lower(), (name.lower(), ()))
    return current if major in majors and name.lower() not in snapshot(major) else name.lower()


def rule_of(name: str, major: int) -> SettingRule | None:
    """Return type, unit and limits of a setting; None if this version does not have it."""
    nearest_major = min(MAJORS, key=lambda known: abs(known - major))
    return snapshot(nearest_major).get(name.lower())


def as_initdb_leaves(rule: SettingRule) -> SettingRule:
    """Return the rule with the value that a new server has, where another one is built in.

    initdb writes 128 MB of shared_buffers, and the server raises max_stack_depth to 2 MB.
    """
    new = {"shared_buffers": "16384", "max_stack_depth": "2048"}.get(rule.name)
    return rule if new is None else replace(rule, built_in=new)


def nearest(name: str, names: list[str]) -> str:
    """Return the known name most similar to `name`, or "" if no name is similar."""
    return next(iter(difflib.get_close_matches(name, names, n=1, cutoff=0.6)), "")


def unit_amount(unit: str) -> tuple[float, Literal["bytes", "ms", ""]]:
    """Return the bytes or ms of one unit of a setting, such as "8kB"; (1, "") without a unit."""
    table, size = units_of(unit)
    if table is BYTES_OF_UNIT:
        return size, "bytes"
    return (size / 1000, "ms") if table else (1, "")


def units_of(unit: str) -> tuple[dict[str, int], int]:
    """Return the units that a setting accepts, and its default unit in the smallest of them."""
    match = _UNIT.fullmatch(unit)
    for table in (BYTES_OF_UNIT, MICROSECONDS_OF_UNIT):
        if match is not None and match[2] in table:
            return table, int(match[1] or 1) * table[match[2]]
    return {}, 1
