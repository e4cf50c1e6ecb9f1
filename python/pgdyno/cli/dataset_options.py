"""Joins the models of datasets with the options of the command line."""

from __future__ import annotations

from collections.abc import Collection
from types import NoneType
from typing import Any, Literal, get_args, get_origin

import click
from annotated_types import Ge, Le
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from pgdyno.cli.kind_options import DeclaredOption
from pgdyno.errors import SpecError
from pgdyno.spec.base import Spec


def declared_options(model: type[Spec]) -> tuple[DeclaredOption, ...]:
    """Return an option for each field of `model` that `spec.dataset.option` made."""
    return tuple(_declared(name, field) for name, field in _fields(model))


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


def _declared(name: str, field: FieldInfo) -> DeclaredOption:
    """Return the option of a field; its type follows from the type of the field."""
    kinds = [kind for kind in get_args(field.annotation) if kind is not NoneType]
    is_optional = NoneType in get_args(field.annotation)
    annotation = kinds[0] if is_optional and len(kinds) == 1 else field.annotation
    extra = field.json_schema_extra
    extra = extra if isinstance(extra, dict) else {}
    metavar = str(extra.get("metavar") or "TEXT")
    values: tuple[Any, ...] = ()
    if annotation is bool:
        type_name = "flag"
    elif get_origin(annotation) is Literal:
        type_name, values = "choice", get_args(annotation)
    elif annotation is int:
        least: Any = next((m.ge for m in field.metadata if isinstance(m, Ge)), None)
        most: Any = next((m.le for m in field.metadata if isinstance(m, Le)), None)
        type_name, values = "whole", (least, most)
    else:
        type_name = "ratio" if annotation is float else "text"
    return DeclaredOption(
        name,
        tuple(_names(field)),
        field.description or "",
        type_name,
        values,
        metavar,
        bool(extra.get("first")),
    )
