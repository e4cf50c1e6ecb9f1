"""What docs/stability.md promises, as the present version has it.

`tests/cli/stable.json` keeps the promises. `.venv/bin/python -m tests.cli.stable` adds what is new.
It removes nothing: a promise that is gone is an error of the product, or a new major version.
"""

from __future__ import annotations

import contextlib
import io
import json
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from bench.generated import generate
from tests.outputs.rendered import all_outputs

from pgdyno.answer.noise import host_noise
from pgdyno.answer.table import COLUMNS
from pgdyno.cli.headings import is_first
from pgdyno.cli.main import _run
from pgdyno.cli.reference import EXIT_CODES, every_context, every_parameter
from pgdyno.designs import answer_of
from pgdyno.features.doctor.verbs.noise_floor import document_of_noise
from pgdyno.spec.experiment import Experiment
from pgdyno.store.experiment import Store
from pgdyno.store.schema import tables

KEPT = Path(__file__).with_name("stable.json")
_RESULT = Path(__file__).parents[1] / "store/fixtures/format-1-designs/bench.tar.xz"
# Deeper keys are names of settings, metrics and statements.
_DEPTH = 3
# The keys below these are names of what was measured.
_NAMES = ("facts", "changes", "failures", "options", "evidence", "statement_texts", "tables")

_TYPES = {
    bool: "true or false",
    int: "number",
    float: "number",
    str: "text",
    list: "list",
    dict: "object",
    type(None): "null",
}

Promises = dict[str, dict[str, list[str]]]


def promises() -> Promises:
    """Return what is promised: section -> name -> words."""
    return {
        "options of the short help": dict(_options()),
        "letters": dict(_letters()),
        "exit codes": {code: [meaning] for code, meaning in EXIT_CODES.items()},
        "json": _json_keys(),
        "spec": {"keys": sorted(_schema_keys())},
        "tables": {
            "runs": [column.name for column in COLUMNS],
            **{name: [column.name for column in t.columns] for name, t in tables().items()},
        },
    }


def _options() -> Iterator[tuple[str, list[str]]]:
    for verb, context in every_context():
        shown = [p for p in every_parameter(context.command) if is_first(p)]
        yield (
            verb,
            sorted(_long_name(p) for p in shown if isinstance(p, click.Option) and not p.hidden),
        )


def _long_name(parameter: click.Parameter) -> str:
    """Return the first long name, or the only letter."""
    return next((name for name in parameter.opts if name.startswith("--")), parameter.opts[0])


def _letters() -> Iterator[tuple[str, list[str]]]:
    for verb, context in every_context():
        yield (
            verb,
            sorted(
                f"{letter} {_long_name(parameter)}"
                for parameter in every_parameter(context.command)
                for letter in parameter.opts
                if len(letter) == 2 and letter.startswith("-")
            ),
        )


def _json_keys() -> dict[str, list[str]]:
    """Return format -> the keys that documents of this format have, with their types."""
    known: dict[str, dict[str, str]] = {}
    for document in _documents():
        of_format = known.setdefault(document["format"], {})
        for path, kinds in types_of(document).items():
            of_format[path] = _union(kinds, of_format.get(path, kinds))
    return {name: words_of(types) for name, types in sorted(known.items())}


def _documents() -> Iterator[dict[str, Any]]:
    for name, text in all_outputs().items():
        document = json.loads(text) if name.endswith(".json") else {}
        if "format" in document:  # The example of a watch is only a part.
            yield document
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder)
        pairs = answer_of(
            generate(Store(store / "pairs"), rounds=8, effect_ratio=0.0, noise_ratio=0.02)
        )
        yield document_of_noise(host_noise(pairs), 1, pairs.facts.target)
        with tarfile.open(_RESULT) as packed:
            packed.extractall(store, filter="data")
        (store / "one.conf").write_text("work_mem = 1GB\n")
        settings = f"settings --file {store}/one.conf --ram 8GB --cores 2 --pg-version 17 --json"
        for line in (
            f"list --store {store} --json",
            f"export last --store {store} --format json",
            f"diff last last --store {store} --json",
            f"show nothing --store {store} --json",
            "doctor --json",
            settings,
        ):
            said = io.StringIO()
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(io.StringIO()):
                _run(line.split())
            yield json.loads(said.getvalue())


def types_of(document: dict[str, Any]) -> dict[str, str]:
    """Return the paths of the keys of a document, with the types of their values.

    Example: {"target.place": "text", "runs": "list", "runs[].tps": "number"}. A key of several
    rows may have several types: "number|text". null says that a value is not known.
    """
    types: dict[str, str] = {}
    for path, value in _paths(document, "", _DEPTH):
        kind = _TYPES[type(value)]
        types[path] = _union(types.get(path, kind), kind)
    return types


def words_of(types: Mapping[str, str]) -> list[str]:
    """Return a promise for each key. Example: "target.place: text"."""
    return sorted(f"{path}: {kinds}" for path, kinds in types.items())


def broken_keys(promised: Sequence[str], now: Sequence[str]) -> list[str]:
    """Return each promise whose key is gone, or has a type that it did not have."""
    types = dict(word.split(": ") for word in now)
    broken = []
    for word in promised:
        path, kinds = word.split(": ")
        new = set(types.get(path, "nothing").split("|")) - {"null", *kinds.split("|")}
        if path not in types or (new and kinds != "null"):
            broken.append(word)
    return broken


def _union(*kinds: str) -> str:
    known = {kind for part in kinds for kind in part.split("|")} - {"null"}
    return "|".join(sorted(known)) or "null"


def _paths(value: Any, before: str, depth: int) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and depth:
        for key, below in value.items():
            yield f"{before}{key}", below
            if not f"{before}{key}".endswith(_NAMES):
                yield from _paths(below, f"{before}{key}.", depth - 1)
    elif isinstance(value, list):
        for below in value[:1]:
            yield from _paths(below, f"{before.removesuffix('.')}[].", depth)


def _schema_keys() -> Iterator[str]:
    schema = Experiment.model_json_schema(by_alias=True)
    for name, part in {"": schema, **schema.get("$defs", {})}.items():
        yield from (f"{name}.{key}" for key in part.get("properties", ()))


def lost(kept: Promises, now: Promises) -> list[str]:
    """Return each promise that does not hold. Columns keep their order, too."""
    missing = []
    for section, names in kept.items():
        for name, words in names.items():
            has = now[section].get(name, [])
            gone = [word for word in words if word not in has]
            gone = broken_keys(words, has) if section == "json" else gone
            missing += [f"{section}: {name}: {word}" for word in gone]
            if section == "tables" and has[: len(words)] != words:
                missing.append(f"{section}: {name}: the order of its columns")
    return missing


def kept() -> Promises:
    """Return the promises of the file."""
    promised: Promises = json.loads(KEPT.read_text())
    return promised


if __name__ == "__main__":
    now = promises()
    before = kept() if KEPT.exists() else {}
    for section, names in now.items():
        for name, words in names.items():
            old = before.get(section, {}).get(name, [])
            if section == "json":  # A key that had no type yet has one now.
                kinds = dict(word.split(": ") for word in words)
                kinds |= {p: k for p, k in (w.split(": ") for w in old) if k != "null"}
                names[name] = words_of(kinds)
            else:
                names[name] = old + [word for word in words if word not in old]
        for name, words in before.get(section, {}).items():
            names.setdefault(name, words)
    # A line for each name: a difference shows what is new.
    lines = [
        f' "{section}": {{\n'
        + ",\n".join(f'  "{name}": {json.dumps(words)}' for name, words in names.items())
        + "\n }"
        for section, names in now.items()
    ]
    KEPT.write_text("{\n" + ",\n".join(lines) + "\n}\n")
