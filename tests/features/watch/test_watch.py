"""A watch of real servers: what happens to them leaves gaps, what is seen is kept."""

from __future__ import annotations

import json
import re
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.features.watch.examples import text_of, watch_page
from tests.fixtures.clusters import Make, connection, make_cluster, run_sql, scalar
from tests.fixtures.command import Command, eventually, server_options, under_way

from pgdyno.errors import InterruptedByUser, ServerError
from pgdyno.features.doctor.examine import Examination
from pgdyno.features.watch import statements
from pgdyno.features.watch.panels import watch_findings
from pgdyno.features.watch.segments import document_again
from pgdyno.features.watch.statements import KnownTexts
from pgdyno.features.watch.tally import Tally
from pgdyno.features.watch.watch import WatchOutcome, WatchRequest, WatchShow, watch
from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.server.session_start import AT_ONCE, MARK
from pgdyno.server.target import Target
from pgdyno.store.experiment import Store
from pgdyno.store.folder import ExperimentFolder

SECOND_NS = 1_000_000_000
HOUR_NS = 3600 * SECOND_NS
LOST, FOUND = "observer_lost_server", "observer_found_server"
OBSERVERS = "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'pgdyno/observe/%'"


class Steps(WatchShow):
    """Goes through steps while a watch lasts, each as soon as what it waits for was seen.

    After the last the watch is ended, as by a person.
    """

    def __init__(self, *steps: Callable[[Tally], bool]) -> None:
        self._steps = list(steps)
        self.kinds: list[str] = []
        self.texts = KnownTexts({})

    def then(self, *steps: Callable[[Tally], bool]) -> Steps:
        self._steps += steps
        return self

    def found_again(self, tally: Tally) -> bool:
        """Tell whether the server was lost and is back: a gap alone may be this machine's own."""
        return tally.gap_count > 0 and FOUND in self.kinds

    def began(self, examination: Examination, folder: ExperimentFolder, texts: KnownTexts) -> None:
        self.texts = texts

    def moved(self, time_ns: int, tally: Tally) -> None:
        if self._steps and self._steps[0](tally):
            self._steps.pop(0)
        if not self._steps:
            raise InterruptedByUser("Seen enough.")

    def noticed(self, notice: Mapping[str, Any]) -> None:
        self.kinds.append(str(notice["kind"]))


def request(target: Target, **changes: Any) -> WatchRequest:
    asked: dict[str, Any] = {"duration_ns": HOUR_NS, "interval_ns": 200_000_000, "name": "w"}
    return WatchRequest(target=target, **(asked | changes))


def seen_for(seconds: float) -> Callable[[Tally], bool]:
    return lambda tally: tally.seen_ns >= seconds * 1e9


def once(action: Callable[[], object]) -> Callable[[Tally], bool]:
    def step(_: Tally) -> bool:
        action()
        return True

    return step


def sampled(seconds: float, samples: int) -> Callable[[Tally], bool]:
    return lambda tally: seen_for(seconds)(tally) and tally.total.wait_samples > samples


def gaps_of_this_machine(outcome: WatchOutcome) -> int:
    """Return how often a sample came so late that it is a gap: nobody took the server away.

    The next after the last one may have been as late when the watch was ended.
    """
    tables = [run.telemetry("database") for run in outcome.folder.runs()]
    times = np.unique(np.concatenate([rows["time_ns"] for rows in tables if rows is not None]))
    gap_count = int((np.diff(times) > 3 * SECOND_NS).sum())
    gaps = outcome.document["gaps"]
    is_late = bool(gaps) and gaps[-1]["ended_unix_ns"] > times[-1] and gaps[-1]["seconds"] > 3
    return gap_count + is_late


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture(scope="module", params=["15", "18"])
def calm(request: pytest.FixtureRequest, house: Path) -> Iterator[ScratchCluster]:
    """A server where nobody but us does anything.

    One vacuum worker makes dozens of transactions of a database with some new tables, all counted
    when it ends: where transactions are bounded, none may come by.
    """
    with make_cluster(request.param, settings={"autovacuum": "off"}) as cluster:
        yield cluster


@pytest.fixture
def busy(calm: ScratchCluster) -> Iterator[None]:
    """Somebody who sleeps in one statement after another.

    Each reads a table: a session that touches none does not report its transactions. Each
    reports at once: left alone, a session reports every second or so what it did since, and
    a few seconds watched would hold one second's transactions too many or too few.
    """
    stopping = threading.Event()

    def work() -> None:
        with connection(calm.target) as session:
            while not stopping.is_set():
                session.execute(
                    "SELECT pg_sleep(0.05), count(*), pg_stat_force_next_flush() FROM pg_am"
                )

    thread = threading.Thread(target=work)
    thread.start()
    yield
    stopping.set()
    thread.join()


def watched(target: Target, store: Store, show: Steps, **changes: Any) -> WatchOutcome:
    outcome = watch(request(target, **changes), store, show)
    assert outcome.error is None or outcome.error.message == "Seen enough.", outcome.error
    return outcome


@pytest.mark.pg
def test_a_server_at_work_is_added_up_and_kept(
    calm: ScratchCluster, store: Store, busy: None
) -> None:
    asked = {"interval_ns": 1_000_000_000, "note": "CHG0048211"}
    outcome = watched(calm.target, store, Steps(sampled(3, 10)), **asked)
    document = outcome.document
    assert document["format"] == "pgdyno.watch/1"
    # One session sleeps all the time.
    assert 0.5 < document["sessions_at_work"]["mean"] < 1.5
    assert document["waits"][0]["wait_event"] == "Timeout:PgSleep"
    # Twenty statements a second at most, and ours are not among them.
    assert 1 < document["tps"] < 25
    assert document["gap_count"] == gaps_of_this_machine(outcome)
    assert document["cost"]["server_cores"] > 0
    assert document["doctor"]["bad"] >= 2
    (run,) = outcome.folder.runs()
    assert {"database", "wal", "cpu", "backends"} <= set(run.collectors())
    assert len(run.waits()["time_ns"]) > 10
    assert [note["text"] for note in outcome.folder.notes()] == ["CHG0048211"]
    assert outcome.folder.verify() == []
    assert document_again(outcome.folder) == document
    eventually(lambda: run_sql(calm.target, OBSERVERS) == [])


@pytest.mark.pg
def test_an_idle_server_has_no_transactions(calm: ScratchCluster, store: Store) -> None:
    outcome = watched(calm.target, store, Steps(sampled(6, 55)), interval_ns=SECOND_NS)
    assert outcome.document["seconds_seen"] >= 6
    assert round(outcome.document["tps"]) == 0
    # No wait was sampled, and the page has no place for one.
    assert outcome.document["waits"] == []
    page = watch_page(watch_findings(outcome.folder))
    assert page.rstrip().endswith("</html>")
    assert "active sessions" in page
    (run,) = outcome.folder.runs()
    rows = run.telemetry("database")
    assert rows is not None
    _, counted = np.unique(rows["time_ns"], return_inverse=True)
    server = np.bincount(counted, rows["xact_commit"])
    own = np.bincount(counted, rows["own_transactions"])
    assert own[-1] - own[0] > 50
    # Another session of ours may be asking just when the counts are read.
    assert abs((server[-1] - server[0]) - (own[-1] - own[0])) <= 1


def test_segments_are_closed_while_it_goes_on(any_server: ScratchCluster, store: Store) -> None:
    third = lambda _: len(list(store.root.glob("*/runs/000[123]"))) == 3  # noqa: E731
    outcome = watched(any_server.target, store, Steps(third), segment_ns=700_000_000)
    assert len(outcome.folder.runs()) >= 3
    assert outcome.folder.incomplete() == []
    assert outcome.document["gap_count"] == gaps_of_this_machine(outcome)
    assert not list(outcome.folder.folder.rglob("*.jsonl.partial"))


def test_a_restarted_server_leaves_a_gap(new_cluster: Make, store: Store) -> None:
    for version in ("15", "18"):
        cluster = new_cluster(version, listens_tcp=False)
        show = Steps()
        show.then(seen_for(0.5), once(cluster.restart), show.found_again, seen_for(1.5))
        document = watched(cluster.target, store, show).document
        assert document["gap_count"] >= 1
        assert document["gaps"][0]["seconds"] > 0
        assert {LOST, FOUND} <= set(show.kinds)
        assert document["seconds_seen"] < document["seconds"]
        assert "gaps" in text_of(document)


def test_a_terminated_backend_leaves_a_gap(any_server: ScratchCluster, store: Store) -> None:
    kill = f"SELECT pg_terminate_backend(pid) FROM ({OBSERVERS}) o"
    terminate = once(lambda: run_sql(any_server.target, kill))
    show = Steps()
    show.then(seen_for(0.5), terminate, show.found_again, seen_for(1))
    document = watched(any_server.target, store, show).document
    assert document["gap_count"] >= 1
    assert FOUND in show.kinds


def test_reset_statistics_are_left_out_with_a_message(
    any_server: ScratchCluster, store: Store
) -> None:
    show = Steps(
        seen_for(0.5),
        once(lambda: run_sql(any_server.target, "SELECT pg_stat_reset()")),
        lambda tally: tally.reset_count > 0,
        seen_for(1),
    )
    document = watched(any_server.target, store, show).document
    assert document["reset_count"] >= 1
    assert document["tps"] >= 0
    assert "resets" in text_of(document)


def test_a_note_names_a_setting_that_changed_during_the_run(
    new_cluster: Make, store: Store
) -> None:
    cluster = new_cluster("15")

    def change() -> None:
        run_sql(cluster.target, "ALTER SYSTEM SET work_mem = '8MB'")
        run_sql(cluster.target, "SELECT pg_reload_conf()")
        eventually(lambda: scalar(cluster.target, "SHOW work_mem") == "8MB")

    document = watched(cluster.target, store, Steps(once(change), seen_for(0.5))).document
    assert document["settings_changed"] == [{"name": "work_mem", "before": "4 MB", "after": "8 MB"}]
    assert "changed     work_mem: 4 MB -> 8 MB" in text_of(document)


def test_a_server_that_goes_for_good_ends_nothing(new_cluster: Make, store: Store) -> None:
    cluster = new_cluster("15")
    show = Steps(seen_for(0.5), once(cluster.stop))
    document = watched(cluster.target, store, show).document
    assert document["seconds_seen"] > 0


def test_a_missing_server_leaves_no_result(store: Store) -> None:
    with pytest.raises(ServerError):
        watch(request(Target("127.0.0.1", "1", "dyno", "core")), store, WatchShow())
    assert store.list() == []


def test_statements_are_shown_with_text_and_time(
    new_cluster: Make, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A machine that stands still answers late: the rest after that would outlast any test.
    monkeypatch.setattr(statements, "REST_NS_MIN", 0)
    monkeypatch.setattr(statements, "REST_RATIO", 0)
    preload = {"shared_preload_libraries": "pg_stat_statements"}
    cluster = new_cluster("15", settings=preload)
    run_sql(cluster.target, "CREATE SCHEMA odd; CREATE EXTENSION pg_stat_statements SCHEMA odd")

    done: list[object] = []
    show = Steps()

    def work(tally: Tally) -> bool:
        done.append(run_sql(cluster.target, "SELECT 'secret', pg_sleep(0.3)"))
        return tally.total.by_event["Timeout:PgSleep"] > 4

    def named(tally: Tally) -> bool:
        texts = {
            show.texts.of(query)
            for query, waits in list(tally.total.by_statement.items())
            if query and waits["Timeout:PgSleep"]
        }
        return "SELECT $1, pg_sleep($2)" in texts

    show.then(seen_for(0.5), work, named, seen_for(2))
    (first, *_) = watched(cluster.target, store, show).document["statements"]
    assert first["text"] == "SELECT $1, pg_sleep($2)"
    assert first["calls"] == len(done)
    assert first["ms_per_call"] > 250
    assert first["waits"][0]["wait_event"] == "Timeout:PgSleep"


def test_only_what_print_sql_shows_is_sent(
    new_cluster: Make, store: Store, pgdyno: Command
) -> None:
    shown = pgdyno("watch", "--print-sql").out
    for version, preload in (("15", "pg_stat_statements"), ("18", "")):
        settings = {"log_statement": "all", "shared_preload_libraries": preload}
        cluster = new_cluster(version, settings=settings)
        if preload:
            run_sql(cluster.target, "CREATE EXTENSION pg_stat_statements")
        began = cluster.log_path.stat().st_size
        watched(cluster.target, store, Steps(seen_for(1)))
        logged = cluster.log_path.read_bytes()[began:].decode()
        sent = set(re.findall(r"(?:statement|execute [^:]+): (.*)", logged))
        assert len(sent) > 15
        # The first statement has the number of the session in its text.
        known = {
            re.sub(r"\$\d+|\d+(?= AS is_pooled)", "%s", sql.removesuffix(MARK)) for sql in sent
        }
        unknown = {sql for sql in known if f"{sql};" not in shown}
        assert not unknown


def test_no_statement_is_anything_but_a_select(pgdyno: Command) -> None:
    blocks = pgdyno("watch", "--print-sql").out.split("\n\n")
    assert len(blocks) > 25
    for block in blocks:
        comment, *lines = block.splitlines()
        assert comment.startswith("-- ")
        # The first statement of a session is not compiled.
        sql = "\n".join(lines).removeprefix(AT_ONCE)
        # EXPLAIN without ANALYZE plans a statement and does not execute it.
        assert sql.startswith(("SELECT ", "EXPLAIN (FORMAT JSON) SELECT "))


def samples_kept(store: Path) -> bool:
    """Whether both connections have brought something."""
    return all(
        any(path.read_bytes().count(b"\n") > 5 for path in under_way(store, name))
        for name in ("telemetry/database.jsonl", "waits.jsonl")
    )


def test_an_interrupt_keeps_everything_and_leaves_no_session(
    pgdyno: Command, any_server: ScratchCluster
) -> None:
    running = pgdyno.start("watch", *server_options(any_server.target), "--interval", "200ms")
    eventually(
        lambda: samples_kept(pgdyno.store), unless=lambda: running.process.poll() is not None
    )
    running.signal(signal.SIGINT)
    said = running.wait()
    assert said.code == 130, said.err
    assert "read-only, at most 2 connections" in said.err
    assert re.search(r"^saved       #1, ended early: .*pgdyno report 1$", said.out, re.M)
    eventually(lambda: run_sql(any_server.target, OBSERVERS) == [])
    assert not list(pgdyno.store.rglob("*.partial"))
    again = pgdyno("show", "1", "--json")
    assert again.document["is_complete"] is False
    assert again.document["seconds_seen"] > 0
    listed = pgdyno("list").out
    assert "watch" in listed
    assert "tps" in listed


def test_a_killed_lab_leaves_what_it_saw(pgdyno: Command, pg15: ScratchCluster) -> None:
    running = pgdyno.start("watch", *server_options(pg15.target), "--interval", "200ms")
    eventually(
        lambda: samples_kept(pgdyno.store), unless=lambda: running.process.poll() is not None
    )
    running.signal(signal.SIGKILL)
    running.wait()
    said = pgdyno("show", "--json")
    assert said.code == 0, said.err
    assert said.document["seconds_seen"] > 0
    assert said.document["sessions_at_work"]["samples"] > 0
    assert "local:" in said.document["target"]
    assert "ended early" in pgdyno("show").out


def test_the_time_that_was_asked_for_ends_it_with_0(
    pgdyno: Command, pg15: ScratchCluster, tmp_path: Path
) -> None:
    said = pgdyno(
        "watch",
        *server_options(pg15.target),
        "--duration",
        "1500ms",
        "--json",
        tmp_path / "w.json",
        "-q",
    )
    assert said.code == 0, said.err
    assert said.err == ""
    assert re.search(
        r"^done        \d of 2 s observed; pgdyno uses .* of a server core; \d", said.out, re.M
    )
    document = json.loads((tmp_path / "w.json").read_text())
    assert document["is_complete"] is True
    document["sessions_at_work"]["peak"] = 61
    (kept,) = pgdyno.store.glob("*/analysis.json")
    kept.write_text(json.dumps(document))
    examined = pgdyno("doctor", *server_options(pg15.target), "--all").out
    assert "61 active (watch #1) x 4 MB" in " ".join(examined.split())


def test_watch_without_a_server_asks_for_one(pgdyno: Command) -> None:
    said = pgdyno("watch")
    assert said.code == 1
    assert "the command names none" in said.error
    refused = pgdyno("watch", "-d", "x", "--interval", "1ms")
    assert (refused.code, "at least 100ms" in refused.error) == (1, True)
