"""Factors become cells, passes build on each other, scripts of variants are found."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from pgdyno.designs import DESIGNS
from pgdyno.spec.designs import MODELS, CompareDesign, Factor, FactorialDesign, PassesDesign
from pgdyno.spec.experiment import (
    Experiment,
    PgbenchDataset,
    Scratch,
    Script,
    Server,
    Variant,
    Workload,
)
from pgdyno.spec.planned import Cell, PlannedRun, PlannedVariant


def asked(design: object, *variants: Variant, **workload: object) -> Experiment:
    return Experiment(
        name="x",
        server=Server(scratch=Scratch()),
        dataset=PgbenchDataset(scale=3),
        workload=Workload(scripts=(Script(builtin="tpcb-like"),), **workload),
        variant=variants,
        design=design,
    )


def factor(name: str, **levels: dict[str, str]) -> Factor:
    return Factor(
        name=name,
        levels=tuple(Variant(name=f"{name}={k}", settings=v) for k, v in levels.items()),
    )


BUFFERS = factor("buffers", small={"shared_buffers": "128MB"}, large={"shared_buffers": "1GB"})
COMMIT = factor("commit", on={}, off={"synchronous_commit": "off"})
JIT = factor("jit", on={"jit": "on"}, off={"jit": "off"})


def test_every_model_of_a_design_has_its_line_in_the_table() -> None:
    assert {kind: design.design.model for kind, design in DESIGNS.items()} == MODELS
    assert all(model.model_fields["kind"].default == kind for kind, model in MODELS.items())


def test_a_factorial_visits_all_combinations() -> None:
    cells = asked(FactorialDesign(factors=(BUFFERS, COMMIT))).all_variants()
    assert [cell.name for cell in cells] == [
        "buffers=small, commit=on",
        "buffers=small, commit=off",
        "buffers=large, commit=on",
        "buffers=large, commit=off",
    ]
    assert cells[3].settings == {"shared_buffers": "1GB", "synchronous_commit": "off"}


def test_half_a_factorial_has_every_level_of_every_factor_equally_often() -> None:
    cells = asked(FactorialDesign(factors=(BUFFERS, COMMIT, JIT), fraction="half")).all_variants()
    assert len(cells) == 4
    for level in ("buffers=small", "buffers=large", "commit=off", "jit=on"):
        assert sum(level in cell.name for cell in cells) == 2


def test_half_a_factorial_of_two_factors_is_refused() -> None:
    with pytest.raises(ValidationError, match="at least 3 factors"):
        FactorialDesign(factors=(BUFFERS, COMMIT), fraction="half")


def test_passes_build_on_each_other() -> None:
    experiment = asked(
        PassesDesign(),
        Variant(name="base"),
        Variant(name="1", settings={"work_mem": "64MB", "jit": "off"}, sql="A"),
        Variant(name="2", settings={"jit": "on"}, dataset={"fillfactor": 50}, sql="B"),
    )
    last = experiment.all_variants()[2]
    assert last.settings == {"work_mem": "64MB", "jit": "on"}
    assert last.sql == "A;\nB"
    assert experiment.dataset_of(experiment.planned_variants()[2]).fillfactor == 50
    assert experiment.dataset_of(experiment.planned_variants()[1]).fillfactor is None
    assert experiment.dataset_of(experiment.planned_variants()[2]).scale == 3


def test_a_variant_may_bring_its_own_scripts() -> None:
    own = Variant(name="b", scripts=(Script(builtin="select-only"),))
    experiment = asked(CompareDesign(), Variant(name="a"), own)
    assert [script.name for script in experiment.all_scripts()] == ["tpcb-like", "select-only"]
    assert [experiment.scripts_of(variant) for variant in experiment.planned_variants()] == [
        (0,),
        (1,),
    ]


def test_under_a_rate_p99_decides() -> None:
    pair = (Variant(name="a"), Variant(name="b"))
    assert asked(CompareDesign(), *pair).metric() == "tps"
    assert asked(CompareDesign(), *pair, rate=100).metric() == "p99"
    assert asked(CompareDesign(metric="mean"), *pair, rate=100).metric() == "mean"


def test_connections_are_those_of_the_variant_that_needs_most() -> None:
    experiment = asked(CompareDesign(), Variant(name="a"), Variant(name="b", clients=90), clients=4)
    assert experiment.clients_max() == 90


def test_a_run_is_named_after_its_variant() -> None:
    variant = PlannedVariant("1", Variant(name="4GB"))
    run = PlannedRun(1, "round", 1, Cell((0,), 16, variant=variant), 0, 1, 1)
    assert run.label(("tpcb-like",)) == "4GB: tpcb-like, 16 clients"
