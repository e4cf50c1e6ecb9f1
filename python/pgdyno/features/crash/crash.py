"""The course of `pgdyno crash`: make the data, run the controls, let the server crash, store.

Crashes are not runs of an experiment. A run measures a server that stays: it is reset, warmed up,
observed and judged by its load. A crash ends the server in the middle, and its load is only there
to be lost. What is common is kept common: a numbered result, an answer, text, page and JSON.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import tomli_w

from pgdyno.clock import ClockPair, monotonic_ns, read_pair
from pgdyno.errors import InterruptedByUser, PgdynoError
from pgdyno.features.crash.controls import REPEATS_MAX, Control, controls_of, is_settled, judged
from pgdyno.features.crash.crashers import Crasher, OwnCrasher, ScratchCrasher
from pgdyno.features.crash.document import document_of
from pgdyno.features.crash.faults import FAULTS
from pgdyno.features.crash.moments import planned_crashes
from pgdyno.features.crash.record import CrashRecord
from pgdyno.features.crash.request import CrashRequest
from pgdyno.features.crash.show import CrashShow
from pgdyno.features.crash.work import CrashSetup
from pgdyno.measure.run_progress import RunProgress
from pgdyno.process import signals
from pgdyno.quantities import duration_text
from pgdyno.server.scratch.leftovers import sweep_leftovers
from pgdyno.store.experiment import Store
from pgdyno.store.folder import ExperimentFolder


@dataclass(frozen=True, slots=True)
class CrashOutcome:
    """The stored result. `error` ended the command early; None if all crashes took place."""

    folder: ExperimentFolder
    document: dict[str, Any]
    error: PgdynoError | None


def crash(request: CrashRequest, store: Store, show: CrashShow) -> CrashOutcome:
    """Let scratch servers crash as asked, and return the stored result.

    Raises: errors before the first crash. Later ones are in the outcome, with all earlier crashes.
    """
    clock = read_pair()
    own_places = [request.data_dir] if request.data_dir is not None else []
    for leftover in (*sweep_leftovers(), *sweep_leftovers(own_places)):
        show.progress.said(f"removed files of a killed command: {leftover.path}")
    with _crasher(request, clock, store, show.progress) as crasher:
        folder = store.create(request.name or f"crash {request.kind}", "crash")
        folder.write_spec(tomli_w.dumps({"crash": _asked(request)}))
        folder.write_facts(crasher.facts)
        if request.note:
            folder.add_note(clock.now_ns(), request.note)
        show.began(folder, crasher.facts["target_line"])
        bench = CrashSetup(request, clock, folder.folder)
        error: PgdynoError | None = None
        try:
            _Session(crasher, bench, folder, show).run_all()
        except PgdynoError as seen:
            error = seen
    with signals.shielded():
        document = document_of(folder, is_complete=error is None)
        folder.write_analysis(document)
    if error is not None and not folder.crashes() and not isinstance(error, InterruptedByUser):
        error.has_run = True
        raise error
    return CrashOutcome(folder, document, error)


def _crasher(
    request: CrashRequest, clock: ClockPair, store: Store, progress: RunProgress
) -> AbstractContextManager[Crasher]:
    if request.own is None:
        return ScratchCrasher.ready(request, clock, progress)
    return OwnCrasher.ready(request, clock, store.root, progress)


@dataclass(frozen=True, slots=True)
class _Session:
    """What the controls, the faults and the crashes of one command share."""

    crasher: Crasher
    bench: CrashSetup
    folder: ExperimentFolder
    show: CrashShow

    def run_all(self) -> None:
        # A user's own statements may depend on a user's own load; controls know nothing of it.
        request = self.bench.request
        apart = replace(self.bench, request=replace(request, checks=()))
        if request.controls:
            for control in controls_of(request.kind, is_own=request.own is not None):
                if request.on is None or not control.tears_pages:
                    self._run_control(control, apart)
        for fault in request.faults:
            with self.show.progress.doing(f"fault {fault}"):
                record = self._kept(self.crasher.fail(apart, fault))
            self.show.controlled(judged(FAULTS[fault], [record]), "fault")
        count = request.only_number or request.crashes
        planned = planned_crashes(count, request.seed, self.crasher.phases)
        if request.only_number is not None:
            planned = planned[-1:]
        began_ns = monotonic_ns()
        for done_count, planned_crash in enumerate(planned):
            words = f"crash {planned_crash.number} of {count}"
            if done_count:
                each_ns = (monotonic_ns() - began_ns) // done_count
                left_s = round(each_ns * (len(planned) - done_count) / 1e9)
                words += f", about {duration_text(left_s * 1_000_000_000)} left"
            with self.show.progress.doing(words):
                record = self._kept(self.crasher.crash(self.bench, planned_crash, None))
            self.show.crashed(record, len(planned))

    def _run_control(self, control: Control, bench: CrashSetup) -> None:
        records: list[CrashRecord] = []
        planned = planned_crashes(control.tries + REPEATS_MAX, bench.request.seed, control.phases)
        while not is_settled(control, records):
            with self.show.progress.doing(f"control {control.name}"):
                record = self.crasher.crash(bench, planned[len(records)], control)
            records.append(self._kept(record))
        self.show.controlled(judged(control, records))

    def _kept(self, record: CrashRecord) -> CrashRecord:
        self.folder.add_crash(record.as_document())
        return record


def _asked(request: CrashRequest) -> dict[str, Any]:
    asked: dict[str, Any] = {
        "kind": request.kind,
        "crashes": request.crashes,
        "seed": request.seed,
        "clients": request.clients,
        "controls": request.controls,
        "version": request.binaries.version if request.binaries is not None else "",
        "settings": dict(request.settings),
        "recovery_timeout_s": request.recovery_timeout_s,
    }
    if request.kind == "power":
        asked |= {"directories": request.directories, "sector_bytes": request.sector_bytes}
        asked |= {"on": request.on} if request.on is not None else {}
    if request.kind == "failover":
        asked |= {"promote_command": request.promote_command}
        asked |= {"standby": request.replication} if request.own is None else {}
    if request.own is not None:
        asked |= {
            "target": request.own.target.as_document(),
            "crash_command": request.own.crash_command,
            "recover_command": request.own.recover_command,
        }
    if request.faults:
        asked["faults"] = list(request.faults)
    return asked if request.only_number is None else {**asked, "only": request.only_number}
