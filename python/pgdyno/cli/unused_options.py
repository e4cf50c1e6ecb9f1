"""Refuses options that would change nothing: an option changes the result, or it is refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click
from click.core import ParameterSource

from pgdyno.errors import SpecError

# Of numbers and times the last one counts, as in pgbench and psql: an alias can have a default.
_LAST_COUNTS = ("N", "TIME", "LEVELS", "RATE", "SHARE", "SIZE")


def is_given(options: Mapping[str, Any], name: str) -> bool:
    """Return whether the command line has this option, also with its default as value."""
    context = click.get_current_context(silent=True)
    source = context.get_parameter_source(name) if context is not None else None
    if source is not None:
        return source is ParameterSource.COMMANDLINE
    return options.get(name) not in (None, False, (), "")


def refuse_without_effect(
    options: Mapping[str, Any], names: Iterable[str], because: str, hint: str
) -> None:
    """Raise SpecError if one of these options is given: it would have no effect.

    Args: names, click's names of the options; because, the reason, a clause.
    """
    for name in names:
        if is_given(options, name):
            raise SpecError(
                f"{option_text(options, name)} has no effect here: {because}.",
                hint=hint or "leave the option out",
            )


def refuse_beside_print_sql(options: Mapping[str, Any]) -> None:
    """Raise SpecError for --json with --print-sql, which prints statements and no document."""
    because = "--print-sql prints statements and ends"
    refuse_without_effect(options, ["json_to"], because, "use one of the two")


def option_text(options: Mapping[str, Any], name: str) -> str:
    """Return an option as on the command line: "--scale 10", "--keep"."""
    context = click.get_current_context(silent=True)
    parameters = context.command.get_params(context) if context is not None else []
    words = next((_long_name(p, options.get(name)) for p in parameters if p.name == name), "")
    words = words or "--" + name.replace("_", "-")
    value = options.get(name)
    if isinstance(value, tuple | list):
        value = value[0] if value else None
    is_flag = value is None or isinstance(value, bool) or not str(value).isprintable()
    return words if is_flag else f"{words} {value}"


def refuse_given_twice(order: Sequence[click.Parameter], context: click.Context) -> None:
    """Raise a usage error if an option with one value is given twice: the first would be lost.

    Args: order, the parameters as they stand on the command line; one that is given twice is in it
    twice.
    """
    seen: dict[str, click.Parameter] = {}
    for parameter in order:
        if not isinstance(parameter, click.Option) or parameter.multiple or parameter.count:
            continue
        name = str(parameter.name)
        before = seen.setdefault(name, parameter)
        if before is parameter and order.count(parameter) < 2:
            continue
        if parameter.is_flag and parameter is before and not parameter.secondary_opts:
            continue  # Twice the same flag: nothing is lost.
        if _last_counts(parameter, context):
            continue
        words = _long_name(parameter, None)
        if before is not parameter:
            first = _long_name(before, None)
            raise click.UsageError(f"{first} and {words} exclude each other: use one.", ctx=context)
        raise click.UsageError(
            f"{words} is given twice, but only one value counts: give it once.", ctx=context
        )


def _last_counts(option: click.Option, context: click.Context) -> bool:
    is_number = isinstance(option.type, click.IntRange | click.FloatRange)
    return is_number or option.make_metavar(context).strip("[]") in _LAST_COUNTS


def _long_name(parameter: click.Parameter, value: Any) -> str:
    names = parameter.secondary_opts if value is False else parameter.opts
    return next((name for name in names if name.startswith("--")), names[0] if names else "")
