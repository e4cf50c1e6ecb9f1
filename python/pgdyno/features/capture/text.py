"""A capture as text: everything that leaves the server, by class; and how much is reproduced."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from pgdyno.engine.distribution import Distribution
from pgdyno.features.capture.coverage import Coverage
from pgdyno.features.capture.model import Capture, Template
from pgdyno.features.capture.observed import Recording
from pgdyno.quantities import count, counted, format_bytes, milliseconds, percent, seconds
from pgdyno.report.text_page import TextPage, joined

# How many items of a class are shown, without --all.
_SHOWN = 3
_VALUES_SHOWN = 4
# Of a list with thousands of constants, each is a parameter.
_PARAMETERS_SHOWN = 20
_TEXT_SHOWN = 160


def show_text(capture: Capture, path: Path, *, shows_all: bool, width: int) -> str:
    """Return every class of content of a capture, with its size and examples or all items."""
    return joined(_Paragraphs(capture, shows_all=shows_all, page=TextPage(width)).lines(path))


def coverage_text(coverage: Coverage, *, width: int) -> str:
    """Return how much of the load is reproduced, and each reason with its share."""
    return joined(_coverage_lines(coverage, TextPage(width)))


def summary_text(capture: Capture, coverage: Coverage, path: Path, *, width: int) -> str:
    """Return what a capture that has just ended has."""
    page, recording = TextPage(width), capture.recording
    rows = [
        *page.row("capture", f"{path}, {format_bytes(path.stat().st_size)}; {_values(capture)}"),
        *page.row("load", _load(capture)),
        *(page.row("recorded", _recorded(recording)) if recording is not None else ()),
        *page.row("database", _database(capture)),
        *_coverage_lines(coverage, page),
        *_listed(page, "note", capture.notes, limit=None),
        *page.row("next", f"pgdyno capture show {path}"),
    ]
    return joined(rows)


def _coverage_lines(coverage: Coverage, page: TextPage) -> Iterator[str]:
    yield from page.row("coverage", coverage.sentence)
    for item in coverage.left_out:
        share = counted(item.calls, "call")
        if item.calls_ratio is not None:
            share = f"{percent(item.calls_ratio)} of calls"
        if item.time_ratio is not None:
            share += f", {percent(item.time_ratio)} of time"
        yield from page.row("not covered", f"{item.words}: {share}")
        for text in item.examples:
            yield from page.wrapped(_short(text), f"{'':14}", f"{'':16}")


def _values(capture: Capture) -> str:
    return "WITH VALUES OF ROWS" if capture.header.keeps_values else "no values of rows"


def _recorded(recording: Recording) -> str:
    """Return what the file of the transactions has."""
    words = (
        f"EVERY VALUE of {counted(recording.transactions, 'transaction')} of"
        f" {counted(recording.sessions, 'session')} is in {recording.file}; bench repeats them as"
        " they were"
    )
    if recording.sessions_at_once:
        count = recording.sessions_at_once
        words += f", with -c {count} each session as well: at most {count} were open at once"
    if recording.keys:
        words += f"; {counted(recording.keys, 'key')} follow the keys that the load makes"
    if recording.left_out_count:
        left = counted(recording.left_out_count, "statement")
        words += f"; left out: {left}, such as COPY or one with a value that the log lacks"
    return words


def _load(capture: Capture) -> str:
    header, profile = capture.header, capture.profile
    transactions = profile.commits + profile.rollbacks
    rate = ""
    if transactions and not header.is_partial:
        tps = transactions / profile.seconds
        rate = f", {tps:,.1f}" if tps >= 1 else f", {tps:.2g}"
        rate += " transactions a second"
    return (
        f"{seconds(header.seconds)} of {'/'.join(header.sources)}{rate}, "
        f"{counted(len(capture.templates), 'template')}, "
        f"{counted(len(capture.statements), 'statement')}"
    )


def _database(capture: Capture) -> str:
    size = sum(t.bytes + t.index_bytes + t.toast_bytes for t in capture.tables)
    return f"{counted(len(capture.tables), 'table')}, {format_bytes(size)} with indexes"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _TEXT_SHOWN else line[:_TEXT_SHOWN] + " ..."


def _listed(
    page: TextPage, label: str, items: Sequence[str], *, limit: int | None
) -> Iterator[str]:
    for number, item in enumerate(items if limit is None else items[:limit]):
        yield from page.row(label if not number else "", item)
    if limit is not None and len(items) > limit:
        yield from page.row("", f"and {count(len(items) - limit)} more (--all)")


class _Paragraphs:
    """The lines of `capture show`: one paragraph for each class."""

    def __init__(self, capture: Capture, *, shows_all: bool, page: TextPage) -> None:
        self._capture = capture
        self._page = page
        self._limit = None if shows_all else _SHOWN

    def lines(self, path: Path) -> Iterator[str]:
        """Yield everything, the most important first."""
        capture, header = self._capture, self._capture.header
        row = self._page.row
        yield from row("file", f"{path}, {format_bytes(path.stat().st_size)}, {header.format}")
        yield from row("values", _values_words(capture))
        if capture.recording is not None:
            yield from row("recorded", _recorded(capture.recording))
        yield from row(
            "source",
            f"database {header.database}, PostgreSQL {header.server_version_num // 10_000},"
            f" {header.encoding}, {header.collation}; {header.taken_at}; {header.made_by}",
        )
        yield from row("load", _load(capture))
        yield ""
        yield from self._paragraph(
            "kept values", "columns whose values stay, because they tell nothing", capture.kept
        )
        yield from self._paragraph("settings", "settings of the server", self._settings())
        yield from self._paragraph("schema", self._kinds(), self._objects())
        yield from self._paragraph("sizes", "rows and bytes of tables", self._sizes())
        yield from self._paragraph(
            "columns", f"distribution of each column; {_stand_in_words(capture)}", self._columns()
        )
        yield from self._paragraph(
            "statements", "texts, with $1 in place of constants; counters", self._statements()
        )
        yield from self._paragraph("templates", "kinds of transactions", self._templates())
        yield from self._paragraph("sessions", "roles, and their settings", self._sessions())
        yield from self._paragraph("arrivals", "numbers for each second", self._arrivals())
        yield from self._paragraph("profile", "totals, shares of waits", self._profile())
        yield from self._paragraph(
            "left out",
            "first words of statements that are not reproduced",
            [f"{item.reason}: {_short(item.text) or '?'}" for item in capture.left_out],
        )
        yield from self._paragraph("notes", "further remarks", capture.notes)

    def _paragraph(self, label: str, meaning: str, items: Sequence[str]) -> Iterator[str]:
        if not items:
            return
        yield from self._page.row(label, f"{count(len(items))}: {meaning}")
        shown = items if self._limit is None else items[: self._limit]
        for item in shown:
            for number, line in enumerate(item.split("\n")):
                first = f"{'':14}{'  ' if number else ''}"
                yield from self._page.wrapped(line, first, f"{'':16}")
        if len(shown) < len(items):
            yield f"{'':14}and {count(len(items) - len(shown))} more (--all)"
        yield ""

    def _settings(self) -> list[str]:
        return [f"{name} = {value}" for name, value in self._capture.settings.items()]

    def _kinds(self) -> str:
        kinds = Counter(item.kind.replace("_", " ") for item in self._capture.objects)
        listed = ", ".join(counted(number, kind) for kind, number in kinds.most_common())
        return f"definitions as SQL, with their constants: {listed}"

    def _objects(self) -> list[str]:
        return [
            item.sql if self._limit is None else _short(item.sql) for item in self._capture.objects
        ]

    def _sizes(self) -> list[str]:
        return [
            f"{t.name}: {count(round(t.rows))} rows, {format_bytes(t.bytes)},"
            f" indexes {format_bytes(t.index_bytes)}"
            for t in sorted(self._capture.tables, key=lambda t: -t.bytes)
        ]

    def _columns(self) -> list[str]:
        return [
            f"{c.table}.{c.column} {c.type}: {distribution_text(c.distribution)}"
            for c in self._capture.columns
        ]

    def _statements(self) -> list[str]:
        ordered = sorted(self._capture.statements, key=lambda s: -s.counters.time_ms)
        return [
            f"{count(s.counters.calls)} calls, {milliseconds(s.counters.time_ms)}, role {s.role}:"
            f" {s.text if self._limit is None else _short(s.text)}"
            for s in ordered
        ]

    def _templates(self) -> list[str]:
        texts = {s.id: _short(s.text) for s in self._capture.statements}
        return [template_text(template, texts) for template in self._capture.templates]

    def _sessions(self) -> list[str]:
        return [
            f"{s.role}: {s.count:g} sessions"
            + "".join(f", {name} = {value}" for name, value in s.settings.items())
            for s in self._capture.sessions
        ]

    def _arrivals(self) -> list[str]:
        arrivals = self._capture.arrivals
        if not arrivals.transactions:
            return []
        return [
            f"{len(arrivals.transactions)} seconds: {min(arrivals.transactions):g} to"
            f" {max(arrivals.transactions):g} transactions"
        ]

    def _profile(self) -> list[str]:
        profile = self._capture.profile
        waits = [f"{name} {percent(share)}" for name, share in profile.waits.items()]
        return [
            f"{count(profile.total.calls)} calls, {count(profile.total.rows)} rows,"
            f" WAL {format_bytes(profile.total.wal_bytes)}; {', '.join(waits) or 'no waits seen'}"
        ]


def _values_words(capture: Capture) -> str:
    if capture.header.keeps_values:
        return "WITH VALUES OF ROWS: most common values and bounds of every column are in the file"
    return (
        "no value of a row is in the file, except in the columns that are listed below. Stand-ins"
        " keep length, order and frequency; their key was thrown away. Definitions keep their"
        " constants, such as bounds of partitions, defaults, CHECK constraints and bodies of"
        " functions: read them before the file leaves"
    )


def _stand_in_words(capture: Capture) -> str:
    return "values of rows" if capture.header.keeps_values else "all values are stand-ins"


def distribution_text(shape: Distribution) -> str:
    """Return a distribution in one line, with its first values."""
    parts = [shape.kind, f"{shape.distinct:,.0f} distinct"]
    if shape.null_fraction:
        parts.append(f"{percent(shape.null_fraction)} NULL")
    if shape.is_dense:
        return ", ".join([*parts, f"every key from {shape.bounds[0]} to {shape.bounds[-1]}"])
    if shape.hot:
        hot = [f"{_word(h.value)} {percent(h.fraction)}" for h in shape.hot[:_VALUES_SHOWN]]
        parts.append(f"most common {', '.join(hot)}")
    if shape.bounds:
        parts.append(f"from {_word(shape.bounds[0])} to {_word(shape.bounds[-1])}")
    if shape.element is not None:
        parts.append(f"elements: {distribution_text(shape.element)}")
    return ", ".join(parts)


def _word(value: str) -> str:
    return value if len(value) <= 24 else value[:24] + "..."


def template_text(template: Template, texts: dict[str, str]) -> str:
    """Return a template: its name, its rate, its steps with the sources of their parameters."""
    lines = [f"{template.name}: {template.rate_tps:.3g} a second"]
    for step in template.steps:
        named = [f"${n} {s.origin}" for n, s in enumerate(step.parameters, 1)]
        rest = len(named) - _PARAMETERS_SHOWN
        more = [f"and {rest} more"] if rest > 0 else []
        sources = ", ".join(named[:_PARAMETERS_SHOWN] + more)
        turns = f" x{step.repeat.mean:.3g}" if step.repeat.mean != 1 else ""
        lines.append(f"{texts.get(step.statement, '?')}{turns}{f' [{sources}]' if sources else ''}")
    return "\n".join(lines)
