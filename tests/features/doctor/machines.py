"""Facts made by hand: a server and a host without problems, and changes to them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from pgdyno.features.doctor.check_facts import CheckFacts, PeakActive
from pgdyno.features.doctor.flush import FlushTimes
from pgdyno.features.doctor.host_facts import HostState, Window
from pgdyno.features.doctor.server_seen import ServerSeen
from pgdyno.features.doctor.storage_facts import Disk, StoragePlace
from pgdyno.observe.device.health import Health
from pgdyno.server.configuration import Setting
from pgdyno.settings.rule import SettingRule

GB = 1 << 30
MB = 1 << 20

# The settings of a server with 28 GB and without problems, as pg_settings prints them.
SETTINGS = {
    "archive_mode": "on",
    "autovacuum": "on",
    "autovacuum_freeze_max_age": "200000000",
    "autovacuum_max_workers": "3",
    "autovacuum_work_mem": "-1 kB",
    "checkpoint_completion_target": "0.9",
    "checkpoint_timeout": "300 s",
    "compute_query_id": "auto",
    "data_checksums": "on",
    "data_sync_retry": "off",
    "debug_assertions": "off",
    "effective_cache_size": "2752512 8kB",
    "fsync": "on",
    "full_page_writes": "on",
    "huge_pages": "try",
    "huge_pages_status": "on",
    "ignore_checksum_failure": "off",
    "log_checkpoints": "on",
    "log_min_duration_statement": "-1 ms",
    "log_statement": "none",
    "maintenance_work_mem": "1048576 kB",
    "max_connections": "200",
    "max_parallel_workers": "8",
    "max_parallel_workers_per_gather": "2",
    "max_prepared_transactions": "0",
    "max_wal_size": "4096 MB",
    "max_worker_processes": "8",
    "random_page_cost": "1.1",
    "shared_buffers": "917504 8kB",
    "superuser_reserved_connections": "3",
    "synchronous_commit": "on",
    "synchronous_standby_names": "",
    "temp_buffers": "1024 8kB",
    "track_activities": "on",
    "track_counts": "on",
    "track_io_timing": "on",
    "track_wal_io_timing": "on",
    "wal_level": "replica",
    "wal_writer_delay": "200 ms",
    "work_mem": "16384 kB",
    "zero_damaged_pages": "off",
}
ANSWERS: dict[str, tuple[Any, ...]] = {
    "role": ("dyno", False, True, True, True, True, True, True, False),
    "identity": ("17.2", False, "core", False, True, True),
    "size": (412 * GB,),
    "data_size": (412 * GB,),
    "activity": (37, 37, 3, "", 0, 2.0),
    "progress": (0, 0, 0),
    "replication": (1, 1),
    "slots": (0, 0, 0),
    "databases": (1_000_000, 0),
    "checkpoints": (100, 10),
    "prepared": (0, 0.0),
    "archiver": (False, 0),
}
DISK = Disk("nvme0n1", False, "none", ("none", "mq-deadline"), "write through", MB)
PLACE = StoragePlace(
    "data", "/pg", "/pg", "xfs", "/dev/nvme0n1p1", ("rw", "noatime"), 900 * GB, 600 * GB, (DISK,)
)
HOST = HostState(
    cores=16,
    governors=("performance",) * 16,
    has_boost=False,
    huge_pages_mode="madvise",
    memory={
        "total_bytes": 28 * GB,
        "swap_total_bytes": GB,
        "swap_free_bytes": GB,
        "huge_pages_total_bytes": 8 * GB,
    },
    sysctl={
        "kernel/numa_balancing": 0,
        "kernel/sched_autogroup_enabled": 0,
        "vm/dirty_background_bytes": 64 * MB,
        "vm/dirty_background_ratio": 0,
        "vm/overcommit_memory": 2,
        "vm/swappiness": 1,
        "vm/zone_reclaim_mode": 0,
    },
    numa_nodes=2,
    runs_irqbalance=True,
    clock_source="tsc",
    clock_sources=("tsc", "hpet"),
    pressure_percent={"cpu": 1.0, "io": 2.0},
    window=Window(1.0, 0.0),
)
HEALTH = Health(
    used_percent=3,
    available_spare_percent=100,
    temperature_celsius=42,
    read_bytes=21 * GB,
    written_bytes=10 * GB,
    media_errors=0,
    unsafe_shutdowns=12,
    too_warm_minutes=0,
    critical_minutes=0,
    slowed_count=0,
    slowed_seconds=0,
)
FLUSH = FlushTimes("/pg/pg_wal", 1000, 400_000, 900_000, 2_000_000, 1000)


def server(settings: dict[str, str] | None = None, **answers: tuple[Any, ...] | None) -> ServerSeen:
    """Return the server with some settings ("64 MB") and answers changed; None takes one away."""
    given = {**SETTINGS, **(settings or {})}
    kept = {name: answer for name, answer in {**ANSWERS, **answers}.items() if answer is not None}
    return ServerSeen(17, {name: setting(text) for name, text in given.items()}, kept)


def setting(text: str) -> Setting:
    value, _, unit = text.partition(" ")
    rule = SettingRule("", "string", "sighup", unit, "", "", (), "")
    return Setting(rule, value.removesuffix("!"), is_pending=value.endswith("!"))


def facts(**changes: Any) -> CheckFacts:
    """Return everything in order, with some of it changed."""
    whole = CheckFacts(
        host=HOST,
        server=server(),
        data=PLACE,
        wal=PLACE,
        ram_bytes=28 * GB,
        peak=PeakActive(0, "now"),
        others_active=0,
        flush=FLUSH,
        health={DISK.name: HEALTH},
    )
    return replace(whole, **changes)


def with_settings(**settings: str) -> CheckFacts:
    """Return everything in order but these settings."""
    return facts(server=server(settings))


def with_answers(**answers: tuple[Any, ...] | None) -> CheckFacts:
    """Return everything in order but these answers."""
    return facts(server=server(None, **answers))


def with_host(**changes: Any) -> CheckFacts:
    """Return everything in order but this of the host."""
    return facts(host=replace(HOST, **changes))


def with_sysctl(**values: int | None) -> CheckFacts:
    """Return everything in order but these kernel settings; None takes one away."""
    named = {name.replace("__", "/"): value for name, value in values.items()}
    merged = {name: value for name, value in {**HOST.sysctl, **named}.items() if value is not None}
    return with_host(sysctl=merged)


def with_place(**changes: Any) -> CheckFacts:
    """Return everything in order but where data and WAL lie."""
    place = replace(PLACE, **changes)
    return facts(data=place, wal=place)


def with_disk(**changes: Any) -> CheckFacts:
    """Return everything in order but the disk."""
    return with_place(disks=(replace(DISK, **changes),))


def with_health(**changes: int | None) -> CheckFacts:
    """Return everything in order but what the disk says of itself."""
    return facts(health={DISK.name: replace(HEALTH, **changes)})


def remote(**changes: Any) -> CheckFacts:
    """Return what is known without a shell on the host."""
    return facts(host=None, data=None, wal=None, ram_bytes=None, flush=None, **changes)


def tree(root: Path, files: dict[str, str]) -> Path:
    """Write files below `root`; a value that begins with "->" is a link."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if text.startswith("->"):
            path.symlink_to(text[2:])
        else:
            path.write_text(text)
    return root
