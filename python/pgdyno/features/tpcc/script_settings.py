"""What a script of HammerDB has set when it starts its load, whatever language it is written in.

A value that only HammerDB's host knows, such as a variable of the environment, is `Unknown`. It
stays unknown in everything that is computed from it, and it names its line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

CONNECTION = ("pg_host", "pg_port", "pg_sslmode")
_OUTPUT = ("showoutput", "logtotemp", "unique", "nobuff", "timestamps")
# Commands of HammerDB that change no setting of the load.
HARMLESS = frozenset(
    (
        *("buildschema", "checkschema", "deleteschema", "datagenrun", "dgset", "clearscript"),
        *("savescript", "distributescript", "giset", "jobs", "keepalive", "librarycheck", "print"),
        *("metset", "metstart", "metstatus", "metstop", "tcset", "tcstart", "tcstatus", "tcstop"),
        *("vucomplete", "vudestroy", "vustatus", "runtimer", "waittocomplete", "quit"),
        *("after", "close", "file", "flush", "open", "package", "puts", "update", "vwait"),
        *("os", "sys", "time"),
    )
)


@dataclass(frozen=True, slots=True)
class UndecidedValue:
    """A value that the text of the script does not decide. `why` ends a sentence."""

    line: int
    why: str


Value = str | UndecidedValue


@dataclass(frozen=True, slots=True)
class ScriptSetting:
    """One setting: its value, the words that gave it, and their line."""

    value: Value
    words: str
    line: int


@dataclass(frozen=True, slots=True)
class Remark:
    """A line of the script that has no effect here, and why."""

    line: int
    words: str
    why: str


class ScriptSettings:
    """Follows the commands of HammerDB that set something, and those that start a load."""

    def __init__(self) -> None:
        self._now: dict[str, ScriptSetting] = {}
        self._loaded: dict[str, ScriptSetting] | None = None
        self._created: ScriptSetting | None = None
        self._runs: list[dict[str, ScriptSetting]] = []
        self._creations: list[dict[str, ScriptSetting]] = []
        self._doubt: UndecidedValue | None = None
        # Of each function that is being followed: why it may have returned.
        self._returned: list[UndecidedValue | None] = []
        self.remarks: list[Remark] = []

    @contextmanager
    def doubtful(self, why: UndecidedValue) -> Iterator[None]:
        """Within it, commands may or may not be executed: what they change is unknown."""
        before, self._doubt = self._doubt, self._doubt or why
        yield
        self._doubt = before or (self._returned[-1] if self._returned else None)

    def may_return(self, why: UndecidedValue) -> None:
        """Note that the present function may have returned: what follows in it is doubtful.

        A script that may have ended is followed as if it went on, or else it starts no load.
        """
        if self._returned:
            self._returned[-1] = self._returned[-1] or why

    def result_of(self, follow: Callable[[], Value]) -> Value:
        """Return the result of a function: unknown if it may have returned before its end."""
        doubt = self._doubt
        self._returned.append(None)
        try:
            result = follow()
            return self._returned[-1] or result
        finally:
            self._returned.pop()
            self._doubt = doubt

    def doubted(self, before: Value | None, value: Value) -> Value:
        """Return the value that is known after `value` replaces `before`, if it does so."""
        return value if self._doubt is None or value == before else self._doubt

    def remark(self, line: int, words: str, why: str) -> None:
        """Keep a remark, once a line."""
        made = Remark(line, words, why)
        if made not in self.remarks:
            self.remarks.append(made)

    def command(self, line: int, name: str, words: Sequence[Value], raw: Sequence[str]) -> bool:
        """Carry out a command. Args: raw, the words as they are written.

        Returns: False if it is not a command of HammerDB.
        """
        if name in ("dbset", "diset", "vuset"):
            self._set(line, name, words, raw)
        elif name == "loadscript":
            self._loaded = dict(self._now)
        elif name == "vucreate":
            self._created = self._now.get("vu")
            self._creations.append(self._snapshot())
        elif name == "vurun":
            self._runs.append(self._snapshot())
        elif name == "vudestroy":
            self._created = None
        elif name == "customscript":
            self.remark(line, f"customscript {' '.join(raw)}", "pgdyno does not run other scripts.")
        elif name == "steprun":
            self.remark(line, name, "pgdyno does not start replicas step by step.")
        else:
            return name in HARMLESS
        return True

    @property
    def starts_a_load(self) -> bool:
        """Return False for a script that only builds or drops the tables."""
        return bool(self._runs or self._creations)

    def runs(self) -> list[Mapping[str, ScriptSetting]]:
        """Return the settings of each run, or those at the end if the script starts none."""
        return list(self._runs or self._creations) or [self._now]

    def _snapshot(self) -> dict[str, ScriptSetting]:
        """Return what holds for a run: the driver has the settings of `loadscript`."""
        made = dict(self._now if self._loaded is None else self._loaded)
        if users := self._created or self._now.get("vu"):
            made["vu"] = users
        return made

    def _set(self, line: int, name: str, words: Sequence[Value], raw: Sequence[str]) -> None:
        # A remark never shows a password.
        has_secret = any("pass" in word.lower() for word in raw)
        written = f"{name} {' '.join(raw[:-1] if has_secret else raw)}"
        if len(words) != (3 if name == "diset" else 2):
            return self.remark(line, written, "HammerDB refuses this number of words.")
        key, value = words[-2], words[-1]
        if isinstance(key, UndecidedValue):
            return self.remark(line, written, f"line {key.line}: {key.why}.")
        if name == "vuset":
            if key in _OUTPUT:
                return None
            if key != "vu":
                return self.remark(line, written, "pgdyno has no such setting of virtual users.")
            if value == "vcpu":
                value = UndecidedValue(line, "it is the number of CPUs of HammerDB's host")
        usual = "connection" if key in CONNECTION else "tpcc"
        if name == "diset" and key.startswith("pg_") and words[0] not in (usual, "tpch"):
            return self.remark(line, written, f"HammerDB refuses it: {key} is in {usual}.")
        before = self._now.get(key)
        made = self.doubted(None if before is None else before.value, value)
        if self._doubt is None or before is None or made != before.value:
            self._now[key] = ScriptSetting(made, raw[-1], line)
        return None
