"""The options of each kind of dataset, described as data, so that help needs no model.

The models of the kinds are the source. For `--help` their descriptions are read from
kind_options.json, which `make docs` writes; a test compares both. A kind that the file does not
have, for example of another package, is described from its model.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import click

from pgdyno.cli import output
from pgdyno.cli.headings import under
from pgdyno.server.dataset_kinds import KINDS

FILE = "kind_options.json"


@dataclass(frozen=True, slots=True)
class DeclaredOption:
    """An option that a field of a model declares.

    `type`: "flag", "choice", "whole", "ratio" or "text"; `values`: of a choice, or the least and
    the largest whole number.
    """

    field: str
    names: tuple[str, ...]
    help: str
    type: str
    values: tuple[Any, ...] = ()
    metavar: str = ""
    first: bool = False

    def click_settings(self) -> dict[str, Any]:
        """Return click's settings. An option that is not given is None, or False for a flag."""
        types: dict[str, dict[str, Any]] = {
            "flag": {"is_flag": True},
            "choice": {"type": click.Choice(self.values)},
            "ratio": {"type": float, "metavar": "RATIO"},
            "text": {"type": str, "metavar": self.metavar},
        }
        own = {"type": click.IntRange(*self.values)} if self.type == "whole" else types[self.type]
        return {"help": self.help, **own}


@dataclass(frozen=True, slots=True)
class KindHelp:
    """What help says about a kind of dataset; the fields are those of `DatasetKind`."""

    name: str
    options: tuple[DeclaredOption, ...]
    loading: tuple[DeclaredOption, ...]
    jobs_help: str
    check_help: str
    has_conditions: bool


def decorator_of(
    options: Collection[DeclaredOption],
    heading: str,
    *,
    without: Collection[str] = (),
    may_be_first: bool = True,
) -> Callable[[Any], Any]:
    """Return a decorator that adds these options below a heading of --help.

    Args: without, fields whose options are left out; may_be_first, whether --help may show them.
    """

    def add(command: Any) -> Any:
        for option in reversed([option for option in options if option.field not in without]):
            settings = option.click_settings()
            settings["first"] = option.first and may_be_first
            command = under(heading)(*option.names, option.field, **settings)(command)
        return command

    return add


@cache
def kind_help(name: str) -> KindHelp:
    """Return the help of one kind."""
    written = _written().get(name)
    return _of_model(name) if written is None else _read(written)


def option_fields(name: str) -> list[str]:
    """Return the fields of a kind's model that are options of the command line."""
    return [option.field for option in kind_help(name).options]


def text_of_models() -> str:
    """Return the text of kind_options.json, from the models of the kinds."""
    document = {name: asdict(_of_model(name)) for name in KINDS}
    return json.dumps(document, indent=1, ensure_ascii=False)


def _of_model(name: str) -> KindHelp:
    from pgdyno.cli.dataset_options import declared_options

    kind = KINDS[name]
    return KindHelp(
        name=name,
        options=declared_options(kind.options),
        loading=declared_options(kind.loading),
        jobs_help=kind.jobs_help,
        check_help=kind.check_help,
        has_conditions=bool(kind.conditions),
    )


@cache
def _written() -> dict[str, Any]:
    text = files("pgdyno.cli").joinpath(FILE).read_text(encoding="utf-8")
    document: dict[str, Any] = json.loads(text)
    return document


def _read(written: dict[str, Any]) -> KindHelp:
    lists = {
        part: tuple(
            DeclaredOption(
                **{**option, "names": tuple(option["names"]), "values": tuple(option["values"])}
            )
            for option in written[part]
        )
        for part in ("options", "loading")
    }
    return KindHelp(**{**written, **lists})


if __name__ == "__main__":
    output.data(text_of_models())
