"""Variants made ready on real scratch servers: settings, databases, clusters, and what fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import psycopg
import pytest
from tests.fixtures import needs
from tests.fixtures.clusters import run_sql, scalar

from pgdyno.clock import read_pair
from pgdyno.engine.records import ScriptShape
from pgdyno.errors import RefusedError, ServerError, SpecError
from pgdyno.measure.before_after import totals
from pgdyno.measure.opening import opened_servers
from pgdyno.measure.run_progress import RunProgress
from pgdyno.measure.servers import Servers
from pgdyno.measure.setup import Setup
from pgdyno.measure.under_test import LentCluster, UnderTest
from pgdyno.observe.totals import totals_between
from pgdyno.server.connect import connect
from pgdyno.server.conninfo import resolve
from pgdyno.server.scratch.pgbouncer import PoolerProgram
from pgdyno.server.target import Target
from pgdyno.spec.experiment import (
    BenchDesign,
    CompareDesign,
    ExistingDataset,
    Experiment,
    Permissions,
    PgbenchDataset,
    Scratch,
    Script,
    Server,
    Variant,
    Workload,
)
from pgdyno.spec.planned import PlannedVariant
from pgdyno.spec.variant import DatasetChange
from pgdyno.spec.variant_text import variant_from


class ByPlace:
    """The servers of an experiment, asked for by a variant's place in the spec."""

    def __init__(self, servers: Servers, experiment: Experiment) -> None:
        self.servers = servers
        self._planned = experiment.planned_variants()

    def ready(self, place: int, round_number: int = 0) -> UnderTest:
        return self.servers.ready(self._planned[place], round_number)

    @property
    def excluded(self) -> dict[str, str]:
        return self.servers.excluded


Open = Callable[..., ByPlace]
pytestmark = pytest.mark.pg


def asked(*variants: str | Variant, server: Server | None = None, idle: int = 0) -> Experiment:
    return Experiment(
        name="servers",
        server=server or Server(scratch=Scratch(version="15")),
        dataset=PgbenchDataset(scale=1) if server is None else ExistingDataset(),
        workload=Workload(scripts=(Script(builtin="select-only"),), clients=2, idle=idle),
        variant=tuple(variant_from(v) if isinstance(v, str) else v for v in variants),
        design=CompareDesign() if variants else BenchDesign(),
    )


@pytest.fixture
def open_servers(house: Path, tmp_path: Path) -> Iterator[Open]:
    needs.postgresql("15")
    """Open servers that are closed when the test is over."""
    with ExitStack() as stack:

        def opened(
            experiment: Experiment, target: Target | None = None, lent: LentCluster | None = None
        ) -> ByPlace:
            setup = Setup(
                experiment=experiment,
                verb="test",
                target=target,
                permissions=Permissions(),
                scripts=(ScriptShape(name="x.sql", weight=1, reads_only=True, statements=()),),
                clock=read_pair(),
                store_dir=tmp_path,
                progress=RunProgress(),
                lent=lent,
            )
            servers = stack.enter_context(opened_servers(setup))
            return ByPlace(servers, experiment)

        yield opened


def show(server: UnderTest, name: str) -> object:
    return scalar(server.target, f"SELECT current_setting('{name}')")


def test_settings_are_reloaded_where_that_is_enough(open_servers: Open) -> None:
    servers = open_servers(asked("on: synchronous_commit=on", "off: synchronous_commit=off"))
    first = servers.ready(0)
    assert show(first, "synchronous_commit") == "on"
    second = servers.ready(1)
    assert show(second, "synchronous_commit") == "off"
    assert second.facts.settings["synchronous_commit"] == "off"
    assert second.facts.postmaster_pid == first.facts.postmaster_pid
    assert show(servers.ready(0), "synchronous_commit") == "on"


def test_when_one_variant_needs_a_restart_every_run_has_one(open_servers: Open) -> None:
    servers = open_servers(asked("a: shared_buffers=16MB", "b: shared_buffers=32MB; work_mem=1MB"))
    assert show(servers.ready(0), "shared_buffers") == "16MB"
    first, again = servers.ready(1), servers.ready(1)
    assert (show(again, "shared_buffers"), show(again, "work_mem")) == ("32MB", "1MB")
    assert again.facts.postmaster_pid != first.facts.postmaster_pid


def test_a_lent_cluster_is_loaded_once_and_serves_the_next_experiment(open_servers: Open) -> None:
    with closing(LentCluster()) as lent:
        alone = open_servers(asked(), lent=lent)
        first = alone.servers.ready(None)
        query = "SELECT relfilenode FROM pg_class WHERE relname = 'pgbench_tellers'"
        made = scalar(first.target, query)
        servers = open_servers(asked("a", "b: work_mem=1MB"), lent=lent)
        second = servers.ready(1)
        assert show(second, "work_mem") == "1MB"
        assert scalar(second.target, query) == made, "the tables were not made again"
        assert first.cluster is second.cluster is lent.cluster
        assert lent.cluster is not None
        folder = lent.cluster.path
    assert not folder.exists(), "its owner removes it"


def test_a_setting_of_one_variant_is_removed_for_the_others(open_servers: Open) -> None:
    own = "b: wal_level=minimal; max_wal_senders=0; archive_mode=off; work_mem=1MB"
    servers = open_servers(asked("a", own))
    assert servers.excluded == {}
    assert show(servers.ready(1), "wal_level") == "minimal"
    back = servers.ready(0)
    assert (show(back, "wal_level"), show(back, "max_wal_senders")) == ("replica", "10")
    assert show(back, "work_mem") == "4MB"


def test_a_variant_that_cannot_start_is_named_with_the_servers_words(open_servers: Open) -> None:
    servers = open_servers(
        asked(
            "good: work_mem=8MB",
            "archive: wal_level=minimal; archive_mode=on",
            "unknown: io_method=worker",
        )
    )
    assert set(servers.excluded) == {"1", "2"}
    assert "WAL archival cannot be enabled" in servers.excluded["1"]
    assert "io_method" in servers.excluded["2"]
    assert show(servers.ready(0), "work_mem") == "8MB"


def test_other_data_get_a_database_each_and_sql_is_run_before(open_servers: Open) -> None:
    servers = open_servers(
        asked(
            "plain",
            "half: fillfactor=50",
            "indexed: sql='CREATE INDEX i ON pgbench_accounts (bid); VACUUM pgbench_accounts'",
            "broken: sql='CREATE INDEX ON nowhere (a)'",
        )
    )
    options = "SELECT coalesce(reloptions::text, '') FROM pg_class WHERE relname LIKE %s"
    index = "SELECT count(*) FROM pg_class WHERE relname = 'i'"
    plain, half, indexed = (servers.ready(i) for i in (0, 1, 2))
    assert "fillfactor=50" in str(scalar(half.target, options, "pgbench_accounts"))
    assert "fillfactor=50" not in str(scalar(plain.target, options, "pgbench_accounts"))
    assert (scalar(indexed.target, index), scalar(plain.target, index)) == (1, 0)
    assert len({server.target.database for server in (plain, half, indexed)}) == 3
    assert "does not exist" in servers.excluded["3"]


def test_versions_checksums_and_wal_segments_need_separate_clusters(open_servers: Open) -> None:
    servers = open_servers(asked("15", "18: version=18", "sum: checksums=true; wal-segment=4MB"))
    old, new, sums = (servers.ready(i) for i in (0, 1, 2))
    assert (old.facts.major, new.facts.major, sums.facts.major) == (15, 18, 15)
    assert (show(old, "data_checksums"), show(sums, "data_checksums")) == ("off", "on")
    assert (show(old, "wal_segment_size"), show(sums, "wal_segment_size")) == ("16MB", "4MB")


def test_every_disk_gets_a_separate_cluster(open_servers: Open, house: Path) -> None:
    first_disk, two = house / "disk1", house / "disk2"
    for folder in (first_disk, two):
        folder.mkdir(mode=0o777)
        folder.chmod(0o777)
    servers = open_servers(
        asked(f"one: data-dir={first_disk}", f"two: data-dir={two}; wal-dir={first_disk}")
    )
    paths = [Path(str(show(servers.ready(i), "data_directory"))) for i in (0, 1)]
    assert paths[0].is_relative_to(first_disk)
    assert paths[1].is_relative_to(two)
    wal = servers.ready(1).facts.wal_storage
    assert wal is not None


def test_the_load_may_connect_by_tcp(open_servers: Open) -> None:
    servers = open_servers(asked("unix: path=unix", "tcp: path=tcp"))
    assert servers.ready(0).target.is_socket
    assert servers.ready(1).target.host == "127.0.0.1"
    assert scalar(servers.ready(1).target, "SELECT inet_client_addr()::text") == "127.0.0.1/32"


def test_the_load_reaches_the_server_through_the_pooler(
    pgbouncer: Path, open_servers: Open
) -> None:
    servers = open_servers(asked("direct", "pooled: pooler=transaction:3"))
    direct, pooled = servers.ready(0), servers.ready(1)
    assert pooled.pooler is not None
    assert pooled.target.ports != direct.target.ports
    assert pooled.direct == direct.target
    port_sql = "SELECT setting FROM pg_settings WHERE name = 'port'"
    assert scalar(pooled.target, port_sql) == scalar(direct.target, port_sql)
    with connect(pooled.pooler, verb="test", console=True) as console:
        [mode] = [row for row in console.execute(b"SHOW CONFIG") if row[0] == "pool_mode"]
    assert mode[1] == "transaction"
    servers.ready(0)
    with pytest.raises(ServerError):
        connect(pooled.target, verb="test")


def test_the_pooler_has_room_for_idle_connections(pgbouncer: Path, open_servers: Open) -> None:
    pooled = open_servers(asked("direct", "pooled: pooler=transaction:3", idle=60)).ready(1)
    with ExitStack() as connections:
        for _ in range(62):
            connections.enter_context(connect(pooled.target, verb="test"))


def test_sessions_that_our_pooler_keeps_have_reported_when_the_totals_are_read(
    pgbouncer: Path, open_servers: Open
) -> None:
    pooled = open_servers(asked("direct", "pooled: pooler=transaction:3")).ready(1)
    through = {**pooled.target.libpq_parameters(), "application_name": pooled.application_name("7")}
    before = totals(pooled, "7")
    with psycopg.connect(**through, autocommit=True) as load:  # type: ignore[arg-type]
        for _ in range(50):
            load.execute("SELECT 1")
    after = totals(pooled, "7")
    assert before is not None
    assert after is not None
    grown = totals_between(before, after)
    assert grown["is_exact"] == 1
    assert (grown["database.xact_commit"] or 0) >= 50


def test_prepared_statements_through_an_old_pooler_are_refused_by_name(
    open_servers: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = PoolerProgram(Path("/usr/sbin/pgbouncer"), "1.20.1")
    monkeypatch.setattr("pgdyno.measure.scratch_servers.find_pgbouncer", lambda: old)
    with pytest.raises(SpecError, match=r"'pooled'.*1\.20\.1.*prepared statements"):
        open_servers(asked("direct", "pooled: pooler=transaction:3; protocol=prepared"))


def test_a_server_that_died_between_runs_is_started_again(open_servers: Open) -> None:
    servers = open_servers(asked("a: work_mem=1MB", "b: work_mem=2MB"))
    cluster = servers.ready(0).cluster
    assert cluster is not None
    cluster.stop(is_immediate=True)
    assert show(servers.ready(1), "work_mem") == "2MB"


def test_on_a_foreign_server_session_settings_are_given_to_the_loads_sessions(
    open_servers: Open, database15: Target
) -> None:
    target = resolve(
        host=database15.host, port=database15.ports, user=database15.user,
        database=database15.database,
    ).target  # fmt: skip
    server = Server(dsn=database15.place)
    servers = open_servers(
        asked("a: work_mem=1MB", "b: work_mem=2MB; search_path='x, public'", server=server), target
    )
    second = servers.ready(1)
    assert show(second, "work_mem") == "2MB"
    assert show(second, "search_path") == "x, public"
    assert show(servers.ready(0), "work_mem") == "1MB"
    [[elsewhere]] = run_sql(database15, "SHOW work_mem")
    assert elsewhere == "4MB"


@pytest.mark.parametrize(
    ("variant", "rule"),
    [
        ("b: checkpoint_timeout=7min", "checkpoint_timeout would change for all users of"),
        ("b: shared_buffers=64MB", "needs a restart"),
        ("b: synchronous_commit=off", "a crash may lose acknowledged commits"),
        ("b: no_such_setting=1", "cannot be set on PostgreSQL 15"),
        ("b: sql='SELECT 1'", "changes sql"),
    ],
)
def test_unsafe_variants_on_a_foreign_server_are_refused(
    open_servers: Open, database15: Target, variant: str, rule: str
) -> None:
    server = Server(dsn=database15.place)
    with pytest.raises((SpecError, RefusedError), match=rule):
        open_servers(asked("a", variant, server=server), database15)


def test_a_variant_created_while_the_experiment_runs_is_prepared_when_first_used(
    open_servers: Open,
) -> None:
    opened = open_servers(asked("a: work_mem=1MB", "b: work_mem=2MB"))
    opened.ready(0)
    trial = PlannedVariant("trial-1", Variant(name="trial 1", settings={"shared_buffers": "24MB"}))
    assert show(opened.servers.ready(trial), "shared_buffers") == "24MB"
    assert show(opened.ready(1), "work_mem") == "2MB"
    assert show(opened.ready(1), "shared_buffers") != "24MB"
    other_data = DatasetChange(fillfactor=70)
    half = PlannedVariant("trial-2", Variant(name="trial 2", dataset=other_data))
    assert opened.servers.ready(half).target.database != opened.ready(0).target.database


def test_a_created_variant_that_cannot_start_leaves_the_others_their_server(
    open_servers: Open,
) -> None:
    opened = open_servers(asked("a: work_mem=1MB", "b: work_mem=2MB"))
    settings = {"wal_level": "minimal", "archive_mode": "on"}
    trial = PlannedVariant("trial-1", Variant(name="trial 1", settings=settings))
    with pytest.raises(ServerError, match="WAL archival cannot be enabled"):
        opened.servers.ready(trial)
    assert set(opened.excluded) == {"trial-1"}
    assert show(opened.ready(1), "work_mem") == "2MB"


def test_only_in_the_rounds_of_a_created_variant_that_restarts_every_run_has_one(
    open_servers: Open,
) -> None:
    servers = open_servers(asked("as it is", "more: work_mem=8MB"))
    base, trial, later = (
        PlannedVariant(name, Variant(name=name, settings=settings))
        for name, settings in (
            ("0", {}),
            ("trial-1", {"shared_buffers": "24MB"}),
            ("trial-2", {"work_mem": "2MB"}),
        )
    )

    def postmaster(variant: PlannedVariant, round_number: int, *, restarts: bool) -> int | None:
        ready = servers.servers.ready(variant, round_number, restarts=restarts)
        return ready.facts.postmaster_pid

    usual = postmaster(base, 1, restarts=False)
    assert postmaster(base, 2, restarts=False) == usual
    first = postmaster(base, 3, restarts=True)
    assert first != usual
    assert postmaster(trial, 3, restarts=True) != first
    # Going back takes a restart; the next run of the same variant has none.
    before = postmaster(base, 4, restarts=False)
    assert postmaster(later, 4, restarts=False) == before


def test_variants_with_the_same_broken_data_are_all_left_out(open_servers: Open) -> None:
    servers = open_servers(asked("good", "a: sql=SELECT 1/0", "b: sql=SELECT 1/0; work_mem=1MB"))
    assert set(servers.excluded) == {"1", "2"}
    assert servers.excluded["1"] == servers.excluded["2"]
    assert "division by zero" in servers.excluded["2"]
    assert show(servers.ready(0), "work_mem") == "4MB"


def test_commits_of_a_variant_wait_for_its_standby(open_servers: Open) -> None:
    servers = open_servers(
        asked(
            "alone",
            "waits: standby=synchronous; synchronous_commit=remote_apply; max_connections=150",
            "does not: standby=asynchronous",
        )
    )
    state = "SELECT sync_state FROM pg_stat_replication"
    alone, waits = servers.ready(0), servers.ready(1)
    assert run_sql(alone.target, state) == []
    assert scalar(waits.target, state) == "sync"
    assert show(waits, "max_connections") == "150"
    run_sql(waits.target, "CREATE TABLE seen AS SELECT 1")
    received = "SELECT flush_lsn >= pg_current_wal_flush_lsn() FROM pg_stat_replication"
    assert scalar(waits.target, received)
    assert scalar(servers.ready(2).target, state) == "async"
    assert servers.excluded == {}


def test_the_standby_is_made_again_after_new_data(open_servers: Open) -> None:
    servers = open_servers(
        asked("a: standby=synchronous", "b: standby=synchronous").with_fields(reload="round")
    )
    for round_number in (1, 2):
        ready = servers.ready(0, round_number)
        assert scalar(ready.target, "SELECT sync_state FROM pg_stat_replication") == "sync"
        assert scalar(ready.target, "SELECT count(*) FROM pgbench_branches") == 1


def test_a_standby_decides_itself_for_whom_commits_wait() -> None:
    with pytest.raises(SpecError, match="synchronous_standby_names exclude each other"):
        variant_from("x: standby=synchronous; synchronous_standby_names=*")
