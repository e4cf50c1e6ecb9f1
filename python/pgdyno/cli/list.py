"""`pgdyno list`: all results of a store."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from pgdyno.cli import options, speak
from pgdyno.store.experiment import Store


@click.command("list", short_help="All results.")
@options.store_option
@options.json_option
def command(store: Path | None, json_to: str | None) -> int:
    """Print one line a result: number, when, verb, runs, and what was found."""
    rows = Store.at(store).list()
    if json_to:
        document = {"format": "pgdyno.list/1", "results": [asdict(row) for row in rows]}
        text = json.dumps(document, indent=2, default=str)
        if json_to != "-":
            Path(json_to).write_text(text + "\n")
        else:
            speak.data(text)
        return 0
    if not rows:
        speak.note("no results yet; pgdyno bench makes one")
    for row in rows:
        state = "" if row.is_complete else "  incomplete"
        speak.data(
            f"#{row.number:<4} {row.started_utc}  {row.verb:<6} {row.runs_count:>3} runs  "
            f"{row.name}{state}" + (f"  {row.sentence}" if row.sentence else "")
        )
    return 0
