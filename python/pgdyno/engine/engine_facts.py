"""Facts about the engine: built-ins, meta commands, datasets.

`make docs` writes what `pgdyno-engine facts` says to engine_facts.json; a test compares both. So no
command starts the engine to learn them. Mirrors `crates/engine/src/contract/facts.rs`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple, TypeVar

from pgdyno.errors import SpecError
from pgdyno.feature import features

FILE = "engine_facts.json"

# The smallest and the largest value that is allowed.
NumberRange = tuple[int, int]
T = TypeVar("T")


class TypeFacts(NamedTuple):
    """One type of transaction; times are 0 if clients do not wait."""

    name: str
    weight: int
    reads_only: bool
    keying_ns: int
    think_ns_mean: int


class OptionFacts(NamedTuple):
    """One option of a program: one of the words `values` (default: the first), or a number."""

    name: str
    description: str
    values: tuple[str, ...]
    range: NumberRange | None = None


class BuiltinFacts(NamedTuple):
    """A built-in program: a script, or transactions written in Rust (`is_native`)."""

    name: str
    description: str
    dataset: str
    reads_only: bool
    reads_scale: bool
    is_native: bool
    is_of_pgbench: bool
    types: tuple[TypeFacts, ...]
    options: tuple[OptionFacts, ...]


class DatasetFacts(NamedTuple):
    """A dataset that `init` can load."""

    tables: tuple[str, ...]


class EngineFacts(NamedTuple):
    """The answer to `pgdyno-engine facts`."""

    format: str
    builtins: tuple[BuiltinFacts, ...]
    meta_commands: tuple[str, ...]
    datasets: dict[str, DatasetFacts]

    def builtin(self, name: str | None) -> BuiltinFacts | None:
        """Return the built-in of exactly this name, or None."""
        return next((builtin for builtin in self.builtins if builtin.name == name), None)

    def builtin_beginning(self, text: str) -> BuiltinFacts:
        """Return the built-in whose name is `text`, or the only one whose name begins with it.

        Raises: SpecError that lists all built-ins, or all those that begin with `text`.
        """
        begun = [builtin for builtin in self.builtins if builtin.name.startswith(text)]
        matching = [builtin for builtin in begun if builtin.name == text] or begun
        if len(matching) == 1 and text:
            return matching[0]
        names = ", ".join(builtin.name for builtin in (begun if text and begun else self.builtins))
        what = "several built-ins begin with that name" if text and begun else "no built-in has"
        rest = f": {names}." if text and begun else " that name or beginning."
        raise SpecError(f"-b {text}: {what}{rest}", hint=f"use one of {names}")


@cache
def engine_facts() -> EngineFacts:
    """Return the facts of this release's engine, without programs whose feature is not here."""
    text = files("pgdyno.engine").joinpath(FILE).read_text(encoding="utf-8")
    facts = facts_of(json.loads(text))
    native = {name for feature in features() for name in feature.programs}
    here = [made for made in facts.builtins if not made.is_native or made.name in native]
    return facts._replace(builtins=tuple(here))


def facts_of(document: Mapping[str, Any]) -> EngineFacts:
    """Return the facts of a document. Help needs them, so they are not models, which are slow."""
    builtins = [
        {
            **builtin,
            "types": tuple(_known(TypeFacts, kind) for kind in builtin["types"]),
            "options": tuple(
                _known(
                    OptionFacts,
                    {
                        **option,
                        "values": tuple(option["values"]),
                        "range": tuple(option["range"]) if option.get("range") else None,
                    },
                )
                for option in builtin["options"]
            ),
        }
        for builtin in document["builtins"]
    ]
    datasets = document["datasets"].items()
    return _known(
        EngineFacts,
        {
            **document,
            "builtins": tuple(_known(BuiltinFacts, builtin) for builtin in builtins),
            "meta_commands": tuple(document["meta_commands"]),
            "datasets": {name: DatasetFacts(tuple(facts["tables"])) for name, facts in datasets},
        },
    )


def _known(kind: type[T], document: Mapping[str, Any]) -> T:
    names = kind.__annotations__
    return kind(**{name: value for name, value in document.items() if name in names})
