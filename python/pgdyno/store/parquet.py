"""Between rows of JSON, Parquet files and numpy arrays, through DuckDB in memory.

DuckDB is imported when it is first needed (a quarter of a second); no extension is downloaded.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pgdyno.errors import StoreError
from pgdyno.observe.column import Column, Dtype
from pgdyno.store.schema import COUNT_NAMES, HISTOGRAMS, Table

Arrays = dict[str, npt.NDArray[Any]]

SQL_TYPES: dict[Dtype, str] = {
    "int64": "BIGINT",
    "float64": "DOUBLE",
    "text": "VARCHAR",
    "int32[]": "INTEGER[]",
    "int64[]": "BIGINT[]",
}
LISTS: frozenset[Dtype] = frozenset({"int32[]", "int64[]"})
# Names that no column of a table has.
_PLACE, _FILE = "place_in_file", "file_in_list"
_GROUP_ROWS = 2048  # The fewest that DuckDB makes.
_lock = threading.Lock()
_database: Any = None


def cursor() -> Any:
    """Return a cursor of the one in-memory database; one thread, because the server is near."""
    global _database
    with _lock:
        if _database is None:
            import duckdb

            _database = duckdb.connect(
                ":memory:",
                config={
                    "threads": 1,
                    "autoinstall_known_extensions": False,
                    "autoload_known_extensions": False,
                },
            )
        return _database.cursor()


def write_parquet(rows: Path, table: Table, parquet: Path) -> None:
    """Make a zstd Parquet file of the JSON lines in `rows`.

    Raises: StoreError when a line is not of this table, or the disk refuses.
    """
    # Of an hour's distributions one kind is wanted at a time: its rows lie together, in groups that
    # are passed over when they are of another.
    order, groups = "time_ns", ""
    if table is HISTOGRAMS:
        order, groups = "measured, script, statement, time_ns", f", ROW_GROUP_SIZE {_GROUP_ROWS}"
    query = (
        f"COPY ({_select_json(rows, table, torn_allowed=False)} ORDER BY {order})"
        f" TO {literal(parquet)} (FORMAT parquet, COMPRESSION zstd{groups})"
    )
    try:
        cursor().execute(query)
    except Exception as error:  # DuckDB's tree is its own; every kind means the same here.
        parquet.unlink(missing_ok=True)
        raise StoreError(
            f"{parquet} could not be made: {first_line(error)}.",
            hint="free some space on that disk if it is full; the rows themselves are kept",
        ) from error


def read_arrays(source: Path, table: Table, where: str = "", *, is_flat: bool = True) -> Arrays:
    """Return the columns of a Parquet file, or of the JSON lines of an unfinished run.

    Returns: text as object arrays with "" for none; a nullable int64 as float64 with NaN; a list
    column `c` as flat values in `c` and the length of each row in `c#length`, or not `is_flat`: as
    one array a row. Rows are in time order. A source that does not exist gives empty arrays.
    """
    if not source.exists():
        return _empty(table)
    relation = (
        f"({_select_json(source, table, torn_allowed=True)})"
        if source.suffix == ".jsonl"
        else f"read_parquet({literal(source)})"
    )
    condition = f"WHERE time_ns IS NOT NULL {'AND ' + where if where else ''}"
    placed = f"SELECT *, row_number() OVER () AS {_PLACE} FROM {relation} {condition}"
    try:
        arrays = _fetched(placed, [])
    except Exception as error:  # As above.
        raise _unreadable(source, error) from error
    return _with_plain_types(_flat(arrays, table) if is_flat else arrays, table)


def read_many(sources: Sequence[Path], table: Table) -> list[Arrays]:
    """Return what `read_arrays` returns of each Parquet file, from one query over all of them.

    Opening files one after the other is what reading many runs takes: 500 tables come in half a
    second rather than in ten.
    """
    listed = ", ".join(map(literal, sources))
    # Runs of different versions of pgdyno may have different columns.
    placed = (
        f"SELECT *, file_index AS {_FILE}, file_row_number AS {_PLACE}"
        f" FROM read_parquet([{listed}], union_by_name = true) WHERE time_ns IS NOT NULL"
    )
    try:
        arrays = _flat(_fetched(placed, [_FILE]), table)
    except Exception as error:  # As above.
        raise _unreadable(sources[0].parent, error) from error
    edges = np.searchsorted(arrays.pop(_FILE).astype(np.int64), np.arange(len(sources) + 1))
    whole = _with_plain_types(arrays, table)
    return [_rows(whole, int(begin), int(end)) for begin, end in itertools.pairwise(edges)]


def _fetched(placed: str, first: list[str]) -> Arrays:
    """Return the columns of a query, in order of `first`, time and place in the file."""
    arrays: Arrays = cursor().execute(placed).fetchnumpy()
    # Sorted here: the database would carry every column through its sort, lists too.
    order = np.lexsort([arrays[name] for name in (_PLACE, "time_ns", *reversed(first))])
    del arrays[_PLACE]
    if (np.diff(order) == 1).all():
        return arrays
    return {name: values[order] for name, values in arrays.items()}


def _flat(arrays: Arrays, table: Table) -> Arrays:
    """Return lists as their values one after the other, and the length of each."""
    for column in table.columns:
        if column.dtype in LISTS:
            lists = np.ma.getdata(arrays.pop(column.name))
            lengths = np.fromiter(map(len, lists), dtype=np.int64, count=len(lists))
            arrays[f"{column.name}#length"] = lengths
            flat = np.concatenate(lists) if len(lists) else lengths
            arrays[column.name] = np.asarray(flat, dtype=np.int64)
    return arrays


def _rows(whole: Arrays, begin: int, end: int) -> Arrays:
    """Return the rows of one file; of a list column the values of these rows."""
    found = {}
    for name, values in whole.items():
        length = whole.get(f"{name}#length")
        if length is None:
            found[name] = values[begin:end]
        else:
            first = int(length[:begin].sum())
            found[name] = values[first : first + int(length[begin:end].sum())]
    return found


def _unreadable(source: Path, error: Exception) -> StoreError:
    return StoreError(
        f"{source} cannot be read: {first_line(error)}.",
        hint="`pgdyno list` shows the results that are whole",
    )


def _select_json(rows: Path, table: Table, *, torn_allowed: bool) -> str:
    """Return SQL that reads JSON lines as this table; types are given, nothing is guessed."""
    types, selected = [], []
    for column in table.columns:
        name, sql_type = column.name, SQL_TYPES[column.dtype]
        source, expression = _json_source(table, column)
        if source == name:
            types.append(f"\"{name}\": '{sql_type}'")
        selected.append(f'{expression} AS "{name}"')
    if table.name == "intervals":
        fields = ", ".join(f"{name} BIGINT" for name in COUNT_NAMES)
        types.append(f"\"counts\": 'STRUCT({fields})'")
    elif table.name == "histograms":
        types = [item for item in types if not item.startswith(('"buckets"', '"counts"'))]
        types.append("\"buckets\": 'BIGINT[][]'")
    ignore = ", ignore_errors=true" if torn_allowed else ""
    return (
        f"SELECT {', '.join(selected)} FROM read_json({literal(rows)}, "
        f"format='newline_delimited', maximum_object_size=67108864{ignore}, "
        f"columns={{{', '.join(types)}}})"
    )


def _json_source(table: Table, column: Column) -> tuple[str, str]:
    """Return the top-level key that holds a column in the record, and the SQL that takes it out."""
    name = column.name
    if table.name == "intervals" and name in COUNT_NAMES:
        return "counts", f"counts.{name}"
    if table.name == "histograms":
        if name in ("script", "statement"):
            return name, f"coalesce({name}, -1)"
        if name == "buckets":
            return name, f"list_transform(buckets, lambda pair: pair[1])::{SQL_TYPES[column.dtype]}"
        if name == "counts":
            taken = "list_transform(buckets, lambda pair: pair[2])"
            return "buckets", f"{taken}::{SQL_TYPES[column.dtype]}"
    return name, f'"{name}"'


def _with_plain_types(arrays: Arrays, table: Table) -> Arrays:
    """Return arrays without masks, by the schema; nullable columns that the file lacks are NaN."""
    columns = {column.name: column for column in table.columns}
    plain = {name: _plain(values, columns.get(name)) for name, values in arrays.items()}
    row_count = len(plain["time_ns"])
    for name, column in columns.items():
        if name not in plain and column.is_nullable:
            plain[name] = (
                np.full(row_count, "", dtype=object)
                if column.dtype == "text"
                else np.full(row_count, np.nan)
            )
    return plain


def _plain(values: npt.NDArray[Any], column: Column | None) -> npt.NDArray[Any]:
    if values.dtype == object and column is not None and column.dtype in LISTS:
        return np.ma.getdata(values)  # One array a row.
    if values.dtype == object:
        texts = np.empty(len(values), dtype=object)
        texts[:] = ["" if text is None else text for text in np.ma.filled(values, None)]
        return texts
    is_masked = isinstance(values, np.ma.MaskedArray) and bool(np.ma.getmaskarray(values).any())
    if is_masked or values.dtype.kind == "f" or (column is not None and column.is_nullable):
        return np.asarray(np.ma.filled(np.ma.asarray(values, dtype=np.float64), np.nan))
    return np.asarray(np.ma.getdata(values), dtype=np.int64)


def _empty(table: Table) -> Arrays:
    arrays: Arrays = {}
    for column in table.columns:
        if column.dtype == "text":
            arrays[column.name] = np.empty(0, dtype=object)
        elif column.dtype == "float64" or column.is_nullable:
            arrays[column.name] = np.empty(0, dtype=np.float64)
        else:
            arrays[column.name] = np.empty(0, dtype=np.int64)
        if column.dtype in LISTS:
            arrays[f"{column.name}#length"] = np.empty(0, dtype=np.int64)
    return arrays


def literal(path: Path) -> str:
    """Return a path as a literal of SQL."""
    return "'" + str(path).replace("'", "''") + "'"


def first_line(error: Exception) -> str:
    """Return what DuckDB complains of, without the full stop."""
    return str(error).strip().splitlines()[0].rstrip(".") if str(error).strip() else repr(error)
