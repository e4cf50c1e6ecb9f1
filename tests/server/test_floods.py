"""A server, or a proxy before it, that answers without an end: every verb ends and says so."""

from __future__ import annotations

import contextlib
import signal
import time
from pathlib import Path

import pytest
from tests.cli.test_signal_while_server_hangs import (
    CONNECTING,
    ENDS_WITHIN_S,
    seconds_idle_until_end,
)
from tests.cli.test_signals_of_verbs import ASKED
from tests.fixtures.command import Command, RunningCommand, Said, eventually, server_options
from tests.fixtures.floods import FLOODS, Flood

from pgdyno.clock import read_pair
from pgdyno.errors import PgdynoError
from pgdyno.observe.round_trips import measure
from pgdyno.process.child import descendants
from pgdyno.server import connect as connect_module
from pgdyno.server import silence
from pgdyno.server.connect import connect
from pgdyno.server.explain import query_ids_of
from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.server.target import Target

pytestmark = pytest.mark.pg

# What the limit of an answer, 256 MB, makes of a process of 110 MB, with a buffer for one row.
RESIDENT_MB_MAX = 700
# Only the load engine asks for this when it logs in, for scripts that only read.
ENGINE = b"default_transaction_read_only"


@pytest.mark.parametrize("kind", FLOODS)
@pytest.mark.parametrize("after", [None, 0])
def test_an_answer_without_an_end_is_given_up(
    kind: str, after: int | None, either_server: ScratchCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(silence, "ANSWER_S_MAX", 1.0)
    monkeypatch.setattr(silence, "ANSWER_BYTES_MAX", 32 << 20)
    monkeypatch.setitem(connect_module._PATIENCE, "connect_timeout", "2")
    with (
        Flood(either_server.target, kind, after=after) as flood,
        pytest.raises(PgdynoError) as given_up,
    ):
        connect(flood.target, verb="test").close()
    assert flood.flooded_count >= 1
    assert given_up.value.hint


def test_a_long_statement_may_warn_before_it_works(either_server: ScratchCluster) -> None:
    slow = "DO $$ BEGIN RAISE WARNING 'begun'; PERFORM pg_sleep(0.6); RAISE WARNING 'ends'; END $$"
    with connect(either_server.target, verb="test") as connection:
        connection.execute(slow)
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_large_answer_below_the_limit_is_taken(either_server: ScratchCluster) -> None:
    with connect(either_server.target, verb="test") as connection:
        rows = connection.execute("SELECT repeat('x', 1000) FROM generate_series(1, 20000)")
        assert len(rows.fetchall()) == 20_000


def resident_mb(pid: int) -> int:
    """Return the largest memory that a process or one of its children has used, in MB."""
    most = 0
    for child in (pid, *descendants(pid)):
        try:
            status = Path(f"/proc/{child}/status").read_text(encoding="ascii")
        except OSError:
            continue
        if "VmHWM:" in status:
            most = max(most, int(status.partition("VmHWM:")[2].split()[0]) // 1024)
    return most


def ended(running: RunningCommand) -> tuple[Said, int]:
    """Wait for a command; return what it said, and the most memory that it had, in MB."""
    most = 0
    while running.process.poll() is None:
        most = max(most, resident_mb(running.process.pid))
        time.sleep(0.02)
    return running.wait(), most


@pytest.mark.parametrize("verb", ["settings", "bench"])
def test_a_verb_stays_small_while_rows_come_without_an_end(
    verb: str, either_server: ScratchCluster, pgdyno: Command, tmp_path: Path
) -> None:
    script = tmp_path / "reads.sql"
    script.write_text("SELECT 1;\n")
    with Flood(either_server.target, "rows", after=1) as flood:
        running = pgdyno.start(*ASKED[verb](server_options(flood.target), script))
        said, most = ended(running)
    assert said.code == 1
    assert "the answer had" in " ".join(said.error.split())
    assert most < RESIDENT_MB_MAX


def test_the_load_engine_stays_small_while_rows_come_without_an_end(
    either_database: Target, pgdyno: Command
) -> None:
    with Flood(either_database, "rows", on=b"create table pgbench_accounts") as flood:
        running = pgdyno.start("init", *server_options(flood.target), "-s", "1")
        said, most = ended(running)
    assert flood.flooded_count
    assert "the answer had" in " ".join(said.error.split())
    assert most < RESIDENT_MB_MAX


@pytest.mark.parametrize(
    ("stage", "kind"),
    [
        ("connects", "settings"),
        ("prepares", "rows"),
        ("prepares", "notices"),
        ("measures round trips", "settings"),
    ],
)
def test_a_load_whose_sessions_get_no_end_before_it_begins_ends_by_itself(
    stage: str, kind: str, either_database: Target, pgdyno: Command, tmp_path: Path
) -> None:
    script = tmp_path / "reads.sql"
    script.write_text("SELECT 8246;\n")
    after = {"connects": None, "prepares": 0, "measures round trips": 3}[stage]
    with Flood(either_database, kind, after=after, named=ENGINE) as flood:
        running = pgdyno.start("bench", "-f", script, *server_options(flood.target), "-T", "1s")
        said, most = ended(running)
    assert flood.flooded_count
    assert said.code in (1, 2), said.err
    assert "the answer had" in " ".join(said.error.split())
    assert most < RESIDENT_MB_MAX


@pytest.mark.parametrize("verb", CONNECTING)
def test_a_signal_ends_every_verb_while_the_server_floods(
    verb: str, either_server: ScratchCluster, pgdyno: Command, tmp_path: Path
) -> None:
    script = tmp_path / "reads.sql"
    script.write_text("SELECT 1;\n")
    with Flood(either_server.target, "notices", after=4) as flood:
        running = pgdyno.start(*ASKED[verb](server_options(flood.target), script))
        eventually(lambda: flood.flooded_count, unless=lambda: running.process.poll() is not None)
        number = (signal.SIGINT, signal.SIGTERM)[CONNECTING.index(verb) % 2]
        running.signal(number)
        took = seconds_idle_until_end(running.process)
        said = running.wait()
    assert took < ENDS_WITHIN_S, said.err
    # The drop-in ends as pgbench does: by the signal itself.
    assert said.code == (-number if verb == "pgbench" else 128 + number), said.err
    assert "Traceback" not in said.err


@pytest.mark.parametrize("on", [b"EXPLAIN", b"pg_sleep(0.02)", b"SELECT 1"])
def test_no_look_at_a_statement_and_no_timed_answer_goes_on_without_an_end(
    on: bytes, either_server: ScratchCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(silence, "ANSWER_S_MAX", 1.0)
    monkeypatch.setattr(silence, "ANSWER_BYTES_MAX", 32 << 20)
    asked = {"reads.sql": [(1, "SELECT pg_sleep(0.02)")], "ends.sql": [(1, "ROLLBACK")]}
    target = either_server.target
    with Flood(target, "rows", on=on) as flood:
        # The connection is given up, so it cannot be closed in order.
        with (
            contextlib.suppress(PgdynoError),
            connect(target, verb="test") as onlooker,
            connect(flood.target, verb="test") as connection,
        ):
            if on == b"SELECT 1":
                measure(connection, read_pair())
            else:
                query_ids_of(connection, onlooker, asked)
        assert flood.flooded_count >= 1
