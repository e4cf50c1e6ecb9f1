"""What the TPC-C-like program adds to the findings of a run: NOPM, types, shares, the check."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from pgdyno.analysis.findings import Panel, RunFindings, ScriptFindings
from pgdyno.analysis.rounding import range_words, value_words
from pgdyno.analysis.verdicts import Doubt
from pgdyno.answer.charts.drawing import series
from pgdyno.answer.own import Examined, OwnAnswer, check_of
from pgdyno.features.tpcc.draws import drawn_since, first_after_the_load
from pgdyno.features.tpcc.findings import TpccFindings, tpcc_doubts, tpcc_findings
from pgdyno.features.tpcc.load import NEW_ORDER
from pgdyno.features.tpcc.nurand import (
    DrawnFindings,
    constants_of_run,
    drawn_doubts,
    drawn_findings,
)
from pgdyno.loop.load_numbers import LoadNumbers, as_histogram, measured_seconds
from pgdyno.quantities import counted
from pgdyno.server.connect import Connection
from pgdyno.store.stored_run import StoredHistogram, StoredRun

_WHOLE_NS = 500_000_000


class TpccAnswer(OwnAnswer):
    """Reads a run by the rules of the specification."""

    def findings(
        self,
        stored: StoredRun,
        numbers: LoadNumbers,
        scripts: Sequence[ScriptFindings],
        server: Mapping[str, Any],
    ) -> TpccFindings | None:
        """Return the findings of a run; None if it completed no New-Order."""
        work = stored.job.get("work", {})
        dataset = server.get("dataset") or {}
        return tpcc_findings(
            scripts,
            numbers.tps,
            warehouses=dataset.get("scale") if dataset.get("kind") == "tpcc" else None,
            think_ratio=float(work.get("think_ratio", 0.0)),
            options=dict(work["scripts"][0].get("options", {})) if work.get("scripts") else {},
            check=check_of(stored),
            drawn=_drawn(stored),
        )

    def doubts(self, own: TpccFindings) -> Iterator[Doubt]:
        """Yield the rules that the run broke."""
        yield from tpcc_doubts(own)

    def doubts_of_every_run(self, stored: StoredRun) -> Iterator[Doubt]:
        """Yield a doubt if customers or items do not follow NURand."""
        yield from drawn_doubts(_drawn(stored))

    def panels(self, stored: StoredRun, numbers: LoadNumbers) -> Sequence[Panel]:
        """Return New-Orders a minute, and the 90th percentile of each type, second by second."""
        return _panels(stored, numbers)

    def sentence(self, run: RunFindings) -> str:
        """Return NOPM, the kind of load, and whether limits, mix and data are as specified."""
        own: TpccFindings = run.program.own
        words = f"{value_words(own.nopm)} NOPM{range_words(own.nopm)} with "
        words += f"{counted(run.clients, 'terminal')}, {own.way}"
        missed = [kind.words for kind in own.types if "missed" in (kind.limit, kind.mix)]
        if missed:
            words += f"; {', '.join(missed)} not as specified"
        if own.check is not None and own.check.violated:
            words += "; the data are inconsistent"
        return words + "."

    def examined(self, connection: Connection) -> Examined:
        """Return whether the orders after the load follow NURand with any constant C."""
        drawn = [
            drawn_findings(draw.name, draw.counts, outside_count=draw.outside_count)
            for draw in drawn_since(connection, first_after_the_load(connection))
        ]
        return Examined(
            tuple(f"drawn: {draw.words}: {_skew_words(draw)}" for draw in drawn),
            {"drawn": [draw.as_document() for draw in drawn]},
        )


ANSWER = TpccAnswer()


def _skew_words(draw: DrawnFindings) -> str:
    if draw.verdict != "differs":
        return draw.verdict_words
    return f"{draw.verdict_words}: something else, or more than one run, made these orders"


def _panels(stored: StoredRun, numbers: LoadNumbers) -> list[Panel]:
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


def _drawn(stored: StoredRun) -> tuple[DrawnFindings, ...]:
    """Return what the orders of a run drew; empty if nothing was examined."""
    document = stored.server_json.get("consistency") or {}
    if not document.get("drawn"):
        return ()
    seed = stored.job["work"]["seed"]
    return tuple(
        drawn_findings(
            drawn["name"],
            drawn["counts"],
            outside_count=drawn["outside_count"],
            constant=constants_of_run(seed, drawn["load_c_last"])[drawn["name"]],
        )
        for drawn in document["drawn"]
    )
