"""Converts JSON lines to Parquet files, and both to numpy arrays, with DuckDB in memory.

DuckDB is imported when it is first needed, because this takes a quarter of a second. It downloads
no extensions.
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pgdyno.errors import StoreError
from pgdyno.observe.collector import Column, Dtype
from pgdyno.spec.units import ram_here_bytes
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
_GROUP_ROWS = 2048  # The minimum of DuckDB.
# For Parquet files below this size, a second query takes longer than it saves.
_LARGE_BYTES = 1 << 18
_TEXTS_MAX = 1000
_lock = threading.Lock()
_database: Any = None


def cursor() -> Any:
    """Return a cursor of the in-memory database.

    The database uses one thread, because the server under test may be on the same host.
    """
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
    """Write the JSON lines in `rows` to the file `parquet`, compressed with zstd.

    Raises: StoreError if a line does not fit the table, or the file cannot be written.
    """
    query = _select_json(rows, table, torn_allowed=False)
    options = "FORMAT parquet, COMPRESSION zstd"
    if table is HISTOGRAMS:
        # Readers want one kind of distribution at a time, of perhaps an hour. Its rows are
        # neighbours, and DuckDB skips the row groups of other kinds.
        query += " ORDER BY measured, script, statement, time_ns"
        options += f", ROW_GROUP_SIZE {_GROUP_ROWS}"
    try:
        _copy(query, parquet, options)
    except Exception as error:  # DuckDB has many error classes; all mean the same here.
        parquet.unlink(missing_ok=True)
        raise StoreError(
            f"{parquet} could not be written: {first_line(error)}.",
            hint="free some space if the disk is full; the rows are kept",
        ) from error


def _copy(query: str, parquet: Path, options: str) -> None:
    """Write the rows of a query; over a temporary file if the file system has no locks."""
    try:
        cursor().execute(f"COPY ({query}) TO {literal(parquet)} ({options})")
    except Exception as error:
        # DuckDB locks each file that it writes, and an object store may have no locks.
        if "Could not set lock" not in str(error):
            raise
        parquet.unlink(missing_ok=True)
        with tempfile.TemporaryDirectory(prefix="pgdyno-") as folder:
            local = Path(folder, parquet.name)
            cursor().execute(f"COPY ({query}) TO {literal(local)} ({options})")
            shutil.copyfile(local, parquet)


def read_arrays(source: Path, table: Table, where: str = "", *, is_flat: bool = True) -> Arrays:
    """Return the columns of a Parquet file, or of the JSON lines of an unfinished run.

    Args: where, a condition in SQL, "" for all rows; is_flat, how to return lists.
    Returns: arrays of equal length in time order; empty arrays if the source does not exist. Text
    is an object array with "" for null. A nullable int64 is float64 with NaN for null. A list
    column `c` has the values of all rows in `c` and the length of each row in `c#length`; if not
    `is_flat`, it has one array for each row.
    Raises: StoreError if the source cannot be read.
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
        if source.suffix != ".jsonl":
            _refuse_more_than_memory([source])
        arrays = _fetched(placed, [], [], {})
    except Exception as error:  # As above.
        raise _unreadable(source, error) from error
    return _with_plain_types(_flat(arrays, table) if is_flat else arrays, table)


def read_many(sources: Sequence[Path], table: Table) -> list[Arrays]:
    """Return the columns of several Parquet files, as `read_arrays` does for each, with one query.

    This takes half a second for 500 files. Opening them one after the other takes ten.
    Raises: StoreError if a file cannot be read.
    """
    listed = ", ".join(map(literal, sources))
    # Runs of different versions of pgdyno may have different columns.
    placed = (
        f"SELECT *, file_index AS {_FILE}, file_row_number AS {_PLACE}"
        f" FROM read_parquet([{listed}], union_by_name = true) WHERE time_ns IS NOT NULL"
    )
    is_large = sum(source.stat().st_size for source in sources) > _LARGE_BYTES * len(sources)
    try:
        _refuse_more_than_memory(sources)
        lists, texts = (_lists(table), _distinct_texts(placed, table)) if is_large else ([], {})
        arrays = _flat(_fetched(placed, [_FILE], lists, texts), table)
    except Exception as error:  # As above.
        raise _unreadable(sources[0].parent, error) from error
    edges = np.searchsorted(arrays.pop(_FILE).astype(np.int64), np.arange(len(sources) + 1))
    whole = _with_plain_types(arrays, table)
    return [_rows(whole, int(begin), int(end)) for begin, end in itertools.pairwise(edges)]


def _refuse_more_than_memory(sources: Sequence[Path]) -> None:
    """Raise StoreError if the values of Parquet files need more memory than this host can give.

    A file of a kilobyte may have a billion equal values.
    """
    listed = ", ".join(map(literal, sources))
    counted = f"SELECT coalesce(sum(num_values), 0) FROM parquet_metadata([{listed}])"
    [(count,)] = cursor().execute(counted).fetchall()
    if count > (most := _values_max()):
        raise StoreError(f"it has {count:,} values, and the memory is enough for {most:,}")


def _values_max() -> int:
    """Return how many values fit into a quarter of the memory, each with its copy."""
    return ram_here_bytes() // 4 // 16


def _distinct_texts(placed: str, table: Table) -> dict[str, list[str]]:
    """Return the texts of each column that has few different ones.

    With these texts, `_fetched` makes one string for each text and not for each row.
    """
    names = [c.name for c in table.columns if c.dtype == "text" and not c.is_nullable]
    if not names:
        return {}
    listed = ", ".join(f'list(DISTINCT "{name}")' for name in names)
    row = cursor().execute(f"SELECT {listed} FROM ({placed})").fetchone()
    known = {name: sorted(set(some or ()) - {None}) for name, some in zip(names, row, strict=True)}
    return {name: texts for name, texts in known.items() if 0 < len(texts) <= _TEXTS_MAX}


def _fetched(
    placed: str, first: list[str], flattened: Sequence[str], texts: Mapping[str, list[str]]
) -> Arrays:
    """Return the columns of a query, in order of `first`, time and place in the file.

    Args: flattened, list columns to return as the values of all rows and the length of each row,
    because a list would be one array for each row; texts, column -> all its texts: the query
    returns positions in this list, so that each string is made once.
    """
    columns = [f'coalesce(len("{name}"), 0) AS "{name}#length"' for name in flattened]
    for name, some in texts.items():
        kinds = ", ".join(map(_quoted, some))
        columns.append(f'coalesce(enum_code("{name}"::ENUM({kinds})), {len(some)}) AS "{name}"')
    without = ", ".join(f'"{name}"' for name in (*flattened, *texts))
    selected = ", ".join([f"* EXCLUDE ({without})" if without else "*", *columns])
    arrays: Arrays = cursor().execute(f"SELECT {selected} FROM ({placed})").fetchnumpy()
    for name, some in texts.items():
        arrays[name] = np.array([*some, ""], dtype=object)[arrays[name]]
    # Sorting here is faster: the database would move every column, including lists.
    order = np.lexsort([arrays[name] for name in (_PLACE, "time_ns", *reversed(first))])
    del arrays[_PLACE]
    flat: Arrays = {}
    for name in flattened:
        unnested = f'SELECT unnest("{name}") AS "{name}" FROM ({placed})'
        flat |= cursor().execute(unnested).fetchnumpy()
    if (np.diff(order) == 1).all():
        return arrays | flat
    for name, values in flat.items():
        flat[name] = values[_places_of_rows(arrays[f"{name}#length"], order)]
    return {name: values[order] for name, values in arrays.items()} | flat


def _places_of_rows(lengths: npt.NDArray[Any], order: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the positions of the values of all rows, with the rows in this order.

    Args: lengths, number of values of each row; order, positions of rows.
    """
    ends = np.cumsum(lengths)
    parts = [np.arange(ends[row] - lengths[row], ends[row]) for row in order.tolist()]
    return np.concatenate(parts)


def _lists(table: Table) -> list[str]:
    return [column.name for column in table.columns if column.dtype in LISTS]


def _flat(arrays: Arrays, table: Table) -> Arrays:
    """Return the arrays with every list column as flat values and lengths."""
    for name in _lists(table):
        if f"{name}#length" not in arrays:
            lists = np.ma.getdata(arrays.pop(name))
            lengths = np.fromiter(map(len, lists), dtype=np.int64, count=len(lists))
            arrays[f"{name}#length"] = lengths
            flat = np.concatenate(lists) if len(lists) else lengths
            arrays[name] = np.asarray(flat, dtype=np.int64)
    return arrays


def _rows(whole: Arrays, begin: int, end: int) -> Arrays:
    """Return the rows from `begin` to `end`, and the values of their lists."""
    columns = {}
    for name, values in whole.items():
        length = whole.get(f"{name}#length")
        if length is None:
            columns[name] = values[begin:end]
        else:
            first = int(length[:begin].sum())
            columns[name] = values[first : first + int(length[begin:end].sum())]
    return columns


def _unreadable(source: Path, error: Exception) -> StoreError:
    return StoreError(
        f"{source} cannot be read: {first_line(error)}.",
        hint="`pgdyno list` shows the intact results",
    )


def _select_json(rows: Path, table: Table, *, torn_allowed: bool) -> str:
    """Return SQL that reads JSON lines as this table. All types are given; DuckDB guesses none."""
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
    """Return the top-level key of the record that contains a column, and SQL for its value."""
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
    """Return arrays without masks; nullable columns that the file lacks are NaN or ""."""
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
        return np.ma.getdata(values)  # One array for each row.
    if values.dtype == object:
        return np.where(np.ma.getmaskarray(values), "", np.ma.getdata(values))
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
    """Return a path as a string literal of SQL."""
    return _quoted(str(path))


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def first_line(error: Exception) -> str:
    """Return the first line of an error of DuckDB, without the full stop."""
    return str(error).strip().splitlines()[0].rstrip(".") if str(error).strip() else repr(error)
