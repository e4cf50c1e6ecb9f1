"""A signal ends every verb within 5 s while the server hangs, and names what is left."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from tests.cli.test_signals_of_verbs import ASKED, QUICK, VARIANTS
from tests.fixtures.clusters import Make, run_sql
from tests.fixtures.command import Command, Process, eventually, server_options
from tests.fixtures.floods import Flood
from tests.fixtures.poolers import Pooler

from pgdyno.errors import ServerError
from pgdyno.process import signals
from pgdyno.process.child import descendants
from pgdyno.server import system_settings
from pgdyno.server.connect import Connection, connect
from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.server.target import Target

# The promise. A busy machine makes the end later: time on a core and time that waits for a core
# do not count.
ENDS_WITHIN_S = 5.0
LATEST_S = 60.0
CONNECTING = (
    *("bench", "sweep", "compare", "tune", "run", "settings", "work-mem", "doctor", "watch"),
    *("capture", "init", "check", "drop", "pgbench"),
)
# How many questions these verbs ask at least; the others ask more than 35.
QUESTIONS_MIN = {"check": 5, "drop": 7}
IN_TRANSACTION = ("work-mem", b"EXPLAIN")
# Before the first byte of the server, while facts are read, and under load.
MOMENTS_S = (None, 0.4, 2.5)


@contextmanager
def stopped(pid: int | None) -> Iterator[None]:
    """Stop a postmaster or pooler and all its processes, as a host that hangs does."""
    assert pid is not None
    pids = [pid]
    try:
        # The postmaster comes first, so that it starts no other process.
        os.kill(pid, signal.SIGSTOP)
        pids += descendants(pid)
        for one_pid in pids:
            with suppress(ProcessLookupError):
                os.kill(one_pid, signal.SIGSTOP)
        yield
    finally:
        for one_pid in reversed(pids):
            with suppress(ProcessLookupError):
                os.kill(one_pid, signal.SIGCONT)


def seconds_idle_until_end(process: Process) -> float:
    """Return how long a command waited for anything but a core, from now until it ends.

    Its children count, too. Limits: where the kernel counts no time without a core, this is the
    whole time.
    """
    began = time.monotonic()
    seen: dict[Path, int] = {}
    busy_ns = 0
    while process.poll() is None and time.monotonic() - began < LATEST_S:
        grown = [0]
        for pid in (process.pid, *descendants(process.pid)):
            with suppress(OSError):  # It has ended.
                for counts in Path(f"/proc/{pid}/task").glob("*/schedstat"):
                    run_ns, wait_ns, _ = map(int, counts.read_text().split())
                    grown.append(run_ns + wait_ns - seen.get(counts, run_ns + wait_ns))
                    seen[counts] = run_ns + wait_ns
        busy_ns += max(grown)
        time.sleep(0.02)
    return time.monotonic() - began - busy_ns / 1e9


def seconds_to_end(
    pgdyno: Command,
    asked: tuple[str, ...],
    pid: int | None,
    *,
    moment_s: float | None,
    number: signal.Signals,
) -> tuple[float, str]:
    """Return how long a verb waited after the signal until it ended, and what it said."""
    running = None
    if moment_s is not None:
        running = pgdyno.start(*asked)
        time.sleep(moment_s)
    with stopped(pid):
        if running is None:
            running = pgdyno.start(*asked)
        time.sleep(1.0)
        running.signal(number)
        took = seconds_idle_until_end(running.process)
    said = running.wait()
    assert "Traceback" not in said.err
    return took, said.err


def slow_ends(pgdyno: Command, asked: tuple[str, ...], pid: int | None) -> dict[object, object]:
    """Return at which moments a verb needs too long to end, with what it said."""
    slow: dict[object, object] = {}
    for place, moment_s in enumerate(MOMENTS_S):
        number = (signal.SIGINT, signal.SIGTERM)[place % 2]
        took, err = seconds_to_end(pgdyno, asked, pid, moment_s=moment_s, number=number)
        if took > ENDS_WITHIN_S:
            slow[moment_s] = (round(took, 1), err)
    return slow


@pytest.mark.parametrize("version", ["15", "18"])
@pytest.mark.parametrize("verb", CONNECTING)
def test_a_signal_ends_every_verb_while_the_server_hangs(
    verb: str, version: str, new_cluster: Make, pgdyno: Command, tmp_path: Path
) -> None:
    cluster = new_cluster(version)
    script = tmp_path / "reads.sql"
    script.write_text("SELECT pg_sleep(0.01);\n")
    asked = ASKED[verb](server_options(cluster.target), script)
    assert slow_ends(pgdyno, asked, cluster.pid) == {}


@pytest.mark.parametrize(("verb", "on"), [*((verb, None) for verb in CONNECTING), IN_TRANSACTION])
def test_a_signal_ends_every_verb_at_whatever_question_the_server_falls_silent(
    verb: str, on: bytes | None, either_database: Target, pgdyno: Command, tmp_path: Path
) -> None:
    script = tmp_path / "reads.sql"
    script.write_text("SELECT pg_sleep(0.01);\n")
    after = random.Random(verb).randrange(QUESTIONS_MIN.get(verb, 35))
    with Flood(either_database, "nothing", after=1_000_000 if on else after, on=on) as silent:
        running = pgdyno.start(*ASKED[verb](server_options(silent.target), script))
        eventually(lambda: silent.flooded_count, unless=lambda: running.process.poll() is not None)
        running.signal(signal.SIGINT)
        took = seconds_idle_until_end(running.process)
        said = running.wait()
    assert took < ENDS_WITHIN_S, said.err
    # The drop-in ends as pgbench does: by the signal itself.
    assert said.code in (128 + signal.SIGINT, -signal.SIGINT), said.err
    assert "<pgdyno" not in said.err, "a library wrote to the terminal"


def through(pooler: Pooler, verb: str, script: Path) -> tuple[str, ...]:
    """Return a command whose load, or whose observation, goes through a pooler."""
    place = pooler.server
    direct = f"host={place.host} port={place.ports} user={place.user} dbname={place.database}"
    pooled = server_options(pooler.target)
    console = f"host=127.0.0.1 port={pooler.port} user=anybody dbname=pgbouncer"
    seen = ("--observe", direct, "--pooler", console)
    if verb == "watch":
        return ("watch", *server_options(place), "--pooler", console)
    if verb == "compare":
        way = f"host=127.0.0.1 port={pooler.port} user=anybody dbname=pooled"
        return (
            *("compare", *server_options(place), "-f", str(script), *QUICK),
            *("--variant", "direct", "--variant", f"pooled: dsn={way}"),
        )
    if verb != "run":
        return (*ASKED[verb](pooled, script), *seen)
    words = ASKED[verb](pooled, script)
    spec = Path(words[1])
    spec.write_text(
        spec.read_text()
        .replace("[dataset]", f'observe = "{direct}"\n[dataset]')
        .replace("[workload]", '[workload]\nprotocol = "simple"')
    )
    return words


@pytest.mark.parametrize("verb", ["bench", "run", "compare", "watch", "sweep"])
def test_a_signal_ends_a_verb_while_the_pooler_in_between_hangs(
    verb: str, pooler: Pooler, pgdyno: Command, tmp_path: Path
) -> None:
    script = tmp_path / "reads.sql"
    script.write_text("SELECT pg_sleep(0.01);\n")
    asked = through(pooler, verb, script)
    assert slow_ends(pgdyno, asked, pooler.process.pid) == {}


def test_settings_that_could_not_be_restored_are_named_with_the_command_for_it(
    new_cluster: Make, pgdyno: Command, tmp_path: Path
) -> None:
    cluster = new_cluster("18")
    target = cluster.target
    script = tmp_path / "reads.sql"
    script.write_text("SELECT pg_sleep(0.01);\n")
    admin = f"host={target.host} port={target.ports} user={target.user} dbname={target.database}"
    asked = (
        *("compare", *server_options(target), "-f", str(script), "-T", "10s", "--warmup", "0s"),
        *("--variant", "a: autovacuum_naptime=41s", *VARIANTS[2:], "--admin", admin),
        # The session that looks here may be there when pgdyno asks who else uses the server.
        *("--confirm", "postgres@local"),
    )
    running = pgdyno.start(*asked)
    eventually(
        lambda: run_sql(target, "SHOW autovacuum_naptime") == [("41s",)],
        unless=lambda: running.process.poll() is not None,
    )
    with stopped(cluster.pid):
        running.signal(signal.SIGINT)
        took = seconds_idle_until_end(running.process)
    said = running.wait()
    assert took < ENDS_WITHIN_S, said.err
    words = " ".join(said.err.split())
    assert "autovacuum_naptime" in words
    assert "pgdyno undo" in words
    assert pgdyno("undo").code == 0
    assert run_sql(target, "SHOW autovacuum_naptime") == [("1min",)]


def test_after_a_signal_a_silent_server_is_not_asked_again(
    new_cluster: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = new_cluster("18")
    tried: list[str] = []

    def connecting(target: Target, *, verb: str) -> Connection:
        tried.append(verb)
        return connect(target, verb=verb)

    monkeypatch.setattr(system_settings, "connect", connecting)
    settings = system_settings.SystemSettings(cluster.target, "test")
    with stopped(cluster.pid), signals.handled(), signals.shielded():
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(ServerError):
            settings.require(cluster.target, {"autovacuum_naptime": "41s"})
    assert tried == ["test"]


def test_a_server_that_was_silent_after_a_signal_is_asked_again_only_by_who_restores(
    new_cluster: Make,
) -> None:
    target = new_cluster("18").target
    cluster = new_cluster("18")
    waited_s = []
    with stopped(cluster.pid), signals.handled(), signals.shielded():
        os.kill(os.getpid(), signal.SIGINT)
        for read_only in (True, True, False):
            began = time.monotonic()
            with pytest.raises(ServerError):
                connect(cluster.target, verb="test", read_only=read_only)
            waited_s.append(time.monotonic() - began)
        # Only this server is meant.
        connect(target, verb="test", read_only=True).close()
    first_s, second_s, writing_s = waited_s
    assert second_s < writing_s < first_s


def test_an_interrupt_that_a_look_at_the_server_takes_for_its_error_starts_no_load(
    either_database: Target, pgdyno: Command, tmp_path: Path
) -> None:
    script = tmp_path / "reads.sql"
    script.write_text("SELECT pg_sleep(0.01);\n")
    # Only the look at the settings before a run asks so.
    with Flood(
        either_database, "drops", on=b"UNION ALL SELECT concat_ws(' of ', coalesce"
    ) as flood:
        running = pgdyno.start(*ASKED["bench"](server_options(flood.target), script))
        eventually(lambda: flood.flooded_count, unless=lambda: running.process.poll() is not None)
        running.signal(signal.SIGINT)
        took = seconds_idle_until_end(running.process)
        said = running.wait()
    assert took < ENDS_WITHIN_S, said.err
    assert said.code == 128 + signal.SIGINT, said.err


@contextmanager
def one_stopped(cluster: ScratchCluster, named: str) -> Iterator[None]:
    """Stop one process of a server for the block: the newest session with this name."""
    newest = (
        "SELECT pid FROM pg_stat_activity WHERE application_name LIKE %s ORDER BY backend_start"
        " DESC LIMIT 1"
    )
    [[pid]] = eventually(lambda: run_sql(cluster.target, newest, f"%{named}%"))
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("verb", ["bench", "sweep", "compare"])
def test_a_signal_ends_a_load_of_which_one_session_hangs(
    verb: str, either_server: ScratchCluster, pgdyno: Command, tmp_path: Path
) -> None:
    script = tmp_path / "reads.sql"
    script.write_text("SELECT pg_sleep(0.01);\n")
    running = pgdyno.start(*ASKED[verb](server_options(either_server.target), script))
    running.await_load(pgdyno.store)
    with one_stopped(either_server, f"pgdyno/{verb}"):
        running.signal(signal.SIGINT)
        took = seconds_idle_until_end(running.process)
        said = running.wait()
    assert took < ENDS_WITHIN_S, said.err
    assert said.code == 128 + signal.SIGINT, said.err
