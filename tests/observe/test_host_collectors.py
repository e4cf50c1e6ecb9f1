"""Every collector of this host, held to the contract on the machine the tests run on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.fixtures import needs
from tests.observe.contract import CollectorContract

from pgdyno.observe.collector import Collector
from pgdyno.observe.host.collectors import LOAD_COLLECTORS
from pgdyno.observe.host.cpu import (
    CpuCollector,
    PressureCollector,
    SchedulerCollector,
    ThrottlingCollector,
)
from pgdyno.observe.host.disk import DiskCollector, SpaceCollector, spaces_here
from pgdyno.observe.host.memory import MemoryCollector, PagingCollector
from pgdyno.observe.host.network import NetworkCollector, TcpCollector
from pgdyno.observe.processes.programs import ENGINE, ProgramsCollector
from pgdyno.observe.schedule import OwnCost

OF_LOAD_HOST = {collector.name: collector for collector in LOAD_COLLECTORS}


class TestCpu(CollectorContract):
    @pytest.fixture
    def collector(self) -> Collector:
        return CpuCollector()

    def test_the_sum_of_the_cores_is_the_row_of_all(self) -> None:
        rows = {str(row["core"]): row for row in CpuCollector().sample(0)}
        assert len(rows) == 1 + (os.cpu_count() or 0)


class TestScheduler(CollectorContract):
    @pytest.fixture
    def collector(self) -> Collector:
        return SchedulerCollector()


class TestMemory(CollectorContract):
    @pytest.fixture
    def collector(self) -> Collector:
        return MemoryCollector()


class TestDisk(CollectorContract):
    @pytest.fixture
    def collector(self) -> Collector:
        return DiskCollector()


class TestPaging(CollectorContract):
    @pytest.fixture
    def collector(self) -> Collector:
        return PagingCollector()


class TestTcp(CollectorContract):
    @pytest.fixture
    def collector(self) -> Collector:
        return TcpCollector()


class TestLoadCpu(CollectorContract):
    @pytest.fixture
    def collector(self) -> Collector:
        return OF_LOAD_HOST["load_cpu"]()


class TestLoadScheduler(CollectorContract):
    @pytest.fixture
    def collector(self) -> Collector:
        return OF_LOAD_HOST["load_scheduler"]()


class TestLoadMemory(CollectorContract):
    @pytest.fixture
    def collector(self) -> Collector:
        return OF_LOAD_HOST["load_memory"]()


class TestLoadNetwork(CollectorContract):
    gives_rows = False

    @pytest.fixture
    def collector(self) -> Collector:
        return OF_LOAD_HOST["load_network"]()


class TestLoadTcp(CollectorContract):
    @pytest.fixture
    def collector(self) -> Collector:
        return OF_LOAD_HOST["load_tcp"]()


class TestNetwork(CollectorContract):
    gives_rows = False

    @pytest.fixture
    def collector(self) -> Collector:
        return NetworkCollector()


@needs.when_offered(Path("/proc/pressure").is_dir(), "no PSI in this kernel")
class TestPressure(CollectorContract):
    @pytest.fixture
    def collector(self) -> Collector:
        return PressureCollector()


@needs.when_offered(Path("/sys/fs/cgroup").is_dir(), "no control groups here")
class TestThrottling(CollectorContract):
    @pytest.fixture
    def collector(self) -> Collector:
        return ThrottlingCollector(lambda: {"lab": os.getpid()})


class TestSpace(CollectorContract):
    @pytest.fixture
    def collector(self, tmp_path: Path) -> Collector:
        folders = {"store": tmp_path, "gone": tmp_path / "nowhere"}
        return SpaceCollector(lambda: spaces_here(folders))


class TestOwnCost(CollectorContract):
    @pytest.fixture
    def collector(self) -> Collector:
        cost = OwnCost()
        cost.add("wal", cpu_ns=5, backend_cpu_ns=7)
        cost.add("wal", cpu_ns=5, backend_cpu_ns=7)
        return cost

    def test_costs_of_one_collector_are_added(self, collector: Collector) -> None:
        assert collector.sample(0) == [
            {"collector": "wal", "cpu_ns": 10, "backend_cpu_ns": 14, "samples": 2}
        ]


class TestPrograms(CollectorContract):
    @pytest.fixture
    def collector(self) -> Collector:
        return ProgramsCollector()

    def test_a_watched_program_is_sampled_until_it_ends(self) -> None:
        collector = ProgramsCollector()
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
            collector.watch(ENGINE, child.pid)
            assert [row["program"] for row in collector.sample(0)] == ["lab", "engine"]
            child.communicate(b"\n")
        assert [row["program"] for row in collector.sample(0)] == ["lab"]
