"""`pgdyno note`: remarks stored with a result."""

from __future__ import annotations

from pathlib import Path

import click

from pgdyno.cli import options, output, wanted
from pgdyno.cli.headings import Verb
from pgdyno.clock import read_pair

if wanted.body(__name__):
    from pgdyno.store.experiment import Store


@click.command("note", cls=Verb, short_help="Keep a remark with a result.")
@click.argument("result")
@click.argument("text", required=False)
@options.store_option
def command(result: str, text: str | None, store: Path | None) -> int:
    """Keep TEXT with a result, such as the number of a change; without TEXT, print its remarks."""
    folder = Store.default(store).find(result)
    if text:
        with folder.amending("notes.jsonl"):
            folder.add_note(read_pair().unix_ns, text)
    remarks = list(folder.remarks())
    for remark in remarks:
        output.data(remark)
    if not remarks:
        output.note(f'The result has no remarks. Add one: pgdyno note {result} "TEXT"')
    return 0
