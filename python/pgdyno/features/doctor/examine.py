"""Gathers the facts and runs every check, on one server or only on this host."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pgdyno.clock import monotonic_ns
from pgdyno.errors import SpecError
from pgdyno.features.doctor import flush, rights
from pgdyno.features.doctor.check import Check
from pgdyno.features.doctor.check_facts import CheckFacts, PeakActive
from pgdyno.features.doctor.checks import durability, host, memory, settings, state, storage
from pgdyno.features.doctor.finding import VERDICTS, Finding, Verdict
from pgdyno.features.doctor.host_afar import HostAfar
from pgdyno.features.doctor.host_facts import (
    Glance,
    glance,
    own_pid,
    parent_pid,
    read_host,
    window_between,
)
from pgdyno.features.doctor.server_seen import ServerSeen, peak_active, read_server
from pgdyno.features.doctor.session import read_only
from pgdyno.features.doctor.storage_facts import read_place
from pgdyno.observe.device.health import Health, HealthUnknown, read_health
from pgdyno.process import signals
from pgdyno.quantities import format_bytes
from pgdyno.server.find import embedded, installed
from pgdyno.server.scratch.placement import LAST_PLACE
from pgdyno.server.server_facts import is_backend_here
from pgdyno.server.target import Target

_WINDOW_S = 1.0
_MODULES = (memory, durability, storage, host, settings, state)


def checks() -> tuple[Check, ...]:
    """Return every check, in the order of the list."""
    return tuple(
        member
        for module in _MODULES
        for member in vars(module).values()
        if isinstance(member, Check)
    )


@dataclass(frozen=True, slots=True)
class Subject:
    """What to examine. `target` None: only this host, with the place of scratch servers' data.

    `peak`: from an earlier watch; a larger present number replaces it. `host_command`: runs a shell
    on the server's host, if this is another host. `looks_count`: how often sessions at work are
    counted, 0.2 s apart.
    """

    target: Target | None
    ram_bytes: int | None = None
    flush_folder: Path | None = None
    peak: PeakActive | None = None
    verb: str = "doctor"
    host_command: tuple[str, ...] | None = None
    looks_count: int = 5


@dataclass(frozen=True, slots=True)
class Examination:
    """The findings of all checks; `target` is the line that names the server.

    `began`: the CPU time used on this host before, if the server is here.
    """

    target: str
    findings: tuple[Finding, ...]
    facts: CheckFacts
    began: Glance | None = None

    def of(self, verdict: Verdict) -> list[Finding]:
        """Return the findings with this verdict."""
        return [finding for finding in self.findings if finding.verdict == verdict]

    @property
    def worst(self) -> Verdict:
        """Return the worst verdict; "unknown" does not count."""
        return next((v for v in VERDICTS if v != "unknown" and self.of(v)), "good")

    def as_document(self) -> dict[str, Any]:
        """Return the document that a result stores: `pgdyno.doctor/1`, the worst findings first."""
        ordered = [asdict(finding) for verdict in VERDICTS for finding in self.of(verdict)]
        return {
            "format": "pgdyno.doctor/1",
            "target": self.target,
            "verdict": self.worst,
            "rights": self._rights(),
            "counts": {verdict: len(self.of(verdict)) for verdict in VERDICTS},
            "findings": ordered,
            "not_measurable": [
                {"checks": ids, "why": why} for why, ids in self.not_measurable().items()
            ],
        }

    def not_measurable(self) -> dict[str, list[str]]:
        """Return the checks with unknown answer by reason, the most frequent reason first."""
        ids_by_reason: dict[str, list[str]] = {}
        for finding in self.of("unknown"):
            ids_by_reason.setdefault(finding.seen, []).append(finding.id)
        if half := self.facts.half_seen():
            ids_by_reason[half] = []
        return dict(sorted(ids_by_reason.items(), key=lambda item: -len(item[1])))

    def _rights(self) -> dict[str, Any] | None:
        """Return the rights of the role, what each verb can do, and the statements for more."""
        server = self.facts.server
        if server is None or "role" not in server.answers:
            return None
        held, has_shell = server.rights, self.facts.host is not None
        _, is_standby, database, *_ = server.answer("identity")
        verbs = rights.verb_rights(held, has_shell=has_shell, is_standby=bool(is_standby))
        return {
            **asdict(held),
            "shell_on_host": has_shell,
            "verbs": {
                verb.verb: {"is_complete": verb.is_complete, "text": verb.text} for verb in verbs
            },
            "grants": rights.grants(held, major=server.major, database=str(database)),
        }


def examine(asked: Subject) -> Examination:
    """Examine the server and the host for about a second, and return the findings.

    There is one read-only connection with timeouts. Only the measurement of flushes writes.
    Raises: ServerError if the server cannot be reached; SpecError for the folder of flushes.
    """
    first = glance(monotonic_ns())
    if asked.target is None:
        signals.sleep(_WINDOW_S)
        scratch = CheckFacts(scratch=(*installed(), *embedded()))
        folder = Path(os.environ.get("PGDYNO_DATA") or LAST_PLACE)
        on_host = _on_host(asked, scratch, first, pid=own_pid(), folder=folder)
        return judged("this host, no server", on_host)
    with read_only(asked.target, asked.verb) as (session, target):
        is_here = target.is_loopback and is_backend_here(session.backend_pid, target)
        seen = read_server(session)
        afar = None
        if asked.host_command is not None and not is_here:
            afar = HostAfar(asked.host_command, session.backend_pid, seen.data_folder)
        now = PeakActive(peak_active(session, signals.sleep, asked.looks_count), "now")
        known = [peak for peak in (asked.peak, now) if peak is not None]
        facts = CheckFacts(
            server=seen,
            ram_bytes=asked.ram_bytes,
            peak=max(known, key=lambda peak: peak.sessions),
            others_active=now.sessions,
        )
        pid = session.backend_pid
        if is_here:
            facts = replace(facts, data_folder=_data_folder(seen, pid))
            facts = replace(facts, postmaster_pid=parent_pid(pid))
            facts = _on_host(asked, facts, first, pid=pid, folder=facts.data_folder)
        elif afar is not None:
            facts = afar.told(facts)
        if asked.flush_folder is not None and not is_here:
            raise SpecError(
                f"--flush {asked.flush_folder} is on this host, but the server is on another host.",
                hint="remove --flush, or run the doctor on the server's host",
            )
    began = None if facts.postmaster_pid is None else first
    return replace(judged(target_line(target, seen), facts), began=began)


def examined_since(examination: Examination, peak_count: int) -> Examination:
    """Return an examination whose activity of the host is that since it began, until now.

    Args: peak_count, sessions at work at one time since then; 0 if they are not visible.
    """
    facts, began = examination.facts, examination.began
    if peak_count:
        facts = replace(facts, peak=PeakActive(peak_count, "now"), others_active=peak_count)
    if facts.host is not None and began is not None:
        window = window_between(began, glance(monotonic_ns()), own_pid=own_pid())
        facts = replace(facts, host=replace(facts.host, window=window))
    return judged(examination.target, facts)


def target_line(target: Target, seen: ServerSeen) -> str:
    """Return line 1: host, database, version, role, size, other sessions."""
    version, is_standby, database, *_ = seen.answer("identity")
    parts = [f"PostgreSQL {str(version).split()[0]} {'standby' if is_standby else 'primary'}"]
    if "replication" in seen.answers and (count := seen.answers["replication"][0]):
        sync = seen.answers["replication"][1]
        parts.append(f"{count} standby{'s' * (count > 1)} ({sync} sync)")
    if "size" in seen.answers:
        parts.append(format_bytes(seen.answers["size"][0]))
    others, applications, pretending = seen.answer("activity")[1:4]
    if not seen.rights.monitor:
        parts.append("other sessions not visible")
    elif others:
        names = f"{applications} other application{'s' * (applications != 1)}"
        parts.append(f"{others} session{'s' * (others != 1)} of {names}{pretending}")
    host = "local" if target.is_socket else (target.host or target.hostaddr)
    return f"{host}:{target.ports}/{database}  {', '.join(parts)}"


def _on_host(
    asked: Subject, facts: CheckFacts, first: Glance, *, pid: int, folder: Path | None
) -> CheckFacts:
    """Return the facts, completed with the facts about this host."""
    last = glance(monotonic_ns())
    window = window_between(first, last, own_pid=own_pid())
    host = read_host(pid=pid, window=window)
    data = read_place("data", folder) if folder else None
    wal = read_place("WAL", folder / "pg_wal") if folder else None
    flushed = None
    if asked.flush_folder is not None:
        wal = read_place("WAL", asked.flush_folder)
        devices = tuple(disk.name for disk in wal.disks) if wal is not None else ()
        flushed = flush.measure(asked.flush_folder, devices=devices)
    seen_bytes = host.memory.get("total_bytes")
    health = {disk.name: _health(disk.name) for disk in replace(facts, data=data, wal=wal).disks()}
    return replace(
        facts,
        host=host,
        health=health,
        data=data,
        wal=wal,
        flush=flushed,
        ram_bytes=asked.ram_bytes or seen_bytes,
    )


def _health(disk: str) -> Health | str:
    try:
        return read_health(disk)
    except HealthUnknown as error:
        return str(error)


def _data_folder(seen: ServerSeen, backend_pid: int) -> Path | None:
    """Return the data directory: from the setting, or from the backend's working directory."""
    if seen.data_folder:
        return Path(seen.data_folder)
    try:
        return Path(f"/proc/{backend_pid}/cwd").readlink()
    except OSError:
        return None


def judged(target: str, facts: CheckFacts) -> Examination:
    """Return every check's verdict on these facts."""
    return Examination(target, tuple(check(facts) for check in checks()), facts)
