"""`pgdyno undo`: put settings back that a killed experiment left changed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from pgdyno.cli import options, output
from pgdyno.measure.changes import outstanding, reached_again, undo_outstanding
from pgdyno.server.conninfo import resolve
from pgdyno.server.target import Target
from pgdyno.store.experiment import Store


@click.command("undo", short_help="Put back what a killed experiment left changed.")
@click.argument("result", required=False)
@click.option("--admin", metavar="CONNINFO", help="Where and as whom (default: as it was).")
@options.store_option
def command(result: str | None, admin: str | None, store: Path | None) -> int:
    """Replay the journal of changes backwards. RESULT is a number; default: all that need it.

    An experiment that ends by itself, or by Ctrl-C, has undone its changes already.
    """
    kept = Store.default(store)
    folders = [kept.find(result)] if result else [kept.find(str(o.number)) for o in kept.list()]

    def reach(place: Mapping[str, str]) -> Target:
        if admin is not None:
            return reached_again(place, resolve(conninfo=admin).target)
        return resolve(
            host=place["host"], port=place["port"], user=place["user"], database=place["database"]
        ).target

    count = 0
    for folder in folders:
        if not outstanding(folder):
            continue
        names = undo_outstanding(folder, reach)
        count += len(names)
        output.data(f"#{folder.number}: put back {', '.join(names)}")
    if not count:
        output.data("nothing to undo")
    return 0
