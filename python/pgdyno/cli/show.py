"""`pgdyno show`: a result again, as text or JSON."""

from __future__ import annotations

import json
from pathlib import Path

import click

from pgdyno.cli import options, output, watch_text
from pgdyno.cli.measure import show
from pgdyno.designs import answer_of
from pgdyno.measure.changes import place_of
from pgdyno.store.experiment import Store
from pgdyno.watch.segments import document_again


@click.command("show", short_help="Print a result as text.")
@click.argument("result", default="last")
@options.store_option
@options.json_option
def command(result: str, store: Path | None, json_to: str | None) -> int:
    """Print a result as text. RESULT is a number, a name, a folder, or `last` (default)."""
    folder = Store.default(store).find(result)
    for change in folder.outstanding_changes():
        output.note(
            f"warning: #{folder.number} left settings of {place_of(change)} changed; "
            f"pgdyno undo {folder.number} puts them back"
        )
    if folder.verb == "watch":
        document = document_again(folder)
        text = json.dumps(document, indent=2, ensure_ascii=False)
        options.write(watch_text.text_of(document, output.width()), text, json_to)
    else:
        show(answer_of(folder), json_to, None)
    return 0
