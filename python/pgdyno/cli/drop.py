"""`pgdyno drop`: remove a dataset that pgdyno made, and no other."""

from __future__ import annotations

import json
from typing import Any

import click

from pgdyno.cli import options, output
from pgdyno.cli.from_options import server_named
from pgdyno.cli.headings import Verb
from pgdyno.errors import SpecError
from pgdyno.server import dataset as datasets
from pgdyno.server.connect import connect
from pgdyno.server.facts import format_bytes


@click.command("drop", cls=Verb, short_help="Remove a dataset that pgdyno made.")
@options.connection
@options.json_option
def command(**given: Any) -> int:
    """Drop the pgbench tables with pgdyno's mark; other tables stay."""
    resolved = server_named(given)
    if resolved is None:
        raise SpecError(
            "drop needs a server, but the command names none.",
            hint="name the server with -h, -d or a conninfo",
        )
    for warning in resolved.notes:
        output.note(f"warning: {warning.message} {warning.hint}")
    with connect(resolved.target, verb="drop") as connection:
        gone = datasets.drop(connection)
    place = resolved.target.place
    if gone.state == "none":
        text = f"nothing to drop: {place} has no pgbench tables"
    else:
        text = f"dropped {gone} from {place}: {format_bytes(gone.size_bytes)}"
    document = {"format": "pgdyno.drop/1", "tables": list(gone.tables), "scale": gone.scale}
    options.write(text, json.dumps(document, indent=2), given["json_to"])
    return 0
