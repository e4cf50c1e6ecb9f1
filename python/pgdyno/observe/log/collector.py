"""Events in the server's log: checkpoints, temporary files, lock waits, vacuums, errors."""

from __future__ import annotations

import re
import zoneinfo
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import ClassVar, Self

import psycopg

from pgdyno.engine.log_events import LogEvent, events_in
from pgdyno.observe.collector import SECOND_NS, Column, NotMeasurable, Row, Scope, gauge, key
from pgdyno.observe.log.tails import LocalLog, LogFile, ServedLog, Tail, forbidden
from pgdyno.observe.processes.proc_files import parse_stat
from pgdyno.observe.session import ServerSession
from pgdyno.observe.sql.sql_collector import ServerSource

SETTINGS_SQL = (
    "SELECT name, setting FROM pg_catalog.pg_settings WHERE name IN ('data_directory',"
    " 'log_destination', 'log_line_prefix', 'log_timezone', 'logging_collector')"
)
CURRENT_SQL = "SELECT coalesce(pg_catalog.pg_current_logfile(%s), '')"
_EVENTS_MAX = 200
# If an event seems older than this, the server's clock is not ours.
_BELIEVED_NS = 30 * SECOND_NS


class LogCollector:
    """Samples the current log file; the lines since the sample before."""

    name: ClassVar[str] = "log"
    scope: ClassVar[Scope] = "server"
    meaning: ClassVar[str] = "What the server's log told: events by kind, never their texts"
    interval_ns: ClassVar[int] = 2 * SECOND_NS
    columns: ClassVar[tuple[Column, ...]] = (
        Column("number", "int64", "index", "of the event, from 1", "key"),
        key("kind", "checkpoint, temporary_file, lock_wait, autovacuum, error, deadlock, ..."),
        key("severity", "LOG, WARNING, ERROR, FATAL or PANIC"),
        key("sqlstate", "'' if the log does not have it, or there was no error"),
        key("what", "reason of a checkpoint, kind of lock, table"),
        gauge("happened_ns", "ns", "Unix time by the log, or of the sample if the clocks differ"),
        gauge("duration_ns", "ns", "how long it took", is_nullable=True),
        gauge("size_bytes", "bytes", "of a temporary file", is_nullable=True),
        key("user", "whose session it was; '' if log_line_prefix has no %u"),
        key("application", "of the session; '' if log_line_prefix has no %a"),
        gauge("pid", "number", "of the session, by %p or %c", is_nullable=True),
    )

    @classmethod
    def of(cls, source: ServerSource) -> Self:
        """Return the collector of a server."""
        return cls(source.session, is_local=source.is_local)

    def __init__(
        self, session: ServerSession, *, is_local: bool, proc: Path = Path("/proc")
    ) -> None:
        self._session, self._is_local, self._proc = session, is_local, proc
        self._tail: Tail | None = None
        self._format, self._prefix = "stderr", ""
        self._zone: tzinfo = UTC
        self._count = 0

    def sample(self, now_ns: int) -> list[Row]:
        """Return one row for each new event; of very many events, the last ones."""
        if self._tail is None:
            self._tail = self._found()
        rows: list[Row] = []
        lines = self._tail.new_lines()
        events = events_in(lines, self._prefix) if lines else []
        for event in events[-_EVENTS_MAX:]:
            self._count += 1
            rows.append(
                {
                    "number": self._count,
                    "kind": event.kind,
                    "severity": event.severity,
                    "sqlstate": event.sqlstate,
                    "what": event.what,
                    "happened_ns": happened_ns(event, self._zone, now_ns),
                    "duration_ns": event.duration_ns,
                    "size_bytes": event.size_bytes,
                    "user": _named(event.user),
                    "application": _named(event.application),
                    "pid": event.pid,
                }
            )
        return rows

    def _found(self) -> Tail:
        """Return the log's tail, read as directly as possible. Raises: NotMeasurable."""
        settings = {str(name): str(value) for name, value in self._session.fetch(SETTINGS_SQL)}
        self._prefix = settings.get("log_line_prefix", "")
        self._zone = _zone(settings.get("log_timezone", "UTC"))
        if settings.get("logging_collector") != "on":
            return self._of_standard_error()
        told = re.split(r",\s*", settings.get("log_destination", "stderr"))
        formats = ("csvlog", "jsonlog", "stderr")
        self._format = next((name for name in formats if name in told), "stderr")
        log: LogFile = ServedLog(self._session)
        if self._is_local and "data_directory" in settings:
            here = LocalLog(settings["data_directory"])
            try:
                here.read(self._current(), 0, 1)
                log = here
            except OSError:
                pass  # We may not read the file; perhaps the server lets us.
        return Tail(log, self._current)

    def _current(self) -> str:
        try:
            path = str(self._session.fetch(CURRENT_SQL, [self._format])[0][0])
        except psycopg.errors.InsufficientPrivilege:
            raise forbidden(self._session.user) from None
        if not path:
            raise NotMeasurable(f"The server writes no {self._format} log file now.")
        return path

    def _of_standard_error(self) -> Tail:
        """Return the file that standard error of a server on this host goes to."""
        target = ""
        if self._is_local:
            try:
                stat = (self._proc / str(self._session.backend_pid) / "stat").read_text()
                target = str((self._proc / str(parse_stat(stat).parent_pid) / "fd/2").readlink())
            except (OSError, ValueError):
                target = ""
        if not Path(target).is_file():
            raise NotMeasurable(
                "The server's log is not a file that can be read here: logging_collector = off."
            )
        return Tail(LocalLog("/"), lambda: target)


def happened_ns(event: LogEvent, zone: tzinfo, now_ns: int) -> int:
    """Return when an event happened: the first of its possible times that is near `now_ns`.

    Args: zone, the setting log_timezone.
    """
    if event.time_ns is None:
        return now_ns
    # The name of a zone that the reader does not know counts as UTC.
    offset = datetime.fromtimestamp(now_ns // SECOND_NS, UTC).astimezone(zone).utcoffset()
    offset_ns = round(offset.total_seconds()) * SECOND_NS if offset is not None else 0
    times_ns = (event.time_ns, event.time_ns - offset_ns)
    return next((ns for ns in times_ns if abs(ns - now_ns) < _BELIEVED_NS), now_ns)


def _named(name: str) -> str:
    """Return a name of the log; "" if the server had none when it wrote the line."""
    return "" if name == "[unknown]" else name


def _zone(name: str) -> tzinfo:
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError):
        return UTC
