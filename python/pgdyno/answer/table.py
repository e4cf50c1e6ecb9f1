"""The runs of one experiment as a table with one row a run, for files and notebooks alike."""

from __future__ import annotations

from typing import Any

from pgdyno.loop.history import UNITS, history_of
from pgdyno.observe.collector import Column
from pgdyno.programs.registry import own_metrics
from pgdyno.spec.experiment import Experiment
from pgdyno.store.folder import ExperimentFolder

Row = dict[str, Any]
_MEANINGS = {
    "tps": "committed transactions per second, measured phase",
    **{name: metric.meaning for name, metric in own_metrics().items()},
    "p50": "median latency",
    "p99": "latency that 99 of 100 transactions do not exceed",
    "mean": "mean latency",
    "cpu_per_tx": "CPU of the server's backends per transaction",
    "wal_per_tx": "WAL per transaction",
    "duration": "mean duration of one execution",
}


def _metric_column(name: str) -> str:
    unit = UNITS[name]
    return f"{name}_{unit}" if name != unit.lower() else name


COLUMNS: tuple[Column, ...] = (
    Column("run", "int64", "number", "run of the experiment", "key"),
    Column(
        "purpose",
        "text",
        "name",
        "pilot (finds the warm-up; not in the answer), round, capacity or detail",
    ),
    Column("round", "int64", "number", "round of the experiment"),
    Column("variant", "text", "name", "measured variant", is_nullable=True),
    Column("script", "text", "name", "scripts of the load"),
    Column("clients", "int64", "clients", "clients of the load"),
    Column("rate_tps", "float64", "tps", "offered load (open loop)", is_nullable=True),
    Column("warm_s", "float64", "s", "warm-up before the measured time"),
    Column("took_s", "float64", "s", "the whole run, with its reset"),
    *(
        Column(_metric_column(name), "float64", UNITS[name], _MEANINGS[name], is_nullable=True)
        for name in UNITS
    ),
)


def rows_of(folder: ExperimentFolder, experiment: Experiment) -> list[Row]:
    """Return one row for each complete run, including pilots; columns as in `COLUMNS`.

    A metric that a run did not measure is None.
    """
    scripts = [script.name for script in experiment.all_scripts()]
    rows = []
    for measured in history_of(folder):
        run = measured.run
        metrics = {_metric_column(name): measured.metrics.get(name) for name in UNITS}
        rows.append(
            {
                "run": run.number,
                "purpose": run.purpose,
                "round": run.round,
                "variant": None if run.cell.variant is None else run.cell.variant.name,
                "script": " + ".join(scripts[i] for i in run.cell.script_indexes),
                "clients": run.cell.clients,
                "rate_tps": run.cell.rate_tps,
                "warm_s": run.warm_ns / 1e9,
                "took_s": measured.took_ns / 1e9,
                **metrics,
            }
        )
    return rows
