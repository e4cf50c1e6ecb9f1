"""The disks with data and WAL. Every commit waits for their flushes, and relies on them."""

from __future__ import annotations

from collections.abc import Callable

from pgdyno.features.doctor.check import check
from pgdyno.features.doctor.check_facts import CheckFacts
from pgdyno.features.doctor.finding import Judgement, Unknown, Verdict, bad, good, warn
from pgdyno.features.doctor.storage_facts import Disk, StoragePlace
from pgdyno.observe.device.health import Health
from pgdyno.quantities import format_bytes, percent, significant
from pgdyno.server.storage import MEMORY_FILE_SYSTEMS

_NETWORK = {"nfs", "nfs4", "cifs", "smb3", "ceph", "glusterfs", "fuse.glusterfs", "9p", "virtiofs"}
_LAYERED = {"overlay", "aufs", "fuse.mergerfs"}
_COPY_ON_WRITE = {"btrfs", "zfs", "bcachefs"}
_ALIGNED_BYTES = 1 << 20
_BLOCK_BYTES = 4096
_NO_FLUSH_OPTIONS = {"nobarrier", "barrier=0", "nocacheflush", "sync=disabled"}
# Limits of used endurance, and of the remaining spare, which is near the threshold in the NVMe
# specification.
_WORN_PERCENT, _AGED_PERCENT, _SPARE_PERCENT = 100, 80, 10
# No disk makes data durable faster.
_IMPOSSIBLE_NS = 15_000
# A disk with a protected cache answers within this time. Flash without protection takes longer.
_PROTECTED_NS = 150_000
# A hard disk needs half a turn on average: 2 ms even at 15,000 turns a minute.
_HALF_TURN_NS = 2_000_000


@check("storage", "the file system decides the effect of PostgreSQL's flushes")
def file_system(facts: CheckFacts) -> Judgement:
    """The kind of file system of data and WAL."""
    return _worst(facts.places(), _judge_file_system)


@check("storage", "a mount option may turn off the flushes that durability needs")
def mount_options(facts: CheckFacts) -> Judgement:
    """Options of the mounts of data and WAL."""
    return _worst(facts.places(), _judge_options)


@check(
    "storage", "a scheduler that sorts and delays requests adds latency on disks that do not rotate"
)
def io_scheduler(facts: CheckFacts) -> Judgement:
    """The I/O scheduler of each disk."""
    return _worst_disk(facts, _judge_scheduler)


@check("storage", "a power failure destroys the content of a cache without a battery")
def write_cache(facts: CheckFacts) -> Judgement:
    """The volatile cache of each disk."""
    times = facts.flush
    reached = times is not None and (times.device_flushes or 0) >= times.flush_count // 2

    def judge(disk: Disk) -> Judgement:
        if disk.write_cache == "write through":
            return good("write through, no volatile cache")
        if disk.write_cache != "write back":
            raise Unknown(f"{disk.name} does not report its cache mode")
        if reached:
            return good("write back, and flushes reach the disk")
        return warn(
            "write back, safe only with flushes",
            "measure with --flush DIR whether flushes reach the disk",
        )

    return _worst_disk(facts, judge)


@check("storage", "a worn or hot disk slows down irregularly, and later loses data")
def disk_health(facts: CheckFacts) -> Judgement:
    """Wear, heat and errors that NVMe disks report."""

    def judge(disk: Disk) -> Judgement:
        health = facts.health.get(disk.name, f"the health of {disk.name} was not read")
        if isinstance(health, str):
            raise Unknown(health.rstrip("."))
        return _judge_health(health)

    return _worst_disk(facts, judge)


@check("storage", "a page that spans two blocks of the disk costs a read before each write")
def alignment(facts: CheckFacts) -> Judgement:
    """Alignment of partitions."""
    return _worst_disk(facts, _judge_alignment)


@check("storage", "a full disk stops the server; a nearly full flash disk is slow and irregular")
def free_space(facts: CheckFacts) -> Judgement:
    """Room for the data and for the WAL of a run."""
    wal_bytes = facts.server.size_bytes("max_wal_size") if facts.server is not None else 1 << 30

    def judge(place: StoragePlace) -> Judgement:
        if not place.total_bytes:
            raise Unknown(f"the free space of {place.mount_point} is not known")
        ratio = place.free_bytes / place.total_bytes
        seen = f"{format_bytes(place.free_bytes)} free = {percent(ratio)}"
        if place.free_bytes < 2 * wal_bytes:
            return bad(
                f"{seen}, less than twice max_wal_size ({format_bytes(wal_bytes)})",
                f"free space below {place.mount_point}",
            )
        flash = any(disk.is_rotational is False for disk in place.disks)
        if ratio < 0.1 or (flash and ratio < 0.2):
            return warn(seen, f"free space below {place.mount_point}; test disks half empty")
        return good(seen)

    return _worst(facts.places(), judge)


@check(
    "storage",
    "a commit is never faster than one flush; a flush that is too fast does not reach the disk",
)
def flush_latency(facts: CheckFacts) -> Judgement:
    """The measured latency of flushes, and whether it is plausible."""
    times = facts.flush
    is_elsewhere = facts.is_afar or (facts.host is None and facts.server is not None)
    if times is None and is_elsewhere:
        raise Unknown(
            "a flush writes, and pgdyno does not write on another host: run doctor --flush DIR "
            "there"
        )
    if times is None:
        raise Unknown("not measured: --flush DIR writes and flushes 8 kB blocks there for 2 s")
    per_second = 1e9 / times.latency_ns_p50 if times.latency_ns_p50 else 0.0
    latencies_ns = (times.latency_ns_p50, times.latency_ns_p99, times.latency_ns_max)
    p50, p99, longest = (significant(latency_ns / 1e6) for latency_ns in latencies_ns)
    seen = (
        f"p50 {p50}, p99 {p99}, max"
        f" {longest} ms over {times.flush_count} flushes in {times.folder}:"
        f" one client commits at most {per_second:,.0f}/s"
    )
    place = facts.wal or facts.data
    disks = place.disks if place is not None else ()
    if place is not None and place.file_system in MEMORY_FILE_SYSTEMS:
        return bad(f"{seen}; this is memory, not a disk", "name a folder on a disk")
    if times.latency_ns_p50 < _IMPOSSIBLE_NS:
        return bad(
            f"{seen}; no disk is that fast, so flushes do not reach a disk",
            "check mount options, the hypervisor's cache mode, the controller's write cache",
        )
    has_cache = any(disk.write_cache == "write back" for disk in disks)
    counted = times.device_flushes
    if has_cache and counted is not None and counted < times.flush_count // 2:
        return bad(
            f"{seen}; the disk has a volatile cache, but got only {counted} flushes",
            "remove nobarrier or similar mount options",
        )
    if any(disk.is_rotational for disk in disks) and times.latency_ns_p50 < _HALF_TURN_NS:
        return warn(
            f"{seen}; that is faster than a rotation of the disk, so a cache answers",
            "make sure that the cache has a battery; only a power cut proves it",
        )
    if has_cache and times.latency_ns_p50 < _PROTECTED_NS:
        return warn(
            f"{seen}; a cache answers",
            "make sure that the disk protects its cache from power loss; only a power cut "
            "proves it",
        )
    return good(seen)


def _judge_file_system(place: StoragePlace) -> Judgement:
    seen = f"{place.file_system} on {_device(place)}"
    if place.file_system in MEMORY_FILE_SYSTEMS:
        return bad(f"{seen}, which is memory, not a disk", "use a disk")
    if place.file_system in _LAYERED:
        return warn(f"{seen}, layers of a container", "mount a volume for the data")
    if place.file_system in _NETWORK:
        return warn(f"{seen}; every flush goes over a network", "measure the network as well")
    if place.file_system in _COPY_ON_WRITE:
        return warn(f"{seen}, copy on write", "measure an old file system; the cost grows with age")
    return good(seen)


def _judge_options(place: StoragePlace) -> Judgement:
    wrong = sorted(_NO_FLUSH_OPTIONS & set(place.options))
    if wrong:
        return bad(
            f"{', '.join(wrong)}; the disk's cache is not flushed",
            f"mount -o remount,barrier=1 {place.mount_point}, and correct /etc/fstab",
        )
    slow = sorted({"sync", "dirsync", "strictatime", "data=journal"} & set(place.options))
    if slow:
        return warn(", ".join(slow), f"mount -o remount,noatime {place.mount_point}")
    return good(",".join(place.options))


def _judge_scheduler(disk: Disk) -> Judgement:
    if not disk.scheduler:
        raise Unknown(f"{disk.name} reports no I/O scheduler")
    wanted = ("none",) if disk.is_nvme else ("none", "mq-deadline", "noop", "deadline")
    if disk.scheduler in wanted or disk.is_rotational:
        return good(disk.scheduler)
    best = next((name for name in wanted if name in disk.schedulers), wanted[0])
    return warn(disk.scheduler, f"echo {best} > /sys/block/{disk.name}/queue/scheduler")


def _judge_health(health: Health) -> Judgement:
    used, spare, celsius = (
        health.used_percent or 0,
        health.available_spare_percent,
        health.temperature_celsius,
    )
    seen = f"{used} % of its rated writes used"
    seen += "" if spare is None else f", {spare} % of its spare blocks left"
    seen += "" if celsius is None else f", {celsius} C"
    if health.media_errors:
        return bad(f"{seen}, {health.media_errors} media errors", "replace the disk")
    if used >= _WORN_PERCENT or (spare is not None and spare < _SPARE_PERCENT):
        return bad(seen, "replace the disk")
    heat_minutes = (health.too_warm_minutes or 0) + (health.critical_minutes or 0)
    if heat_minutes:
        return warn(f"{seen}, {heat_minutes} min too warm in its lifetime", "cool the disk")
    return warn(seen, "plan to replace the disk") if used >= _AGED_PERCENT else good(seen)


def _judge_alignment(disk: Disk) -> Judgement:
    if disk.offset_bytes is None:
        return good("no partition, starts with the disk")
    seen = f"partition starts at {disk.offset_bytes} bytes"
    if disk.offset_bytes % _BLOCK_BYTES:
        return bad(seen, "partition again, starting at a multiple of 1 MiB")
    if disk.offset_bytes % _ALIGNED_BYTES:
        return warn(seen, "partition again, starting at a multiple of 1 MiB")
    return good(seen)


def _worst(
    places: tuple[StoragePlace, ...], judge: Callable[[StoragePlace], Judgement]
) -> Judgement:
    return _most_severe([(place.name, judge(place)) for place in places])


def _worst_disk(facts: CheckFacts, judge: Callable[[Disk], Judgement]) -> Judgement:
    facts.places()
    disks = facts.disks()
    if not disks:
        raise Unknown("no disk is visible below the file system")
    return _most_severe([(disk.name, judge(disk)) for disk in disks])


def _most_severe(judgements: list[tuple[str, Judgement]]) -> Judgement:
    """Return one judgement from several: the worst verdict, its repair, all observations."""
    order: tuple[Verdict, ...] = ("good", "warn", "bad")
    verdict = max((judged.verdict for _, judged in judgements), key=order.index)
    seen = "; ".join(dict.fromkeys(f"{name}: {judged.seen}" for name, judged in judgements))
    mend = next((judged.mend for _, judged in judgements if judged.verdict == verdict), "")
    return Judgement(verdict, seen, mend)


def _device(place: StoragePlace) -> str:
    return " + ".join(disk.name for disk in place.disks) or place.source
