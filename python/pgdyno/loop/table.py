"""The runs of one experiment as a table: one row a run, the same for CSV, JSON and notebooks."""

from __future__ import annotations

from typing import Any

from pgdyno.loop.history import history_of
from pgdyno.loop.metrics import UNITS
from pgdyno.spec.experiment import Experiment
from pgdyno.store.folder import ExperimentFolder

Row = dict[str, Any]
COLUMNS = (
    *("run", "purpose", "round", "variant", "script", "clients", "rate_tps", "warm_s", "took_s"),
    *(f"{name}_{unit}" if name != unit else name for name, unit in UNITS.items()),
)


def rows_of(folder: ExperimentFolder, experiment: Experiment) -> list[Row]:
    """Return one row for each complete run, pilots too; columns as in `COLUMNS`.

    A metric that a run did not measure is None.
    """
    scripts = [script.name for script in experiment.all_scripts()]
    rows = []
    for measured in history_of(folder):
        run = measured.run
        metrics = {
            f"{name}_{unit}" if name != unit else name: measured.metrics.get(name)
            for name, unit in UNITS.items()
        }
        rows.append(
            {
                "run": run.number,
                "purpose": run.purpose,
                "round": run.round,
                "variant": None
                if run.cell.variant is None
                else experiment.variant(run.cell.variant).name,
                "script": " + ".join(scripts[i] for i in run.cell.script_indexes),
                "clients": run.cell.clients,
                "rate_tps": run.cell.rate_tps,
                "warm_s": run.warm_ns / 1e9,
                "took_s": measured.took_ns / 1e9,
                **metrics,
            }
        )
    return rows
