"""Settings that contradict each other: the server refuses to start, or one has no effect.

The rules are in `contradictions.toml`. Each is about values alone, never about a machine.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

from pgdyno.features.doctor.finding import Verdict
from pgdyno.features.doctor.server_seen import ServerSeen
from pgdyno.quantities import format_bytes
from pgdyno.settings.formula import FactMissing, Value, evaluate
from pgdyno.settings.rule import unit_amount

_PLACE = re.compile(r"\{([^{}:]+)(:bytes)?\}")


@dataclass(frozen=True, slots=True)
class Attention:
    """One reason to look at a setting; `mend` is the next step."""

    setting: str
    verdict: Verdict
    seen: str
    mend: str


def contradictions(server: ServerSeen) -> Iterator[Attention]:
    """Yield every contradiction; rules about settings that are not known are left out."""
    for rule in _rules():
        values = _Values(server, rule)
        try:
            if evaluate(rule["when"], values):
                texts = (values.filled(rule[text]) for text in ("seen", "mend"))
                yield Attention(rule["setting"], rule.get("verdict", "warn"), *texts)
        except FactMissing:
            continue


@lru_cache(maxsize=1)
def _rules() -> list[dict[str, Any]]:
    text = files("pgdyno.features.tune").joinpath("contradictions.toml").read_text("utf-8")
    rules: list[dict[str, Any]] = tomllib.loads(text)["rule"]
    return rules


class _Values(Mapping[str, Value]):
    """The names in the formulas of a rule; None for a setting that the server does not have."""

    def __init__(self, server: ServerSeen, rule: Mapping[str, Any]) -> None:
        self._settings, self._rule = server.settings, rule

    def __getitem__(self, name: str) -> Value:
        if name in self._rule.get("let", ()):
            return evaluate(self._rule["let"][name], self)
        known = self._settings.get(name)
        if known is None:
            otherwise: Value = self._rule.get("otherwise", {}).get(name)
            return otherwise
        is_number = known.rule.is_number
        return float(known.text) * unit_amount(known.rule.unit)[0] if is_number else known.text

    def __contains__(self, name: object) -> bool:
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(self._settings)

    def __len__(self) -> int:
        return len(self._settings)

    def filled(self, text: str) -> str:
        """Return a text with the values of the formulas in braces."""
        return _PLACE.sub(self._words, text)

    def _words(self, place: re.Match[str]) -> str:
        value, known = evaluate(place[1], self), self._settings.get(place[1])
        unit = unit_amount(known.rule.unit)[1] if known is not None else ""
        if not isinstance(value, int | float):
            return str(value)
        if place[2] or unit == "bytes":
            return format_bytes(int(value))
        return f"{value:g} ms" if unit == "ms" else f"{value:g}"
