"""Logs through syslog and the journal say the same as the server's own file."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.features.capture.test_log import logging_server, logs_of
from tests.fixtures.clusters import connection
from tests.fixtures.command import Command, server_options

from pgdyno.features.capture import file
from pgdyno.server.scratch.cluster import ScratchCluster

__all__ = ["logging_server"]
PREFIX = "%m [%p] %q%u@%d %c %v "
LIMIT = 900
STATEMENTS = (
    "SELECT a\n\tFROM t\n\n  -- with a comment\n WHERE a = %s",
    "UPDATE t\nSET b = '#012345'\nWHERE a = %s",
    f"SELECT {', '.join(f'a + {n} AS column_{n}' for n in range(150))}\nFROM t WHERE a = %s",
    "SELECT\tb FROM t WHERE a = %s",
)
Line = Callable[[int, str, str], str]
FORMS: dict[str, Line] = {
    "rsyslog": lambda at, pid, text: (
        f"Nov 30 10:{at // 60:02}:{at % 60:02} db1 postgres[{pid}]: " + text.replace("\t", "#011")
    ),
    "rfc5424": lambda at, pid, text: (
        f"<134>1 2026-11-30T10:{at // 60:02}:{at % 60:02}.5+01:00 db1"
        f" postgres {pid} - - " + text.replace("\t", "#011")
    ),
    "journal": lambda at, pid, text: json.dumps(
        {"__REALTIME_TIMESTAMP": f"{1795542799 + at}000000", "_PID": pid, "MESSAGE": text}
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_log_through_syslog_is_read_as_the_file_of_the_server(
    form: str, logging_server: ScratchCluster, pgdyno: Command, tmp_path: Path
) -> None:
    target = logging_server.target
    with connection(target) as session:
        session.execute("CREATE TABLE t (a int PRIMARY KEY, b text)")
        session.execute("INSERT INTO t SELECT g, 'x' FROM generate_series(1, 100) g")
        for number in range(40):
            session.execute(STATEMENTS[number % 4].encode(), (number + 1,))
    [growing] = logs_of(target, "log")
    log = tmp_path / "file.log"
    log.write_text(growing.read_text())
    messages = list(messages_of(log.read_text()))
    for is_numbered in (True, False):
        path = tmp_path / f"{form}.{is_numbered}.log"
        path.write_text("\n".join(lines_of(messages, FORMS[form], is_numbered)) + "\n")
        seen = {}
        for name, given in (("file", log), (form, path)):
            to = tmp_path / f"{name}.{is_numbered}.capture"
            asked = ("--log", given, "-o", to)
            said = pgdyno("capture", *server_options(target), *asked)
            assert said.code == 0, said.err
            seen[name] = statements_of(to)
        assert seen[form] == seen["file"]
        assert sum(seen[form].values()) > 40


def statements_of(path: Path) -> Counter[tuple[str, ...]]:
    """Return how often each kind of transaction of a capture ran, by the texts of its steps."""
    capture = file.read(path)
    texts = {statement.id: statement.text for statement in capture.statements}
    assert not any("belong to no message" in note for note in capture.notes)
    counts: Counter[tuple[str, ...]] = Counter()
    for template in capture.templates:
        steps = tuple(texts[step.statement] for step in template.steps)
        counts[steps] += round(template.rate_tps * capture.header.seconds)
    return counts


def messages_of(log: str) -> Iterator[tuple[str, str]]:
    """Yield process and text of each message, with its details, as one call of the server."""
    beginning = re.compile(r"^[\d-]+ [\d:.]+ \S+ \[(\d+)\] .*?(LOG|ERROR|FATAL|WARNING): ")
    pid, text = "", ""
    for line in log.splitlines():
        match = beginning.match(line)
        if match is None:
            text += f"\n{line}"
            continue
        if text:
            yield pid, text
        pid, text = match[1], line
    yield pid, text


def lines_of(messages: list[tuple[str, str]], form: Line, is_numbered: bool) -> Iterator[str]:
    """Yield the lines that syslog writes. Source: write_syslog of elog.c."""
    numbers: Counter[str] = Counter()
    for at, (pid, text) in enumerate(messages):
        numbers[pid] += 1
        number = f"{numbers[pid]}-" if is_numbered else ""
        if len(text) <= LIMIT and "\n" not in text:
            yield form(at, pid, f"[{numbers[pid]}] {text}" if is_numbered else text)
            continue
        for part, piece in enumerate(pieces_of(text), 1):
            yield form(at, pid, f"[{number}{part}] {piece}")


def pieces_of(text: str) -> Iterator[str]:
    for line in text.split("\n"):
        rest = line
        while rest:
            end = len(rest) if len(rest) <= LIMIT else rest.rfind(" ", 0, LIMIT)
            yield rest[:end]
            rest = rest[end:]
