"""`pgdyno show`: a result again, as text or JSON."""

from __future__ import annotations

from pathlib import Path

import click

from pgdyno.cli import options
from pgdyno.cli.measure import show
from pgdyno.loop.answer import answer_of
from pgdyno.store.experiment import Store


@click.command("show", short_help="A result again, as text.")
@click.argument("result", default="last")
@options.store_option
@options.json_option
def command(result: str, store: Path | None, json_to: str | None) -> int:
    """Print a result again. RESULT is its number, its name, its folder, or `last`."""
    show(answer_of(Store.default(store).find(result)), json_to, None)
    return 0
