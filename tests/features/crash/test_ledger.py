"""The ledger on real servers: what its journal says of commits, against what the tables have."""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.fixtures.clusters import Make, run_sql
from tests.fixtures.command import Command, eventually, server_options
from tests.fixtures.engine_process import Engine, job_for, load_job

from pgdyno.engine.commit_journal import CommitJournal, Fate, read_commit_journal
from pgdyno.engine.job import Job
from pgdyno.errors import EngineError
from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.server.target import Target

pytestmark = pytest.mark.pg
CLIENTS = 4
LONG_S = 600.0
ENTRIES = "SELECT client, sequence, xid::text::bigint FROM pgdyno_ledger"
WRONG_CHECKSUMS = (
    "SELECT count(*) FROM pgdyno_ledger WHERE checksum IS DISTINCT FROM sha256(convert_to("
    "client || ':' || sequence || ':' || amount || ':' || payload, 'UTF8'))"
)
WRONG_BALANCES = (
    "SELECT count(*) FROM pgdyno_ledger_balances AS b WHERE balance IS DISTINCT FROM"
    " (SELECT coalesce(sum(amount), 0) FROM pgdyno_ledger AS e WHERE e.client = b.client)"
)


def make_tables(engine: Engine, target: Target, accounts: int = CLIENTS) -> None:
    """Load the dataset."""
    dataset = {"kind": "ledger", "accounts": accounts}
    end = engine(job_for(target, {"kind": "init", "dataset": dataset, "mark": "pgdyno test"}))
    assert end.summary.ending == "completed", end.failures


def ledger_job(target: Target, journal: Path | None, **changes: Any) -> Job:
    """Return a job of the ledger that outlasts crashes."""
    connect = {"timeout_ns": 20_000_000_000, "outlasts_crashes": True}
    how: dict[str, Any] = {"protocol": "prepared", "connect": connect, **changes}
    if journal is not None:
        how["journal"] = str(journal)
    return load_job(target, "ledger", **{"clients": CLIENTS, "measure_s": LONG_S, **how})


def acknowledged(path: Path) -> int:
    """Return how many commits were acknowledged so far."""
    if not path.exists():
        return 0
    return int(read_commit_journal(path).having(Fate.ACKNOWLEDGED).sum())


def kill_all(cluster: ScratchCluster) -> None:
    """End every process of the server by SIGKILL, the postmaster first."""
    pid = cluster.pid
    assert pid is not None
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    for process in (pid, *map(int, children)):
        os.kill(process, signal.SIGKILL)
    ended = [Path(f"/proc/{child}/exe") for child in children]
    eventually(lambda: cluster.pid is None and not any(path.exists() for path in ended))


def keys(journal: CommitJournal, fate: Fate) -> set[tuple[int, int, int]]:
    """Return client, number and transaction of the commits with this fate."""
    mask = journal.having(fate)
    columns = (journal.client[mask], journal.sequence[mask], journal.xid[mask])
    return set(zip(*(column.tolist() for column in columns), strict=True))


@pytest.mark.parametrize("version", ["15", "18"])
def test_after_a_kill_every_acknowledged_commit_is_there_and_every_doubt_is_resolved(
    engine: Engine, new_cluster: Make, tmp_path: Path, version: str
) -> None:
    cluster, path = new_cluster(version, listens_tcp=False), tmp_path / "commits"
    make_tables(engine, cluster.target)
    job = ledger_job(cluster.target, path, warm_s=0.0)
    running = engine.start(job)
    for goal in (300, 600):
        eventually(lambda goal=goal: acknowledged(path) > goal)  # type: ignore[misc]
        kill_all(cluster)
        cluster.start()
    known = acknowledged(path)
    eventually(lambda: acknowledged(path) > known + 300)
    running.stop()
    end = running.wait()
    journal = read_commit_journal(path)
    assert (end.summary.ending, journal.is_complete) == ("stopped", True)
    assert end.summary.commits_in_doubt == int(journal.having(Fate.IN_DOUBT).sum())
    present = {tuple(row) for row in run_sql(cluster.target, ENTRIES)}
    sure, doubtful = keys(journal, Fate.ACKNOWLEDGED), keys(journal, Fate.IN_DOUBT)
    assert sure <= present <= sure | doubtful
    # A number that never reached the disk is given again after recovery, to another transaction: it
    # may be committed although the doubtful one is not.
    status = "SELECT pg_xact_status('{}'::xid8)"
    for key in doubtful:
        [[fate]] = run_sql(cluster.target, status.format(key[2]))
        assert fate == "committed" if key in present else fate in ("committed", "aborted", None)
    assert len(sure) == end.summary.transactions_committed_all_phases
    # Each client used up its numbers one after another.
    for client in range(CLIENTS):
        numbers = np.sort(journal.sequence[journal.client == client])
        assert numbers.tolist() == list(range(1, len(numbers) + 1))
    assert run_sql(cluster.target, WRONG_CHECKSUMS) == run_sql(cluster.target, WRONG_BALANCES)
    assert run_sql(cluster.target, WRONG_BALANCES) == [(0,)]
    span = end.summary.span("measure")
    assert span is not None
    gaps = journal.longest_gaps(began_ns=span.began_ns, ended_ns=span.ended_ns)
    whole = end.summary.longest_gap
    assert len(gaps) == CLIENTS
    assert all(gap.length_ns > 0 for gap in gaps.values())
    # The engine reports a gap of the whole load that lasts a count interval, as far as its threads
    # report. So without a gap the restart was faster than two of these intervals.
    ended_ns = np.sort(journal.ended_ns[journal.having(Fate.ACKNOWLEDGED)])
    ended_ns = ended_ns[(ended_ns >= span.began_ns) & (ended_ns <= span.ended_ns)]
    silence_ns = int(np.diff(ended_ns).max())
    if whole is None:
        assert silence_ns < 2 * job.work.count_interval_ns
        return
    # The load as a whole stood still for less time than each of its clients.
    whole_ns = whole.ended_ns - whole.began_ns
    assert all(gap.length_ns > whole_ns / 2 for gap in gaps.values())
    assert abs(whole_ns - silence_ns) <= 2 * job.work.count_interval_ns


def test_a_second_load_continues_the_numbers_of_the_first(
    engine: Engine, database: Target, tmp_path: Path
) -> None:
    make_tables(engine, database)
    for number in (1, 2):
        path = tmp_path / f"commits {number}"
        end = engine(ledger_job(database, path, transactions=5))
        assert end.summary.counts.completed == 5 * CLIENTS
        journal = read_commit_journal(path)
        expected = Counter(range(5 * number - 4, 5 * number + 1))
        assert Counter(journal.sequence.tolist()) == {n: CLIENTS for n in expected}
    assert run_sql(database, WRONG_BALANCES) == [(0,)]


def test_the_journal_of_a_killed_engine_is_true_and_not_complete(
    engine: Engine, database: Target, tmp_path: Path
) -> None:
    make_tables(engine, database)
    path = tmp_path / "commits"
    running = engine.start(ledger_job(database, path))
    eventually(lambda: acknowledged(path) > 200)
    running.process.kill()
    running.process.wait()
    journal = read_commit_journal(path)
    assert not journal.is_complete
    sure = keys(journal, Fate.ACKNOWLEDGED)
    gone = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pgdyno/test'"
    eventually(lambda: run_sql(database, gone) == [(0,)])
    present = {tuple(row) for row in run_sql(database, ENTRIES)}
    assert sure <= present
    # What the journal does not have is the end of each client's numbers.
    unknown = {(client, number) for client, number, _ in present - sure}
    for client in range(CLIENTS):
        last = max(number for who, number, _ in sure if who == client)
        assert all(number > last for who, number in unknown if who == client)


def test_a_load_with_more_clients_than_accounts_is_refused(
    engine: Engine, database: Target
) -> None:
    make_tables(engine, database, accounts=2)
    end = engine(ledger_job(database, None, transactions=1))
    [failure] = end.failures
    assert "4 clients need a balance each in pgdyno_ledger_balances, which has 2" in failure.message
    assert failure.hint.endswith("pgdyno init ledger --accounts 4")


def test_an_existing_file_is_not_overwritten_by_a_journal(
    engine: Engine, database: Target, tmp_path: Path
) -> None:
    make_tables(engine, database)
    path = tmp_path / "commits"
    path.write_text("mine")
    end = engine(ledger_job(database, path, transactions=1))
    assert "cannot be made" in end.failures[0].message
    assert path.read_text() == "mine"
    for wrong in (path, tmp_path / "missing"):
        with pytest.raises(EngineError):
            read_commit_journal(wrong)


def test_init_and_bench_take_the_ledger(pgdyno: Command, database: Target) -> None:
    where = server_options(database)
    assert pgdyno("init", "ledger", *where, "--accounts", "8").code == 0
    short = ("-c", "8", "-T", "1s", "--warmup", "0s", "--json")
    said = pgdyno("bench", *where, "-b", "ledger", *short)
    assert said.code in (0, 3), said.err  # A run of a second is too short to be valid.
    assert "8 accounts by pgdyno" in pgdyno("show", "1").out
    assert run_sql(database, "SELECT count(*) > 0 FROM pgdyno_ledger") == [(True,)]
    assert run_sql(database, WRONG_BALANCES) == [(0,)]
    assert pgdyno("drop", *where).code == 0
