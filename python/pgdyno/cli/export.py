"""`pgdyno export`: writes the runs of a result, or a table of the runs, for other programs."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import click

from pgdyno.cli import options, output, wanted
from pgdyno.cli.headings import Verb
from pgdyno.cli.option_table import table
from pgdyno.errors import SpecError
from pgdyno.store.files import FORMS, Form

if wanted.body(__name__):
    from pgdyno.answer.table import COLUMNS, rows_of
    from pgdyno.cli.show import read_kept, require_runs
    from pgdyno.loop.journal import experiment_of
    from pgdyno.observe.collector import Column
    from pgdyno.store.experiment import Store
    from pgdyno.store.export import RUN, export_rows, export_table, files_of
    from pgdyno.store.folder import ExperimentFolder
    from pgdyno.store.schema import tables

_RUNS = "runs"


@click.command("export", cls=Verb, short_help="Write the runs of a result as CSV, JSON or Parquet.")
@click.argument("result", default="last")
@table(f"""
    Options
    --format (form) {"|".join(FORMS)} =csv *  Format of the output (default csv).
    --table (name) NAME ={_RUNS} *
        Table to write: runs (default), or a table of each run such as intervals or waits.
    -o --output (file) PATH *  File to write (default: standard output).
    --raw *
        Leave texts in CSV as they are. Without it, a text that begins with =, +, -, @, a tab or a
        line end begins with a single quote, so that no spreadsheet takes it for a formula.
""")
@options.store_option
def command(
    result: str, form: Form, name: str, file: Path | None, raw: bool, store: Path | None
) -> int:
    """Write one row per run (variant, load, every metric), or all rows of a table of the runs.

    The names of the columns contain their units. JSON and Parquet also have the unit and meaning of
    each column (Parquet: key pgdyno_columns of the metadata).
    """
    if form == "parquet" and file is None:
        raise SpecError(
            "Parquet is binary and cannot be printed.", hint="name a file: -o runs.parquet"
        )
    if name != _RUNS and name not in tables():
        raise SpecError(
            f"--table {name}: there is no such table.",
            hint=f"use one of {', '.join(sorted([_RUNS, *tables()]))}",
        )
    if raw and form != "csv":
        raise SpecError(
            f"--raw has no effect on {form}: only cells of CSV are quoted.",
            hint="leave --raw out",
        )
    folder = Store.default(store).find(result)
    if name == _RUNS or not files_of(folder.runs(), tables()[name]):
        require_runs(folder)
    with tempfile.TemporaryDirectory(prefix="pgdyno-export-") as place:
        made = Path(place) / f"{name}.{form}"
        columns = read_kept(folder, lambda: _make(folder, name, made, form, raw=raw))
        if form == "json":
            made.write_text(_document(folder, name, columns, made))
        if file is None:
            output.data(made.read_text().rstrip())
        else:
            options.write_file(file, made.read_bytes())
            output.data(str(file.absolute()))
    return 0


def _make(
    folder: ExperimentFolder, name: str, made: Path, form: Form, *, raw: bool
) -> tuple[Column, ...]:
    """Write the table; return its columns."""
    if name == _RUNS:
        export_rows(rows_of(folder, experiment_of(folder)), COLUMNS, made, form, raw=raw)
        return COLUMNS
    table = tables()[name]
    export_table(folder.runs(), table, made, form, raw=raw)
    return (RUN, *table.columns)


def _document(folder: ExperimentFolder, name: str, columns: tuple[Column, ...], made: Path) -> str:
    """Return the rows as one document with the meaning of the columns."""
    described = [{"name": c.name, "unit": c.unit, "meaning": c.meaning} for c in columns]
    document = {"format": "pgdyno.export/1", "number": folder.number, "columns": described}
    return json.dumps(document | {name: json.loads(made.read_text())}, indent=1) + "\n"
