from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.programs.toy.load import PROGRAM, SALE

from pgdyno.analysis.estimate import Estimate
from pgdyno.analysis.findings import Panel, RunFindings, ScriptFindings, Series
from pgdyno.analysis.verdicts import Doubt
from pgdyno.answer.own import OwnAnswer
from pgdyno.loop.load_numbers import LoadNumbers
from pgdyno.store.stored_run import StoredRun


@dataclass(frozen=True)
class Market:
    sales: Estimate
    lines: int
    p90: Estimate

    @property
    def figures(self) -> Mapping[str, Estimate]:
        return {"sales": self.sales}


class ToyAnswer(OwnAnswer):
    def findings(
        self,
        stored: StoredRun,
        numbers: LoadNumbers,
        scripts: Sequence[ScriptFindings],
        server: Mapping[str, Any],
    ) -> Market:
        sale = next(script for script in scripts if script.name == SALE)
        hourly = sale.tps.scaled(3600, "sales/h")
        return Market(hourly, sale.counted["lines"], sale.latency.percentiles["p90"])

    def doubts(self, own: Market) -> Iterator[Doubt]:
        [limit_s] = [kind.p90_limit_s for kind in PROGRAM.types]
        assert limit_s is not None
        if own.p90.value > limit_s * 1e3:
            yield Doubt("toy_limit", "doubt", "Sales take too long.", "open another stall")

    def panels(self, stored: StoredRun, numbers: LoadNumbers) -> Sequence[Panel]:
        line = Series("Sales", (1.0, 2.0, 3.0))
        return (Panel("sales", "Sales by second", "sales/h", (0.5, 1.5, 2.5), (line,)),)

    def sentence(self, run: RunFindings) -> str:
        return f"The market sold with {run.clients} stalls."


ANSWER = ToyAnswer()
