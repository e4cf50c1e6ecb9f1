"""The design of `bench`: one measured run, after a pilot that finds the warm-up."""

from __future__ import annotations

from collections.abc import Mapping

from pgdyno.plan.design import NONE, Design
from pgdyno.plan.history import History, pilots
from pgdyno.plan.visits import PILOT_NS, connects_too_many, pilot, warm_up_ns
from pgdyno.spec.designs import BenchDesign
from pgdyno.spec.planned import Cell, PlannedRun, Purpose, Stop


class Bench(Design[BenchDesign]):
    """The pilot, then the run."""

    model = BenchDesign

    def next_run(
        self,
        history: History,
        excluded: frozenset[str] = NONE,  # noqa: ARG002
    ) -> PlannedRun | Stop:
        """Return the pilot, then the run, then Stop."""
        workload = self.experiment.workload
        weights = enumerate(script.weight for script in workload.scripts)
        cell = Cell(
            script_indexes=tuple(index for index, weight in weights if weight > 0),
            clients=workload.clients,
            rate_tps=workload.rate_tps,
        )
        if any(measured.run.purpose == "detail" for measured in history):
            return Stop("the run was measured")
        if not pilots(history) and self._needs_pilot():
            return pilot(self.seed, cell, number=1, run_ns=workload.duration_ns)
        return PlannedRun(
            number=len(history) + 1,
            purpose="detail",
            round=1,
            cell=cell,
            warm_ns=warm_up_ns(self.experiment, history),
            measure_ns=workload.duration_ns,
            transactions_per_client=workload.transactions_per_client,
            seed=self.seed,
            reason="requested run",
        )

    def runs_expected(
        self,
        history: History,  # noqa: ARG002
        excluded: frozenset[str] = NONE,  # noqa: ARG002
    ) -> int:
        """Return 1, or 2 with a pilot."""
        return 1 + int(self._needs_pilot())

    def clocked_ns(self) -> Mapping[Purpose, tuple[str, int]]:
        """Return the length of the run; nothing if a number of transactions ends it."""
        workload = self.experiment.workload
        is_clocked = workload.transactions_per_client is None
        return {"detail": ("a run", workload.duration_ns)} if is_clocked else {}

    def _needs_pilot(self) -> bool:
        """Return False if the run is too short for a pilot, or has too many connections."""
        workload = self.experiment.workload
        is_long = workload.transactions_per_client is None and workload.duration_ns >= PILOT_NS
        is_asked = workload.warmup_ns is None and is_long
        return is_asked and not connects_too_many(self.experiment)
