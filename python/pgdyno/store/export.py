"""Exports tables for other programs, as CSV, JSON or Parquet files.

A Parquet file also has the unit and the meaning of each column.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pgdyno.errors import StoreError
from pgdyno.observe.collector import Column
from pgdyno.store import parquet
from pgdyno.store.files import Form
from pgdyno.store.schema import Table, tables
from pgdyno.store.stored_run import StoredRun

RUN = Column("run", "int64", "number", "run of the experiment", "key")
_OPTIONS: Mapping[Form, str] = {
    "csv": "FORMAT csv, HEADER true",
    "json": "FORMAT json, ARRAY true",
    "parquet": "FORMAT parquet, COMPRESSION zstd",
}


def export_rows(
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[Column],
    target: Path,
    form: Form,
    *,
    raw: bool = False,
) -> None:
    """Write rows to a file. Missing values are empty in CSV, and null elsewhere.

    Args: rows, dictionaries with the columns' names as keys; target, the file to create; raw,
    as in `export_table`.
    Raises: StoreError if the file cannot be written.
    """
    with tempfile.TemporaryDirectory(prefix="pgdyno-export-") as place:
        lines = Path(place) / "rows.jsonl"
        lines.write_text("".join(json.dumps(row, allow_nan=False) + "\n" for row in rows))
        types = ", ".join(f"\"{c.name}\": '{parquet.SQL_TYPES[c.dtype]}'" for c in columns)
        source = (
            f"read_json({parquet.literal(lines)}, format='newline_delimited', columns={{{types}}})"
        )
        _copy(f"SELECT * FROM {source}", columns, target, form, raw=raw)


def export_table(
    runs: Sequence[StoredRun], table: Table, target: Path, form: Form, *, raw: bool = False
) -> None:
    """Write one table of several runs to a file. The first column is the number of the run.

    Args: runs, complete ones; runs without this table are left out; target, the file to create;
    raw, write texts of CSV unchanged, even those that a spreadsheet would take for a formula.
    Raises: StoreError if no run has the table, or the file cannot be written.
    """
    query = _select(runs, table, has_lists=form != "csv")
    _copy(query, (RUN, *table.columns), target, form, raw=raw)


def relation_of(runs: Sequence[StoredRun], table: Table) -> Any:
    """Return one table of several runs as a DuckDB relation, which is also an Arrow stream.

    Raises: StoreError if no run has the table.
    """
    return parquet.cursor().sql(_select(runs, table, has_lists=True))


def relation_of_rows(rows: Sequence[Mapping[str, Any]], columns: Sequence[Column]) -> Any:
    """Return rows as a DuckDB relation, which is also an Arrow stream. Args: as `export_rows`."""
    cursor = parquet.cursor()
    with tempfile.TemporaryDirectory(prefix="pgdyno-rows-") as place:
        file = Path(place) / "rows.parquet"
        export_rows(rows, columns, file, "parquet")
        cursor.execute(
            f"CREATE TEMP TABLE runs AS SELECT * FROM read_parquet({parquet.literal(file)})"
        )
    return cursor.table("runs")


def _names_of(runs: Sequence[StoredRun]) -> list[str]:
    return [table.name for table in tables().values() if files_of(runs, table)]


def _select(runs: Sequence[StoredRun], table: Table, *, has_lists: bool) -> str:
    """Return the query for one table of several runs. Raises: StoreError if no run has it."""
    present = files_of(runs, table)
    if not present:
        raise StoreError(
            f"No run of this result has a table {table.name!r}.",
            hint=f"there are: {', '.join(_names_of(runs)) or 'none'}",
        )
    listed = ", ".join(map(parquet.literal, present))
    numbers = ", ".join(map(str, present.values()))
    read = f"read_parquet([{listed}], union_by_name = true)"
    lists = set() if has_lists else {c.name for c in table.columns if c.dtype in parquet.LISTS}
    # A cell of CSV cannot hold a list, so it gets the values with blanks between them.
    flat = ", ".join(f'array_to_string("{n}", \' \') AS "{n}"' for n in sorted(lists))
    columns = f"* REPLACE ({flat})" if flat else "*"
    return (
        f"SELECT [{numbers}][file_index::BIGINT + 1] AS run, {columns}"
        f" FROM {read} ORDER BY run, time_ns, file_row_number"
    )


def files_of(runs: Sequence[StoredRun], table: Table) -> dict[Path, int]:
    """Return the files of a table, each with the number of its run."""
    paths = {run.folder / f"{table.path}.parquet": run.number for run in runs}
    return {path: number for path, number in paths.items() if path.exists()}


def _without_formulas(query: str) -> str:
    """Return a query whose texts begin with a quote where a spreadsheet would see a formula.

    Source: OWASP, CSV Injection. Some spreadsheets read full-width signs, too. Numbers are no
    texts, so they stay.
    """
    described = parquet.cursor().execute(f"DESCRIBE ({query})").fetchall()
    quoted = {str(name): '"' + str(name).replace('"', '""') + '"' for name, *_ in described}
    cells = [
        f"CASE WHEN regexp_matches({quoted[name]}, '^[=+@\\t\\r\\n\uff1d\uff0b\uff20\uff0d-]') "
        f"THEN chr(39) || {quoted[name]} ELSE {quoted[name]} END AS {quoted[name]}"
        if kind == "VARCHAR"
        else quoted[name]
        for name, kind in ((str(row[0]), str(row[1])) for row in described)
    ]
    return f"SELECT {', '.join(cells)} FROM ({query})"


def _copy(
    query: str, columns: Sequence[Column], target: Path, form: Form, *, raw: bool = False
) -> None:
    options = _OPTIONS[form]
    if form == "csv" and not raw:
        query = _without_formulas(query)
    if form == "parquet":
        described = json.dumps({c.name: {"unit": c.unit, "meaning": c.meaning} for c in columns})
        quoted = described.replace("'", "''")
        options += f", KV_METADATA {{pgdyno_columns: '{quoted}'}}"
    try:
        parquet.cursor().execute(f"COPY ({query}) TO {parquet.literal(target)} ({options})")
    except Exception as error:  # DuckDB has many error classes; all mean the same here.
        raise StoreError(
            f"{target} could not be written: {parquet.first_line(error)}.",
            hint="name another file with -o; check that the disk has space",
        ) from error
