"""Dates, times and intervals as whole microseconds and back: to move them a little."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

SECOND_US = 1_000_000
DAY_US = 86_400 * SECOND_US
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# A stand-in of the first day that a program knows may not be before it.
_LEAST_US, _MOST_US = (
    Decimal((moment.replace(tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1))
    for moment in (datetime.min, datetime.max)
)
_INTERVAL = re.compile(
    r"P(?:(?P<years>-?\d+)Y)?(?:(?P<months>-?\d+)M)?(?:(?P<days>-?\d+)D)?"
    r"(?:T(?:(?P<hours>-?\d+)H)?(?:(?P<minutes>-?\d+)M)?(?:(?P<seconds>-?[\d.]+)S)?)?"
)
_SECONDS_OF = {
    "years": 31_557_600,
    "months": 2_592_000,
    "days": 86_400,
    "hours": 3_600,
    "minutes": 60,
    "seconds": 1,
}


def microseconds(kind: str, value: str) -> Decimal | None:
    """Return a value of PostgreSQL as microseconds; None for infinity, BC and what is not a time.

    `kind`: of a distribution. The texts are those of DateStyle ISO and IntervalStyle iso_8601.
    """
    try:
        if kind == "date":
            return Decimal((date.fromisoformat(value) - _EPOCH.date()).days * DAY_US)
        if kind in ("timestamp", "timestamptz"):
            moment = datetime.fromisoformat(value)
            moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            return Decimal((moment - _EPOCH) // timedelta(microseconds=1))
        if kind == "time":
            hours, minutes, seconds = value.partition("+")[0].split(":")
            return (Decimal(hours) * 3600 + Decimal(minutes) * 60 + Decimal(seconds)) * SECOND_US
    except (ValueError, ArithmeticError, OverflowError):
        return None
    match = _INTERVAL.fullmatch(value)
    if match is None or value == "P":
        return None
    parts = {name: Decimal(text) for name, text in match.groupdict().items() if text}
    return sum((_SECONDS_OF[name] * count for name, count in parts.items()), Decimal(0)) * SECOND_US


def text_of(kind: str, value_us: Decimal) -> str:
    """Return microseconds as PostgreSQL writes a value of this kind; years are from 1 to 9999."""
    if kind in ("date", "timestamp", "timestamptz"):
        value_us = max(_LEAST_US, min(value_us, _MOST_US))
    if kind == "date":
        return (_EPOCH.date() + timedelta(days=int(value_us // DAY_US))).isoformat()
    if kind in ("timestamp", "timestamptz"):
        moment = _EPOCH + timedelta(microseconds=int(value_us))
        text = moment.replace(tzinfo=None).isoformat(" ")
        return text + ("+00" if kind == "timestamptz" else "")
    if kind == "time":
        within = max(Decimal(0), min(value_us, Decimal(DAY_US - 1)))
        return (datetime.min + timedelta(microseconds=int(within))).time().isoformat()
    return f"PT{value_us / SECOND_US:f}S"


def step_us(kind: str, values: list[Decimal]) -> Decimal:
    """Return the distance of possible times: a day, hour, minute, second, or a microsecond."""
    for size_us in (DAY_US, 3600 * SECOND_US, 60 * SECOND_US, SECOND_US):
        if all(value % size_us == 0 for value in values):
            return Decimal(size_us)
    return Decimal(DAY_US if kind == "date" else 1)
