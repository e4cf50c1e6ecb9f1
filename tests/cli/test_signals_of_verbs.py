"""A signal at any moment ends every verb, with its exit code, and nothing is left behind."""

from __future__ import annotations

import random
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.fixtures.clusters import run_sql
from tests.fixtures.command import Command, eventually, server_options

from pgdyno.cli.main import VERBS
from pgdyno.server.target import Target

Server = tuple[str, ...]
LATEST_S = 4.0
SESSIONS = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    " AND pid <> pg_backend_pid() AND application_name LIKE 'pgdyno%'"
)
QUICK = ("-T", "10s", "--warmup", "0s")
VARIANTS = ("--variant", "a: work_mem=1MB", "--variant", "b: work_mem=2MB")


def _spec(server: Server, script: Path) -> tuple[str, ...]:
    names = ("host", "port", "user", "dbname")
    dsn = " ".join(f"{name}={value}" for name, value in zip(names, server[1::2], strict=True))
    path = script.with_suffix(".toml")
    path.write_text(
        f'[experiment]\nname = "a"\n[server]\ndsn = "{dsn}"\n[dataset]\nkind = "existing"\n'
        f'[workload]\nduration = "10s"\nscripts = [{{ file = "{script}" }}]\n'
        '[design]\nkind = "bench"\n'
    )
    return "run", str(path)


ASKED: dict[str, Callable[[Server, Path], tuple[str, ...]]] = {
    "bench": lambda server, script: ("bench", *server, "-f", str(script), *QUICK),
    "sweep": lambda server, script: ("sweep", *server, "-f", str(script), *QUICK),
    "compare": lambda server, script: ("compare", *server, "-f", str(script), *QUICK, *VARIANTS),
    "tune": lambda server, script: (
        *("tune", *server, "-f", str(script), "-T", "10s", "--setting", "work_mem"),
        *("--admin", f"host={server[1]} port={server[3]} user={server[5]} dbname={server[7]}"),
    ),
    "run": _spec,
    "spec": lambda _server, script: ("spec", "hammerdb", str(script)),
    "settings": lambda server, _script: ("settings", *server),
    "work-mem": lambda server, script: (
        *("work-mem", *server, "-f", str(script), "--allow-explain-analyze"),
    ),
    "doctor": lambda server, _script: ("doctor", *server),
    "watch": lambda server, _script: ("watch", *server),
    "init": lambda server, _script: ("init", *server, "-s", "20"),
    "check": lambda server, _script: ("check", *server),
    "drop": lambda server, _script: ("drop", *server),
    "show": lambda _server, _script: ("show",),
    "report": lambda _server, _script: ("report",),
    "list": lambda _server, _script: ("list",),
    "pgbench": lambda server, script: ("pgbench", *server[:-2], server[-1], "-n", "-T", "30", "-f",
                                       str(script)),
    "diff": lambda _server, _script: ("diff", "1", "2"),
    "export": lambda _server, _script: ("export",),
    "note": lambda _server, _script: ("note", "last", "a"),
    "undo": lambda _server, _script: ("undo",),
}  # fmt: skip


def moments(verb: str, count: int) -> list[float]:
    """Return seconds after the start of a command, the same in every run of the tests."""
    draw = random.Random(verb)
    return [draw.uniform(0.3, LATEST_S) for _ in range(count)]


def test_every_verb_has_its_case() -> None:
    assert set(ASKED) == set(VERBS)


def ends(verb: str, moment_s: float, database: Target, pgdyno: Command, tmp_path: Path) -> None:
    script = tmp_path / "reads.sql"
    script.write_text("SELECT pg_sleep(0.01);\n")
    running = pgdyno.start(*ASKED[verb](server_options(database), script))
    threading.Timer(moment_s, running.signal, (signal.SIGINT,)).run()
    said = running.wait()
    assert "Traceback" not in said.err or moment_s < 1, said.err
    # A verb may be done, refuse its request, or not have taken over the signal yet.
    assert said.code in (0, 1, 2, 3, 130, -signal.SIGINT), said.err
    eventually(lambda: run_sql(database, SESSIONS) == [(0,)])


@pytest.mark.parametrize("verb", ASKED)
def test_a_signal_ends_every_verb_and_nothing_is_left(
    verb: str, database15: Target, pgdyno: Command, tmp_path: Path
) -> None:
    for moment_s in moments(verb, 1):
        ends(verb, moment_s, database15, pgdyno, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("verb", ASKED)
def test_a_signal_at_ten_moments_ends_every_verb(
    verb: str, database15: Target, pgdyno: Command, tmp_path: Path
) -> None:
    for moment_s in moments(verb, 10):
        ends(verb, moment_s, database15, pgdyno, tmp_path)
