"""CHECK constraints of a copy: which its load may break, and values that satisfy them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Any

from pgdyno.engine.distribution import Distribution
from pgdyno.features.capture.schema import ColumnShape, SchemaObject

_DOMAIN_CHECK = re.compile(r"\bCHECK \((.*?)\)(?: NOT VALID)?(?= CONSTRAINT| CHECK|\s*$)", re.S)
_ISO = ("date", "timestamp", "timestamptz", "time")


def with_broken(
    objects: Iterable[SchemaObject], columns: Iterable[ColumnShape], written: AbstractSet[str]
) -> tuple[SchemaObject, ...]:
    """Return the objects; the conditions that a load may break on a copy are marked.

    Args: written, the tables that the load changes: nobody knows what its values become there.
    """
    types = {column.type for column in columns if column.table in written}

    def is_broken(item: SchemaObject) -> bool:
        if item.kind == "domain":
            names = (item.name, item.name.rpartition(".")[2])
            return " CHECK (" in item.sql and not types.isdisjoint(names)
        return item.kind == "check" and item.table in written

    return tuple(
        item
        if item.is_broken_by_load == is_broken(item)
        else item.model_copy(update={"is_broken_by_load": is_broken(item)})
        for item in objects
    )


def without_checks(sql: str) -> str:
    """Return CREATE DOMAIN without its conditions."""
    return _DOMAIN_CHECK.sub("", sql).rstrip()


def conditions_of(sql: str) -> list[str]:
    """Return the conditions of CREATE DOMAIN, as ALTER DOMAIN adds them."""
    return [f"CHECK ({check})" for check in _DOMAIN_CHECK.findall(sql)]


def within_partitions(least: str, end: str, distribution: Distribution) -> Distribution:
    """Return the distribution with all values from `least` to below `end`, so each has a place."""
    order: Any = int if distribution.kind == "integer" else str
    if distribution.kind not in ("integer", *_ISO):
        return distribution

    def inside(value: str) -> str | None:
        return None if order(value) >= order(end) else max(value, least, key=order)

    bounds = [moved for bound in distribution.bounds if (moved := inside(bound)) is not None]
    hot = [common for common in distribution.hot if inside(common.value) == common.value]
    return distribution.model_copy(update={"bounds": tuple(bounds), "hot": tuple(hot)})
