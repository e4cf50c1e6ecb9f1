"""Rules that compare documents with the code: every verb, error and column is described."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence

from tests.tidy.source import Source


def undocumented_verbs(verbs: Mapping[str, Sequence[Sequence[str]]], manual: str) -> Iterator[str]:
    """Every verb has a heading in docs/cli.md with the first long name of each of its options.

    Args: verbs, the long names of every option of a verb. The other names may be in any section,
    because an option that verbs share is explained once.
    """
    sections = dict(
        re.findall(r"^#+ .*?`?pgdyno (\S+?)`?\s*$(.*?)(?=^#+ |\Z)", manual, re.M | re.S)
    )
    for verb, options in verbs.items():
        if verb not in sections:
            yield f"docs/cli.md: no heading for `pgdyno {verb}`"
            continue
        for first, *others in options:
            if not _has_word(first, sections[verb]):
                yield f"docs/cli.md: {first} is missing under `pgdyno {verb}`"
            for other in others:
                if not _has_word(other, manual):
                    yield f"docs/cli.md: {other} of `pgdyno {verb}` is missing"


def _has_word(option: str, text: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", text) is not None


def error_classes(sources: Sequence[Source]) -> set[str]:
    """Return every class of the error tree, wherever it is defined."""
    bases = {
        node.name: {name.id for name in node.bases if isinstance(name, ast.Name)}
        for source in sources
        if source.package and source.is_python
        for node in source.nodes
        if isinstance(node, ast.ClassDef)
    }
    errors: set[str] = set()
    grown = {"PgdynoError"}
    while grown - errors:
        errors |= grown
        grown = {name for name, parents in bases.items() if parents & errors}
    return errors - {"PgdynoError"}


def rust_variants(source: Source, enum: str) -> list[str]:
    """Return the variants of a Rust enum as serde writes them: snake case."""
    body = re.search(rf"pub enum {enum} \{{(.*?)\n\}}", source.text, re.S)
    names = re.findall(r"^    ([A-Z]\w*)\b", body[1], re.M) if body else []
    return [re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower() for name in names]


def errors_without_row(names: Sequence[str], table: str) -> Iterator[str]:
    """Every error has a full row in docs/errors.md; no row is of an error that no longer exists."""
    rows = {cells[0].strip("` "): cells for cells in _rows(table)}
    for name in names:
        if name not in rows:
            yield f"docs/errors.md: no row for `{name}`"
        elif not all(cell.strip() for cell in rows[name]):
            yield f"docs/errors.md: the row of `{name}` has an empty cell"
    for name in rows.keys() - set(names):
        yield f"docs/errors.md: `{name}` is not an error any more"


def errors_without_test(names: Sequence[str], sources: Sequence[Source]) -> Iterator[str]:
    """Every kind of error the engine can send is expected by some test, by its word or variant."""
    tests = "\n".join(
        source.text
        for source in sources
        if (source.path.startswith("tests/") and "/tidy/" not in source.path)
        or "/tests/" in source.path
    )
    for name in names:
        variant = name.title().replace("_", "")
        if f'"{name}"' not in tests and f"ErrorKind::{variant}" not in tests:
            yield f"no test expects an error of kind {name}"


def exit_codes(table: str) -> dict[str, int]:
    """Return class -> exit code as docs/errors.md has them."""
    rows = {cells[0].strip("` "): cells[2].strip() for cells in _rows(table)}
    return {name: int(code) for name, code in rows.items() if code.isdigit()}


def _rows(table: str) -> Iterator[list[str]]:
    for line in table.splitlines():
        if line.startswith("| `"):
            yield line.strip("|").split("|")


def columns_without_meaning(tables: object) -> Iterator[str]:
    """Every column of the store has a unit (or says that it has none) and a meaning."""
    columns = list(_columns(tables, set()))
    if not columns:
        yield "store/schema.py: no column with `name`, `unit` and `meaning` found"
    for column in columns:
        for field in ("dtype", "unit", "meaning"):
            if not str(getattr(column, field, "")).strip():
                yield f"store/schema.py: column {getattr(column, 'name', column)} has no {field}"


def _columns(value: object, seen: set[int]) -> Iterator[object]:
    if id(value) in seen or isinstance(value, type):
        return
    seen.add(id(value))
    if hasattr(value, "meaning") and hasattr(value, "unit"):
        yield value
        return
    inner: object = ()
    if isinstance(value, Mapping):
        inner = value.values()
    elif isinstance(value, tuple | list | set | frozenset):
        inner = value
    elif type(value).__module__.startswith("pgdyno"):
        slots = getattr(value, "__slots__", ())
        inner = [getattr(value, slot) for slot in slots] or vars(value).values()
    for item in inner:  # type: ignore[attr-defined]
        yield from _columns(item, seen)
