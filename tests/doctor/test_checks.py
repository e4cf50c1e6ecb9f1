"""Every check on facts made by hand: in order, doubtful, wrong, and not known."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import pytest
from tests.doctor.machines import (
    ANSWERS,
    FLUSH,
    GB,
    HOST,
    MB,
    facts,
    remote,
    server,
    with_answers,
    with_disk,
    with_health,
    with_host,
    with_place,
    with_settings,
    with_sysctl,
)

from pgdyno.doctor.examine import checks
from pgdyno.doctor.facts import Facts, PeakActive
from pgdyno.doctor.finding import Finding, Verdict
from pgdyno.doctor.host_facts import Limits, Neighbour, Window

HOST_ONLY = facts(server=None)
UNSEEN = with_answers(role=("dyno", False, False, True, True, True, True, True))

# (check, verdict, facts, part of what is seen)
CASES: list[tuple[str, Verdict, Facts, str]] = [
    ("memory_rule", "good", facts(), "200 connections x 16 MB"),
    ("memory_rule", "warn", with_settings(work_mem="131072 kB"), "= 35 GB, memory 28 GB"),
    ("memory_rule", "bad", with_settings(work_mem="524288 kB"), "= 110 GB, memory 28 GB"),
    ("memory_rule", "unknown", remote(), "--ram"),
    (
        "memory_at_the_peak",
        "good",
        facts(peak=PeakActive(61, "watch #12")),
        "61 active (watch #12)",
    ),
    (
        "memory_at_the_peak",
        "bad",
        facts(server=server({"work_mem": "524288 kB"}), peak=PeakActive(61, "now")),
        "61 active (now) x 512 MB",
    ),
    ("memory_at_the_peak", "unknown", facts(peak=None), "not observed"),
    ("temp_buffers", "good", facts(), "200 connections x 8.0 MB"),
    ("temp_buffers", "warn", with_settings(temp_buffers="16384 8kB"), "= 25 GB"),
    ("temp_buffers", "bad", with_settings(temp_buffers="262144 8kB"), "= 400 GB"),
    ("temp_buffers", "unknown", remote(), "--ram"),
    ("shared_buffers", "good", facts(), "7.0 GB = 25.0% of 28 GB"),
    ("shared_buffers", "warn", with_settings(shared_buffers="16384 8kB"), "default"),
    ("shared_buffers", "warn", with_settings(shared_buffers="1835008 8kB"), "50.0%"),
    ("shared_buffers", "bad", with_settings(shared_buffers="3276800 8kB"), "89.3%"),
    ("shared_buffers", "unknown", HOST_ONLY, "needs a server"),
    ("effective_cache_size", "good", facts(), "21 GB"),
    ("effective_cache_size", "warn", with_settings(effective_cache_size="99999999 8kB"), "more"),
    ("effective_cache_size", "warn", with_settings(effective_cache_size="1024 8kB"), "less"),
    ("effective_cache_size", "unknown", HOST_ONLY, "needs a server"),
    ("huge_pages", "good", facts(), "used"),
    ("huge_pages", "warn", with_settings(huge_pages_status="off"), "but unused"),
    (
        "huge_pages",
        "warn",
        facts(host=None, server=server({"huge_pages_status": "off"})),
        "not used, shared_buffers 7.0 GB",
    ),
    ("huge_pages", "unknown", HOST_ONLY, "needs a server"),
    ("fsync", "good", facts(), "fsync = on"),
    ("fsync", "bad", with_settings(fsync="off"), "destroy"),
    ("fsync", "unknown", HOST_ONLY, "needs a server"),
    ("full_page_writes", "good", facts(), "on"),
    ("full_page_writes", "bad", with_settings(full_page_writes="off"), "torn"),
    (
        "full_page_writes",
        "warn",
        replace(
            with_place(file_system="zfs"),
            server=server({"full_page_writes": "off"}),
        ),
        "zfs",
    ),
    ("full_page_writes", "unknown", HOST_ONLY, "needs a server"),
    ("synchronous_commit", "good", facts(), "on"),
    ("synchronous_commit", "warn", with_settings(synchronous_commit="off"), "last 600 ms"),
    ("synchronous_commit", "unknown", HOST_ONLY, "needs a server"),
    ("synchronous_standbys", "good", facts(), "no standby"),
    ("synchronous_standbys", "good", with_settings(synchronous_standby_names="a"), "1 of 1"),
    (
        "synchronous_standbys",
        "warn",
        with_settings(synchronous_standby_names="a", synchronous_commit="local"),
        "does not wait",
    ),
    (
        "synchronous_standbys",
        "bad",
        facts(server=server({"synchronous_standby_names": "a"}, replication=(1, 0))),
        "0 of 1",
    ),
    ("synchronous_standbys", "unknown", HOST_ONLY, "needs a server"),
    ("data_checksums", "good", facts(), "no failures"),
    ("data_checksums", "warn", with_settings(data_checksums="off"), "off"),
    ("data_checksums", "bad", with_answers(databases=(5, 3)), "3 checksum failures"),
    ("data_checksums", "unknown", with_answers(databases=None), "the server's error"),
    ("damage_ignored", "good", facts(), "errors"),
    ("damage_ignored", "bad", with_settings(zero_damaged_pages="on"), "zero_damaged_pages = on"),
    ("damage_ignored", "unknown", HOST_ONLY, "needs a server"),
    ("data_sync_retry", "good", facts(), "off"),
    ("data_sync_retry", "bad", with_settings(data_sync_retry="on"), "on"),
    ("data_sync_retry", "unknown", HOST_ONLY, "needs a server"),
    ("wal_level", "good", facts(), "replica"),
    ("wal_level", "warn", with_settings(wal_level="minimal"), "no point-in-time"),
    ("wal_level", "unknown", HOST_ONLY, "needs a server"),
    ("archiving", "good", facts(), "was archived"),
    ("archiving", "good", with_settings(archive_mode="off"), "off"),
    ("archiving", "bad", with_answers(archiver=(True, 7)), "7 failures"),
    ("archiving", "unknown", with_answers(archiver=None), "the server's error"),
    ("prepared_transactions", "good", facts(), "0 prepared"),
    ("prepared_transactions", "warn", with_settings(max_prepared_transactions="50"), "below"),
    ("prepared_transactions", "bad", with_answers(prepared=(2, 7200.0)), "for 120 min"),
    ("prepared_transactions", "unknown", with_answers(prepared=None), "the server's error"),
    ("file_system", "good", facts(), "xfs on nvme0n1"),
    ("file_system", "warn", with_place(file_system="overlay", disks=()), "container"),
    ("file_system", "warn", with_place(file_system="nfs4", disks=()), "network"),
    ("file_system", "warn", with_place(file_system="btrfs"), "copy on write"),
    ("file_system", "bad", with_place(file_system="tmpfs", disks=()), "memory"),
    ("file_system", "unknown", remote(), "needs a shell on the host"),
    ("mount_options", "good", facts(), "rw,noatime"),
    ("mount_options", "warn", with_place(options=("rw", "data=journal")), "data=journal"),
    ("mount_options", "bad", with_place(options=("rw", "barrier=0")), "not flushed"),
    ("mount_options", "unknown", remote(), "needs a shell on the host"),
    ("io_scheduler", "good", facts(), "nvme0n1: none"),
    ("io_scheduler", "warn", with_disk(scheduler="bfq"), "bfq"),
    ("io_scheduler", "unknown", with_disk(scheduler=""), "reports no I/O scheduler"),
    ("write_cache", "good", facts(), "no volatile cache"),
    ("write_cache", "good", with_disk(write_cache="write back"), "flushes reach"),
    (
        "write_cache",
        "warn",
        replace(with_disk(write_cache="write back"), flush=None),
        "with flushes",
    ),
    ("write_cache", "unknown", with_disk(write_cache=""), "not report"),
    ("disk_health", "good", facts(), "3 % of its rated writes used, 100 % of its spare"),
    ("disk_health", "warn", with_health(used_percent=85), "85 %"),
    ("disk_health", "warn", with_health(too_warm_minutes=4, critical_minutes=1), "5 min too warm"),
    ("disk_health", "bad", with_health(used_percent=104), "104 %"),
    ("disk_health", "bad", with_health(available_spare_percent=9), "9 % of its spare"),
    ("disk_health", "bad", with_health(media_errors=2), "2 media errors"),
    ("disk_health", "unknown", facts(health={"nvme0n1": "It is asleep."}), "It is asleep"),
    ("disk_health", "unknown", facts(health={}), "not read"),
    ("flush_latency", "unknown", facts(flush=None, is_afar=True), "does not write on another host"),
    ("alignment", "good", facts(), "1048576"),
    ("alignment", "good", with_disk(offset_bytes=None), "no partition"),
    ("alignment", "warn", with_disk(offset_bytes=4096 * 3), "12288"),
    ("alignment", "bad", with_disk(offset_bytes=63 * 512), "32256"),
    ("alignment", "unknown", with_place(disks=()), "no disk is visible"),
    ("free_space", "good", facts(), "600 GB free = 67%"),
    ("free_space", "warn", with_place(free_bytes=100 * GB), "11%"),
    ("free_space", "bad", with_place(free_bytes=7 * GB), "max_wal_size"),
    ("free_space", "unknown", remote(), "needs a shell on the host"),
    ("flush_latency", "good", facts(), "p50 0.4, p99 0.9, max 2 ms over 1000 flushes"),
    ("flush_latency", "warn", with_disk(is_rotational=True), "faster than a rotation"),
    (
        "flush_latency",
        "warn",
        replace(with_disk(write_cache="write back"), flush=replace(FLUSH, latency_ns_p50=60_000)),
        "a cache answers",
    ),
    ("flush_latency", "bad", facts(flush=replace(FLUSH, latency_ns_p50=2_000)), "no disk is that"),
    (
        "flush_latency",
        "bad",
        replace(with_disk(write_cache="write back"), flush=replace(FLUSH, device_flushes=4)),
        "got only 4 flushes",
    ),
    ("flush_latency", "bad", with_place(file_system="tmpfs", disks=()), "this is memory"),
    ("flush_latency", "unknown", facts(flush=None), "not measured"),
    ("cpu_governor", "good", facts(), "performance on all 16 cores"),
    (
        "cpu_governor",
        "warn",
        with_host(governors=("performance",) * 15 + ("powersave",)),
        "1 of 16 cores: powersave",
    ),
    ("cpu_governor", "unknown", with_host(governors=(), is_virtual=True), "virtual machine"),
    ("cpu_boost", "good", facts(), "off"),
    ("cpu_boost", "warn", with_host(has_boost=True), "on"),
    ("cpu_boost", "unknown", with_host(has_boost=None), "not report"),
    ("transparent_huge_pages", "good", facts(), "madvise"),
    ("transparent_huge_pages", "warn", with_host(huge_pages_mode="always"), "always"),
    ("transparent_huge_pages", "unknown", with_host(huge_pages_mode=""), "not report"),
    ("swappiness", "good", facts(), "= 1"),
    ("swappiness", "warn", with_sysctl(vm__swappiness=60), "= 60"),
    (
        "swappiness",
        "bad",
        with_host(
            memory={"total_bytes": 28 * GB, "swap_total_bytes": 8 * GB, "swap_free_bytes": GB}
        ),
        "7.0 GB of 8.0 GB used",
    ),
    ("swappiness", "unknown", with_sysctl(vm__swappiness=None), "cannot be read"),
    ("dirty_limits", "good", facts(), "64 MB"),
    (
        "dirty_limits",
        "warn",
        with_sysctl(vm__dirty_background_bytes=0, vm__dirty_background_ratio=10),
        "10 % = 2.8 GB",
    ),
    ("dirty_limits", "unknown", with_sysctl(vm__dirty_background_ratio=None), "cannot be read"),
    ("overcommit", "good", facts(), "= 2"),
    ("overcommit", "warn", with_sysctl(vm__overcommit_memory=0), "heuristic"),
    ("overcommit", "bad", with_sysctl(vm__overcommit_memory=1), "promises"),
    ("overcommit", "unknown", with_sysctl(vm__overcommit_memory=None), "cannot be read"),
    ("numa", "good", facts(), "2 NUMA nodes"),
    ("numa", "warn", with_sysctl(kernel__numa_balancing=1), "numa_balancing = 1"),
    ("numa", "bad", with_sysctl(vm__zone_reclaim_mode=1), "zone_reclaim_mode = 1"),
    ("numa", "unknown", with_sysctl(vm__zone_reclaim_mode=None), "cannot be read"),
    ("autogroup", "good", facts(), "= 0"),
    ("autogroup", "warn", with_sysctl(kernel__sched_autogroup_enabled=1), "= 1"),
    ("autogroup", "unknown", with_sysctl(kernel__sched_autogroup_enabled=None), "cannot be read"),
    ("machine", "good", with_host(machine="virtual machine (KVM)"), "virtual machine (KVM)"),
    ("machine", "warn", with_host(machine="hardware", container="docker"), "container (docker)"),
    ("machine", "unknown", facts(), "not report"),
    ("irqbalance", "good", facts(), "runs"),
    ("irqbalance", "good", with_host(runs_irqbalance=False, cores=2), "hardly matters"),
    ("irqbalance", "warn", with_host(runs_irqbalance=False), "on 16 cores"),
    ("irqbalance", "unknown", remote(), "needs a shell on the host"),
    ("clock_source", "good", facts(), "tsc"),
    ("clock_source", "bad", with_host(clock_source="hpet"), "available: tsc, hpet"),
    ("clock_source", "warn", with_host(clock_source="xen", clock_sources=("xen",)), "xen"),
    ("clock_source", "unknown", with_host(clock_source=""), "does not report"),
    ("cpu_limit", "good", facts(), "no control group"),
    ("cpu_limit", "warn", with_host(limits=Limits(cpu_cores=2.5)), "2.5 of 16 cores"),
    ("cpu_limit", "bad", with_host(limits=Limits(2.5, throttled_count=9)), "throttled 9 times"),
    ("cpu_limit", "unknown", remote(), "needs a shell on the host"),
    ("memory_limit", "good", facts(), "no control group"),
    ("io_limit", "good", facts(), "no control group"),
    ("io_limit", "warn", with_host(limits=Limits(io=("8:0 wbps=1048576",))), "8:0 wbps=1048576"),
    ("io_limit", "unknown", with_host(limits=None), "PID"),
    ("memory_limit", "warn", with_host(limits=Limits(memory_bytes=20 * GB)), "20 GB of 28 GB"),
    ("memory_limit", "bad", with_host(limits=Limits(memory_bytes=8 * GB)), "more than half"),
    ("memory_limit", "unknown", with_host(memory={}), "cannot be read"),
    ("neighbours", "good", facts(), "no other"),
    ("neighbours", "warn", with_host(window=Window(1, 0, (Neighbour("java", 2.0),))), "java 2.0"),
    ("neighbours", "bad", with_host(window=Window(1, 0, (Neighbour("java", 9.0),))), "java 9.0"),
    ("neighbours", "unknown", with_host(window=None), "not observed"),
    ("steal", "good", facts(), "0.0% steal"),
    ("steal", "warn", with_host(window=Window(1, 0.02)), "2.0% steal"),
    ("steal", "bad", with_host(window=Window(1, 0.2)), "20.0% steal"),
    ("steal", "unknown", with_host(window=None), "not observed"),
    ("pressure", "good", facts(), "cpu 1 %, io 2 %"),
    ("pressure", "warn", with_host(pressure_percent={"io": 20.0}), "io 20 %"),
    ("pressure", "bad", with_host(pressure_percent={"cpu": 90.0}), "cpu 90 %"),
    ("pressure", "unknown", with_host(pressure_percent={}), "no pressure stall"),
    ("track_io_timing", "good", facts(), "on"),
    ("track_io_timing", "warn", with_settings(track_io_timing="off"), "read times"),
    ("track_io_timing", "unknown", HOST_ONLY, "needs a server"),
    ("track_wal_io_timing", "good", facts(), "on"),
    ("track_wal_io_timing", "warn", with_settings(track_wal_io_timing="off"), "flush times"),
    ("track_wal_io_timing", "unknown", HOST_ONLY, "needs a server"),
    ("tracking", "good", facts(), "on"),
    ("tracking", "bad", with_settings(track_counts="off"), "track_counts = off"),
    ("tracking", "unknown", HOST_ONLY, "needs a server"),
    ("statements", "good", facts(), "is installed"),
    ("statements", "warn", with_answers(identity=("17.2", False, "core", False, False)), "not in"),
    ("statements", "warn", with_settings(compute_query_id="off"), "off"),
    ("statements", "unknown", HOST_ONLY, "needs a server"),
    ("autovacuum", "good", facts(), "on"),
    ("autovacuum", "bad", with_settings(autovacuum="off"), "off"),
    ("autovacuum", "unknown", HOST_ONLY, "needs a server"),
    ("debug_assertions", "good", facts(), "without"),
    ("debug_assertions", "bad", with_settings(debug_assertions="on"), "on"),
    ("debug_assertions", "unknown", HOST_ONLY, "needs a server"),
    ("pending_restart", "good", facts(), "in effect"),
    ("pending_restart", "warn", with_settings(wal_level="logical!"), "wal_level wait"),
    ("pending_restart", "unknown", HOST_ONLY, "needs a server"),
    ("statement_logging", "good", facts(), "= off"),
    ("statement_logging", "warn", with_settings(log_min_duration_statement="0 ms"), "every"),
    ("statement_logging", "unknown", HOST_ONLY, "needs a server"),
    ("log_checkpoints", "good", facts(), "on"),
    ("log_checkpoints", "warn", with_settings(log_checkpoints="off"), "off"),
    ("log_checkpoints", "unknown", HOST_ONLY, "needs a server"),
    ("max_wal_size", "good", facts(), "10 of 110 checkpoints forced"),
    ("max_wal_size", "warn", with_answers(checkpoints=(1, 30)), "30 of 31"),
    ("max_wal_size", "unknown", with_answers(checkpoints=None), "the server's error"),
    ("checkpoint_pace", "good", facts(), "0.9"),
    ("checkpoint_pace", "warn", with_settings(checkpoint_completion_target="0.5"), "0.5"),
    ("checkpoint_pace", "unknown", HOST_ONLY, "needs a server"),
    ("parallel_workers", "good", facts(), "max_worker_processes = 8"),
    ("parallel_workers", "warn", with_settings(max_parallel_workers="99"), "99"),
    ("parallel_workers", "unknown", HOST_ONLY, "needs a server"),
    ("random_page_cost", "good", facts(), "1.1 on flash"),
    ("random_page_cost", "warn", with_settings(random_page_cost="4"), "4 on flash"),
    ("random_page_cost", "warn", with_disk(is_rotational=True), "1.1 on a rotating disk"),
    ("random_page_cost", "unknown", with_disk(is_rotational=None), "not known"),
    ("other_load", "good", facts(), "no other"),
    ("other_load", "warn", facts(others_active=5), "5 active sessions of other users"),
    ("other_load", "unknown", UNSEEN, "pg_monitor"),
    ("maintenance", "good", facts(), "no vacuum"),
    ("maintenance", "warn", with_answers(progress=(2, 0, 1)), "2 vacuum, 1 base backup"),
    ("maintenance", "unknown", with_answers(progress=None), "the server's error"),
    ("connections", "good", facts(), "38 of 200"),
    ("connections", "warn", with_answers(activity=(179, 0, 0, 0, 0.0)), "180 of 200"),
    ("connections", "bad", with_answers(activity=(197, 0, 0, 0, 0.0)), "198 of 200"),
    ("connections", "unknown", UNSEEN, "pg_monitor"),
    ("old_transactions", "good", facts(), "oldest transaction 2 s"),
    ("old_transactions", "warn", with_answers(activity=(9, 9, 1, 1, 400.0)), "1 sessions idle"),
    ("old_transactions", "bad", with_answers(activity=(9, 9, 1, 1, 4000.0)), "4000 s"),
    ("old_transactions", "unknown", UNSEEN, "pg_monitor"),
    ("replication_slots", "good", facts(), "a reader"),
    ("replication_slots", "warn", with_answers(slots=(1, MB, 0)), "1.0 MB of WAL"),
    ("replication_slots", "bad", with_answers(slots=(1, 99 * GB, 0)), "99 GB of WAL"),
    ("replication_slots", "bad", with_answers(slots=(1, 0, 1)), "lost"),
    ("replication_slots", "unknown", with_answers(slots=None), "the server's error"),
    ("wraparound", "good", facts(), "1,000,000"),
    ("wraparound", "warn", with_answers(databases=(500_000_000, 0)), "500,000,000"),
    ("wraparound", "bad", with_answers(databases=(1_500_000_000, 0)), "1,500,000,000"),
    ("wraparound", "unknown", with_answers(databases=None), "the server's error"),
]
BY_ID = {check.id: check for check in checks()}


def judged(name: str, seen: Facts) -> Finding:
    return BY_ID[name](seen)


@pytest.mark.parametrize(("name", "verdict", "given", "seen"), CASES)
def test_a_check_judges_what_it_sees(name: str, verdict: Verdict, given: Facts, seen: str) -> None:
    finding = judged(name, given)
    assert finding.verdict == verdict, finding
    assert seen in finding.seen, finding
    assert bool(finding.mend) == (verdict in ("warn", "bad")), finding
    assert ": " not in finding.mend, "the page writes 'mend:' before it"
    assert finding.seen.count(": ") < 2, "the page writes the name of the check before it"


def test_every_check_has_a_case_for_good_for_worse_and_for_unknown() -> None:
    tried = defaultdict(set)
    for name, verdict, *_ in CASES:
        tried[name].add(verdict)
    assert tried.keys() == BY_ID.keys()
    for name, verdicts in tried.items():
        assert {"good", "unknown"} <= verdicts, name
        assert verdicts & {"warn", "bad"}, name


def test_no_check_fails_whatever_is_missing() -> None:
    nothing = facts(server=server({}, **dict.fromkeys(ANSWERS)))
    for given in (Facts(), remote(), HOST_ONLY, nothing, facts(host=HOST, data=None, wal=None)):
        for check in BY_ID.values():
            assert check(given).seen


def test_the_published_rule_counts_what_one_configuration_of_2017_promises() -> None:
    # 2000 connections x 512 MB, 4 GB shared, 2 GB temp_buffers, 2 GB maintenance, on 28 GB.
    settings = {
        "max_connections": "2000",
        "work_mem": "524288 kB",
        "shared_buffers": "524288 8kB",
        "temp_buffers": "262144 8kB",
        "maintenance_work_mem": "2097152 kB",
    }
    seen = facts(server=server(settings), peak=PeakActive(61, "watch #12"))
    rule, peak = judged("memory_rule", seen), judged("memory_at_the_peak", seen)
    assert "2000 connections x 512 MB + 4.0 GB shared_buffers + 2.0 GB temp_buffers" in rule.seen
    # 1000 + 4 + 2 + 2 + 1.75 (a sixteenth of 28) GB
    assert "= 1.0 TB, memory 28 GB" in rule.seen
    # 30.5 + 4 + 2 + 2 + 1.75 GB
    assert "61 active (watch #12)" in peak.seen
    assert "= 40 GB, memory 28 GB" in peak.seen
    # (28 - 9.75) GB / 61 / 4 nodes = 76 MB -> 64 MB; 61 x 64 MB + 9.75 GB = 13.6 GB
    assert peak.mend == "ALTER SYSTEM SET work_mem = '64MB' -> 14 GB"


def test_a_limit_of_the_control_group_counts_instead_of_the_hosts_memory() -> None:
    limited = replace(HOST, limits=Limits(memory_bytes=8 * GB))
    assert "memory 8.0 GB" in judged("memory_rule", facts(host=limited)).seen


def test_a_proposed_work_mem_is_never_more_than_the_present_one() -> None:
    tight = with_settings(max_connections="5000", work_mem="4096 kB", temp_buffers="524288 8kB")
    assert "work_mem = '2MB'" in judged("memory_rule", tight).mend
    none = with_settings(shared_buffers="4000000 8kB")
    assert "use all memory" in judged("memory_rule", none).mend


def test_the_hint_for_temp_buffers_is_never_the_present_value() -> None:
    many = judged("temp_buffers", with_settings(max_connections="9000"))
    assert many.verdict == "bad"
    assert many.mend == "lower max_connections (9000 here), with a pooler if necessary"
    large = judged("temp_buffers", with_settings(temp_buffers="262144 8kB"))
    assert "temp_buffers = '8MB'" in large.mend
