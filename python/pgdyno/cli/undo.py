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


@click.command("undo", short_help="Restore settings that a killed experiment left changed.")
@click.argument("result", required=False)
@click.option(
    "--admin", metavar="CONNINFO", help="Role and server to use (default: those of the experiment)."
)
@options.store_option
def command(result: str | None, admin: str | None, store: Path | None) -> int:
    """Restore changed settings from the journal. RESULT is a number (default: all that need it).

    An experiment that ended normally or by Ctrl-C has already restored its changes.
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
        output.data(f"#{folder.number}: restored {', '.join(names)}")
    if not count:
        output.data("nothing to undo")
    return 0
