"""A design in one file: its question, plan, answer, text, page and JSON, on a real server.

Nothing else changes for it, so the designs are an open set. It tries settings one after the other,
each made while the experiment runs, and answers with the best.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import pytest
from tests.fixtures import needs
from tests.fixtures.clusters import QUICK

import pgdyno
from pgdyno.analysis.findings import ExperimentFindings
from pgdyno.answer.answer import Answer, Measurements
from pgdyno.designs import DESIGNS, Kind, blocks_of, document_of, words_of
from pgdyno.loop.journal import excluded, variants, visits
from pgdyno.plan.design import NONE, Design
from pgdyno.plan.history import History
from pgdyno.plan.visits import visit
from pgdyno.report.about_blocks import head_of
from pgdyno.report.blocks import BlockAnswer, LabelledLine
from pgdyno.report.documents import Document
from pgdyno.report.markdown import answer_markdown
from pgdyno.spec.designs import MODELS, DecidingDesign
from pgdyno.spec.planned import PlannedRun, PlannedVariant, Stop
from pgdyno.spec.variant import Variant
from pgdyno.store.experiment import Store

pytestmark = [pytest.mark.pg, needs.POSTGRESQL_15]


class ToyDesign(DecidingDesign):
    """Values of one setting, tried in turn."""

    kind: Literal["toy"] = "toy"
    creates_variants: ClassVar[bool] = True
    setting: str
    values: tuple[str, ...]


class Toy(Design[ToyDesign]):
    """One visit of each value that is not known to fail."""

    model = ToyDesign

    def next_run(self, history: History, excluded: frozenset[str] = NONE) -> PlannedRun | Stop:
        tried = {variant.id for variant in self.variants(history)} | excluded
        for value in ("as it is", *self.asked.values):
            if value not in tried:
                settings = {} if value == "as it is" else {self.asked.setting: value}
                variant = PlannedVariant(value, Variant(name=value, settings=settings))
                return visit(self.experiment, history, variant=variant, round_number=1)
        return Stop("every value was tried")

    def runs_expected(self, history: History, excluded: frozenset[str] = NONE) -> int:
        return 1 + len(self.asked.values) - len(excluded)


@dataclass(frozen=True)
class ToyFindings:
    """Throughput by value."""

    tps_by_value: dict[str, float]


def toy_answer(seen: Measurements) -> Answer:
    tps = {
        visit.planned.cell.variant.name: seen.numbers[visit.planned.number].tps.value
        for visit in seen.rounds
        if visit.planned.cell.variant is not None
    }
    best = max(tps, key=lambda value: tps[value])
    return Answer(f"{best} is the best of {len(tps)}.", own=ToyFindings(tps))


def toy_blocks(findings: ExperimentFindings) -> BlockAnswer:
    return BlockAnswer(head_of(findings), (LabelledLine("best", findings.sentence),))


def toy_document(findings: ExperimentFindings) -> Document:
    return {"tps_by_value": findings.own.tps_by_value}


SPEC = """
[experiment]
name = "toy"
[server]
scratch = {{ version = "15" }}
settings = {{ {settings} }}
[dataset]
scale = 1
[workload]
scripts = [{{ builtin = "select-only" }}]
transactions_per_client = 500
warmup = "0s"
[design]
kind = "toy"
setting = "{setting}"
values = [{values}]
"""


def spec(folder: Path, setting: str, *values: str) -> Path:
    settings = ", ".join(f'{name} = "{value}"' for name, value in QUICK.items())
    listed = ", ".join(f'"{value}"' for value in values)
    path = folder / "toy.toml"
    path.write_text(SPEC.format(settings=settings, setting=setting, values=listed))
    return path


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MODELS, "toy", ToyDesign)
    monkeypatch.setitem(DESIGNS, "toy", Kind(Toy, toy_answer, toy_blocks, toy_document))


def test_a_design_in_one_file_runs_end_to_end(house: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    result = pgdyno.run(spec(tmp_path, "shared_buffers", "16MB", "24MB"), store=store)
    folder = Store(store).find("last")
    assert folder.verb == "toy"
    assert [variant.id for variant in variants(folder)] == ["as it is", "16MB", "24MB"]
    document = document_of(result.findings)
    assert document["format"] == "pgdyno.toy/1"
    assert set(document["tps_by_value"]) == {"as it is", "16MB", "24MB"}
    said = f"best        {result.findings.sentence}"
    assert said in words_of(result.findings, 100)
    assert result.findings.sentence in answer_markdown(blocks_of(result.findings), stem="r")
    assert folder.report_path.read_text().startswith("<!doctype html>")
    shown = {
        variant.id: folder.facts()["variants"][variant.id]["settings"]["shared_buffers"]
        for variant in variants(folder)
    }
    assert shown == {"as it is": "32MB", "16MB": "16MB", "24MB": "24MB"}


def test_a_created_variant_that_cannot_start_is_left_out_with_its_reason(
    house: Path, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    pgdyno.run(spec(tmp_path, "shared_buffers", "900TB", "16MB"), store=store)
    folder = Store(store).find("last")
    assert set(excluded(folder)) == {"900TB"}
    assert [run.planned.cell.variant.id for run in visits(folder)] == ["as it is", "16MB"]
