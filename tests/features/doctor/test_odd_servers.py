"""Servers and roles as they are met: each examined, none fatal, what is missing said."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.fixtures.clusters import Make, connection, run_sql
from tests.fixtures.command import Command, server_options
from tests.fixtures.standby import Standby

from pgdyno.features.doctor.examination_text import grants_text
from pgdyno.features.doctor.examine import Examination, Subject, examine
from pgdyno.observe.session import ServerSession
from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.server.target import Target


def of(target: Target) -> Examination:
    return examine(Subject(target=target))


def failures(examination: Examination) -> dict[str, str]:
    assert examination.facts.server is not None
    return dict(examination.facts.server.failures)


def test_a_read_only_standby_is_examined_as_one(new_cluster: Make) -> None:
    with Standby(new_cluster("15", settings={"max_wal_senders": "4"})) as standby:
        examination = of(standby.target)
        assert failures(examination) == {}
        assert " standby" in examination.target
        by_id = {finding.id: finding for finding in examination.findings}
        assert by_id["wraparound"].verdict == "good"
        assert by_id["replication_slots"].verdict == "good"
        verbs = examination.as_document()["rights"]["verbs"]
        assert verbs["init"] == {
            "is_complete": False,
            "text": "cannot load: this is a standby; name its primary",
        }
        assert verbs["bench"]["text"].startswith("runs scripts that only read")


@pytest.mark.parametrize("version", ["15", "18"])
def test_a_statement_timeout_of_1_ms_hides_no_fact(version: str, new_cluster: Make) -> None:
    cluster = new_cluster(version)
    run_sql(cluster.target, "CREATE ROLE hasty LOGIN; ALTER ROLE hasty SET statement_timeout = 1")
    examination = of(replace(cluster.target, user="hasty"))
    assert failures(examination) == {}
    assert examination.facts.others_active is not None


@pytest.mark.parametrize("claimed", [10, 11, 12, 13, 19])
def test_an_older_or_a_newer_major_version_is_examined_with_what_it_has(
    claimed: int, any_server: ScratchCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = ServerSession.open

    def claims(session: ServerSession) -> None:
        really(session)
        session.version = claimed

    monkeypatch.setattr(ServerSession, "open", claims)
    examination = of(any_server.target)
    # A missing view is reported in the server's words; everything else is judged.
    is_moved = (claimed < 17) != (any_server.binaries.major < 17)
    missing = {"checkpoints"} if is_moved else set()
    assert set(failures(examination)) <= missing
    unjudged = {
        finding.id for finding in examination.of("unknown") if "the server's error" in finding.seen
    }
    assert unjudged == ({"max_wal_size"} if failures(examination) else set())


@pytest.mark.parametrize("version", ["15", "18"])
def test_the_grants_that_are_printed_run_and_give_what_they_say(
    version: str, new_cluster: Make
) -> None:
    cluster = new_cluster(version)
    run_sql(cluster.target, 'CREATE ROLE "Fresh ""one""" LOGIN')
    fresh = replace(cluster.target, user='Fresh "one"')
    printed = grants_text(of(fresh)).splitlines()
    assert len(printed) == 5
    with connection(cluster.target) as owner:
        for line in printed:
            owner.execute(line.encode())
    with connection(fresh) as session:
        session.execute("SELECT pg_reload_conf()")
        session.execute("CREATE TABLE own (id int)")
        session.execute("CHECKPOINT")
        session.execute("ALTER SYSTEM SET max_wal_size = '2GB'")
        session.execute("ALTER SYSTEM RESET max_wal_size")
        session.execute("DROP TABLE own")
    after = of(fresh)
    assert grants_text(after) == "-- no privilege is missing"
    assert after.facts.server is not None
    assert after.facts.server.rights.monitor


def test_a_check_fails_at_the_asked_severity(pgdyno: Command, pg15: ScratchCluster) -> None:
    place = server_options(pg15.target)
    assert pgdyno("doctor", *place).code == 0
    said = pgdyno("doctor", *place, "--check", "good", "--ram", "28GB", "--json")
    assert said.code == 4
    failed = said.err.partition("CHECK FAILED good: ")[2].strip().split(", ")
    worse = {
        f"{finding['id']} ({finding['verdict']})"
        for finding in said.document["findings"]
        if finding["verdict"] in ("warn", "bad")
    }
    assert {" ".join(words.split()) for words in failed} == worse
    assert "memory 28 GB" in str(said.document["findings"])
