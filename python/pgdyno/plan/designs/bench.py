"""The design of `bench`: one measured run, which warms up for a tenth of its length."""

from __future__ import annotations

from collections.abc import Mapping

from pgdyno.plan.design import NONE, Design
from pgdyno.plan.history import History
from pgdyno.plan.visits import WARMUP_LEAST_NS, connects_too_many, warm_up_ns
from pgdyno.spec.designs import BenchDesign
from pgdyno.spec.planned import Cell, PlannedRun, Purpose, Stop

_WARMUP_MOST_NS = 10_000_000_000


class Bench(Design[BenchDesign]):
    """The run.

    A pilot would take as long as a short run. If the warm-up was too short, the run itself shows
    this, and the answer has the doubt `not_steady`.
    """

    model = BenchDesign

    def next_run(
        self,
        history: History,
        excluded: frozenset[str] = NONE,  # noqa: ARG002
    ) -> PlannedRun | Stop:
        """Return the run, then Stop."""
        workload = self.experiment.workload
        weights = enumerate(script.weight for script in workload.scripts)
        cell = Cell(
            script_indexes=tuple(index for index, weight in weights if weight > 0),
            clients=workload.clients,
            rate_tps=workload.rate_tps,
        )
        if any(measured.run.purpose == "detail" for measured in history):
            return Stop("the run was measured")
        return PlannedRun(
            number=len(history) + 1,
            purpose="detail",
            round=1,
            cell=cell,
            warm_ns=self._warm_ns(history),
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
        """Return 1."""
        return 1

    def clocked_ns(self) -> Mapping[Purpose, tuple[str, int]]:
        """Return the length of the run; nothing if a number of transactions ends it."""
        workload = self.experiment.workload
        is_clocked = workload.transactions_per_client is None
        return {"detail": ("a run", workload.duration_ns)} if is_clocked else {}

    def _warm_ns(self, history: History) -> int:
        """Return the warm-up: as asked, or a tenth of the run, at least 2 s and at most 10 s."""
        workload = self.experiment.workload
        is_clocked = workload.transactions_per_client is None
        if workload.warmup_ns is not None or not is_clocked or connects_too_many(self.experiment):
            return warm_up_ns(self.experiment, history)
        return min(_WARMUP_MOST_NS, max(WARMUP_LEAST_NS, workload.duration_ns // 10))
