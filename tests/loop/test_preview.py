"""A preview shows what an experiment would do before anything starts."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from tests.fixtures import needs

from pgdyno.designs import design_of
from pgdyno.errors import SpecError
from pgdyno.loop.preview import least_ns as least_ns_of
from pgdyno.loop.preview import preview, refuse_short_budget, warnings_before
from pgdyno.spec.experiment import (
    BenchDesign,
    CompareDesign,
    Experiment,
    PgbenchDataset,
    Scratch,
    Script,
    Server,
    SweepDesign,
    Variant,
    Workload,
)


def disk_gb(*variants: Variant) -> float:
    asked = Experiment(
        name="disks",
        server=Server(scratch=Scratch(version="15")),
        dataset=PgbenchDataset(scale=100),
        workload=Workload(scripts=(Script(builtin="tpcb-like"),)),
        variant=variants,
        design=CompareDesign(),
    )
    size = re.search(r"disk +about ([0-9.]+) GB", preview(asked, design_of(asked)))
    assert size is not None
    return float(size[1])


def test_a_budget_is_called_too_small_only_below_the_least_time_of_its_rounds() -> None:
    asked = Experiment(
        name="budget",
        server=Server(scratch=Scratch(version="15")),
        dataset=PgbenchDataset(scale=1),
        workload=Workload(scripts=(Script(builtin="tpcb-like"),), duration="5s", warmup="1s"),
        variant=(
            Variant(name="a", settings={"synchronous_commit": "off"}),
            Variant(name="b", settings={"synchronous_commit": "on"}),
        ),
        design=CompareDesign(),
    )
    least_ns = least_ns_of(asked, design_of(asked))
    # Two pilots and three rounds of two runs, each with six seconds of load, and at most a second
    # around it: a comparison with such a budget ended in time.
    assert least_ns <= 8 * 7e9
    design = CompareDesign(budget=f"{least_ns // 1_000_000}ms")
    refuse_short_budget(asked.with_fields(design=design), design_of(asked))
    design = CompareDesign(budget=f"{least_ns // 1_000_000 - 1000}ms")
    with pytest.raises(SpecError, match="too short for an interval, which needs 3 rounds") as seen:
        refuse_short_budget(asked.with_fields(design=design), design_of(asked))
    assert seen.value.hint == "--budget 60s"


def test_a_queue_for_few_rows_is_told_before_the_load() -> None:
    for builtin, clients, is_told in (
        ("tpcb-like", 30, True),
        ("tpcb-like", 20, False),
        ("simple-update", 30, False),
    ):
        asked = Experiment(
            name="queue",
            server=Server(scratch=Scratch(version="15")),
            dataset=PgbenchDataset(scale=20),
            workload=Workload(scripts=(Script(builtin=builtin),), clients=clients),
            design=BenchDesign(),
        )
        told = [text for text in warnings_before(asked, design_of(asked)) if "branches" in text]
        assert bool(told) == is_told, told


@needs.POSTGRESQL_15
def test_every_separate_cluster_and_database_counts_for_the_disk() -> None:
    plain = Variant(name="plain")
    setting_gb = disk_gb(plain, Variant(name="a setting", settings={"work_mem": "1MB"}))
    elsewhere = Variant(name="elsewhere", data_dir=Path("/other"))
    indexed = Variant(name="indexed", sql="CREATE INDEX ON pgbench_accounts (abalance)")
    assert abs(disk_gb(plain, elsewhere) - 2 * setting_gb) < 0.11
    assert abs(disk_gb(plain, elsewhere, indexed) - 3 * setting_gb) < 0.11


@needs.POSTGRESQL_15
def test_the_preview_of_a_search_with_levels_needs_no_measured_latency() -> None:
    asked = Experiment(
        name="search",
        server=Server(scratch=Scratch(version="15")),
        dataset=PgbenchDataset(scale=1),
        workload=Workload(scripts=(Script(builtin="tpcb-like"),)),
        design=SweepDesign(levels=(1, 2), slo="p99=20ms"),
    )
    assert "2 clients" in preview(asked, design_of(asked))


@needs.POSTGRESQL_15
def test_the_preview_of_many_variants_takes_seconds() -> None:
    variants = tuple(
        Variant(name=f"v{kilobytes}", settings={"work_mem": f"{kilobytes}kB"})
        for kilobytes in range(64, 466)
    )
    asked = Experiment(
        name="many",
        server=Server(scratch=Scratch(version="15")),
        dataset=PgbenchDataset(scale=1),
        workload=Workload(scripts=(Script(builtin="tpcb-like"),)),
        variant=variants,
        design=CompareDesign(),
    )
    began = time.process_time()
    assert preview(asked, design_of(asked)).count("work_mem = ") == 402
    with pytest.raises(SpecError, match="The budget of 30 min is too short"):
        refuse_short_budget(asked, design_of(asked))
    # It took 25 s. Other processes on the cores may double the CPU time.
    assert time.process_time() - began < 4


def test_the_plan_says_what_each_change_needs_on_the_users_server() -> None:
    asked = Experiment(
        name="levels",
        server=Server(dsn="host=db1"),
        dataset=PgbenchDataset(scale=1),
        workload=Workload(scripts=(Script(builtin="select-only"),)),
        variant=(
            Variant(name="a"),
            # A session that is open cannot change log_disconnections: ALTER SYSTEM sets it.
            Variant(
                name="b",
                settings={"jit": "off", "log_disconnections": "on", "shared_buffers": "1GB"},
            ),
        ),
        design=CompareDesign(),
    )
    plan = preview(asked, design_of(asked))
    levels = dict(re.findall(r"(\w+) = \w+ \((\w+)\)", plan))
    assert levels == {"jit": "session", "log_disconnections": "reload", "shared_buffers": "restart"}
