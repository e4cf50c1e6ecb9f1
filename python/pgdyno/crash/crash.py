"""The course of `pgdyno crash`: make the data, run the controls, let the server crash, store.

Crashes are not runs of an experiment. A run measures a server that stays: it is reset, warmed up,
observed and judged by its load. A crash ends the server in the middle, and its load is only there
to be lost. What is common is kept common: a numbered result, an answer, text, page and JSON.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import tomli_w

from pgdyno.clock import ClockPair, read_pair
from pgdyno.crash.checks import prepare
from pgdyno.crash.controls import CONTROLS, Control, ControlSeen, Kind, is_settled, judged
from pgdyno.crash.document import document_of
from pgdyno.crash.failover import Replication, failover_once
from pgdyno.crash.faults import FAULTS, Fault, fault_once
from pgdyno.crash.moments import FAILOVER_PHASES, PHASES, PlannedCrash, planned_crashes
from pgdyno.crash.power_disk import Directories
from pgdyno.crash.record import CrashRecord
from pgdyno.crash.scratch_crash import Bench, crash_once
from pgdyno.errors import InterruptedByUser, PgdynoError
from pgdyno.measure.loading import Loading, load_dataset
from pgdyno.measure.run_progress import Progress
from pgdyno.process import signals
from pgdyno.server.find import Binaries
from pgdyno.server.leftovers import sweep_leftovers
from pgdyno.server.scratch import ScratchCluster, ScratchRequest
from pgdyno.spec.dataset import LedgerDataset
from pgdyno.store.experiment import Store
from pgdyno.store.folder import ExperimentFolder

# With a small cache pages reach the disk while the load runs, where a loss of power can tear them.
SMALL_CACHE = {"shared_buffers": "1MB", "bgwriter_delay": "10ms", "bgwriter_lru_maxpages": "1000"}
# Balances beyond those of the clients, about 1.5 MB: a table whose pages exist before the load.
ACCOUNTS = 30_000
_SERVER_SETTINGS = ("max_wal_size", "wal_writer_delay", "checkpoint_timeout")
_DURABLE = ("fsync", "full_page_writes", "synchronous_commit")


@dataclass(frozen=True, slots=True)
class CrashRequest:
    """What is asked: the server, how it crashes, how often. `only_number`: one of the crashes."""

    kind: Kind
    crashes: int
    seed: int
    clients: int
    binaries: Binaries
    settings: Mapping[str, str] = field(default_factory=dict)
    data_dir: Path | None = None
    allow_tmpfs: bool = False
    checks: Sequence[str] = ()
    controls: bool = True
    directories: Directories = "strict"
    sector_bytes: int = 512
    recovery_timeout_s: float = 60.0
    replication: Replication = "synchronous"
    promote_command: str = ""
    faults: Sequence[Fault] = ()
    only_number: int | None = None
    name: str = ""
    note: str = ""
    defect: str | None = None


@dataclass(frozen=True, slots=True)
class CrashOutcome:
    """The stored result. `error` ended the command early; None if all crashes took place."""

    folder: ExperimentFolder
    document: dict[str, Any]
    error: PgdynoError | None


class CrashShow:
    """Receives what happens. This class is silent; the command line's prints."""

    progress: Progress

    def began(self, folder: ExperimentFolder, server: str) -> None:
        """Take note that the crashes begin."""

    def crashed(self, record: CrashRecord, of_count: int) -> None:
        """Take note of a crash."""

    def controlled(self, seen: ControlSeen, what: str = "control") -> None:
        """Take note of a control, or of a fault of the disk."""


def crash(request: CrashRequest, store: Store, show: CrashShow) -> CrashOutcome:
    """Let scratch servers crash as asked, and return the stored result.

    Raises: errors before the first crash. Later ones are in the outcome, with all earlier crashes.
    """
    clock = read_pair()
    own_places = [request.data_dir] if request.data_dir is not None else []
    for leftover in (*sweep_leftovers(), *sweep_leftovers(own_places)):
        show.progress.said(f"removed the rest of a killed command: {leftover.path}")
    with _template(request, clock, show.progress) as template:
        facts = _facts(template, request)
        template.stop()
        folder = store.create(request.name or f"crash {request.kind}", "crash")
        folder.write_spec(tomli_w.dumps({"crash": _asked(request)}))
        folder.write_facts(facts)
        if request.note:
            folder.add_note(clock.now_ns(), request.note)
        show.began(folder, facts["target_line"])
        bench = _bench(request, template, clock, folder)
        error: PgdynoError | None = None
        try:
            if request.controls:
                _run_controls(bench, request, folder, show)
            _run_faults(bench, request, folder, show)
            _run_crashes(bench, request, folder, show)
        except PgdynoError as seen:
            error = seen
    with signals.shielded():
        document = document_of(folder, is_complete=error is None)
        folder.write_analysis(document)
    if error is not None and not folder.crashes() and not isinstance(error, InterruptedByUser):
        raise error
    return CrashOutcome(folder, document, error)


def _template(request: CrashRequest, clock: ClockPair, progress: Progress) -> ScratchCluster:
    """Return a running cluster with an empty ledger, the data that every crash begins with."""
    cluster = ScratchCluster.create(
        ScratchRequest(
            request.binaries,
            clients=request.clients,
            settings={"fsync": "off"},
            data_dir=request.data_dir,
            allow_tmpfs=request.allow_tmpfs,
            # Without checksums a torn page is found only if somebody reads what is torn.
            checksums=True,
        )
    )
    try:
        load_dataset(
            LedgerDataset(accounts=max(ACCOUNTS, request.clients)),
            cluster.target,
            clock=clock,
            verb="crash",
            progress=progress,
            how=Loading(),
        )
        with cluster.connect(verb="crash") as connection:
            prepare(connection)
        cluster.restart(_settings(request, {}))
    except BaseException:
        cluster.close()
        raise
    return cluster


def _settings(request: CrashRequest, control: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a crash: ours, the user's, then the control's."""
    ours = SMALL_CACHE if request.kind == "power" else {}
    return {**ours, **request.settings, **control}


def _bench(
    request: CrashRequest, template: ScratchCluster, clock: ClockPair, folder: ExperimentFolder
) -> Bench:
    return Bench(
        binaries=request.binaries,
        template=template.data_dir,
        kind=request.kind,
        clients=request.clients,
        clock=clock,
        data_dir=request.data_dir,
        kept_in=folder.folder,
        recovery_timeout_s=request.recovery_timeout_s,
        check_sql=request.checks,
        directories=request.directories,
        sector_bytes=request.sector_bytes,
        defect=request.defect,
        allow_tmpfs=request.allow_tmpfs,
    )


def _run_controls(
    bench: Bench, request: CrashRequest, folder: ExperimentFolder, show: CrashShow
) -> None:
    # A user's own statements may depend on a user's own load; controls know nothing of them.
    bench = replace(bench, check_sql=())
    for control in CONTROLS[request.kind]:
        records: list[CrashRecord] = []
        planned = planned_crashes(control.tries, request.seed, control.phases)
        while not is_settled(control, records):
            record = _crash(bench, request, planned[len(records)], control)
            folder.add_crash(record.as_document())
            records.append(record)
        show.controlled(judged(control, records))


def _run_faults(
    bench: Bench, request: CrashRequest, folder: ExperimentFolder, show: CrashShow
) -> None:
    for fault in request.faults:
        [planned] = planned_crashes(1, request.seed, FAULTS[fault].phases)
        record = fault_once(replace(bench, check_sql=()), planned, _settings(request, {}), fault)
        folder.add_crash(record.as_document())
        show.controlled(judged(FAULTS[fault], [record]), "fault")


def _run_crashes(
    bench: Bench, request: CrashRequest, folder: ExperimentFolder, show: CrashShow
) -> None:
    phases = FAILOVER_PHASES if request.kind == "failover" else PHASES
    planned = planned_crashes(request.only_number or request.crashes, request.seed, phases)
    if request.only_number is not None:
        planned = planned[-1:]
    for crash_planned in planned:
        record = _crash(bench, request, crash_planned, None)
        folder.add_crash(record.as_document())
        show.crashed(record, len(planned))


def _crash(
    bench: Bench, request: CrashRequest, planned: PlannedCrash, control: Control | None
) -> CrashRecord:
    """Let one server crash. Args: control, None for the server in question."""
    settings = _settings(request, control.settings if control is not None else {})
    arm = control.name if control is not None else ""
    if request.kind != "failover":
        return crash_once(bench, planned, settings, arm=arm)
    return failover_once(
        bench,
        planned,
        settings,
        arm=arm,
        replication=(control.replication or "asynchronous") if control else request.replication,
        # The controls prove this test, and not the user's tool.
        promote_command="" if control else request.promote_command,
    )


def _asked(request: CrashRequest) -> dict[str, Any]:
    asked: dict[str, Any] = {
        "kind": request.kind,
        "crashes": request.crashes,
        "seed": request.seed,
        "clients": request.clients,
        "controls": request.controls,
        "version": request.binaries.version,
        "settings": dict(request.settings),
        "recovery_timeout_s": request.recovery_timeout_s,
    }
    if request.kind == "power":
        asked |= {"directories": request.directories, "sector_bytes": request.sector_bytes}
    if request.kind == "failover":
        asked |= {"standby": request.replication, "promote_command": request.promote_command}
    if request.faults:
        asked["faults"] = list(request.faults)
    return asked if request.only_number is None else {**asked, "only": request.only_number}


def _facts(template: ScratchCluster, request: CrashRequest) -> dict[str, Any]:
    """Return the facts of the answer: the server, and the settings that decide what may be lost."""
    with template.connect(verb="crash") as connection:
        rows = connection.execute(
            "SELECT name, current_setting(name) FROM pg_settings WHERE name = ANY(%s)",
            [[*_SERVER_SETTINGS, *_DURABLE, "data_checksums", "shared_buffers"]],
        ).fetchall()
    version = request.binaries.version
    return {
        "target_line": f"scratch server, PostgreSQL {version}, crashes of kind {request.kind}",
        "settings": dict(rows),
        "pgdyno": importlib.metadata.version("pgdyno"),
    }
