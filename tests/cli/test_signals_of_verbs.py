"""A signal at any moment ends every verb, with its exit code, and nothing is left behind."""

from __future__ import annotations

import contextlib
import random
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.fixtures.clusters import run_sql
from tests.fixtures.command import Command, Process, eventually, server_options

import pgdyno as pgdyno_package
from pgdyno.cli.main import VERBS
from pgdyno.server.target import Target

Server = tuple[str, ...]
LATEST_S = 4.0
# While modules are loaded.
LOADED_S = 0.3
# By then they are loaded, also on a busy machine: a fork, which begins with them, is no other case.
HAS_LOADED_S = 1.5
PACKAGE = Path(pgdyno_package.__file__ or "").parent
SESSIONS = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    " AND pid <> pg_backend_pid() AND application_name LIKE 'pgdyno%'"
)
ENTRIES = "SELECT name, setting FROM pg_file_settings WHERE sourcefile LIKE '%postgresql.auto.conf'"
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
    "sweep": lambda server, script: ("sweep", *server, "-f", str(script), *QUICK, "-c", "1,2"),
    "compare": lambda server, script: ("compare", *server, "-f", str(script), *QUICK, *VARIANTS),
    "tune": lambda server, script: (
        *("tune", *server, "-f", str(script), "-T", "10s", "--setting", "work_mem"),
        *("--admin", f"host={server[1]} port={server[3]} user={server[5]} dbname={server[7]}"),
    ),
    "run": _spec,
    "spec": lambda _server, script: ("spec", "from-hammerdb", str(script)),
    "settings": lambda server, _script: ("settings", *server),
    "work-mem": lambda server, script: (
        *("work-mem", *server, "-f", str(script), "--allow-explain-analyze"),
    ),
    "doctor": lambda server, _script: ("doctor", *server),
    "watch": lambda server, _script: ("watch", *server),
    "capture": lambda server, _script: ("capture", *server),
    "crash": lambda _server, _script: ("crash", "--crashes", "9"),
    "init": lambda server, _script: ("init", *server, "-s", "20"),
    "check": lambda server, _script: ("check", "tpcc", *server),
    "drop": lambda server, _script: ("drop", *server),
    "show": lambda _server, _script: ("show",),
    "report": lambda _server, _script: ("report",),
    "help": lambda _server, _script: ("help", "knee"),
    "completion": lambda _server, _script: ("completion", "bash"),
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
    return [draw.uniform(0.0, LATEST_S) for _ in range(count)]


def has_ended_or_handles_signals(process: Process) -> bool:
    """Return whether a command has taken over SIGTERM, which Python itself leaves alone."""
    if process.poll() is not None:
        return True
    status = Path(f"/proc/{process.pid}/status").read_text()
    caught = int(re.search(r"SigCgt:\s*(\w+)", status)[1], 16)  # type: ignore[index]
    return bool(caught & 1 << signal.SIGTERM - 1)


def test_every_verb_has_its_case() -> None:
    assert set(ASKED) == set(VERBS)


def left_of(store: Path) -> list[str]:
    """Return the processes that have the store of a command in their environment."""
    named = f"PGDYNO_STORE={store}\0".encode()
    processes = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if named in (entry / "environ").read_bytes():
                processes.append((entry / "cmdline").read_bytes().decode(errors="replace"))
    return processes


def ends(
    verb: str,
    moment_s: float,
    database: Target,
    pgdyno: Command,
    tmp_path: Path,
    number: signal.Signals = signal.SIGINT,
) -> None:
    """Signal a verb at a moment, and see that no process, session, change or lock is left."""
    entries = run_sql(database, ENTRIES)
    script = tmp_path / "reads.sql"
    script.write_text("SELECT pg_sleep(0.01);\n")
    asked = ASKED[verb](server_options(database), script)
    running = pgdyno.start(*asked, is_new=moment_s < HAS_LOADED_S)
    if verb != "pgbench":  # It becomes the engine.
        eventually(lambda: has_ended_or_handles_signals(running.process))
    threading.Timer(moment_s, running.signal, (number,)).run()
    said = running.wait()
    assert "Traceback" not in said.err, said.err
    # A verb may be done, or have refused its request. Python itself ends by the signal.
    may_be = (0, 1, 2, 3, 128 + number, -number)
    assert said.code in may_be, said.err
    assert "has version" not in said.err, "the engine is another one than this test's"
    eventually(lambda: run_sql(database, SESSIONS) == [(0,)])
    eventually(lambda: left_of(pgdyno.store) == [])
    assert run_sql(database, ENTRIES) == entries
    # The lock of the store is free: the next result gets its number.
    assert pgdyno("list").code == 0


@pytest.mark.parametrize("verb", ASKED)
def test_a_signal_ends_every_verb_and_nothing_is_left(
    verb: str, database15: Target, pgdyno: Command, tmp_path: Path
) -> None:
    for moment_s in moments(verb, 1):
        ends(verb, moment_s, database15, pgdyno, tmp_path)


def test_ctrl_c_while_modules_are_loaded_ends_the_command_quietly(pgdyno: Command) -> None:
    draw = random.Random(LOADED_S)
    for moment_s in [draw.uniform(0.0, LOADED_S) for _ in range(8)]:
        running = pgdyno.start("list", is_new=True)
        threading.Timer(moment_s, running.signal, (signal.SIGINT,)).run()
        said = running.wait()
        # Before the first line of pgdyno, Python ends as it likes. Later nothing of ours is shown.
        assert str(PACKAGE) not in said.err, said.err
        if "Traceback" not in said.err:
            assert said.code in (0, 128 + signal.SIGINT, -signal.SIGINT), said.err


def test_the_package_takes_over_ctrl_c_before_it_reads_another_file() -> None:
    shown = (  # A shell without a terminal lets its background jobs ignore Ctrl-C.
        "import _signal; _signal.signal(_signal.SIGINT, _signal.default_int_handler);"
        "import sys; sys.argv[0] = '/bin/pgdyno'; before = {*sys.modules}; import pgdyno;"
        " read = {*sys.modules} - before - {*sys.builtin_module_names};"
        " import signal; print(signal.getsignal(signal.SIGINT).name, read)"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", shown], capture_output=True, text=True, check=True
    )
    assert done.stdout == "SIG_DFL {'pgdyno'}\n"


@pytest.mark.slow
@pytest.mark.parametrize("verb", ASKED)
def test_a_signal_at_ten_moments_ends_every_verb(
    verb: str, database15: Target, pgdyno: Command, tmp_path: Path
) -> None:
    for place, moment_s in enumerate(moments(verb, 10)):
        number = (signal.SIGINT, signal.SIGTERM)[place % 2]
        ends(verb, moment_s, database15, pgdyno, tmp_path, number)
