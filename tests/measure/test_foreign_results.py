"""A result of somebody else executes and connects to nothing without a confirmation."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.command import Command, server_options

from pgdyno.process.processes import ProcessIdentity
from pgdyno.server.scratch.leftovers import sweep_leftovers
from pgdyno.server.target import Target
from pgdyno.store import seal
from pgdyno.store.audit import AUDIT, is_foreign
from pgdyno.store.experiment import Store
from pgdyno.store.folder import ExperimentFolder


def journal(target: Target, **changes: Any) -> dict[str, Any]:
    return {
        "change": "settings",
        "admin": {
            "host": target.host,
            "port": target.ports,
            "user": target.user,
            "database": target.database,
        },
        "apply_command": None,
        "restart_command": None,
        "recover_command": None,
        "command_timeout_s": 5,
        "data_dir": None,
        "restarts": False,
        "previous": {"work_mem": "7MB"},
        "values": {"work_mem": "7MB"},
        **changes,
    }


@pytest.fixture
def result(tmp_path: Path, pgdyno: Command) -> ExperimentFolder:
    return Store(pgdyno.store).create("given", "compare")


def test_a_journal_of_somebody_else_executes_nothing_without_confirmation(
    result: ExperimentFolder, pgdyno: Command, database: Target, tmp_path: Path
) -> None:
    done = tmp_path / "done"
    entry = journal(database, apply_command=f"touch {done}")
    (result.folder / AUDIT).write_text(json.dumps(entry) + "\n")
    for arguments in (("undo",), ("undo", str(result.number)), ("undo", "--confirm", "a@b")):
        said = pgdyno(*arguments)
        assert said.code == 1, said.err
        assert f"touch {done}" in said.err.replace("\n", " ")
        assert f"--confirm {database.database}@{database.host}" in " ".join(said.err.split())
        assert not done.exists()
    pgdyno("undo", "--confirm", f"{database.database}@{database.host}")
    assert done.exists()


def test_a_journal_that_was_changed_or_copied_from_another_host_is_foreign(
    result: ExperimentFolder, database: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    result.add_audit(journal(database))
    path = result.folder / AUDIT
    assert not is_foreign(result.audit().entries[0])
    kept = path.read_text()
    path.write_text(kept.replace('"apply_command": null', '"apply_command": "touch /tmp/x"'))
    assert is_foreign(result.audit().entries[0])
    path.write_text(kept.replace('"host": "', '"host": "elsewhere'))
    assert is_foreign(result.audit().entries[0])
    path.write_text(kept[:-2] + ', "more": false}\n')
    assert is_foreign(result.audit().entries[0])
    path.write_text(kept)
    monkeypatch.setattr(socket, "gethostname", lambda: "another-host")
    assert is_foreign(result.audit().entries[0])


def replayed(ways: str, result: ExperimentFolder, other: ExperimentFolder, entry: Any) -> None:
    """Make a journal in `result` of lines that this user wrote, each in another place."""
    path = result.folder / AUDIT
    ended = {"change": "undone", "admin": entry["admin"], "names": ["work_mem"]}
    writer = other if ways == "another result" else result
    for line in (entry, ended):
        writer.add_audit(line)
    lines = (writer.folder / AUDIT).read_text().splitlines(keepends=True)
    orders = {
        "another result": lines[:1],
        "again at the end": [*lines, lines[0]],
        "another order": lines[::-1],
        "the end is cut off": lines[:1],
    }
    path.write_text("".join(orders[ways]))


@pytest.mark.parametrize(
    "ways", ["another result", "again at the end", "another order", "the end is cut off"]
)
def test_an_own_line_of_a_journal_counts_only_in_its_result_and_at_its_place(
    ways: str, result: ExperimentFolder, pgdyno: Command, either_database: Target, tmp_path: Path
) -> None:
    done = tmp_path / "done"
    entry = journal(either_database, apply_command=f"touch {done}")
    replayed(ways, result, Store(pgdyno.store).create("other", "compare"), entry)
    said = pgdyno("undo", str(result.number))
    assert not done.exists()
    assert said.code == 1
    assert "--confirm" in said.err


def test_a_line_of_somebody_else_closes_no_change_of_this_user(
    result: ExperimentFolder, database: Target
) -> None:
    entry = journal(database)
    result.add_audit(entry)
    for forged in (
        {"change": "undone", "admin": entry["admin"]},
        {"change": "dismissed"},
        {"change": "undone", "seal": "0" * 64},
    ):
        with (result.folder / AUDIT).open("a") as stream:
            stream.write(json.dumps(forged) + "\n")
        assert [is_foreign(change) for change in result.outstanding_changes()] == [False]
    result.add_audit({"change": "undone", "admin": entry["admin"], "names": ["work_mem"]})
    assert result.outstanding_changes() == []


def test_a_journal_of_an_older_version_is_read_and_undone_after_a_confirmation(
    result: ExperimentFolder, pgdyno: Command, database: Target
) -> None:
    entry = journal(database)
    content = json.dumps(entry, sort_keys=True).encode()
    (result.folder / AUDIT).write_text(json.dumps({**entry, "seal": seal.seal_of(content)}) + "\n")
    assert pgdyno("undo", str(result.number)).code == 1
    confirmed = pgdyno("undo", "--confirm", f"{database.database}@{database.host}")
    assert confirmed.code == 0, confirmed.err
    assert result.outstanding_changes() == []


def test_a_specification_of_this_user_is_not_his_in_another_result(pgdyno: Command) -> None:
    source, other = (Store(pgdyno.store).create(name, "bench") for name in ("one", "other"))
    source.write_spec('name = "one"\n')
    assert source.is_spec_ours
    shutil.copy(source.folder / "spec.toml", other.folder / "spec.toml")
    assert not other.is_spec_ours


def test_the_key_of_journals_is_private_and_outside_of_the_store(
    result: ExperimentFolder, database: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    result.add_audit(journal(database))
    key = tmp_path / "state/pgdyno/journal.key"
    assert key.stat().st_mode & 0o777 == 0o600
    # Others could have read this one.
    open_to_all = tmp_path / "open/pgdyno/journal.key"
    open_to_all.parent.mkdir(parents=True)
    shutil.copy(key, open_to_all)
    open_to_all.chmod(0o644)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "open"))
    assert seal.seal_of(b"a") == ""
    assert is_foreign(result.audit().entries[0])


def test_a_result_of_somebody_else_goes_on_only_with_confirmation(
    pgdyno: Command, database: Target, tmp_path: Path
) -> None:
    done = tmp_path / "done"
    assert pgdyno("init", "-s", "1", *server_options(database)).code == 0
    ran = pgdyno("bench", "-b", "select-only", *server_options(database), "-T", "1s", "--json")
    assert ran.code in (0, 3), ran.err
    folder = Store(pgdyno.store).find("last")
    assert folder.is_spec_ours
    path = folder.folder / "spec.toml"
    more = f'[server]\nrestart_command = "touch {done}"'
    path.write_text(path.read_text().replace("[server]", more))
    said = pgdyno("run", "--resume", "last")
    assert said.code == 1, said.err
    assert f"touch {done}" in said.err.replace("\n", " ")
    assert not done.exists()


def test_a_pipe_or_a_link_in_a_result_is_refused_and_never_waited_for(
    pgdyno: Command, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine\n")
    for number, name in enumerate(
        ("audit.jsonl", "notes.jsonl", "spec.toml", "analysis.json", "manifest.json", "plan.jsonl")
    ):
        folder = Store(pgdyno.store).create("given", "compare").folder
        os.mkfifo(folder / name)
        for verb in (("show", folder), ("note", folder, "a"), ("report", folder), ("undo", folder)):
            said = pgdyno(*verb, timeout_s=10)
            assert said.code == 1, (name, verb, said.err)
            assert name in said.err
        assert pgdyno("list", timeout_s=10).code in (0, 1)
        (folder / name).unlink()
        (folder / name).symlink_to(victim)
        assert pgdyno("note", folder, "a").code == 1
        assert victim.read_text() == "mine\n", number
        (folder / name).unlink()
    folder = Store(pgdyno.store).create("given", "compare").folder
    (folder / "experiment.json").unlink()
    os.mkfifo(folder / "experiment.json")
    assert pgdyno("list", timeout_s=10).code == 0


def test_another_name_of_a_file_in_a_result_is_not_written(pgdyno: Command, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine\n")
    folder = Store(pgdyno.store).create("given", "compare")
    for name in ("audit.jsonl", "notes.jsonl", ".notes.jsonl.new", "report.html", "answer.json"):
        (folder.folder / name).unlink(missing_ok=True)
        os.link(victim, folder.folder / name)
    folder.add_audit({"change": "settings"})
    assert pgdyno("note", folder.folder, "a").code == 0
    assert pgdyno("show", folder.folder).code in (0, 1)
    assert victim.read_text() == "mine\n"
    assert "settings" in (folder.folder / "audit.jsonl").read_text()


def test_a_forged_pid_is_never_ended(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        identity = ProcessIdentity.of(process.pid)
        assert identity is not None
        folder = tmp_path / "pgdyno-scratch-forged"
        folder.mkdir(mode=0o700)
        document = {
            "format": "pgdyno.cluster/1", "bin_dir": "/usr", "version": "15", "source": "installed",
            "user": "postgres", "checksums": True, "settings": {}, "is_kept": False,
            "postmaster_pid": process.pid, "postmaster_started": identity.started,
        }  # fmt: skip
        (folder / "lock").touch()
        (folder / "cluster.json").write_text(json.dumps(document))
        assert [leftover.ended_postmaster for leftover in sweep_leftovers([tmp_path])] == [False]
        assert process.poll() is None
        process.kill()
