"""A disk that fails under load: the server must lose nothing, whatever it does meanwhile.

An fsync that fails once must end in a PANIC and redo (`data_sync_retry` is off), because the kernel
may have dropped what it could not write. A full disk ends a checkpoint with an error, and commits
with a PANIC. A stalled disk only makes everybody wait.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pgdyno.clock import monotonic_ns
from pgdyno.errors import ServerError
from pgdyno.features.crash.controls import Control
from pgdyno.features.crash.losses import acknowledged_count
from pgdyno.features.crash.moments import PlannedCrash
from pgdyno.features.crash.record import CheckSeen, CrashRecord
from pgdyno.features.crash.request import Fault
from pgdyno.features.crash.scratch_crash import ScratchBench, checked, on_disk, with_stopped_checks
from pgdyno.features.crash.work import CommittingClients
from pgdyno.process import signals
from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.server.scratch.postmaster import read_log

# Long enough for a checkpoint to meet the fault.
_FAULT_S: Mapping[Fault, float] = {"fsync-eio": 1.0, "full": 2.0, "stall": 5.0}
_OF_DISK: Mapping[Fault, str] = {"fsync-eio": "fsync_eio_once", "full": "full", "stall": "stall"}
_AFTERWARDS_S = 0.5
_POLL_S = 0.05
FAULTS: Mapping[Fault, Control] = {
    "fsync-eio": Control("fsync fails once", "nothing lost", phases=("checkpoint",), tries=1),
    "full": Control("disk full", "nothing lost", phases=("checkpoint",), tries=1),
    "stall": Control("disk stalls for 5 s", "nothing lost", phases=("checkpoint",), tries=1),
}


def fault_once(
    bench: ScratchBench, planned: PlannedCrash, settings: Mapping[str, str], fault: Fault
) -> CrashRecord:
    """Let the disk of one server fail for a while, and return what was seen.

    Raises: ServerError or EngineError if the load did not begin.
    """
    arm = FAULTS[fault].name
    with on_disk(bench, settings) as (cluster, disk):
        assert disk is not None, "a fault needs the disk of --kind power"
        said_before = cluster.log_path.stat().st_size
        with CommittingClients(bench, planned, cluster.target, arm=arm) as work:
            work.until_end_of_load()
            failed_ns = bench.clock.now_ns()
            disk.fault(_OF_DISK[fault], _FAULT_S[fault])
            work.go_on(_FAULT_S[fault])
            disk.fault("none")
            record = work.record(hit=True, fault=fault)
            record = _answering(bench, cluster, record, failed_ns)
            signals.sleep(_AFTERWARDS_S)
            work.stop()
        commits = work.commits()
        record = replace(record, acknowledged=acknowledged_count(commits))
        if record.recovery_error:
            return replace(record, lost=record.acknowledged)
        log_from = cluster.log_path.stat().st_size
        with cluster.connect(verb="crash") as connection:
            record = checked(
                bench,
                record,
                connection,
                commits,
                crashed_ns=failed_ns,
                data_dir=cluster.data_dir,
            )
        record = with_stopped_checks(bench, cluster, record, log_from=log_from)
        return replace(record, checks=(*record.checks, _said(cluster, said_before)))


def _answering(
    bench: ScratchBench, cluster: ScratchCluster, record: CrashRecord, failed_ns: int
) -> CrashRecord:
    """Wait until the server answers, and start it again if it ended."""
    cluster.start_timeout_s = bench.request.recovery_timeout_s
    deadline_ns = monotonic_ns() + int(cluster.start_timeout_s * 1e9)
    while True:
        restart_ns = bench.clock.now_ns() - failed_ns
        try:
            if cluster.pid is None:
                cluster.stop()
                cluster.start()
            with cluster.connect(verb="crash") as connection:
                connection.execute("SELECT 1")
            answered_ns = bench.clock.now_ns() - failed_ns
            return replace(record, restart_ns=restart_ns, answered_ns=answered_ns)
        except ServerError as error:
            if monotonic_ns() > deadline_ns or cluster.pid is None:
                return replace(record, recovery_error=" ".join(error.message.split()))
        signals.sleep(_POLL_S)


def _said(cluster: ScratchCluster, log_from: int) -> CheckSeen:
    """Return what the server's log says of the fault."""
    log = read_log(cluster.log_path, log_from)
    lines = [line for line in log.splitlines() if "PANIC:" in line or "could not" in line]
    panics = sum("PANIC:" in line for line in lines)
    first = lines[0].split("] ", 1)[-1].strip() if lines else "nothing"
    return CheckSeen("what the server did", "note", f"{panics} PANIC; first: {first}")
