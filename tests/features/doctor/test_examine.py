"""The whole examination, of real servers and of this host alone."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from tests.fixtures.clusters import Make, connection, make_cluster_if_offered, run_sql
from tests.fixtures.command import Command

from pgdyno.errors import ServerError, SpecError
from pgdyno.features.doctor.examination_text import grants_text, text_of
from pgdyno.features.doctor.examine import Examination, Subject, checks, examine
from pgdyno.features.doctor.finding import NO_SERVER, NO_SHELL
from pgdyno.features.doctor.server_sql import statements
from pgdyno.server.connect import connect
from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.server.session_start import AT_ONCE, MARK
from pgdyno.server.target import Target

VERBS = ("watch", "bench", "init", "compare")
NOWHERE = Path("/var/tmp")


def of(target: Target | None, **given: object) -> Examination:
    return examine(Subject(target=target, **given))  # type: ignore[arg-type]


def verdicts(examination: Examination) -> dict[str, str]:
    return {finding.id: finding.verdict for finding in examination.findings}


def test_a_scratch_server_is_examined_with_its_host(any_server: ScratchCluster) -> None:
    examination = of(any_server.target)
    assert [finding.id for finding in examination.findings] == [check.id for check in checks()]
    seen = verdicts(examination)
    # The fixtures' servers do not flush: that must never pass.
    assert (seen["fsync"], seen["full_page_writes"]) == ("bad", "bad")
    assert (seen["track_io_timing"], seen["autovacuum"]) == ("good", "good")
    assert examination.worst == "bad"
    unjudged = {finding.seen for finding in examination.of("unknown")}
    assert not unjudged & {NO_SHELL, NO_SERVER}
    assert not [reason for reason in unjudged if "the server's error" in reason], unjudged
    assert examination.facts.data is not None


def test_a_check_of_a_setting_names_the_place_of_its_value(database15: Target) -> None:
    run_sql(database15, f"ALTER DATABASE {database15.database} SET track_io_timing = off")
    seen = {finding.id: finding.seen for finding in of(database15).findings}
    assert seen["track_io_timing"].endswith(", from ALTER DATABASE")
    assert "/postgresql.conf line " in seen["fsync"]
    # PostgreSQL's default: nobody set it.
    assert "from" not in seen["autovacuum"]


def test_the_text_has_the_target_the_rights_and_each_mend(pg15: ScratchCluster) -> None:
    examination = of(pg15.target)
    for width in (80, 72):
        narrow = text_of(examination, verbs=VERBS, show_all=True, width=width).splitlines()
        assert [line for line in narrow if len(line) > width and " " in line[6:].strip()] == []
    text = text_of(examination, verbs=VERBS, show_all=False)
    first, host, rights, *_ = text.splitlines()
    assert re.match(r"host    (hardware|virtual machine).*, \d+ cores?, \d", host)
    assert re.match(r"target  local:\d+/postgres  PostgreSQL 15\.\d+ primary, \d", first)
    assert rights == (
        "rights  pg_monitor yes | pg_checkpoint yes | ALTER SYSTEM yes | CREATE yes"
        " | shell on host yes"
    )
    assert "BAD   fsync = off" in text
    assert "      mend: ALTER SYSTEM SET fsync = on" in text
    assert re.search(r"^good  \d+ checks \(--all\); \d+ not known here$", text, re.M)
    assert max(map(len, text.splitlines())) <= 100


def test_the_suggested_grants_give_a_role_the_missing_rights(
    new_cluster: Make,
) -> None:
    cluster = new_cluster("15")
    run_sql(cluster.target, 'CREATE ROLE "odd name" LOGIN')
    poor = replace(cluster.target, user="odd name")
    before = of(poor)
    text = text_of(before, verbs=VERBS, show_all=False)
    assert "pg_monitor NO | pg_checkpoint NO | ALTER SYSTEM NO | CREATE NO" in text
    assert " missing  5 statements for the server's owner: pgdyno doctor --grants" in text
    assert verdicts(before)["other_load"] == "unknown"
    assert "other sessions not visible" in before.target
    with connection(cluster.target) as owner:
        for line in grants_text(before).splitlines():
            owner.execute(line.partition("  -- ")[0])  # type: ignore[arg-type]
    lacking = before.as_document()["rights"]
    assert len(lacking["grants"]) == 5
    assert "any checkpoint phase" in lacking["verbs"]["bench"]["text"]
    after = of(poor)
    assert after.facts.server is not None
    rights = after.facts.server.rights
    assert (rights.monitor, rights.checkpoint, rights.create_in_public) == (True, True, True)
    assert rights.reload
    assert verdicts(after)["other_load"] != "unknown"


def test_without_a_server_this_host_is_examined_alone() -> None:
    examination = of(None)
    assert examination.target == "this host, no server"
    by_id = {finding.id: finding for finding in examination.findings}
    assert by_id["fsync"].seen == NO_SERVER
    assert by_id["free_space"].verdict != "unknown"
    assert "rights" not in text_of(examination, verbs=VERBS, show_all=True)
    assert grants_text(examination).startswith("-- no server")


def test_a_server_elsewhere_leaves_the_host_out(
    any_server: ScratchCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As through a tunnel: the backend's process is not among this host's.
    monkeypatch.setattr("pgdyno.features.doctor.examine.is_backend_here", lambda *_: False)
    examination = of(any_server.target, ram_bytes=28 << 30)
    by_id = {finding.id: finding for finding in examination.findings}
    assert by_id["swappiness"].seen == NO_SHELL
    assert by_id["memory_rule"].verdict == "good"
    assert "memory 28 GB" in by_id["memory_rule"].seen
    text = text_of(examination, verbs=VERBS, show_all=False)
    assert "shell on host NO" in text
    with pytest.raises(SpecError, match="the server is on another host"):
        of(any_server.target, flush_folder=NOWHERE)
    assert NO_SHELL in text


def test_others_at_work_are_seen(pg15: ScratchCluster) -> None:
    with connection(pg15.target) as other, other.transaction():
        other.execute("SELECT 1")
        examination = of(pg15.target)
        assert "1 session of 1 other application" in examination.target


def test_a_session_of_another_role_that_calls_itself_pgdyno_is_named(
    either_server: ScratchCluster,
) -> None:
    run_sql(either_server.target, "CREATE ROLE mon LOGIN")
    try:
        with connect(replace(either_server.target, user="mon"), verb="watch"):
            examination = of(either_server.target)
    finally:
        run_sql(either_server.target, "DROP ROLE mon")
    named = "1 session of 1 other application, role mon calls itself pgdyno/watch/control"
    assert named in examination.target


def test_a_missing_server_gives_one_error() -> None:
    nowhere = Target("127.0.0.1", "1", "dyno", "core")
    with pytest.raises(ServerError):
        of(nowhere)


@pytest.mark.parametrize("version", ["15", "18"])
def test_only_what_print_sql_shows_is_sent(version: str, new_cluster: Make) -> None:
    cluster = new_cluster(version, settings={"log_statement": "all"})
    began = cluster.log_path.stat().st_size
    of(cluster.target)
    logged = cluster.log_path.read_text()[began:]
    sent = set(re.findall(r"(?:statement|execute [^:]+): (.*)", logged))
    assert sent
    # The first statement has the number of the session in its text.
    sent = {re.sub(r"\d+(?= AS is_pooled)", "$1", sql.removesuffix(MARK)) for sql in sent}
    shown = {re.sub(r"%s", "$1", sql) for sql in statements(int(version)).values()}
    assert sent <= shown, sent - shown


@pytest.mark.pg
@pytest.mark.parametrize("version", ["14", "16", "17"])
def test_every_statement_runs_on_this_version_too(version: str, house: Path) -> None:
    with make_cluster_if_offered(version) as cluster:
        seen = of(cluster.target).facts.server
        assert seen is not None
        assert seen.failures == {}


@pytest.mark.parametrize("version", [14, 15, 16, 17, 18])
def test_every_statement_only_reads(version: int) -> None:
    for name, sql in statements(version).items():
        # The first statement of a session is not compiled.
        assert sql.removeprefix(AT_ONCE).startswith("SELECT "), name
        assert "%" not in sql.replace("%s", ""), name


def test_the_command_prints_json_and_fails_a_check(pgdyno: Command, pg15: ScratchCluster) -> None:
    place = ("-h", pg15.target.host, "-p", pg15.target.ports, "-U", pg15.target.user)
    said = pgdyno("doctor", *place, "-d", "postgres", "--json", "--check", "warn")
    assert said.code == 4
    assert "CHECK FAILED warn: " in said.err
    document = said.document
    assert document["format"] == "pgdyno.doctor/1"
    assert document["verdict"] == "bad"
    assert document["counts"]["bad"] >= 2
    assert document["rights"]["role"] == pg15.target.user
    assert document["rights"]["verbs"]["bench"] == {"is_complete": True, "text": "runs"}
    assert document["rights"]["grants"] == []
    assert {"id", "group", "verdict", "seen", "why", "mend"} == document["findings"][0].keys()
    assert document["findings"][0]["verdict"] == "bad"


def test_the_command_measures_flushes_in_the_given_folder(pgdyno: Command, tmp_path: Path) -> None:
    said = pgdyno("doctor", "--flush", tmp_path, "--all")
    assert said.code == 0, said.err
    assert re.search(r"flush latency: p50 [\d.]+, p99 [\d.]+, max [\d.]+ ms", said.out)
    assert "next:" in pgdyno("doctor", "--flush", tmp_path / "absent").error
    assert list(tmp_path.glob(".pgdyno*")) == []


def test_the_command_prints_its_statements_without_a_server(pgdyno: Command) -> None:
    said = pgdyno("doctor", "--print-sql")
    assert said.code == 0
    for version in (14, 18):
        for sql in statements(version).values():
            assert f"{sql};" in said.out
