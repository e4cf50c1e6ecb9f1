"""Reads the models of datasets from the options of the command line."""

from __future__ import annotations

from typing import Any

import click
from pydantic import ValidationError

from pgdyno.cli.option_table import lines_of
from pgdyno.errors import SpecError
from pgdyno.spec.base import Spec


def given_of(table: str, given: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a table that the command line names.

    Raises: SpecError for an option that has no effect without another.
    """
    fields = {line.field: given.get(line.field) for line in lines_of(table)}
    if (method := fields.get("partition_method")) is not None and not fields["partitions"]:
        raise SpecError(
            f"--partition-method {method} needs --partitions N.",
            hint="add --partitions, or leave the method out",
        )
    return {name: value for name, value in fields.items() if value not in (None, False)}


def read_options(model: type[Spec], table: str, given: dict[str, Any], **more: Any) -> Spec:
    """Return `model` with the values of the command line, and `more` fields without an option.

    Args: table, of the options of the model, as in `option_table`.
    Raises: click.BadParameter with the name of the option; SpecError if options contradict.
    """
    try:
        return model.model_validate({**given_of(table, given), **more})
    except ValidationError as error:
        first = error.errors()[0]
        if not first["loc"]:  # The options contradict each other.
            message, _, hint = str(first["msg"]).removeprefix("Value error, ").partition("; ")
            raise SpecError(f"{message}.", hint=hint or "leave one of them out") from None
        named = (line for line in lines_of(table) if line.field == first["loc"][-1])
        names = [name for line in named for name in line.names if name.startswith("-")]
        hint = " / ".join(f"'{name}'" for name in names)
        message = str(first["msg"]).removeprefix("Value error, ")
        raise click.BadParameter(f"{message}.", param_hint=hint) from None
