"""The parsers of /proc and /sys on hand-made files: other machines, other kernels."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pgdyno.clock import process_cpu_ns
from pgdyno.observe.collector import NotMeasurable
from pgdyno.observe.host import cpu, disk, memory, network
from pgdyno.observe.host.cpu import PressureCollector, ThrottlingCollector
from pgdyno.observe.host.disk import DiskCollector
from pgdyno.observe.host.files import LocalFiles
from pgdyno.observe.processes import proc_files
from pgdyno.observe.processes.proc_files import TICK_NS

STAT = """\
cpu  100 2 30 4000 50 6 7 8 9 0
cpu0 60 1 20 2000 25 3 4 8 9 0
cpu17 40 1 10 2000 25 3 3 0 0 0
intr 12345 0 0
ctxt 987654321
btime 1790000000
processes 4242
procs_running 3
procs_blocked 2
softirq 1 2 3
"""


def test_cpu_time_is_read_by_core_with_steal() -> None:
    total, first, last = cpu.parse_cpu(STAT)
    assert [row["core"] for row in (total, first, last)] == ["all", "0", "17"]
    assert total["user_ns"] == 100 * TICK_NS
    assert total["iowait_ns"] == 50 * TICK_NS
    assert first["steal_ns"] == 8 * TICK_NS
    assert last["idle_ns"] == 2000 * TICK_NS


def test_an_old_kernel_without_steal_reads_as_none_stolen() -> None:
    (total,) = cpu.parse_cpu("cpu 1 2 3 4 5 6 7\n")
    assert total["steal_ns"] == 0


def test_the_run_queue_and_counters_since_boot_are_read() -> None:
    assert cpu.parse_scheduler(STAT, "1.25 0.5 0.1 3/400 99\n") == {
        "context_switches": 987654321,
        "forks": 4242,
        "running": 3,
        "blocked": 2,
        "load_1min_ratio": 1.25,
    }


def test_memory_is_in_bytes_and_missing_values_stay_unknown() -> None:
    text = "MemTotal: 16 kB\nDirty:  3 kB\nHugePages_Total: 10\nHugePages_Free: 4\n"
    row = memory.parse_memory(text + "Hugepagesize: 2048 kB\nNonsense\n")
    assert (row["total_bytes"], row["dirty_bytes"]) == (16_384, 3_072)
    assert row["available_bytes"] is None
    assert row["huge_pages_total_bytes"] == 10 * 2048 * 1024
    assert row["huge_pages_free_bytes"] == 4 * 2048 * 1024


NVME = " 259 0 nvme0n1 10 1 80 5 20 2 160 40 3 50 60 7 0 56 1 9 18\n"
PARTITION = " 259 1 nvme0n1p1 10 1 80 5 20 2 160 40 3 50 60 0 0 0 0 0 0\n"
OLD = "   8 0 sda 1 0 8 2 3 0 24 4 0 5 6\n"
UNUSED = "   7 0 loop0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"


def test_a_device_is_read_with_its_flushes() -> None:
    (row,) = disk.parse(NVME)
    assert row == {
        "device": "nvme0n1",
        "reads": 10,
        "reads_merged": 1,
        "read_bytes": 80 * 512,
        "read_time_ns": 5_000_000,
        "writes": 20,
        "writes_merged": 2,
        "write_bytes": 160 * 512,
        "write_time_ns": 40_000_000,
        "in_flight": 3,
        "busy_ns": 50_000_000,
        "queue_time_ns": 60_000_000,
        "discards": 7,
        "discard_bytes": 56 * 512,
        "flushes": 9,
        "flush_time_ns": 18_000_000,
    }


def test_discards_and_flushes_are_unknown_on_an_old_kernel() -> None:
    (row,) = disk.parse(OLD)
    assert (row["writes"], row["queue_time_ns"]) == (3, 6_000_000)
    assert (row["discards"], row["flushes"], row["flush_time_ns"]) == (None, None, None)


def test_unused_devices_and_partitions_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/diskstats").write_text(
        NVME + PARTITION + OLD + UNUSED + " 104 0 cciss/c0d0 " + "1 " * 11
    )
    for name in ("nvme0n1", "sda", "cciss!c0d0"):
        (tmp_path / "sys/block" / name).mkdir(parents=True)
    rows = DiskCollector(LocalFiles(tmp_path)).sample(0)
    assert [row["device"] for row in rows] == ["nvme0n1", "sda", "cciss/c0d0"]


def test_interfaces_are_read_also_when_name_and_number_touch() -> None:
    text = (
        "Inter-|   Receive                 |  Transmit\n"
        " face |bytes    packets errs drop fifo frame compressed multicast|bytes packets\n"
        "    lo: 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
        "  eth0:4294967296 5 1 2 0 0 0 0 700 8 3 4 0 0 0 0\n"
        "eth0:1: 1 1 0 0 0 0 0 0 2 2 0 0 0 0 0 0\n"
    )
    first, alias = network.parse_network(text)
    assert first == {
        "interface": "eth0",
        "received_bytes": 4294967296,
        "received_packets": 5,
        "received_errors": 1,
        "received_dropped": 2,
        "sent_bytes": 700,
        "sent_packets": 8,
        "sent_errors": 3,
        "sent_dropped": 4,
    }
    assert alias["interface"] == "eth0:1"


def test_pressure_totals_are_read_with_and_without_full() -> None:
    some = "some avg10=0.00 avg60=0.10 avg300=0.00 total=77\n"
    full = "full avg10=0.00 avg60=0.00 avg300=0.00 total=5\n"
    assert cpu.parse_pressure(some + full) == {"some_ns": 77_000, "full_ns": 5_000}
    assert cpu.parse_pressure(some) == {"some_ns": 77_000, "full_ns": None}


def test_an_error_says_that_a_kernel_has_no_pressure_information(tmp_path: Path) -> None:
    with pytest.raises(NotMeasurable, match="pressure stall"):
        PressureCollector(LocalFiles(tmp_path)).sample(0)


def test_throttling_is_read_in_both_versions() -> None:
    two = "usage_usec 9\nnr_periods 40\nnr_throttled 7\nthrottled_usec 1500\n"
    counts = "nr_periods 40\nnr_throttled 7\nthrottled_time 1500000\n"
    assert cpu.parse_cpu_stat(two) == cpu.parse_cpu_stat(counts) == (40, 7, 1_500_000)
    assert cpu.parse_cpu_stat("usage_usec 9\n") == (0, 0, 0)


def _limited(folder: Path, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cpu.stat").write_text(text)


def test_limits_of_all_levels_of_version_2_are_added(tmp_path: Path) -> None:
    root, proc = tmp_path, tmp_path / "proc"
    group = root / "sys/fs/cgroup/pod/server"
    _limited(group, "nr_periods 5\nnr_throttled 2\nthrottled_usec 10\n")
    _limited(group.parent, "nr_periods 3\nnr_throttled 1\nthrottled_usec 100\n")
    _limited(group.parent.parent, "usage_usec 1\n")
    (proc / "7").mkdir(parents=True)
    (proc / "7" / "cgroup").write_text("0::/pod/server\n")
    (proc / "mounts").write_text("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\nx / ext4 rw 0 0\n")
    rows = ThrottlingCollector(lambda: {"server": 7}, LocalFiles(root)).sample(0)
    assert rows[0] == {
        "program": "server",
        "periods": 8,
        "throttled_periods": 3,
        "throttled_ns": 110_000,
    }


def test_throttling_is_read_from_control_groups_of_version_1(tmp_path: Path) -> None:
    root, proc = tmp_path, tmp_path / "proc"
    _limited(root / "cg/cpu/docker/a", "nr_periods 5\nnr_throttled 2\nthrottled_time 10\n")
    (proc / "7").mkdir(parents=True)
    (proc / "7" / "cgroup").write_text("4:memory:/x\n3:cpu,cpuacct:/docker/a\n0::/\n")
    (proc / "mounts").write_text(
        "c /cg/memory cgroup rw,memory 0 0\nc /cg/cpu cgroup rw,cpu,cpuacct 0 0\n"
    )
    rows = ThrottlingCollector(lambda: {"server": 7}, LocalFiles(root)).sample(0)
    assert rows[0]["throttled_ns"] == 10


def test_an_error_says_that_a_machine_has_no_control_groups(tmp_path: Path) -> None:
    with pytest.raises(NotMeasurable, match="control group"):
        ThrottlingCollector(lambda: {"lab": 1}, LocalFiles(tmp_path)).sample(0)


def test_a_process_with_brackets_and_spaces_in_its_name_is_read() -> None:
    fields = ["R", "42", *"0" * 9, "10", "20", *"0" * 4, "3", "0", "999", "0", "5", *"0" * 28]
    stat = proc_files.parse_stat(f"7 (a) (b c) {' '.join(fields)}\n")
    assert (stat.parent_pid, stat.thread_count, stat.started_ticks) == (42, 3, 999)
    assert (stat.user_ns, stat.system_ns) == (10 * TICK_NS, 20 * TICK_NS)
    assert stat.resident_bytes == 5 * proc_files.PAGE_BYTES


def test_schedstat_is_time_on_a_core_and_time_waiting_for_one() -> None:
    assert proc_files.parse_schedstat(b"123 45 6\n") == (123, 45, 6)


def test_the_cpu_time_of_a_process_is_the_kernels_and_of_none_0() -> None:
    own = Path("/proc/self/schedstat")
    before_ns = int(own.read_text().split()[0])
    assert before_ns <= process_cpu_ns(os.getpid())
    assert process_cpu_ns(2**22 + 1) == 0  # Above what the kernel gives.
