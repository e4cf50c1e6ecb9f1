"""A server of the user's own has its settings back, however the experiment ends."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from tests.fixtures.clusters import Make, run_sql, scalar
from tests.fixtures.command import Command, server_options

from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.server.target import Target
from pgdyno.store.experiment import Store

NOT_VALID = 3
ENTRIES = (
    "SELECT name, setting FROM pg_file_settings WHERE sourcefile LIKE '%postgresql.auto.conf'"
    " ORDER BY seqno"
)
pytestmark = pytest.mark.pg


@pytest.fixture
def theirs(new_cluster: Make) -> ScratchCluster:
    """A server that somebody tuned: one of the settings to change has an entry already."""
    cluster = new_cluster("15")
    run_sql(cluster.target, "ALTER SYSTEM SET checkpoint_timeout = '17min'")
    run_sql(cluster.target, "SELECT pg_reload_conf()")
    return cluster


NEW = "new: checkpoint_timeout=7min; autovacuum_naptime=41s; work_mem=5MB"


def compared(
    pgdyno: Command,
    target: Target,
    tmp_path: Path,
    *permissions: str,
    variants: tuple[str, str] = ("as it is", NEW),
    duration: str = "1s",
) -> list[str | Path]:
    """Return the words of a comparison that measures the first variant first."""
    script = tmp_path / "one.sql"
    script.write_text("SELECT pg_sleep(0.005);\n")
    asked = pgdyno.in_order(
        *("compare", *server_options(target), *permissions),
        *("-f", script, "-c", "1", "-T", duration, "--warmup", "0s", "--rounds", "3"),
        *("--variant", variants[0], "--variant", variants[1]),
    )
    return [*asked, *permissions]


def admin(target: Target) -> str:
    return f"host={target.host} port={target.ports} user={target.user} dbname={target.database}"


def test_settings_are_changed_for_a_variant_and_put_back(
    theirs: ScratchCluster, pgdyno: Command, tmp_path: Path
) -> None:
    before = run_sql(theirs.target, ENTRIES)
    asked = compared(pgdyno, theirs.target, tmp_path, "--admin", admin(theirs.target))
    said = pgdyno(*asked, "--json")
    assert said.code == NOT_VALID, said.err
    assert [variant["runs"] for variant in said.document["variants"]] == [3, 3]
    assert run_sql(theirs.target, ENTRIES) == before
    assert scalar(theirs.target, "SHOW checkpoint_timeout") == "17min"
    folder = Store(pgdyno.store).find("last")
    facts = folder.facts() or {}
    kept = [facts["variants"][i]["settings"]["checkpoint_timeout"] for i in ("0", "1")]
    assert kept == ["17min", "7min"]
    assert [entry["change"] for entry in folder.audit().entries] == ["settings", "undone"]
    assert "nothing to undo" in pgdyno("undo").out


def test_changes_left_by_a_kill_are_announced_and_undone(
    theirs: ScratchCluster, pgdyno: Command, tmp_path: Path
) -> None:
    before = run_sql(theirs.target, ENTRIES)
    permission = ("--admin", admin(theirs.target))
    # The variant that changes them comes first, and its run is long: it lasts until the kill.
    variants = (NEW, "as it is")
    asked = compared(
        pgdyno, theirs.target, tmp_path, *permission, variants=variants, duration="10min"
    )
    running = pgdyno.start(*asked)
    # Not by asking the server: a session of somebody else's is a reason to refuse.
    running.await_load(pgdyno.store)
    running.process.kill()
    running.wait()
    assert scalar(theirs.target, "SHOW autovacuum_naptime") == "41s"
    again = pgdyno(*asked, "--dry-run")
    assert again.code == 0
    done = pgdyno("undo")
    assert done.code == 0, done.err
    assert "put back: checkpoint_timeout = 17min; no entry for autovacuum_naptime in" in done.out
    assert f"#1 {theirs.target.host}:{theirs.target.ports}" in done.out
    assert run_sql(theirs.target, ENTRIES) == before
    assert pgdyno("undo").out == f"nothing to undo in {pgdyno.store}\n"


def test_the_users_own_command_gets_the_settings_as_json(
    theirs: ScratchCluster, pgdyno: Command, tmp_path: Path
) -> None:
    log, command = tmp_path / "log", tmp_path / "apply.sh"
    psql = f"{theirs.binaries.program('psql')} -X -q -d '{admin(theirs.target)}'"
    command.write_text(
        f"#!/bin/sh\ncat >> {log}; echo >> {log}\n"
        f"tail -1 {log} | grep -q 41s && set='SET autovacuum_naptime = 41' || "
        "set='RESET autovacuum_naptime'\n"
        f'{psql} -c "ALTER SYSTEM $set" -c "SELECT pg_reload_conf()" > /dev/null\n'
    )
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    permission = ("--apply-command", str(command))
    variants = ("as it is", "new: autovacuum_naptime=41s")
    asked = compared(pgdyno, theirs.target, tmp_path, *permission, variants=variants)
    said = pgdyno(*asked, "--json")
    assert said.code == NOT_VALID, said.err
    given = [json.loads(line) for line in log.read_text().splitlines()]
    assert given[0] == {"autovacuum_naptime": None}
    assert {"autovacuum_naptime": "41s"} in given
    assert given[-1] == {"autovacuum_naptime": None}
    assert scalar(theirs.target, "SHOW autovacuum_naptime") == "1min"


def test_a_command_that_fails_leaves_the_variant_out(
    theirs: ScratchCluster, pgdyno: Command, tmp_path: Path
) -> None:
    said = pgdyno(*compared(pgdyno, theirs.target, tmp_path, "--apply-command", "false"))
    assert said.code == 1, "nothing ran"
    assert "false ended with exit code 1" in said.err


def test_an_admin_of_another_server_is_refused(
    theirs: ScratchCluster, pg15: ScratchCluster, pgdyno: Command, tmp_path: Path
) -> None:
    said = pgdyno(*compared(pgdyno, theirs.target, tmp_path, "--admin", admin(pg15.target)))
    assert said.code == 1
    assert "another server" in said.err


def journal(store: Path, target: Target, name: str, **more: object) -> int:
    """Write what an experiment leaves that was killed; return its number."""
    folder = Store(store).create(name, "compare")
    folder.add_audit(
        {
            "change": "settings",
            "admin": target.as_document(),
            "apply_command": None,
            "restart_command": None,
            "recover_command": None,
            "restarts": False,
            "previous": {"checkpoint_timeout": "17min"},
            **more,
        }
    )
    return folder.number


def test_a_journal_that_cannot_be_undone_does_not_keep_the_others_from_it(
    theirs: ScratchCluster, pgdyno: Command
) -> None:
    first = journal(pgdyno.store, theirs.target, "first")
    broken = {"restart_command": "echo out of order >&2; exit 5", "restarts": True}
    gone = journal(
        pgdyno.store, theirs.target, "broken", **broken, previous={"max_connections": None}
    )
    run_sql(theirs.target, "ALTER SYSTEM SET checkpoint_timeout = '7min'")
    run_sql(theirs.target, "ALTER SYSTEM SET max_connections = 99")
    run_sql(theirs.target, "SELECT pg_reload_conf()")
    listed = pgdyno("list").out
    assert f"settings changed: pgdyno undo {first}" in listed
    done = pgdyno("undo")
    assert done.code == 2
    assert f"#{first} {theirs.target.host}:{theirs.target.ports}: put back: checkpoint_timeout" in (
        done.out
    )
    assert f"#{gone}" in done.err
    assert "not put back: no entry for max_connections" in " ".join(done.err.split())
    assert "exit code 5: out of order" in " ".join(done.err.split())
    assert f"pgdyno undo --dismiss {gone}" in done.err
    # What is as it was counts as done, whatever the command would say.
    again = pgdyno("undo")
    assert again.code == 0, again.err
    assert f"#{gone}" in again.out
    assert "already as before" in again.out


def test_a_change_that_cannot_be_undone_is_shown_and_dismissed(pgdyno: Command) -> None:
    nowhere = Target(host="/nowhere", ports="5432", user="dba", database="bank")
    number = journal(pgdyno.store, nowhere, "gone")
    assert pgdyno("undo").code == 2
    assert pgdyno("undo", "--dismiss").code == 1
    dismissed = pgdyno("undo", "--dismiss", str(number))
    assert dismissed.code == 0
    assert "forgotten, not put back: checkpoint_timeout = 17min" in dismissed.out
    assert pgdyno("undo").out == f"nothing to undo in {pgdyno.store}\n"
    assert "settings changed" not in pgdyno("list").out


def test_undo_without_a_store_is_an_error(pgdyno: Command) -> None:
    said = pgdyno("undo")
    assert said.code == 1
    assert str(pgdyno.store) in said.error


def test_a_damaged_journal_is_never_nothing_to_undo(
    theirs: ScratchCluster, pgdyno: Command
) -> None:
    number = journal(pgdyno.store, theirs.target, "damaged")
    [folder] = pgdyno.store.glob("damaged-*")
    with (folder / "audit.jsonl").open("ab") as stream:
        stream.write(b"\x00" * 64)
    assert "JOURNAL OF CHANGES DAMAGED" in " ".join(pgdyno("list").out.split())
    for _ in range(2):
        undone = pgdyno("undo")
        assert undone.code == 1
        assert "line 2 cannot be read" in " ".join(undone.err.split())
        assert "nothing to undo" not in undone.out
    assert "already as before" not in undone.out, "the change that could be read is undone"
    closed = pgdyno("undo", "--dismiss", str(number))
    assert closed.code == 0, closed.err
    assert "journal closed, although 1 line of it cannot be read" in closed.out
    assert pgdyno("undo").out == f"nothing to undo in {pgdyno.store}\n"
