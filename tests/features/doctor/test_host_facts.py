"""What is read of other machines, from trees of /proc and /sys made by hand."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest
from tests.features.doctor.machines import tree

from pgdyno.features.doctor import host_files
from pgdyno.features.doctor.host_facts import HostState, Limits, glance, read_host, window_between
from pgdyno.observe.host.control_groups import GroupFolder, group_folders
from pgdyno.observe.host.files import LocalFiles, ReceivedFiles
from pgdyno.server.storage import mount_in

THP = "sys/kernel/mm/transparent_hugepage/enabled"
CLOCKS = "sys/devices/system/clocksource/clocksource0"
CPU = "sys/devices/system/cpu"

# Two sockets, 4 cores, cgroup v2 with limits on two levels.
SERVER = {
    "proc/stat": "cpu 1 0 0 9 0 0 0 0\ncpu0 1\ncpu1 0\ncpu2 0\ncpu3 0\n",
    "proc/meminfo": "MemTotal: 16777216 kB\nSwapTotal: 0 kB\nHugePages_Total: 4\n"
    "HugePages_Free: 4\nHugepagesize: 2048 kB\n",
    "proc/loadavg": "3.25 2 1 1/100 4711\n",
    "proc/cpuinfo": "processor : 0\nflags\t\t: fpu vme sse2\n",
    "proc/pressure/io": "some avg10=1.00 avg60=12.50 avg300=0.00 total=1\nfull avg10=0 avg60=0\n",
    "proc/sys/vm/swappiness": "10\n",
    "proc/sys/vm/zone_reclaim_mode": "0\n",
    "proc/77/cgroup": "0::/system.slice/postgresql.service\n",
    "proc/77/comm": "irqbalance\n",
    "proc/mounts": "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n/dev/sda1 / ext4 rw 0 0\n",
    "sys/fs/cgroup/system.slice/postgresql.service/cpu.max": "max 100000\n",
    "sys/fs/cgroup/system.slice/postgresql.service/cpu.stat": "nr_throttled 3\nthrottled_usec 9\n",
    "sys/fs/cgroup/system.slice/postgresql.service/memory.max": "8589934592\n",
    "sys/fs/cgroup/system.slice/cpu.max": "250000 100000\n",
    "sys/fs/cgroup/system.slice/memory.max": "max\n",
    "sys/fs/cgroup/system.slice/io.max": "259:0 rbps=max wbps=max wiops=500\n8:0 rbps=max\n",
    f"{CPU}/cpu0/cpufreq/scaling_governor": "performance\n",
    f"{CPU}/cpu1/cpufreq/scaling_governor": "powersave\n",
    f"{CPU}/cpu2/cpufreq/scaling_governor": "performance\n",
    f"{CPU}/cpu3/cpufreq/scaling_governor": "performance\n",
    f"{CPU}/intel_pstate/no_turbo": "0\n",
    "sys/devices/system/node/node0/x": "",
    "sys/devices/system/node/node1/x": "",
    THP: "[always] madvise never\n",
    f"{CLOCKS}/current_clocksource": "hpet\n",
    f"{CLOCKS}/available_clocksource": "tsc hpet acpi_pm \n",
}

# A virtual machine whose container has version 1 groups.
CONTAINER = {
    "proc/stat": "cpu 1 0 0 9 0 0 0 0\ncpu0 1\n",
    "proc/cpuinfo": "flags : fpu hypervisor sse2\n",
    "sys/fs/cgroup/blkio/docker/ab/blkio.throttle.write_bps_device": "8:16 1048576\n",
    "proc/5/cgroup": "5:blkio:/docker/ab\n4:memory:/docker/ab\n2:cpu,cpuacct:/docker/ab\n0::/\n",
    "proc/mounts": "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu,cpuacct 0 0\n"
    "cgroup /sys/fs/cgroup/blkio cgroup rw,blkio 0 0\n"
    "cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n",
    "sys/fs/cgroup/cpu/docker/ab/cpu.cfs_quota_us": "150000\n",
    "sys/fs/cgroup/cpu/docker/ab/cpu.cfs_period_us": "100000\n",
    "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
    "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
    "sys/fs/cgroup/memory/docker/ab/memory.limit_in_bytes": "2147483648\n",
    "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
}


def test_a_server_with_two_sockets_is_read(tmp_path: Path) -> None:
    host = read_host(LocalFiles(tree(tmp_path, SERVER)), pid=77)
    assert host.cores == 4
    assert host.governors == ("performance", "powersave", "performance", "performance")
    assert host.has_boost is True
    assert (host.is_virtual, host.numa_nodes, host.runs_irqbalance) == (False, 2, True)
    assert host.huge_pages_mode == "always"
    assert host.memory["huge_pages_total_bytes"] == 8 << 20
    assert host.sysctl == {"vm/swappiness": 10, "vm/zone_reclaim_mode": 0}
    assert (host.clock_source, host.clock_sources) == ("hpet", ("tsc", "hpet", "acpi_pm"))
    assert host.load_1min_ratio == 3.25
    assert host.pressure_percent == {"io": 12.5}


def test_the_strictest_limit_of_all_levels_counts(tmp_path: Path) -> None:
    host = read_host(LocalFiles(tree(tmp_path, SERVER)), pid=77)
    assert host.limits == Limits(2.5, 8 << 30, ("259:0 wiops=500",), 3)


def test_version_1_groups_of_a_container_are_read(tmp_path: Path) -> None:
    host = read_host(LocalFiles(tree(tmp_path, CONTAINER)), pid=5)
    assert host.limits == Limits(1.5, 2 << 30, ("8:16 write_bps=1048576",), 0)
    assert (host.is_virtual, host.governors, host.has_boost) == (True, (), None)


def test_a_machine_that_says_nothing_is_read_as_nothing(tmp_path: Path) -> None:
    assert read_host(LocalFiles(tmp_path), pid=1) == HostState(machine="hardware")


def test_the_frequency_driver_of_amd_says_boost_in_another_place(tmp_path: Path) -> None:
    files = LocalFiles(tree(tmp_path, {f"{CPU}/cpufreq/boost": "0\n"}))
    assert read_host(files, pid=1).has_boost is False


def test_the_word_in_brackets_is_the_choice() -> None:
    assert host_files.chosen("none [mq-deadline] kyber") == "mq-deadline"
    assert host_files.chosen("none") == "none"
    assert host_files.chosen("") is None
    assert host_files.chosen("a b") is None


def test_numbers_that_are_none_are_none() -> None:
    assert [host_files.whole(text) for text in ("7\n", "-1", "", "max", "1 2")] == [
        *(7, -1),
        *(None, None, None),
    ]


def test_groups_of_both_versions_are_found_from_the_inside_out() -> None:
    mounts = "none /c1 cgroup rw,memory 0 0\nnone /c2 cgroup2 rw 0 0\n"
    folders = group_folders("3:memory:/a\n0::/b/c\n", mounts, "memory")
    assert folders == [
        GroupFolder(PurePosixPath("/c1/a"), False),
        GroupFolder(PurePosixPath("/c1"), False),
        GroupFolder(PurePosixPath("/c2/b/c"), True),
        GroupFolder(PurePosixPath("/c2/b"), True),
        GroupFolder(PurePosixPath("/c2"), True),
    ]


def _process(name: str, ticks: int) -> str:
    return f"1 ({name}) S 1 1 1 0 -1 0 0 0 0 0 {ticks} 0 0 0 20 0 1 0 555 0 0\n"


def test_cpu_time_of_other_programs_is_listed_by_program(tmp_path: Path) -> None:
    first_tree = tree(
        tmp_path / "first",
        {
            "proc/stat": "cpu 100 0 0 100 0 0 0 0\ncpu0 1\n",
            "proc/10/stat": _process("java (x)", 100),
            "proc/11/stat": _process("postgres", 100),
            "proc/12/stat": _process("pgdyno-engine", 100),
            "proc/13/stat": _process("python3", 0),
        },
    )
    last_tree = tree(
        tmp_path / "last",
        {
            "proc/stat": "cpu 150 0 0 140 0 0 0 10\ncpu0 1\n",
            "proc/10/stat": _process("java (x)", 150),
            "proc/11/stat": _process("postgres", 200),
            "proc/12/stat": _process("pgdyno-engine", 200),
            "proc/13/stat": _process("python3", 99),
            "proc/14/stat": _process("late", 99),
        },
    )
    first, last = glance(0, LocalFiles(first_tree)), glance(1_000_000_000, LocalFiles(last_tree))
    window = window_between(first, last, own_pid=13)
    # 10 of 100 ticks were stolen; java used 50 ticks of 10 ms in a second.
    assert window.steal_ratio == 0.1
    assert [(neighbour.name, neighbour.busy_cores) for neighbour in window.neighbours] == [
        ("java (x)", 0.5)
    ]


def test_a_process_that_was_sent_twice_is_one() -> None:
    line = "7 (java (x)) S " + "1 " * 40 + "\n"
    files = ReceivedFiles({"/proc/stat": "cpu 1 0 0 9 0 0 0 0\n", "/proc/7/stat": line + line})
    [(name, _)] = glance(0, files).by_process.values()
    assert name == "java (x)"


# The kernel escapes blanks and line ends, so that a name of a user cannot add a field or a line.
# It does not escape the other blanks and line ends of Unicode.
OTHERS = ("\x0b", "\x0c", "\x1c", "\x1e", "\x85", "\u2028", "\u00a0", "\u2003", "\x1f")


@pytest.mark.parametrize("blank", OTHERS)
@pytest.mark.parametrize("end", OTHERS)
def test_the_name_of_a_mount_adds_no_line_and_no_field(end: str, blank: str) -> None:
    forged = blank.join(("cgroup2", "/evil", "cgroup2", "rw", "0", "0"))
    mounts = (
        f"x{end}{forged} /home/eve/a fuse rw 0 0\ncgroup2 /sys/fs/my\\040group cgroup2 rw 0 0\n"
    )
    cgroup = f"0::/eve{end}s{blank}group\n"
    top = PurePosixPath("/sys/fs/my group")
    assert group_folders(cgroup, mounts, "memory") == [
        GroupFolder(top / f"eve{end}s{blank}group", True),
        GroupFolder(top, True),
    ]
    row = blank.join(("36", "1", "8:9", "/", "/data", "rw", "-", "ext4", "/dev/evil", "barrier=0"))
    info = f"35 1 8:1 / / rw - ext4 /dev/sda rw\n40 35 0:9 / /home/eve/a{end}{row} rw - fuse x rw\n"
    mount = mount_in(info, PurePosixPath("/data/base"))
    assert mount is not None
    assert mount.source == "/dev/sda"
