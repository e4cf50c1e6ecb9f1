"""What a call of each statement did on average since the server began to count."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from pgdyno.features.capture.observed import Counters, Statement
from pgdyno.features.capture.reading.rows_of_values import ALIAS

_TYPE = (
    r"(?:(?:timestamp|time)(?:\(\$1\))? with(?:out)? time zone|double precision|character varying"
    r"|[a-z_0-9.]+)"
)
_PARAMETER = rf"\$\d+(?:::{_TYPE}(?:\[\])?)*"
_LIST = re.compile(rf" ?(?:=any|\bin)\({_PARAMETER}(?:,{_PARAMETER})*\)")
_NOT_LIST = re.compile(rf" ?(?:<>all|\bnot in)\({_PARAMETER}(?:,{_PARAMETER})*\)")
_EXTRACT = re.compile(r"\bextract\([a-z]+ from\b")
# The server counts them as constants, except in tests such as IS NULL. A log has them.
_WORDS = re.compile(r"(?<!is )(?<!not )\b(?:true|false|null)\b")
_TYPED = re.compile(r"\b(?:interval|date|time|timestamp|timestamptz) ?\$")
# A log keeps the name of a setting. The server keeps a constant if ORDER BY or GROUP BY repeats a
# column of the result.
_CONSTANT = re.compile(r"(?<![\w$.\"])(?:'(?:[^']|'')*'|\d+(?:\.\d+)?)(?![\w\"])")
_MARK = re.compile(r" ?([(),=<>+*/|:\[\]-]) ?")
_ROWS = re.compile(r"(\bvalues)(\((?:[^()]|\(\))*\))(?:,\((?:[^()]|\(\))*\))+")
# Many rows as `rows_of_values.py` writes them, without the columns that have their defaults.
_FOLDED = re.compile(rf"\bselect ([^;]*?) ?from unnest\([^;()]*\)as {ALIAS}\([^()]*\)")
_FOLDED_ITEM = re.compile(r"\bc\d+\b")
_DEFAULTS = re.compile(r"^(insert into [^(]+)\(([^()]*)\)(.*?values)\(((?:[^()]|\(\))*)\)")
_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.S)
_SCALED = tuple(name for name in Counters.model_fields if name not in ("calls", "time_ms"))


def form_of(text: str, *, is_of_any_length: bool = True) -> str:
    """Return a text that the log and pg_stat_statements share for one statement.

    Comments, spaces, types of parameters and constants do not count. Nor does a length, if it
    may be any: then a list is one parameter, and several rows of VALUES are one row.
    """
    line = _CONSTANT.sub("$1", " ".join(_COMMENT.sub(" ", text).lower().split()))
    line = _MARK.sub(r"\1", line.replace("pg_catalog.", ""))
    line = _EXTRACT.sub("extract($1 from", line)
    if is_of_any_length:
        line = _LIST.sub("=any($)", _NOT_LIST.sub("<>all($)", line))
    line = _TYPED.sub("$", re.sub(_PARAMETER, "$", _WORDS.sub("$1", line)))
    if not is_of_any_length:
        return line
    return _DEFAULTS.sub(_without_defaults, _FOLDED.sub(_as_values, _ROWS.sub(r"\1\2", line)))


def _as_values(match: re.Match[str]) -> str:
    return f"values({_FOLDED_ITEM.sub('$', match[1])})"


def _without_defaults(match: re.Match[str]) -> str:
    """Return an INSERT without the columns that have DEFAULT."""
    names, items = match[2].split(","), match[4].split(",")
    if len(names) != len(items):
        return match[0]
    kept = [(n, i) for n, i in zip(names, items, strict=True) if i != "default"]
    listed = ",".join(name for name, _ in kept)
    return f"{match[1]}({listed}){match[3]}({','.join(item for _, item in kept)})"


def _forms(text: str) -> tuple[tuple[bool, str], ...]:
    """Return the forms of a text, the one that says most first."""
    return tuple((wide, form_of(text, is_of_any_length=wide)) for wide in (False, True))


class MeansOfStatements:
    """Counters since the last reset, by the forms of a text.

    An INSERT of four rows has its own counters, if the server counts it apart from that of one row.
    """

    def __init__(self, counted: Iterable[tuple[str, Counters]]) -> None:
        self._totals: dict[tuple[bool, str], Counters] = {}
        for text, counters in counted:
            for form in _forms(text):
                before = self._totals.get(form)
                self._totals[form] = Counters.total([before, counters]) if before else counters

    def of(self, text: str, own: Counters) -> Counters:
        """Return the counters of some calls: rows, blocks and WAL are those of as many mean calls.

        Calls and time stay; without counters of the statement everything does.
        """
        total = self._total(text)
        if total is None or not total.calls or not own.calls:
            return own
        ratio = own.calls / total.calls
        scaled: Mapping[str, int | float] = {
            name: round(getattr(total, name) * ratio) for name in _SCALED
        }
        return own.model_copy(update=dict(scaled))

    def counted(self, statement: Statement) -> Statement:
        """Return a statement of a log with rows and blocks, if the server counted any call."""
        text, own = statement.text, statement.counters
        known = {"counters": self.of(text, own), "is_counted": self._total(text) is not None}
        return statement.model_copy(update=known)

    def with_ratios(self, statements: Sequence[Statement]) -> list[Statement]:
        """Return the statements of a log with the share of their calls that the server counted.

        It may be above 1: then the mean is of earlier calls, too, when tables were smaller. The
        work of an INSERT of rows does not change.
        """
        logged: Counter[int] = Counter()
        totals = [self._total(own.text) if own.is_counted else None for own in statements]
        for own, total in zip(statements, totals, strict=True):
            logged[id(total)] += own.counters.calls
        made = []
        for own, total in zip(statements, totals, strict=True):
            if total is not None and not _adds_rows(own):
                ratio = total.calls / max(logged[id(total)], 1)
                own = own.model_copy(update={"counted_ratio": round(ratio, 3)})
            made.append(own)
        return made

    def _total(self, text: str) -> Counters | None:
        exact, wide = _forms(text)
        return self._totals.get(exact) or self._totals.get(wide)


def _adds_rows(statement: Statement) -> bool:
    text = statement.text.lower()
    return statement.kind == "insert" and " values" in text and " conflict" not in text
