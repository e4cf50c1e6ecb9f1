"""`pgdyno drop [KIND]`: remove a dataset that pgdyno made, and no other."""

from __future__ import annotations

import json
from typing import Any

import click

from pgdyno.cli import options, output, wanted
from pgdyno.cli.headings import Verb
from pgdyno.errors import SpecError
from pgdyno.quantities import format_bytes
from pgdyno.server.dataset.kinds import KINDS

if wanted.body(__name__):
    from pgdyno.cli.from_options import server_named
    from pgdyno.server.connect import connect
    from pgdyno.server.dataset import removal as dataset_removal
    from pgdyno.server.dataset.kind import DatasetKind


class KindFirst(Verb):
    """Takes the first word as the kind of dataset if it is one."""

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        """Store the kind for the command; parse the other words as usual."""
        if args and args[0] in KINDS:
            context.obj, args = KINDS[args[0]], args[1:]
        return super().parse_args(context, args)


@click.command("drop", cls=KindFirst, short_help="Remove a dataset that pgdyno made.")
@options.connection
@options.json_option
@click.pass_obj
def command(kind: DatasetKind | None, /, **given: Any) -> int:
    """Drop the tables of a dataset with pgdyno's mark; other tables stay.

    The first word may name the kind of dataset, such as pgbench. Without a kind, pgdyno drops the
    only dataset of the database, and refuses to choose between two.
    """
    resolved = server_named(given)
    if resolved is None:
        raise SpecError(
            "drop needs a server, but the command names none.",
            hint="name the server with -h, -d or a conninfo",
        )
    for warning in resolved.notes:
        output.warning(warning.message, warning.hint)
    with connect(resolved.target, verb="drop") as connection:
        gone = dataset_removal.drop(connection, kind)
    place = resolved.target.place
    if gone.state == "none":
        text = f"nothing to drop: {place} has {gone}"
    else:
        text = f"dropped {gone} from {place}: {format_bytes(gone.size_bytes)}"
    document = {
        "format": "pgdyno.drop/1",
        "kind": gone.kind,
        "tables": list(gone.tables),
        "scale": gone.scale,
    }
    options.write(text, json.dumps(document, indent=2), given["json_to"])
    return 0
