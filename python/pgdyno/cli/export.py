"""`pgdyno export`: the runs of a result as a table for other programs."""

from __future__ import annotations

import csv
import io
import json
import tomllib
from pathlib import Path

import click

from pgdyno.cli import options, speak
from pgdyno.loop.table import COLUMNS, Row, rows_of
from pgdyno.spec.experiment import Experiment
from pgdyno.store.experiment import Store


@click.command("export", short_help="The runs of a result as CSV or JSON.")
@click.argument("result", default="last")
@click.option("--format", "form", type=click.Choice(["csv", "json"]), default="csv", help="Form.")
@options.store_option
def command(result: str, form: str, store: Path | None) -> int:
    """Print one row a run: variant, load, every metric. Units stand in the names.

    Everything else that was measured lies in the result's folder as Parquet, which most programs
    read.
    """
    folder = Store.default(store).find(result)
    experiment = Experiment.model_validate(tomllib.loads(folder.spec()))
    rows = rows_of(folder, experiment)
    if form == "json":
        document = {"format": "pgdyno.export/1", "number": folder.number, "runs": rows}
        speak.data(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        speak.data(_as_csv(rows).rstrip())
    return 0


def _as_csv(rows: list[Row]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
