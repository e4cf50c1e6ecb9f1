"""The answer of `pgdyno crash` as blocks, from its document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from markupsafe import Markup, escape

from pgdyno.analysis.estimate import Estimate
from pgdyno.analysis.losses import events
from pgdyno.quantities import count, format_bytes, percent, plain
from pgdyno.report import axis
from pgdyno.report.blocks import (
    Block,
    BlockAnswer,
    BlockSection,
    Drawing,
    LabelledLine,
    TableBlock,
    TableColumn,
    Tile,
    Tone,
    head_of_document,
)
from pgdyno.report.numbers import estimate_text, interval_text, value_text

Document = Mapping[str, Any]
_SHOWN = 5
_WIDTH, _ROW, _LEFT, _BOTTOM = 1100, 14, 190, 26
_TICK_GAP = 16
_CONTROL_COLUMNS = (
    TableColumn("settings"),
    TableColumn("must show", is_name=True),
    TableColumn("showed", is_name=True, is_wide=True),
    TableColumn("crashes"),
    TableColumn("holds", is_name=True),
)
_CHECK_COLUMNS = (
    *map(TableColumn, ("check", "good", "bad", "noted", "not possible")),
    TableColumn("seen", meaning="seen", is_words=True, is_wide=True),
)
_CRASH_COLUMNS = (
    TableColumn("crash"),
    TableColumn("during", is_name=True),
    *map(TableColumn, ("acknowledged", "lost")),
    TableColumn("lost", "s"),
    TableColumn("in doubt"),
    TableColumn("first answer", "s"),
    TableColumn("WAL replayed"),
    TableColumn("damage", meaning="damage", is_words=True, is_wide=True),
)


def crash_blocks(document: Document, _folder: object = None) -> BlockAnswer:
    """Return the answer; every form of it is drawn from these blocks."""
    return BlockAnswer(
        head_of_document("crash", document),
        tuple(_blocks(document)),
        method="The unit of all shares is the crash, because the commits of one crash depend on"
        " each other.",
    )


def _blocks(document: Document) -> Iterator[Block]:
    yield from _tiles(document)
    yield _controls(document)
    yield from _faults(document)
    crashes = [record for record in document["records"] if not record["arm"]]
    if crashes:
        yield LabelledLine("commits", _commits_words(document))
        yield LabelledLine("moments", _coverage_words(document))
        yield LabelledLine("checks", _checks_words(document))
        yield _checks(document, crashes)
        yield LabelledLine("recovery", _recovery_words(document))
        if gap := _gap_words(document):
            yield LabelledLine("clients", gap)
        yield _crashes(crashes)
    for doubt in document.get("doubts", ()):
        yield LabelledLine("doubt", doubt, "doubt")
    yield LabelledLine("not shown", document["not_shown"])
    settings = tuple(document["settings"].items())
    columns = (TableColumn("setting"), TableColumn("value", is_name=True, is_wide=True))
    lead = f"{document['target']}; seed {document['seed']}, {document['clients']} clients."
    yield BlockSection(
        "Facts", "facts", "Facts", lead, (TableBlock("Settings", columns, settings),)
    )


def _tiles(document: Document) -> Iterator[Tile]:
    crashes, lost = document["crashes"], document["crashes_with_loss"]
    share = _estimate_of(document["share_with_loss"])
    most = f"95 %: {percent(share.low or 0)} to {percent(share.high or 1)}" if share else ""
    yield Tile(
        "crashes with a loss", f"{lost} of {crashes}", range_text=most, quantity="crashes_with_loss"
    )
    for label, key, none in (
        ("lost at the end", "loss_seconds", "nothing"),
        ("recovery", "recovery_seconds", "none"),
    ):
        seconds = _estimate_of(document[key])
        yield Tile(
            label,
            value_text(seconds) if seconds else none,
            "s" * bool(seconds),
            range_text=interval_text(seconds) if seconds else "",
            quantity=f"{key}.value",
        )
    yield Tile("damaged data", f"{document['corrupt']} of {crashes}", quantity="corrupt")
    controls = document["controls"]
    holds = f"{sum(control['holds'] for control in controls)} of {len(controls)} hold"
    yield Tile("controls", holds if controls else "none", quantity="controls")


def _controls(document: Document) -> BlockSection:
    """Return the truth table: what each control must show, and what it showed."""
    controls = document["controls"]
    if not controls:
        lead = "No controls were run. It is not known whether this test sees losses."
        none = "none: without them it is not known whether this test sees losses"
        line = LabelledLine("controls", none)
        return BlockSection("Controls", "controls", "Controls", lead, (line,))
    lines, rows = [], []
    for control in controls:
        name, expected, seen = (control[key] for key in ("name", "expected", "seen"))
        holds = "as expected" if control["holds"] else f"but it must show: {expected}"
        lines.append(LabelledLine("controls", f"{name}: {seen}, {holds}"))
        holds = "yes" if control["holds"] else "no"
        rows.append((name, expected, seen, str(control["crashes"]), holds))
    tones: dict[tuple[int, int], Tone] = {
        (place, 4): "good" if row[4] == "yes" else "bad" for place, row in enumerate(rows)
    }
    table = TableBlock("Controls", _CONTROL_COLUMNS, tuple(rows), tones=tones)
    lead = (
        "Crashes whose outcome is known. If one of them does not show what it must, this test"
        " cannot see losses, and its answer says nothing."
    )
    return BlockSection("Controls", "controls", "Controls", lead, (*lines, table))


def _faults(document: Document) -> Iterator[LabelledLine]:
    """Yield a line for each fault of the disk."""
    for fault in document["faults"]:
        record = next(row for row in document["records"] if row["arm"] == fault["name"])
        notes = [row["seen"] for row in record["checks"] if row["name"] == "what the server did"]
        yield LabelledLine("faults", "; ".join([f"{fault['name']}: {fault['seen']}", *notes]))


def _checks(document: Document, crashes: Sequence[Document]) -> BlockSection:
    """Return each check with what it saw; the text has the damage alone."""
    checks = document["checks"]
    bad = [row for row in checks if row["bad"]]
    refused = [crash for crash in crashes if crash["recovery_error"]]
    lines = [
        LabelledLine("damage", f"crash {row['crash']}: {row['name']}: {row['seen']}")
        for row in bad[:_SHOWN]
    ]
    lines += [
        LabelledLine("no recovery", f"crash {crash['number']}: {crash['recovery_error']}")
        for crash in refused[:_SHOWN]
    ]
    verdicts = ("good", "bad", "note", "skipped")
    rows = [
        (row["name"], *(str(row.get(verdict, 0)) for verdict in verdicts), row["seen"])
        for row in checks
    ]
    tones: dict[tuple[int, int], Tone] = {
        (place, 2): "bad" for place, row in enumerate(checks) if row["bad"]
    }
    table = TableBlock("Checks", _CHECK_COLUMNS, tuple(rows), tones=tones)
    return BlockSection("Checks", "checks", "Checks", "", (*lines, table))


def _crashes(crashes: Sequence[Document]) -> BlockSection:
    """Return the time line of each crash, and its figures."""
    return BlockSection(
        "Crashes",
        "crashes",
        "Crashes",
        "Seconds since the crash: grey until the restart, a broad bar for redo, a circle at the"
        " first answer. A cross is a loss, damage, or no recovery.",
        (
            Drawing(_time_lines(crashes)),
            TableBlock(
                "Each crash",
                _CRASH_COLUMNS,
                tuple(map(_crash_row, crashes)),
                summary=f"{len(crashes)} crashes as a table",
            ),
        ),
    )


def _crash_row(crash: Document) -> tuple[str, ...]:
    answered_ns, wal = crash["answered_ns"], crash["wal_bytes"]
    bad = [f"{row['name']}: {row['seen']}" for row in crash["checks"] if row["verdict"] == "bad"]
    return (
        str(crash["number"]),
        crash["phase"] if crash["hit"] else f"{crash['phase']} (between two)",
        count(crash["acknowledged"]),
        count(crash["lost"]),
        plain(crash["lost_ns"] / 1e9),
        str(crash["in_doubt"]),
        plain(answered_ns / 1e9) if answered_ns else "none",
        "none" if wal is None else count(wal),
        " ".join([crash["recovery_error"], "; ".join(bad)]).strip(),
    )


def _commits_words(document: Document) -> str:
    """Return how many commits were acknowledged, lost and in doubt."""
    crashes = events(document["kind"], document["crashes"])
    words = (
        f"{document['acknowledged']:,} acknowledged in {crashes}, {document['lost']:,} lost; "
        f"{document['in_doubt']:,} in doubt, of which {document['in_doubt_committed']:,} happened"
    )
    documented_s = document["loss_seconds_documented"]
    if document["lost"] and documented_s is not None:
        words += f"; 3 x wal_writer_delay is {documented_s:.2f} s"
    return words


def _coverage_words(document: Document) -> str:
    """Return how many crashes each phase had, and how many hit its work."""
    parts = []
    for row in document["coverage"]:
        part = f"{row['phase']} {row['crashes']}"
        if row["in_progress"] < row["crashes"]:
            part += f" ({row['in_progress']} in progress)"
        parts.append(part)
    return ", ".join(parts)


def _checks_words(document: Document) -> str:
    """Return how many checks there were and how many failed."""
    rows = document["checks"]
    bad = [row["name"] for row in rows if row["bad"]]
    skipped = [row["name"] for row in rows if row.get("skipped")]
    words = f"{len(rows)} after each crash: "
    words += f"{', '.join(bad)} failed" if bad else "all hold"
    return words + (f"; not possible: {', '.join(skipped)}" if skipped else "")


def _recovery_words(document: Document) -> str:
    """Return how long recoveries took, and what they predict for max_wal_size."""
    seconds = _estimate_of(document["recovery_seconds"])
    if seconds is None:
        return "no crash was recovered"
    words = estimate_text(seconds, with_unit=True)
    rate, at_most = (
        _estimate_of(document["recovery_seconds_per_gb"]),
        _estimate_of(document["recovery_seconds_at_max_wal_size"]),
    )
    if rate is None or at_most is None:
        wal = document["wal_bytes_max"]
        seen = f" (at most {format_bytes(wal)} here)" if wal is not None else ""
        return f"{words}; these crashes do not show how it grows with the WAL to replay{seen}"
    size = document["settings"]["max_wal_size"]
    slope = estimate_text(rate.scaled(1, "s"), with_unit=True)
    return (
        f"{words}; {slope} for each GB of WAL since the checkpoint: "
        f"at max_wal_size = {size} expect {estimate_text(at_most, with_unit=True)}"
    )


def _gap_words(document: Document) -> str:
    """Return how long clients waited in a failover; "" for other kinds."""
    gap = _estimate_of(document["gap_seconds"])
    if gap is None:
        return ""
    most_s = document["gap_seconds_max"]
    mean = estimate_text(gap, with_unit=True)
    return f"longest gap of a client, on average {mean}, at most {most_s:.2f} s"


def _estimate_of(document: Mapping[str, Any] | None) -> Estimate | None:
    """Return an estimate from its JSON object."""
    return None if document is None else Estimate(**document)


def _time_lines(crashes: Sequence[Document]) -> Markup:
    """Return one line a crash: from the crash to the restart, redo, and the first answer (dot)."""
    ends = [_seconds(crash["answered_ns"]) or _seconds(crash["restart_ns"]) for crash in crashes]
    height = len(crashes) * _ROW + _BOTTOM
    x = axis.linear(0, max(ends) or 1.0, start_px=_LEFT, end_px=_WIDTH - 20)
    parts = [
        f'<path class="grid" d="M{x.at(value):.1f} 0V{height - _BOTTOM}"/>'
        f'<text class="tick" x="{x.at(value):.1f}" y="{height - _BOTTOM + _TICK_GAP}"'
        f' text-anchor="middle">{label}</text>'
        for value, label in x.ticks
    ]
    for place, crash in enumerate(crashes):
        parts += _time_line(crash, place * _ROW + _ROW / 2, x)
    return Markup(
        f'<svg class="plot lanes" viewBox="0 0 {_WIDTH} {height}" width="100%" role="img"'
        f' aria-label="time line of each crash, in seconds">{"".join(parts)}</svg>'
    )


def _time_line(crash: Document, y: float, x: axis.Axis) -> Iterator[str]:
    restart, answered = _seconds(crash["restart_ns"]), crash["answered_ns"]
    label = f"{crash['number']}  {crash['phase']}"
    place = f'x="{_LEFT - 12}" y="{y + 4}" text-anchor="end"'
    yield f'<text class="tick" {place}>{escape(label)}</text>'
    yield f'<path class="axis" d="M{x.at(0):.1f} {y}H{x.at(restart):.1f}"/>'
    if answered is None:
        title = f"crash {crash['number']}: no recovery"
        at = x.at(restart)
        yield (
            f'<g class="lock"><title>{title}</title><path class="stroke" '
            f'd="M{at - 4:.1f} {y - 4}l8 8m0 -8l-8 8"/></g>'
        )
        return
    end = x.at(_seconds(answered))
    yield f'<g class="cpu"><path class="stroke" d="M{x.at(restart):.1f} {y}H{end:.1f}"/></g>'
    if crash["redo_began_ns"] is not None and crash["redo_ended_ns"] is not None:
        begin, over = x.at(_seconds(crash["redo_began_ns"])), x.at(_seconds(crash["redo_ended_ns"]))
        yield (
            f'<g class="io"><rect class="fill" x="{begin:.1f}" y="{y - 3}" height="6"'
            f' width="{max(over - begin, 1):.1f}"/></g>'
        )
    is_bad = crash["is_corrupt"] or crash["lost"]
    title = f"crash {crash['number']}: first answer after {_seconds(answered):.2f} s"
    title += f", {crash['lost']:,} commits lost" if crash["lost"] else ""
    title += ", damaged" if crash["is_corrupt"] else ""
    # The form says it without colour: a cross is a loss, a circle means nothing lost.
    mark = (
        f'<path class="stroke" d="M{end - 4:.1f} {y - 4}l8 8m0 -8l-8 8"/>'
        if is_bad
        else f'<circle class="marker" cx="{end:.1f}" cy="{y}" r="3.5"/>'
    )
    yield f'<g class="{"lock" if is_bad else "cpu"}"><title>{title}</title>{mark}</g>'


def _seconds(nanoseconds: int | None) -> float:
    return (nanoseconds or 0) / 1e9
