"""Fill factor, WAL segments and the like are searched by the same loop, on scratch servers."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fixtures.command import Command
from tests.plan.simulated_server import experiment

from pgdyno.errors import RefusedError, SpecError
from pgdyno.features.tune.design import Tune
from pgdyno.features.tune.space import check_risks, dimensions
from pgdyno.features.tune.spec import TuneDesign
from pgdyno.features.tune.storage import refuse_on_own_server
from pgdyno.features.tune.trial import Candidate
from pgdyno.settings.formula import Machine

MACHINE = Machine(15, 100)


def test_the_present_value_comes_first_and_others_make_tables_and_clusters() -> None:
    asked = TuneDesign(settings=("fillfactor=90,70", "wal-segment=64MB", "jit=on,off"), major=15)
    design = Tune(experiment(asked, (), seed=1))
    assert [dimension.values for dimension in design.space()] == [
        ("100", "90", "70"),
        ("16MB", "64MB"),
        ("on", "off"),
    ]
    settings = {"fillfactor": "70", "wal-segment": "64MB", "jit": "off"}
    variant = design.variant_of(Candidate("trial 1", settings)).spec
    assert variant.dataset.fillfactor == 70
    assert variant.wal_segment == "64MB"
    assert variant.settings == {"jit": "off"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("fillfactor=9,100", "9 is not possible"),
        ("fillfactor=10..100", "at least two values are needed"),
        ("wal-segment=17MB", "17MB is not possible"),
        ("wal-dir", "at least two values are needed"),
    ],
)
def test_impossible_storage_is_refused(text: str, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        dimensions([text], MACHINE, {"fillfactor": "100", "wal-segment": "16MB", "wal-dir": ""})


def test_giving_up_checksums_needs_the_class() -> None:
    with pytest.raises(RefusedError, match="class durability"):
        dimensions(["checksums"], MACHINE, {"checksums": "on"})
    [dimension] = dimensions(["checksums"], MACHINE, {"checksums": "off"})
    assert dimension.risk == "safe", "from off to on nothing is given up"
    [dimension] = dimensions(
        ["checksums"], MACHINE, {"checksums": "on"}, check_risks(["durability"])
    )
    assert dimension.risk == "durability"


def test_on_a_server_of_the_users_they_are_refused() -> None:
    with pytest.raises(SpecError, match="on a scratch server only"):
        refuse_on_own_server(("jit", "fillfactor"))


@pytest.mark.slow
@pytest.mark.pg
@pytest.mark.usefixtures("short_runs")
def test_a_fill_factor_that_wastes_pages_is_found(pgdyno: Command, tmp_path: Path) -> None:
    script, spec = tmp_path / "scan.sql", tmp_path / "tune.toml"
    script.write_text("SELECT count(*) FROM pgbench_accounts WHERE abalance = 1;")
    spec.write_text(
        f"""
[experiment]
name = "fill factor"
[server]
scratch = {{ version = "15" }}
settings = {{ max_parallel_workers_per_gather = "0" }}
[dataset]
scale = 2
fillfactor = 10
[workload]
scripts = [{{ file = "{script}" }}]
duration = "1s"
warmup = "0s"
[design]
kind = "tune"
metric = "tps"
budget = "150s"
settings = ["fillfactor=10,100", "wal-segment=16MB,64MB"]
"""
    )
    document = pgdyno("run", str(spec), "--json", timeout_s=500).document
    assert document["verdict"] == "better", document["sentence"]
    by_name = {setting["name"]: setting for setting in document["settings"]}
    assert by_name["fillfactor"]["new"] == "100"
    assert by_name["fillfactor"]["needs"] == "new cluster"
    assert "-- fillfactor = 100" in document["apply"]
