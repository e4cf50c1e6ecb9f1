"""Every example runs, in its small form, and answers what it asks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest
from tests.examples.small_form import FOLDER, small_form
from tests.fixtures.command import Command, server_options
from tests.report.quantities_in_text import stored_problems

from pgdyno.features.tune.findings import Verdict
from pgdyno.server.target import Target

pytestmark = pytest.mark.pg
RAN = (0, 3)  # Runs of a second are too short to be believed, and pgdyno says so.
Answer = Callable[[str], dict[str, Any]]


@pytest.fixture
def answer(pgdyno: Command, house: Path, tmp_path_factory: pytest.TempPathFactory) -> Answer:
    """Run an example in its small form and return its document."""

    def of(name: str) -> dict[str, Any]:
        place = house / f"example-{name}"
        place.mkdir(mode=0o755)
        said = pgdyno("run", small_form(name, place), "--json", "-q", timeout_s=240)
        assert said.code in RAN, said.err
        assert stored_problems(pgdyno.store, said.document) == []
        return said.document

    return of


def names_of(document: dict[str, Any]) -> list[str]:
    assert all(variant["cannot_start"] is None for variant in document["variants"])
    # A comparison has three rounds at least: with fewer, no interval is possible.
    rounds = 3 if document["format"] == "pgdyno.compare/1" else 1
    assert all(variant["runs"] == rounds for variant in document["variants"])
    return [variant["name"] for variant in document["variants"]]


def test_every_example_is_run_here() -> None:
    text = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    for path in FOLDER.glob("*.toml"):
        assert f'("{path.stem}"' in text or f'"{path.stem}.toml"' in text


def test_the_cloud_matrix_has_a_row_a_cell_with_its_round_trip(answer: Answer) -> None:
    document = answer("azure_matrix")
    names = names_of(document)
    assert len(names) == 8
    assert names[0] == "ssd, before, socket"
    for variant in document["variants"]:
        assert variant["served"]["round_trip_ms"]["value"] > 0
    assert document["format"] == "pgdyno.matrix/1"


def test_the_quartet_on_a_distributed_server_has_the_work_of_each_node(
    pgdyno: Command, citus: Target, house: Path
) -> None:
    where = server_options(citus)
    said = pgdyno("init", *where, "-s", "1", "--distribute", "citus")
    assert said.code == 0, said.err
    spec = small_form("distributed", house, dsn=citus.as_conninfo())
    said = pgdyno("run", spec, "--allow-write", "--json", "-q", timeout_s=240)
    assert said.code in RAN, said.err
    scripts = [curve["script"] for curve in said.document["curves"]]
    assert scripts == ["tpcb-like", "select-only", "update-only", "insert-only"]
    assert pgdyno("drop", *where).code == 0


def test_passes_are_compared_with_the_base_and_with_the_pass_before(answer: Answer) -> None:
    document = answer("passes")
    assert names_of(document) == ["base", "pass 1: settings", "pass 2: storage"]
    assert any(
        "at once: their effects cannot be separated" in confound
        for confound in document["confounds"]
    )


def test_the_quartet_has_a_curve_a_script(answer: Answer) -> None:
    document = answer("concurrency")
    scripts = [curve["script"] for curve in document["curves"]]
    assert scripts == ["tpcb-like", "select-only", "update-only", "insert-only"]


def test_two_folders_of_one_disk_are_two_clusters_and_not_two_disks(answer: Answer) -> None:
    document = answer("disks")
    assert any("are on one disk" in confound for confound in document["confounds"])
    assert names_of(document) == ["first disk", "second disk"]
    assert any(
        "each variant has one layout of the data" in confound for confound in document["confounds"]
    )


def test_a_commit_has_a_price_and_a_worth(answer: Answer) -> None:
    document = answer("price_of_commit")
    assert names_of(document) == ["on", "off, standby"]
    durable, weak = document["variants"]
    [alone] = durable["losses"]
    assert (alone["crashes"], alone["lost"], alone["corrupt"], alone["blind"]) == (1, 0, 0, [])
    kinds = [loss["kind"] for loss in weak["losses"]]
    assert kinds == [alone["kind"], "failover"]
    assert weak["losses"][1]["gap_seconds"]["value"] > 0
    assert weak["changes"]["standby"] == "synchronous"


def test_new_orders_of_two_disks_are_compared(answer: Answer) -> None:
    document = answer("tpcc_disks")
    assert names_of(document) == ["first disk", "second disk"]
    assert all(variant["metrics"]["nopm"]["value"] > 0 for variant in document["variants"])


def test_the_price_of_durability_is_printed_next_to_the_gain(answer: Answer) -> None:
    document = answer("commit")
    assert names_of(document) == ["on", "off"]
    assert "synchronous_commit" in document["variants"][1]["weakened_durability"]


def test_a_setting_that_needs_a_restart_is_restarted_for(answer: Answer) -> None:
    assert names_of(answer("shared_buffers")) == ["128MB", "1GB"]


@pytest.mark.slow
def test_many_connections_are_served_five_ways(pgbouncer: Path, answer: Answer) -> None:
    document = answer("many_connections")
    assert len(names_of(document)) == 5
    clients = [variant["served"]["clients"] for variant in document["variants"]]
    assert clients == [800, 10, 800, 800, 800]
    for variant in document["variants"]:
        served = variant["served"]
        assert served["completed_by_client_min"]["value"] >= 0
        assert 0 <= served["gini"]["value"] < 1
        assert {"tps", "p50", "p99"} <= set(variant["metrics"])


@pytest.mark.slow
@pytest.mark.usefixtures("short_runs_are_tried")
def test_a_tuning_says_what_it_found_or_that_nothing_is_better(answer: Answer) -> None:
    document = answer("tune")
    assert document["format"] == "pgdyno.tune/1"
    assert document["verdict"] in get_args(Verdict)
