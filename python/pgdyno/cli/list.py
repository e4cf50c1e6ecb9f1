"""`pgdyno list`: all results of a store."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from textwrap import fill

import click

from pgdyno.cli import options, output
from pgdyno.cli.headings import Verb
from pgdyno.cli.option_table import table
from pgdyno.errors import StoreError
from pgdyno.quantities import counted, validity_words
from pgdyno.report.result_kind import RESULTS
from pgdyno.report.text_page import TextPage
from pgdyno.store.experiment import ListedExperiment, Store

_LINES_MAX = 24


@click.command("list", cls=Verb, short_help="List all results.")
@options.store_option
@table("""
    Answer
    --all (show_all)  Print all results, not only the newest.
""")
@options.json_option
def command(store: Path | None, json_to: str | None, show_all: bool) -> int:
    """Print each result: number, time, verb, runs, and its answer.

    The newest result comes first. Without --all, the text has at most 25 lines.
    """
    kept = Store.default(store)
    # A folder from the environment may not exist before the first result.
    if store is not None and not kept.root.exists():
        raise StoreError(
            f"There is no folder of results at {kept.root}.",
            hint="check --store",
        )
    rows, refusals = kept.examined()
    for refusal in refusals:
        output.note(f"{refusal} ({refusal.hint})")
    if rows:
        kept.write_index(rows)
    document = {"format": "pgdyno.list/1", "results": [asdict(row) for row in rows]}
    text = result_lines(rows, show_all=show_all) or "no results yet; pgdyno bench makes one"
    options.write(text, json.dumps(document, indent=2, default=str), json_to)
    return 0


def result_lines(rows: Sequence[ListedExperiment], *, show_all: bool) -> str:
    """Return the results, the newest first, as many as a screen has."""
    lines: list[str] = []
    for place, row in enumerate(reversed(rows)):
        shown = _line(row).splitlines()
        if lines and len(lines) + len(shown) > _LINES_MAX and not show_all:
            older = counted(len(rows) - place, "older result")
            return "\n".join([*lines, f"{older}: pgdyno list --all"])
        lines += shown
    return "\n".join(lines)


def _line(row: ListedExperiment) -> str:
    began = datetime.fromtimestamp(row.began_ns // 1_000_000_000, tz=UTC)
    state = _runs(row)
    if row.incomplete_count:
        state += f", {row.incomplete_count} incomplete"
    if not row.is_sealed:
        state += ", not finished"
    elif not row.is_complete:
        state += ", interrupted"
    mark = validity_words(valid=row.valid_count, total=row.judged_count)
    if mark and not row.sentence.startswith(mark):
        invalid = f"{row.judged_count - row.valid_count} of {row.judged_count} runs "
        state += f", {invalid if row.valid_count else ''}NOT VALID"
    if row.altered:
        state += f", ALTERED since: {row.altered[0].rstrip('.')}"
    if row.is_number_shared:
        state += f", another result has this number: name it by its folder {row.handle}"
    if row.is_journal_damaged:
        state += f", JOURNAL OF CHANGES DAMAGED: pgdyno undo {row.handle}"
    elif row.undo_count:
        state += f", settings changed: pgdyno undo {row.handle}"
    line = f"#{row.number:<4} {began:%Y-%m-%d %H:%M}  {row.verb:<7} {row.name}, {state}"
    page = TextPage(output.width())
    line = fill(line, output.width(), subsequent_indent=" " * 6)
    said = (*([row.sentence] if row.sentence else ()), *(f"note {note}" for note in row.notes))
    return "\n".join([line, *(part for text in said for part in page.row("", text, indent=6))])


def _runs(row: ListedExperiment) -> str:
    """Return how many runs the answer is made of, as the answer says, and how many others."""
    if row.verb in RESULTS:
        return f"{row.run_count:,} {RESULTS[row.verb].part_words[row.run_count != 1]}"
    if not 0 < row.judged_count < row.run_count:
        return counted(row.run_count, "run")
    others = row.run_count - row.judged_count
    return f"{counted(row.judged_count, 'run')}, {others} pilot or shortened"
