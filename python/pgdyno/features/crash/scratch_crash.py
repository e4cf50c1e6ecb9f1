"""One crash of a scratch server: fill, load, crash, recover, check.

Every crash has its own server, a copy of the same data. With `power` the copy is on a disk that
forgets; the configuration, the log and the journal of the load are outside of it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

import psycopg

from pgdyno.clock import ClockPair, monotonic_ns
from pgdyno.errors import ProcessError, ServerError
from pgdyno.features.crash import checks
from pgdyno.features.crash.losses import SentCommit, acknowledged_count, losses_of
from pgdyno.features.crash.moments import PlannedCrash
from pgdyno.features.crash.power_disk import PowerDisk
from pgdyno.features.crash.record import CheckSeen, CrashRecord
from pgdyno.features.crash.work import CommittingClients, CrashSetup
from pgdyno.process import signals
from pgdyno.process.child import UserIds, run
from pgdyno.server.connect import Connection
from pgdyno.server.dataset import inspection as datasets
from pgdyno.server.find import Binaries
from pgdyno.server.scratch.cluster import ScratchCluster, ScratchRequest
from pgdyno.server.scratch.postmaster import read_log
from pgdyno.store import files

_COPY_TIMEOUT_S = 600.0
_REDO_TIMEOUT_NS = 30_000_000_000
_SEEDS = 2**63


@dataclass(frozen=True, slots=True)
class ScratchBench(CrashSetup):
    """What crashes of scratch servers share. `template`: the data that every crash begins with."""

    binaries: Binaries
    template: Path

    def server(
        self, settings: Mapping[str, str], fill: Callable[[Path, UserIds], None]
    ) -> ScratchRequest:
        """Return the request of a server whose data directory is filled with a copy."""
        return ScratchRequest(
            self.binaries,
            clients=self.request.clients,
            settings=settings,
            data_dir=self.request.data_dir,
            allow_tmpfs=self.request.allow_tmpfs,
            fill=fill,
        )


@dataclass(slots=True)
class _Course:
    """What is known so far of a crash in progress."""

    cluster: ScratchCluster
    disk: PowerDisk | None
    crashed_ns: int = 0
    survivors: dict[str, int] = field(default_factory=dict)


def crash_once(
    bench: ScratchBench, planned: PlannedCrash, settings: Mapping[str, str], *, arm: str
) -> CrashRecord:
    """Let one server crash, and return what was seen.

    Raises: ServerError or EngineError if the load did not begin; what happens after the crash is in
    the record.
    """
    with on_disk(bench, settings) as (cluster, disk):
        course = _Course(cluster, disk)
        record, commits = _until_crash(bench, planned, course, arm)
        record = _after_crash(bench, planned, course, record, commits)
        warnings = tuple(dict.fromkeys(disk.warnings)) if disk is not None else ()
        return replace(record, disk_warnings=warnings)


@contextmanager
def on_disk(
    bench: ScratchBench, settings: Mapping[str, str]
) -> Iterator[tuple[ScratchCluster, PowerDisk | None]]:
    """Run a new server inside the block, with its disk if it can lose power."""
    disks: list[PowerDisk] = []
    clusters: list[ScratchCluster] = []

    def fill(data_dir: Path, user: UserIds) -> None:
        if bench.request.kind == "power":
            disks.append(_disk(bench, data_dir, user))
        copied(bench.template, data_dir)
        for disk in disks:
            disk.settle()

    try:
        clusters.append(ScratchCluster.create(bench.server(settings, fill)))
        yield clusters[0], disks[0] if disks else None
    finally:
        with signals.shielded():
            for cluster in clusters:
                cluster.stop(is_immediate=True)
            for disk in disks:
                disk.close()
            for cluster in clusters:
                cluster.remove()


def _disk(bench: ScratchBench, data_dir: Path, user: UserIds) -> PowerDisk:
    asked = bench.request
    disk = PowerDisk(
        data_dir,
        directories=asked.directories,
        sector_bytes=asked.sector_bytes,
        on=asked.on,
        defect=asked.defect,
    )
    os.chown(data_dir, user.uid, user.gid)
    data_dir.chmod(0o700)
    return disk


def copied(data_dir: Path, place: Path) -> None:
    """Copy the data of a stopped server. Raises: ServerError if they are not there afterwards."""
    done = run(["cp", "-a", "--reflink=auto", f"{data_dir}/.", place], timeout_s=_COPY_TIMEOUT_S)
    # The layer has no access lists; cp says so, and has copied everything else.
    if not (place / "PG_VERSION").exists() or not (place / "global" / "pg_control").exists():
        raise ServerError(
            f"The data were not copied to {place}: {done.stderr.strip()[:300]}.",
            hint="check that the disk has space",
        )


def _until_crash(
    bench: ScratchBench, planned: PlannedCrash, course: _Course, arm: str
) -> tuple[CrashRecord, list[SentCommit]]:
    with CommittingClients(
        bench, planned, course.cluster.target, arm=arm, outlasts_crashes=False
    ) as work:
        work.until_end_of_load()
        hit = work.until_moment()
        _crash(course, planned.seed, bench.clock)
        work.stop()
    commits = work.commits()
    record = work.record(hit=hit, survivors=course.survivors)
    return replace(record, acknowledged=acknowledged_count(commits)), commits


def _crash(course: _Course, seed: int, clock: ClockPair) -> None:
    """Cut the power or not, and kill every process of the server at that moment."""

    def cut() -> None:
        course.crashed_ns = course.crashed_ns or clock.now_ns()
        if course.disk is not None:
            course.survivors = course.disk.cut(seed)

    course.cluster.kill(cut)
    if course.disk is not None:
        course.disk.restore()


def _after_crash(
    bench: ScratchBench,
    planned: PlannedCrash,
    course: _Course,
    record: CrashRecord,
    commits: list[SentCommit],
) -> CrashRecord:
    cluster = course.cluster
    if planned.phase == "recovery":
        hit = _crash_in_recovery(course, planned, bench.clock)
        record = replace(record, hit=hit, survivors=course.survivors)
    log_from = cluster.log_path.stat().st_size
    cluster.start_timeout_s = bench.request.recovery_timeout_s
    restart_ns = bench.clock.now_ns() - course.crashed_ns
    record = replace(record, restart_ns=restart_ns)
    try:
        cluster.start()
        with cluster.connect(verb="crash") as connection:
            recovered_xid = checks.next_xid(connection)
            answered_ns = bench.clock.now_ns() - course.crashed_ns
            log = read_log(cluster.log_path, log_from)
            redo = redo_in(log)
            record = replace(
                record,
                answered_ns=answered_ns,
                redo_began_ns=_after(restart_ns, redo.began_ns),
                redo_ended_ns=_after(restart_ns, redo.ended_ns),
                wal_bytes=redo.wal_bytes,
            )
            record = checked(
                bench,
                record,
                connection,
                commits,
                crashed_ns=course.crashed_ns,
                recovered_xid=recovered_xid,
                data_dir=cluster.data_dir,
            )
    except (ServerError, psycopg.Error) as error:
        words = error.message if isinstance(error, ServerError) else str(error)
        record = replace(record, recovery_error=" ".join(words.split()), lost=record.acknowledged)
        _keep(bench, course, record)
        return record
    record = with_stopped_checks(bench, cluster, record, log_from=log_from)
    if record.is_corrupt or record.lost:
        _keep(bench, course, record)
    return record


def with_stopped_checks(
    bench: ScratchBench, cluster: ScratchCluster, record: CrashRecord, *, log_from: int
) -> CrashRecord:
    """Stop the server and return the record with the checks of its files and of its log."""
    orphans: list[Path] = []
    with suppress(ServerError, psycopg.Error), cluster.connect(verb="crash") as connection:
        orphans = checks.files_without_relation(connection, cluster.data_dir)
    cluster.stop()
    sums = checks.checksum_check(bench.binaries, cluster.user, cluster.data_dir, orphans)
    said = checks.log_check(read_log(cluster.log_path, log_from))
    return replace(record, checks=(*record.checks, sums, said))


def _crash_in_recovery(course: _Course, planned: PlannedCrash, clock: ClockPair) -> bool:
    """Start the server and let it crash again during redo; True if redo was not over."""
    cluster = course.cluster
    log_from = cluster.log_path.stat().st_size
    cluster.launch()
    deadline_ns = monotonic_ns() + _REDO_TIMEOUT_NS
    while monotonic_ns() < deadline_ns and cluster.status != "ready" and cluster.pid is not None:
        if "redo starts" in read_log(cluster.log_path, log_from):
            break
        signals.sleep(0.002)
    signals.sleep(planned.pause_ns / 1e9)
    is_over = cluster.status == "ready" or cluster.pid is None
    _crash(course, (planned.seed + 1) % _SEEDS, clock)
    return not is_over


def checked(
    bench: CrashSetup,
    record: CrashRecord,
    connection: Connection,
    commits: Sequence[SentCommit],
    *,
    crashed_ns: int,
    recovered_xid: int | None = None,
    data_dir: Path | None = None,
) -> CrashRecord:
    """Return the record with what became of the commits, and with the checks of the data.

    Args: crashed_ns, Unix time; recovered_xid, the next transaction after recovery, None for that
    of now; data_dir, None if the files of the server are out of reach.
    """
    seen: list[CheckSeen] = []
    if recovered_xid is None:
        recovered_xid = checks.next_xid(connection)
    try:
        datasets.use_tables(connection)
        present = checks.rows_of(connection)
        status = checks.statuses(connection, commits, recovered_xid=recovered_xid)
    except psycopg.Error as error:
        words = str(error).strip().splitlines()[0]
        seen.append(CheckSeen("acknowledged commits", "bad", words))
        present, status = {}, {}
    losses = losses_of(commits, present, status, crashed_ns=crashed_ns)
    rows_are_known = not seen
    if rows_are_known:
        seen.append(
            _counted("commits in doubt", losses.in_doubt_wrong, "contradict pg_xact_status")
        )
        seen.append(_counted("entries that nobody sent", losses.unsent, "rows"))
    seen += checks.row_checks(connection)
    seen += checks.own_checks(connection, bench.request.checks)
    if data_dir is not None:
        seen += checks.file_checks(connection, data_dir)
    return replace(
        record,
        lost=losses.lost,
        lost_ns=losses.lost_ns if losses.lost else 0,
        is_suffix=losses.is_suffix,
        in_doubt=losses.in_doubt,
        in_doubt_committed=losses.in_doubt_committed,
        checks=tuple(seen),
    )


def _counted(name: str, count: int, words: str) -> CheckSeen:
    return CheckSeen(name, "bad" if count else "good", f"{count} {words}" if count else "none")


def _after(restart_ns: int, since_ns: int | None) -> int | None:
    return None if since_ns is None else restart_ns + since_ns


def _keep(bench: ScratchBench, course: _Course, record: CrashRecord) -> None:
    """Copy the data of a crash that lost or damaged something, unless it is a control's."""
    if record.arm:
        return
    place = bench.kept_in / f"crash-{record.number:04d}"
    with suppress(OSError, ServerError, ProcessError):
        place.mkdir(mode=0o700)
        course.cluster.stop(is_immediate=True)
        copied(course.cluster.data_dir, place)
        files.write_text(place / "server.log", read_log(course.cluster.log_path))


_LINE = re.compile(r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}) \S+ \[\d+\] LOG:\s+(.*)")
_STARTS = re.compile(r"redo starts at ([0-9A-F]+)/([0-9A-F]+)")
_DONE = re.compile(r"redo done at ([0-9A-F]+)/([0-9A-F]+)")


@dataclass(frozen=True, slots=True)
class Redo:
    """Redo of one recovery, in ns from the first line of the log; None if nothing was replayed."""

    began_ns: int | None = None
    ended_ns: int | None = None
    wal_bytes: int | None = None


def redo_in(log: str) -> Redo:
    """Return the redo of the last recovery in a log, which begins with the start of the server."""
    first: datetime | None = None
    began = ended = None
    from_lsn = to_lsn = 0
    for line in log.splitlines():
        match = _LINE.match(line)
        if match is None:
            continue
        at = datetime.strptime(match[1], "%Y-%m-%d %H:%M:%S.%f")  # Only differences are used.
        first = first or at
        if lsn := _STARTS.search(match[2]):
            began, from_lsn = at, _position(lsn)
        elif lsn := _DONE.search(match[2]):
            ended, to_lsn = at, _position(lsn)
    if first is None or began is None or ended is None:
        return Redo()
    return Redo(
        round((began - first).total_seconds() * 1e9),
        round((ended - first).total_seconds() * 1e9),
        to_lsn - from_lsn,
    )


def _position(match: re.Match[str]) -> int:
    return (int(match[1], 16) << 32) + int(match[2], 16)
