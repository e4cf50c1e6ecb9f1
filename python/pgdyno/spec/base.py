"""Base class and field types of all spec models: frozen, unknown keys refused, units in names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    model_validator,
)

from pgdyno.errors import SpecError
from pgdyno.redaction import redacted
from pgdyno.spec.units import MINUTE_NS as MINUTE_NS
from pgdyno.spec.units import SECOND_NS as SECOND_NS
from pgdyno.spec.units import duration_exactly, duration_ns

_DURATION_NS_MAX = 31 * 24 * 60 * MINUTE_NS
NAME_LENGTH_MAX = 200


def _duration(value: object) -> int:
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        try:
            nanoseconds = duration_ns(value)
        except SpecError as error:
            raise ValueError(error.message) from error
        if nanoseconds > _DURATION_NS_MAX:
            raise ValueError(f"a duration of at most 31 d, got {value!r}")
        return nanoseconds
    raise ValueError(f'a duration such as "60s", got {value!r}')


def _ratio(value: object) -> float:
    if isinstance(value, str) and (match := re.fullmatch(r"\s*([0-9.]+)\s*%\s*", value)):
        return float(match[1]) / 100
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    raise ValueError(f'a share such as "3%" or 0.03, got {value!r}')


def _name(value: str) -> str:
    if not 0 < len(value) <= NAME_LENGTH_MAX or not value.isprintable():
        shown = value if len(value) < 40 else value[:40] + "..."
        raise ValueError(f"one line of 1 to {NAME_LENGTH_MAX} printable characters, got {shown!r}")
    return value


def _without_password(value: str) -> str:
    if redacted(value) != value:
        raise ValueError("a password does not belong in a spec: use ~/.pgpass, PGPASSWORD, service")
    return value


# A conninfo string or URI. Results keep it, so it must not contain a password.
Conninfo = Annotated[str, AfterValidator(_without_password)]
# A command of the user. The journal of changes keeps it, so it must not contain a password.
Command = Conninfo
# A name that lists, titles and terminals can show unchanged.
Name = Annotated[str, AfterValidator(_name)]
# A spec file has text or a number of seconds, under the alias of the field. The model stores
# nanoseconds and writes text.
DurationNs = Annotated[
    int, BeforeValidator(_duration), Field(ge=0), PlainSerializer(duration_exactly)
]
# A spec file has "3%" or 0.03; the model stores 0.03.
Ratio = Annotated[float, BeforeValidator(_ratio), Field(gt=0, lt=1, allow_inf_nan=False)]


class Spec(BaseModel):
    """A frozen model that refuses unknown keys."""

    # Built at the first use: help reads only the fields.
    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _true_is_no_number(cls, given: object) -> object:
        """Refuse `clients = true`, which would be taken as 1."""
        if not isinstance(given, dict):
            return given
        for name, field in cls.model_fields.items():
            value = given.get(field.alias or name, given.get(name))
            kinds = set(_plain_types(field.annotation)) if isinstance(value, bool) else set()
            if kinds & {int, float} and bool not in kinds:
                raise ValueError(f"{name} must be a number, got {str(value).lower()}")
        return given


def _plain_types(annotation: Any) -> Iterator[Any]:
    yield annotation
    for part in get_args(annotation):
        yield from _plain_types(part)
