"""The course of a watch: examine the server, observe it until the end, and store the result.

If the server goes away, the watch continues and has a gap. If the lab is killed, the closed
segments remain, and the last one stays readable.
"""

from __future__ import annotations

import importlib.metadata
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tomli_w

from pgdyno.clock import ClockPair, monotonic_ns, read_pair
from pgdyno.errors import InterruptedByUser, PgdynoError, ServerError
from pgdyno.features.doctor.examine import Examination, Subject, examine, examined_since
from pgdyno.features.doctor.server_seen import ServerSeen, read_settings
from pgdyno.features.doctor.session import read_only
from pgdyno.features.watch.document import Watched, document_of, utc
from pgdyno.features.watch.incident import server_rules
from pgdyno.features.watch.incident.evidence import IncidentEvidence
from pgdyno.features.watch.incident.known_statements import (
    KnownStatements,
    busy_tables,
    worth_asking,
)
from pgdyno.features.watch.incident.rules import all_findings, findings_of
from pgdyno.features.watch.incident.sampled import ROOM_SQL, asked_too, is_little_room
from pgdyno.features.watch.incident.table_facts import facts_of_statements
from pgdyno.features.watch.segments import SEGMENT_NS, Segments
from pgdyno.features.watch.show import WatchShow
from pgdyno.features.watch.statements import (
    Calls,
    KnownTexts,
    NewTextsCollector,
    dearest,
    most_called,
    read_calls,
    settle,
)
from pgdyno.features.watch.tally import Tally
from pgdyno.measure.host_access import observed_pooler
from pgdyno.observe.collector import Collector
from pgdyno.observe.collector_thread import ALL_TAKEN
from pgdyno.observe.nodes import observed_nodes
from pgdyno.observe.observer import ObservedServer, Observer
from pgdyno.observe.schedule import OwnCost
from pgdyno.observe.session import ServerSession
from pgdyno.process import signals
from pgdyno.server.connect import connect
from pgdyno.server.nodes import kinds_of, workers_of
from pgdyno.server.server_facts import ALWAYS_KEPT
from pgdyno.server.storage import free_bytes
from pgdyno.server.target import Target
from pgdyno.store.experiment import Store
from pgdyno.store.folder import ExperimentFolder

_TICK_S = 0.5
_FREE_PATIENCE_NS = 10_000_000_000
_RESERVED_HINT = (
    "watch with a superuser, or on 16 and later with a role that has pg_use_reserved_connections:"
    " the server keeps connections for them; the watch then names who holds most. Without pgdyno,"
    " as such a role: SELECT application_name, usename, client_addr, state, count(*) FROM"
    " pg_catalog.pg_stat_activity GROUP BY 1, 2, 3, 4 ORDER BY 5 DESC"
)
# Waits are sampled ten times in an interval. A longer one needs no separate connection for them.
_SHARED_NS = 2_000_000_000
_JUDGED_EVERY_NS = 2_000_000_000
_STATEMENTS_SHOWN = 10
_STATEMENTS_DRAWN = 50


@dataclass(frozen=True, slots=True)
class WatchRequest:
    """The server to watch, for how long, and how often."""

    target: Target
    duration_ns: int
    interval_ns: int
    name: str
    note: str = ""
    segment_ns: int = SEGMENT_NS
    host_command: tuple[str, ...] | None = None
    console: Target | None = None


@dataclass(frozen=True, slots=True)
class WatchOutcome:
    """The stored result. `error` ended the watch early; None if it ended as planned."""

    folder: ExperimentFolder
    document: dict[str, Any]
    error: PgdynoError | None


def watch(request: WatchRequest, store: Store, show: WatchShow) -> WatchOutcome:
    """Watch a server until the time is over or a signal comes, and return the result.

    Raises: ServerError if the server cannot be reached at the begin; StoreError if no folder can
    be made. Later errors are in the outcome, with everything stored until then.
    """
    clock = read_pair()
    with show.doing("examining the server"):
        examination = _examined(request)
        before = read_calls(request.target, lambda calls: dearest(calls, _STATEMENTS_DRAWN))
    folder = store.create(request.name, "watch")
    job = _keep_what_was_asked(folder, request, examination, clock)
    texts = KnownTexts(before.texts)
    show.began(examination, folder, texts)
    tally = Tally(request.interval_ns)
    evidence = IncidentEvidence(tally)
    segments = Segments(folder, job, clock=clock, evidence=evidence, segment_ns=request.segment_ns)
    settle(request.target)
    asked_texts = texts if before.by_statement else None
    observer = _observer(request, examination, folder, segments, clock, asked_texts)
    error: PgdynoError | None = None
    began_ns = clock.now_ns()
    try:
        observer.start()
        _loop(clock, began_ns + request.duration_ns, evidence, segments, show, observer)
    except PgdynoError as seen:
        error = seen
    with show.doing("the watch has ended: reading what the statements did"), signals.shielded():
        observer.stop()
        tally.close(clock.now_ns())
        error = _closed(segments, error)
        _keep_facts(folder, examined_since(examination, tally.peak_sessions))
        watched = Watched(
            tally=tally,
            asked_ns=request.duration_ns,
            lasted_ns=clock.now_ns() - began_ns,
            began_utc=utc(began_ns),
            is_complete=error is None,
            is_local=examination.facts.postmaster_pid is not None,
            version=importlib.metadata.version("pgdyno"),
            cost_ns=_cost(observer.cost),
        )
        after = Calls()
        if before.by_statement:
            wanted = {*watched.dearest(_STATEMENTS_SHOWN), *dearest(before, _STATEMENTS_DRAWN)}
            after = read_calls(
                request.target,
                lambda calls: {*wanted, most_called(before, calls)[0]},
            )
            # The server may not answer now; texts that were read before still name statements.
            after = replace(after, texts={**texts.all(), **after.texts})
        known = replace(
            known_statements(request.target, evidence, before, after),
            wal_free_bytes=_wal_free_bytes(examination.facts.data_folder),
            is_standby=_is_standby(examination),
        )
        findings = all_findings(evidence, known)
        document = document_of(
            watched,
            folder,
            before=before,
            after=after,
            findings=findings,
            evidence=evidence,
        )
        document["settings_changed"] = _settings_changed(request.target, examination)
        folder.write_analysis(document)
        folder.seal()
    return WatchOutcome(folder, document, error)


def _examined(request: WatchRequest) -> Examination:
    """Examine the server; if all its connections are taken, wait a few seconds for a free one.

    Raises: ServerError with what to do.
    """
    # The watch itself sees sessions and other programs for longer: here, one look is enough.
    subject = Subject(
        target=request.target,
        verb="watch",
        host_command=request.host_command,
        looks_count=1,
    )
    deadline_ns = monotonic_ns() + min(request.duration_ns, _FREE_PATIENCE_NS)
    while True:
        try:
            return examine(subject)
        except ServerError as error:
            if error.sqlstate != ALL_TAKEN:
                raise
            if monotonic_ns() >= deadline_ns:
                raise ServerError(
                    f"{error.message.rstrip('.')}: no connection became free for the watch.",
                    hint=_RESERVED_HINT,
                    sqlstate=error.sqlstate,
                ) from None
        signals.sleep(_TICK_S / 2)


def known_statements(
    target: Target, evidence: IncidentEvidence, before: Calls, after: Calls
) -> KnownStatements:
    """Return what the server tells about the statements that took the most time."""
    if not before.by_statement:
        return KnownStatements(counts_statements=False)
    facts = facts_of_statements(target, worth_asking(evidence), busy_tables(evidence))
    return KnownStatements(after.texts, facts, counts_statements=True)


def _wal_free_bytes(data_folder: Path | None) -> int | None:
    if data_folder is None:
        return None
    try:
        return free_bytes((data_folder / "pg_wal").resolve())
    except OSError:
        return None


def _is_standby(examination: Examination) -> bool:
    server = examination.facts.server
    return bool(server is not None and server.answers.get("identity", ("", False))[1])


def _loop(
    clock: ClockPair,
    until_ns: int,
    evidence: IncidentEvidence,
    segments: Segments,
    show: WatchShow,
    observer: Observer,
) -> None:
    judged_ns = clock.now_ns()
    while (rest_ns := until_ns - clock.now_ns()) > 0:
        signals.sleep(min(_TICK_S, rest_ns / 1e9))
        for notice in segments.notices():
            show.noticed(notice)
        segments.turn()
        now_ns = clock.now_ns()
        show.moved(now_ns, evidence.tally)
        if server_rules.has_few_connections(evidence):
            observer.keep_one_session()
        if now_ns - judged_ns >= _JUDGED_EVERY_NS:
            judged_ns = now_ns
            show.found(now_ns, findings_of(evidence))


def _closed(segments: Segments, error: PgdynoError | None) -> PgdynoError | None:
    """Close the last segment; return the first error, None if there was none."""
    try:
        segments.finish()
    except PgdynoError as refused:
        segments.abandon()
        if error is None or isinstance(error, InterruptedByUser):
            return refused
    return error


def _observer(
    request: WatchRequest,
    examination: Examination,
    folder: ExperimentFolder,
    segments: Segments,
    clock: ClockPair,
    texts: KnownTexts | None,
) -> Observer:
    def ask_too(session: ServerSession) -> list[Collector]:
        new_texts = [] if texts is None else [NewTextsCollector(session, texts)]
        return [*new_texts, *asked_too(session)]

    facts = examination.facts
    is_local = facts.postmaster_pid is not None
    folders = {"store": folder.folder}
    if facts.data_folder is not None:
        folders["data"] = facts.data_folder
    name = str(folder.number)
    with connect(request.target, verb="watch", run=name) as connection:
        nodes, kinds = workers_of(connection), kinds_of(connection)
        room = connection.execute(ROOM_SQL).fetchone() or (0, 0)
    return Observer(
        clock=clock,
        sink=segments,
        run=name,
        server=ObservedServer(
            connect=lambda: connect(request.target, verb="observe", run=name),
            database=request.target.database,
            # No session has this name, because a watch has no load.
            load_application_name=f"pgdyno/watch/{name}/",
            is_local=is_local,
            postmaster_pid=facts.postmaster_pid,
            ask_too=ask_too,
            nodes=observed_nodes(nodes, request.target, run=name, is_local=is_local),
            kinds=kinds,
            has_few_connections=is_little_room(*room) or request.interval_ns > _SHARED_NS,
        ),
        folders=folders,
        interval_ns=request.interval_ns,
        loads=False,
        host=None if is_local else request.host_command,
        pooler=observed_pooler(request.console, name) if request.console is not None else None,
    )


def _keep_what_was_asked(
    folder: ExperimentFolder, request: WatchRequest, examination: Examination, clock: ClockPair
) -> dict[str, Any]:
    job = {
        "verb": "watch",
        "target": request.target.as_document(),
        "interval_ns": request.interval_ns,
        "duration_ns": request.duration_ns,
    }
    folder.write_spec(tomli_w.dumps({"watch": {"name": request.name, **job}}))
    _keep_facts(folder, examination)
    if request.note:
        folder.add_note(clock.now_ns(), request.note)
    return job


def _keep_facts(folder: ExperimentFolder, examination: Examination) -> None:
    folder.write_facts(
        {
            "target_line": examination.target,
            "settings": _settings_kept(examination.facts.server),
            "doctor": examination.as_document(),
        }
    )


def _settings_kept(server: ServerSeen | None) -> dict[str, str]:
    """Return the settings that a reader looks for, and those that differ from the default."""
    settings = server.settings if server is not None else {}
    return {
        name: setting.shown
        for name, setting in settings.items()
        if setting.is_changed or name in ALWAYS_KEPT
    }


def _settings_changed(target: Target, examination: Examination) -> list[dict[str, str]]:
    """Return the settings that changed since the doctor read them; empty if not known."""
    server = examination.facts.server
    try:
        with read_only(target, "watch") as (session, _):
            now = read_settings(session)
    except PgdynoError:
        return []
    before = server.settings if server is not None else {}
    return [
        {"name": name, "before": before[name].shown, "after": setting.shown}
        for name, setting in sorted(now.items())
        if name in before and before[name].text != setting.text
    ]


def _cost(cost: OwnCost) -> tuple[int, int]:
    """Return CPU time of the lab's threads and of their backends, in ns."""
    rows = cost.sample(0)
    return (
        sum(int(row["cpu_ns"] or 0) for row in rows),
        sum(int(row["backend_cpu_ns"] or 0) for row in rows),
    )
