"""Reads one stored run of the TPC-C-like program for the numbers of the specification."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pgdyno.analysis.findings import Panel
from pgdyno.analysis.nurand import constants_of_run, drawn_findings
from pgdyno.analysis.script_findings import ScriptFindings
from pgdyno.analysis.tpcc import (
    NEW_ORDER,
    PROGRAM,
    CheckFindings,
    ConditionFindings,
    TpccFindings,
    tpcc_findings,
)
from pgdyno.answer.charts.drawing import series
from pgdyno.loop.load_numbers import LoadNumbers, as_histogram, measured_seconds
from pgdyno.store.stored_run import StoredHistogram, StoredRun

_WHOLE_NS = 500_000_000


def tpcc_of(
    stored: StoredRun,
    numbers: LoadNumbers,
    scripts: Sequence[ScriptFindings],
    server: Mapping[str, Any],
) -> TpccFindings | None:
    """Return the TPC-C findings of a run; None if it ran another program.

    Args: scripts, of the run; server, the facts of the server as stored.
    """
    if not _is_tpcc(numbers):
        return None
    work = stored.job.get("work", {})
    dataset = server.get("dataset") or {}
    return tpcc_findings(
        scripts,
        numbers.tps,
        warehouses=dataset.get("scale") if dataset.get("kind") == "tpcc" else None,
        think_ratio=float(work.get("think_ratio", 0.0)),
        options=dict(work["scripts"][0].get("options", {})) if work.get("scripts") else {},
        check=check_of(stored),
    )


def tpcc_panels(stored: StoredRun, numbers: LoadNumbers) -> list[Panel]:
    """Return New-Orders a minute, and the 90th percentile of each type, second by second."""
    if not _is_tpcc(numbers):
        return []
    names = [shape.name for shape in numbers.scripts]
    by_second = {
        name: measured_seconds(stored, "latency", place) for place, name in enumerate(names)
    }
    orders = [record for record in by_second.get(NEW_ORDER, []) if record.interval_ns > _WHOLE_NS]
    panels = []
    if len(orders) > 1:
        rates = [sum(record.counts) * 60e9 / record.interval_ns for record in orders]
        line = series("New-Orders", np.asarray(rates, dtype=np.float64))
        panels.append(Panel("nopm", "New-Orders", "NOPM", _axis(orders, numbers), (line,)))
    seconds = sorted({record.time_ns for rows in by_second.values() for record in rows})
    if len(seconds) > 1 and orders:
        lines = []
        for name, rows in by_second.items():
            histogram_at = {
                record.time_ns: as_histogram(record) for record in rows if sum(record.counts)
            }
            values = [
                histogram_at[at].percentile_ns(90) / 1e6 if at in histogram_at else math.nan
                for at in seconds
            ]
            lines.append(series(name, np.asarray(values, dtype=np.float64)))
        axis = tuple(round((at - numbers.began_ns) / 1e9 - 0.5, 3) for at in seconds)
        title = "90th percentile of each transaction type"
        panels.append(Panel("types", title, "ms", axis, tuple(lines), is_logarithmic=True))
    return panels


def _axis(rows: Sequence[StoredHistogram], numbers: LoadNumbers) -> tuple[float, ...]:
    middles = (record.time_ns - record.interval_ns // 2 - numbers.began_ns for record in rows)
    return tuple(round(middle / 1e9, 3) for middle in middles)


def _is_tpcc(numbers: LoadNumbers) -> bool:
    shapes = numbers.scripts
    return bool(shapes) and all(shape.program == PROGRAM for shape in shapes)


def check_of(stored: StoredRun) -> CheckFindings | None:
    """Return the result of the data check after a run, None if nothing was checked."""
    document = (stored.document("server.json") or {}).get("consistency")
    if not document:
        return None
    seed = stored.job["work"]["seed"] if document.get("drawn") else 0
    return CheckFindings(
        conditions=tuple(
            ConditionFindings(
                number=int(verdict["number"]),
                rule=str(verdict["rule"]),
                violations={int(w): int(count) for w, count in verdict["violations"].items()},
            )
            for verdict in document.get("conditions", ())
        ),
        duration_s=document.get("duration_ns", 0) / 1e9,
        why_not=str(document.get("why_not", "")),
        drawn=tuple(
            drawn_findings(
                drawn["name"],
                drawn["counts"],
                outside_count=drawn["outside_count"],
                constant=constants_of_run(seed, drawn["load_c_last"])[drawn["name"]],
            )
            for drawn in document.get("drawn", ())
        ),
    )
