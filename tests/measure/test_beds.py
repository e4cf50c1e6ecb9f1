"""Variants made ready on real scratch servers: settings, databases, clusters, and what fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.fixtures.clusters import run_sql, scalar

from pgdyno.clock import read_pair
from pgdyno.engine.records import ScriptShape
from pgdyno.errors import RefusedError, ServerError, SpecError
from pgdyno.measure.beds import Beds
from pgdyno.measure.opening import opened_beds
from pgdyno.measure.progress import Progress
from pgdyno.measure.under_test import Conditions, UnderTest
from pgdyno.server.connect import connect
from pgdyno.server.conninfo import resolve
from pgdyno.server.pgbouncer import PoolerProgram
from pgdyno.server.target import Target
from pgdyno.spec.experiment import (
    CompareDesign,
    Dataset,
    Experiment,
    Permissions,
    Scratch,
    Script,
    Server,
    Variant,
    Workload,
)
from pgdyno.spec.variant_text import variant_from

Open = Callable[..., Beds]


def asked(*variants: str | Variant, server: Server | None = None) -> Experiment:
    return Experiment(
        name="beds",
        server=server or Server(scratch=Scratch(version="15")),
        dataset=Dataset(scale=1) if server is None else Dataset(kind="existing"),
        workload=Workload(scripts=(Script(builtin="select-only"),), clients=2),
        variant=tuple(variant_from(v) if isinstance(v, str) else v for v in variants),
        design=CompareDesign(),
    )


@pytest.fixture
def open_beds(house: Path, tmp_path: Path) -> Iterator[Open]:
    """Open beds that are closed when the test is over."""
    with ExitStack() as stack:

        def opened(experiment: Experiment, target: Target | None = None) -> Beds:
            conditions = Conditions(
                verb="test",
                target=target,
                permissions=Permissions(),
                scripts=(ScriptShape(name="x.sql", weight=1, reads_only=True, statements=()),),
                clock=read_pair(),
                store_dir=tmp_path,
            )
            return stack.enter_context(opened_beds(experiment, conditions, Progress()))

        yield opened


def show(bed: UnderTest, name: str) -> object:
    return scalar(bed.target, f"SELECT current_setting('{name}')")


def test_settings_are_reloaded_where_that_is_enough(open_beds: Open) -> None:
    beds = open_beds(asked("on: synchronous_commit=on", "off: synchronous_commit=off"))
    first = beds.ready(0)
    assert show(first, "synchronous_commit") == "on"
    second = beds.ready(1)
    assert show(second, "synchronous_commit") == "off"
    assert second.facts.settings["synchronous_commit"] == "off"
    assert second.facts.postmaster_pid == first.facts.postmaster_pid
    assert show(beds.ready(0), "synchronous_commit") == "on"


def test_when_one_variant_needs_a_restart_every_run_has_one(open_beds: Open) -> None:
    beds = open_beds(asked("a: shared_buffers=16MB", "b: shared_buffers=32MB; work_mem=1MB"))
    assert show(beds.ready(0), "shared_buffers") == "16MB"
    first, again = beds.ready(1), beds.ready(1)
    assert (show(again, "shared_buffers"), show(again, "work_mem")) == ("32MB", "1MB")
    assert again.facts.postmaster_pid != first.facts.postmaster_pid


def test_what_only_one_variant_sets_is_taken_away_for_the_others(open_beds: Open) -> None:
    own = "b: wal_level=minimal; max_wal_senders=0; archive_mode=off; work_mem=1MB"
    beds = open_beds(asked("a", own))
    assert beds.excluded == {}
    assert show(beds.ready(1), "wal_level") == "minimal"
    back = beds.ready(0)
    assert (show(back, "wal_level"), show(back, "max_wal_senders")) == ("replica", "10")
    assert show(back, "work_mem") == "4MB"


def test_a_variant_that_cannot_start_is_named_with_the_servers_words(open_beds: Open) -> None:
    beds = open_beds(
        asked(
            "good: work_mem=8MB",
            "archive: wal_level=minimal; archive_mode=on",
            "unknown: io_method=worker",
        )
    )
    assert set(beds.excluded) == {1, 2}
    assert "WAL archival cannot be enabled" in beds.excluded[1]
    assert "io_method" in beds.excluded[2]
    assert show(beds.ready(0), "work_mem") == "8MB"


def test_other_data_get_a_database_each_and_sql_is_run_before(open_beds: Open) -> None:
    beds = open_beds(
        asked(
            "plain",
            "half: fillfactor=50",
            "indexed: sql='CREATE INDEX i ON pgbench_accounts (bid); VACUUM pgbench_accounts'",
            "broken: sql='CREATE INDEX ON nowhere (a)'",
        )
    )
    options = "SELECT coalesce(reloptions::text, '') FROM pg_class WHERE relname LIKE %s"
    index = "SELECT count(*) FROM pg_class WHERE relname = 'i'"
    plain, half, indexed = (beds.ready(i) for i in (0, 1, 2))
    assert "fillfactor=50" in str(scalar(half.target, options, "pgbench_accounts"))
    assert "fillfactor=50" not in str(scalar(plain.target, options, "pgbench_accounts"))
    assert (scalar(indexed.target, index), scalar(plain.target, index)) == (1, 0)
    assert len({bed.target.database for bed in (plain, half, indexed)}) == 3
    assert "does not exist" in beds.excluded[3]


def test_versions_checksums_and_wal_segments_get_clusters_of_their_own(open_beds: Open) -> None:
    beds = open_beds(asked("15", "18: version=18", "sum: checksums=true; wal-segment=4MB"))
    old, new, sums = (beds.ready(i) for i in (0, 1, 2))
    assert (old.facts.major, new.facts.major, sums.facts.major) == (15, 18, 15)
    assert (show(old, "data_checksums"), show(sums, "data_checksums")) == ("off", "on")
    assert (show(old, "wal_segment_size"), show(sums, "wal_segment_size")) == ("16MB", "4MB")


def test_disks_get_clusters_of_their_own(open_beds: Open, house: Path) -> None:
    one, two = house / "disk1", house / "disk2"
    for folder in (one, two):
        folder.mkdir(mode=0o777)
        folder.chmod(0o777)
    beds = open_beds(asked(f"one: data-dir={one}", f"two: data-dir={two}; wal-dir={one}"))
    paths = [Path(str(show(beds.ready(i), "data_directory"))) for i in (0, 1)]
    assert paths[0].is_relative_to(one)
    assert paths[1].is_relative_to(two)
    wal = beds.ready(1).facts.wal_storage
    assert wal is not None


def test_the_load_may_connect_by_tcp(open_beds: Open) -> None:
    beds = open_beds(asked("unix: path=unix", "tcp: path=tcp"))
    assert beds.ready(0).target.is_socket
    assert beds.ready(1).target.host == "127.0.0.1"
    assert scalar(beds.ready(1).target, "SELECT inet_client_addr()::text") == "127.0.0.1/32"


def test_a_pooler_stands_between_the_load_and_the_server(open_beds: Open) -> None:
    beds = open_beds(asked("direct", "pooled: pooler=transaction:3"))
    direct, pooled = beds.ready(0), beds.ready(1)
    assert pooled.pooler is not None
    assert pooled.target.ports != direct.target.ports
    assert pooled.direct == direct.target
    one = "SELECT setting FROM pg_settings WHERE name = 'port'"
    assert scalar(pooled.target, one) == scalar(direct.target, one)
    with connect(pooled.pooler, verb="test") as console:
        [mode] = [row for row in console.execute(b"SHOW CONFIG") if row[0] == "pool_mode"]
    assert mode[1] == "transaction"
    beds.ready(0)
    with pytest.raises(ServerError):
        connect(pooled.target, verb="test")


def test_prepared_statements_through_an_old_pooler_are_refused_by_name(
    open_beds: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = PoolerProgram(Path("/usr/sbin/pgbouncer"), "1.20.1")
    monkeypatch.setattr("pgdyno.measure.scratch_beds.find_pgbouncer", lambda: old)
    with pytest.raises(SpecError, match=r"'pooled'.*1\.20\.1.*prepared statements"):
        open_beds(asked("direct", "pooled: pooler=transaction:3; protocol=prepared"))


def test_a_server_that_died_between_runs_is_started_again(open_beds: Open) -> None:
    beds = open_beds(asked("a: work_mem=1MB", "b: work_mem=2MB"))
    cluster = beds.ready(0).cluster
    assert cluster is not None
    cluster.stop(is_immediate=True)
    assert show(beds.ready(1), "work_mem") == "2MB"


def test_on_a_foreign_server_session_settings_are_given_to_the_loads_sessions(
    open_beds: Open, database15: Target
) -> None:
    target = resolve(
        host=database15.host, port=database15.ports, user=database15.user,
        database=database15.database,
    ).target  # fmt: skip
    server = Server(dsn=database15.place)
    beds = open_beds(
        asked("a: work_mem=1MB", "b: work_mem=2MB; search_path='x, public'", server=server), target
    )
    second = beds.ready(1)
    assert show(second, "work_mem") == "2MB"
    assert show(second, "search_path") == "x, public"
    assert show(beds.ready(0), "work_mem") == "1MB"
    [[elsewhere]] = run_sql(database15, "SHOW work_mem")
    assert elsewhere == "4MB"


@pytest.mark.parametrize(
    ("variant", "rule"),
    [
        ("b: checkpoint_timeout=7min", "checkpoint_timeout would be changed for all of"),
        ("b: shared_buffers=64MB", "needs a restart"),
        ("b: synchronous_commit=off", "acknowledged commits can be lost"),
        ("b: no_such_setting=1", "cannot be set on PostgreSQL 15"),
        ("b: fillfactor=50", "changes fillfactor"),
    ],
)
def test_what_is_not_safe_on_a_foreign_server_is_refused(
    open_beds: Open, database15: Target, variant: str, rule: str
) -> None:
    server = Server(dsn=database15.place)
    with pytest.raises((SpecError, RefusedError), match=rule):
        open_beds(asked("a", variant, server=server), database15)
