"""Whether the values of a distribution satisfy a CHECK constraint. Pure."""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping
from typing import Any

from pgdyno.engine.distribution import Distribution, Hot
from pgdyno.features.capture.schema import bare

_CHECK = re.compile(r"CHECK \((.*)\)\s*$", re.S)
_DOMAIN_CHECK = re.compile(r"\bCHECK \((.*?)\)(?: NOT VALID)?(?= CONSTRAINT| CHECK|\s*$)", re.S)
_CAST = re.compile(
    r"::[a-z_0-9]+(?: varying| precision| with(?:out)? time zone)?(?:\(\d+(?:,\d+)?\))?(?:\[\])?"
)
_COMPARED = re.compile(r"""^("[^"]*"|\w+) (>=|<=|<>|>|<|=) (-?[\d.]+|'[^']*')$""")
_LISTED = re.compile(r"""^("[^"]*"|\w+) = ANY ARRAY\[(.*)\]$""")
_OPERATORS = {
    ">=": operator.ge,
    "<=": operator.le,
    "<>": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
    "=": operator.eq,
}
_NUMBERS = ("integer", "real", "numeric")
_ISO = ("date", "timestamp", "timestamptz", "time")


def holds(sql: str, distributions: Mapping[str, Distribution]) -> bool:
    """Return whether all values surely satisfy the constraint of an ALTER TABLE statement.

    Limits: comparisons with constants and lists of constants, joined by AND; else False.
    """
    check = _CHECK.search(sql)
    if check is None:
        return False
    terms = _CAST.sub("", check[1]).split(" AND ")
    return all(_holds(re.sub(r"[()]", "", term).strip(), distributions) for term in terms)


def within_domain(sql: str, distribution: Distribution) -> Distribution:
    """Return the distribution of integers with all values inside the CHECKs of their domain.

    Limits: comparisons of VALUE with whole numbers, joined by AND; other conditions are ignored.
    """
    if distribution.kind != "integer":
        return distribution
    least, most = None, None
    for check in _DOMAIN_CHECK.findall(sql):
        for term in _CAST.sub("", check).split(" AND "):
            compared = _COMPARED.match(re.sub(r"[()]", "", term).strip())
            if (
                compared is None
                or compared[1] != "VALUE"
                or not re.fullmatch(r"-?\d+", compared[3])
            ):
                continue
            sign, limit = compared[2], int(compared[3])
            if sign in (">", ">="):
                least = limit + (sign == ">")
            elif sign in ("<", "<="):
                most = limit - (sign == "<")

    def moved(text: str) -> str:
        value = int(text)
        value = value if least is None else max(value, least)
        return str(value if most is None else min(value, most))

    shares: dict[str, float] = {}
    for common in distribution.hot:
        shares[moved(common.value)] = shares.get(moved(common.value), 0.0) + common.fraction
    hot = tuple(Hot(value=value, fraction=min(1.0, share)) for value, share in shares.items())
    bounds = tuple(map(moved, distribution.bounds))
    return distribution.model_copy(update={"hot": hot, "bounds": bounds})


def holds_in_domain(sql: str, distribution: Distribution) -> bool:
    """Return whether all values surely satisfy the CHECKs of their domain. Limits: as `holds`."""
    values = {"VALUE": distribution}
    return all(holds(f"CHECK ({check})", values) for check in _DOMAIN_CHECK.findall(sql))


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


def _holds(term: str, distributions: Mapping[str, Distribution]) -> bool:
    if (compared := _COMPARED.match(term)) is not None:
        name, sign, constant = compared.groups()
        distribution = distributions.get(bare(name))
        return distribution is not None and _compares(distribution, sign, constant.strip("'"))
    if (listed := _LISTED.match(term)) is not None:
        distribution = distributions.get(bare(listed[1]))
        allowed = {text.strip().strip("'") for text in listed[2].split(",")}
        return distribution is not None and set(_values(distribution)) <= allowed
    return False


def _values(distribution: Distribution) -> list[str]:
    """Return the common values and the bounds."""
    return [*(hot.value for hot in distribution.hot), *distribution.bounds]


def _compares(distribution: Distribution, sign: str, constant: str) -> bool:
    """Return whether every value stands in this relation to a constant.

    All other values lie between the bounds.
    """
    compare = _OPERATORS[sign]
    values = _values(distribution)
    is_known = len(distribution.bounds) > 1 or len(distribution.hot) >= distribution.distinct
    if not is_known or (sign in ("=", "<>") and distribution.bounds):
        return False
    try:
        if distribution.kind in _NUMBERS:
            return all(compare(float(value), float(constant)) for value in values)
    except ValueError:
        return False
    if distribution.kind in _ISO or sign in ("=", "<>"):
        return all(compare(value, constant) for value in values)
    return False
