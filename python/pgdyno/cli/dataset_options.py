"""Makes options of the command line from the fields of a kind of dataset."""

from __future__ import annotations

from collections.abc import Callable, Collection
from types import NoneType
from typing import Any, Literal, get_args, get_origin

import click
from annotated_types import Ge, Le
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from pgdyno.cli.headings import under
from pgdyno.errors import SpecError
from pgdyno.spec.base import Spec


def options_of(
    model: type[Spec], heading: str, *, without: Collection[str] = ()
) -> Callable[[Any], Any]:
    """Return a decorator that adds an option for each field of `model` made by `option`.

    Args: heading, of the section in --help; without, fields without an option.
    """

    def add(command: Any) -> Any:
        for name, field in reversed(_fields(model)):
            if name in without:
                continue
            command = under(heading)(*_names(field), name, **_settings(field))(command)
        return command

    return add


def given_of(model: type[Spec], given: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of `model` that the command line names.

    Raises: SpecError for an option that has no effect without another.
    """
    fields = {name: given.get(name) for name, _ in _fields(model)}
    if (method := fields.get("partition_method")) is not None and not fields["partitions"]:
        raise SpecError(
            f"--partition-method {method} needs --partitions N.",
            hint="add --partitions, or leave the method out",
        )
    return {name: value for name, value in fields.items() if value not in (None, False)}


def option_names(model: type[Spec], without: Collection[str] = ()) -> list[str]:
    """Return the names of the fields of `model` that are options of the command line."""
    return [name for name, _ in _fields(model) if name not in without]


def read_options(model: type[Spec], given: dict[str, Any], **more: Any) -> Spec:
    """Return `model` with the values of the command line, and `more` fields without an option.

    Raises: click.BadParameter with the name of the option; SpecError if options contradict.
    """
    try:
        return model.model_validate({**given_of(model, given), **more})
    except ValidationError as error:
        first = error.errors()[0]
        if not first["loc"]:  # The options contradict each other.
            message, _, hint = str(first["msg"]).removeprefix("Value error, ").partition("; ")
            raise SpecError(f"{message}.", hint=hint or "leave one of them out") from None
        names = _names(model.model_fields[str(first["loc"][-1])])
        hint = " / ".join(f"'{name}'" for name in names)
        message = str(first["msg"]).removeprefix("Value error, ")
        raise click.BadParameter(f"{message}.", param_hint=hint) from None


def _fields(model: type[Spec]) -> list[tuple[str, FieldInfo]]:
    return [(name, field) for name, field in model.model_fields.items() if _names(field)]


def _names(field: FieldInfo) -> list[str]:
    extra = field.json_schema_extra
    names = extra.get("option") if isinstance(extra, dict) else None
    return [str(name) for name in names] if isinstance(names, list) else []


def _settings(field: FieldInfo) -> dict[str, Any]:
    """Return click's settings for the type of the field; without the option, None or False."""
    kinds = [kind for kind in get_args(field.annotation) if kind is not NoneType]
    is_optional = NoneType in get_args(field.annotation)
    annotation = kinds[0] if is_optional and len(kinds) == 1 else field.annotation
    settings: dict[str, Any] = {"help": field.description}
    if annotation is bool:
        return {**settings, "is_flag": True}
    if get_origin(annotation) is Literal:
        return {**settings, "type": click.Choice(get_args(annotation))}
    if annotation is int:
        least: Any = next((m.ge for m in field.metadata if isinstance(m, Ge)), None)
        most: Any = next((m.le for m in field.metadata if isinstance(m, Le)), None)
        return {**settings, "type": click.IntRange(least, most)}
    if annotation is float:
        return {**settings, "type": float, "metavar": "RATIO"}
    extra = field.json_schema_extra
    metavar = str(extra.get("metavar") or "TEXT") if isinstance(extra, dict) else "TEXT"
    return {**settings, "type": str, "metavar": metavar}
