"""`pgdyno init FILE`: what only a capture needs, and how alike the copy is, as text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from pgdyno.cli import output, wanted
from pgdyno.cli.init_kind import InitKind
from pgdyno.cli.option_table import table
from pgdyno.quantities import counted, format_bytes, percent

if wanted.body(__name__):
    from pgdyno.features.capture.copy_likeness import CopyLikeness, likeness_of
    from pgdyno.features.capture.import_statistics import import_statistics, refuse_older
    from pgdyno.features.capture.likeness import Quantity
    from pgdyno.features.capture.on_server import foreign_in_load, refuse_foreign
    from pgdyno.features.capture.sent import not_sent_words
    from pgdyno.features.capture.tables import rebuilt_of
    from pgdyno.measure.loading import Loading
    from pgdyno.server.connect import Connection, connect
    from pgdyno.server.target import Target
    from pgdyno.spec.dataset import CaptureDataset, CaptureLoading

_HELP = """Make the tables of a capture, filled from their statistics.

    The tables have the same columns, keys and indexes as the captured tables. The values of their
    rows have similar distributions. No value comes from the original, unless the capture keeps its
    values. Then pgdyno compares the statistics of the copy with those of the original.

    Tables with pgdyno's mark are replaced, other tables are never touched. After an interruption,
    the same command continues where the load stopped.
    """
_WORDS = {
    "null share": "NULL",
    "distinct": "different values",
    "most common": "the most common value",
    "distance": "distance of the distributions",
    "correlation": "correlation with the order of the rows",
    "bytes": "size",
}
# The whole answer fits a screen.
_SHOWN_MAX, _NOTES_MAX = 8, 8


def _options() -> list[Callable[[Any], Any]]:
    """Return the decorators of the options that only a capture has."""
    return [
        click.argument("file", metavar="FILE"),
        table("""
            Scratch server
            --scratch  Create a scratch server for the tables.
            --pg-version MAJOR  Major version of the scratch server, 14 to 18.
            --keep  Keep the loaded cluster for the next command.
        """),
    ]


def _is_capture(argument: str) -> bool:
    """Return whether an argument names a file that `pgdyno capture` made."""
    if argument.startswith("-"):
        return False
    path = Path(argument)
    if not path.is_file():
        return argument.endswith(".capture")
    from pgdyno.features.capture.file import FIRST_BYTES

    with path.open("rb") as stream:
        return stream.read(len(FIRST_BYTES)) == FIRST_BYTES


def _refuse_unfit(target: Target, dataset: CaptureDataset, how: Loading) -> None:
    """Raise RefusedError, before anything is made, if the server lacks what the copy needs."""
    with connect(target, verb="init") as connection:
        if _imports(how):
            refuse_older(connection)
        # A load that goes on was checked before it began.
        if not how.resume:
            capture = rebuilt_of(dataset).capture
            refuse_foreign(connection, capture, file=dataset.file)
            texts = {own.id: own.text for own in capture.statements}
            for name, what in foreign_in_load(connection, capture).items():
                output.note(not_sent_words(texts[name], what))


def _finished(connection: Connection, dataset: CaptureDataset, how: Loading) -> CopyLikeness:
    """Compare the copy with the original, and import the statistics if asked."""
    alike = likeness_of(connection, dataset)
    if _imports(how):
        count = import_statistics(connection, rebuilt_of(dataset))
        output.note(f"the statistics of {counted(count, 'column')} are those of the original")
    return alike


def _imports(how: Loading) -> bool:
    return isinstance(how.loading, CaptureLoading) and how.loading.import_statistics


def _likeness_text(likeness: CopyLikeness) -> str:
    """Return a line for each kind, then what differs most, and what the copy lacks."""
    lines = list(_totals(likeness))
    short = [item for item in likeness.compared if item.short]
    short.sort(key=lambda item: -len(item.short))
    if short:
        width = max(len(item.name) for item in short[:_SHOWN_MAX])
        lines.append("")
        for item in short[:_SHOWN_MAX]:
            seen = "; ".join(_shown(quantity) for quantity in item.short)
            note = f" ({item.note})" if item.note else ""
            lines.append(f"  {item.name:<{width}}  {seen}{note}")
        if len(short) > _SHOWN_MAX:
            lines.append(f"  and {len(short) - _SHOWN_MAX} more; --json has all of them")
    lines += [f"  {note}" for note in likeness.notes[:_NOTES_MAX]]
    if len(likeness.notes) > _NOTES_MAX:
        lines.append(f"  and {len(likeness.notes) - _NOTES_MAX} more; --json has all of them")
    return "\n".join(lines)


def _totals(likeness: CopyLikeness) -> Iterator[str]:
    for kind, plural in (("column", "columns"), ("table", "tables"), ("index", "indexes")):
        items = [item for item in likeness.compared if item.kind == kind]
        alike = sum(1 for item in items if not item.short)
        if items:
            yield f"alike  {alike} of {len(items)} {plural}"


def _shown(quantity: Quantity) -> str:
    if quantity.name == "unique":
        return "not unique, the original is"
    word = _WORDS[quantity.name]
    if quantity.name == "distance":
        return f"{word} {_number(quantity, quantity.copy)}, limit {quantity.limit:.2g}"
    return (
        f"{word} {_number(quantity, quantity.copy)}, original {_number(quantity, quantity.source)}"
    )


def _number(quantity: Quantity, value: float | None) -> str:
    if value is None:
        return "not known"
    if quantity.name == "bytes":
        return format_bytes(round(value))
    if quantity.name in ("null share", "most common"):
        return percent(value)
    return f"{value:,.0f}" if quantity.name == "distinct" else f"{value:.3f}"


INIT = InitKind(
    help=_HELP,
    is_file=_is_capture,
    options=_options,
    refuse_unfit=_refuse_unfit,
    finished=_finished,
    text=_likeness_text,
)
