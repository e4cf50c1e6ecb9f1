"""The same question asked again later: how much a host drifted between two results."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pgdyno.store.experiment import Store
from pgdyno.store.folder import ExperimentFolder


@dataclass(frozen=True, slots=True)
class Reference:
    """One result that measured the same load on the same server, and its throughput."""

    number: int
    began_ns: int
    tps: float


def references(store: Store, first: ExperimentFolder, second: ExperimentFolder) -> list[Reference]:
    """Return what measured the first one's load, from the first to the second, in time order.

    The first is among them. Of a result with variants its reference counts.
    """
    asked = _question(first)
    begins = sorted((first.began_ns, second.began_ns))
    found = []
    for listed in store.list():
        if listed.verb == "watch" or not begins[0] <= listed.began_ns <= begins[1]:
            continue
        folder = ExperimentFolder(listed.folder)
        tps = _tps(folder.analysis() or {})
        if tps is not None and _question(folder) == asked:
            found.append(Reference(listed.number, listed.began_ns, tps))
    return sorted(found, key=lambda one: one.began_ns)


def _question(folder: ExperimentFolder) -> dict[str, Any]:
    """Return what was asked without name and design: server, data, load, the first variant."""
    spec = tomllib.loads(folder.spec())
    kept = {name: spec.get(name) for name in ("server", "dataset", "workload")}
    workload = dict(kept["workload"] or {})
    workload.pop("duration", None)  # A longer run of the same load is the same question.
    variants = spec.get("variant") or [{}]
    first = {name: value for name, value in variants[0].items() if name not in ("name", "price")}
    return {**kept, "workload": workload, "variant": first}


def _tps(document: Mapping[str, Any]) -> float | None:
    return next(_values(document), None)


def _values(document: Mapping[str, Any]) -> Iterator[float]:
    if isinstance(own := document.get("tps"), Mapping):
        yield float(own["value"])
    for variant in document.get("variants", ()):
        if isinstance(tps := variant.get("metrics", {}).get("tps"), Mapping):
            yield float(tps["value"])
