"""Numbered folders: created, found, listed, sealed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.store import records

from pgdyno.errors import StoreError
from pgdyno.loop.journal import resume
from pgdyno.store.experiment import Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "results")


CREATE_FIVE = """
import sys
from pathlib import Path
from pgdyno.store.experiment import Store
sys.stdin.readline()
print(*(Store(Path(sys.argv[1])).create("same", "bench").number for _ in range(5)))
"""


def test_experiments_are_numbered_from_one_in_private_folders(store: Store) -> None:
    first, second = store.create("My Disk (A/B)", "compare"), store.create("", "bench")
    assert (first.number, second.number) == (1, 2)
    assert first.folder.name.startswith("my-disk-a-b-20")
    assert first.folder.name.endswith("Z")
    assert first.folder.stat().st_mode & 0o777 == 0o700
    assert store.root.stat().st_mode & 0o777 == 0o700


def test_a_server_of_another_user_inside_the_store_keeps_its_way_in(store: Store) -> None:
    store.create("a", "bench")
    store.root.chmod(0o755)  # As a scratch server of another user found it.
    store.create("b", "bench")
    assert store.root.stat().st_mode & 0o777 == 0o711, "to pass through, not to list"


def test_two_processes_that_create_at_once_never_share_a_number(store: Store) -> None:
    command = [sys.executable, "-c", CREATE_FIVE, str(store.root)]
    pipe = subprocess.PIPE
    creators = [subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) for _ in range(3)]
    for creator in creators:
        assert creator.stdin is not None
        creator.stdin.write("go\n")
        creator.stdin.flush()
    numbers = [int(n) for creator in creators for n in creator.communicate()[0].split()]
    assert sorted(numbers) == list(range(1, 16))
    assert [row.number for row in store.list()] == list(range(1, 16))


def test_the_number_of_a_removed_result_is_not_given_again(store: Store) -> None:
    last = store.create("a", "bench")
    (last.folder / "experiment.json").unlink()
    assert store.create("b", "bench").number == 2


def test_a_result_is_found_by_number_last_name_and_path(store: Store) -> None:
    first, second = store.create("a", "bench"), store.create("b", "bench")
    assert store.find("1").folder == first.folder
    assert store.find("last").folder == second.folder
    assert store.find(first.folder.name).number == 1
    assert Store(Path("/nowhere")).find(str(first.folder)).number == 1


def test_a_handle_that_means_nothing_lists_what_exists(store: Store) -> None:
    with pytest.raises(StoreError) as caught:
        store.find("last")
    assert "has no results yet" in caught.value.hint
    folder = store.create("a", "bench").folder
    with pytest.raises(StoreError) as caught:
        store.find("7")
    assert f"1 ({folder.name})" in caught.value.hint
    with pytest.raises(StoreError):
        store.find("")


def test_a_folder_that_is_not_a_run_is_refused(store: Store, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is not a result of pgdyno"):
        store.find(str(tmp_path))


def test_the_error_of_an_unwritable_store_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError) as caught:
        Store(tmp_path / "file" / "store").create("a", "bench")
    assert "--store" in caught.value.hint


def test_default_prefers_the_option_then_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PGDYNO_STORE", raising=False)
    assert Store.default().root == tmp_path / "pgdyno-runs"
    monkeypatch.setenv("PGDYNO_STORE", str(tmp_path / "env"))
    assert Store.default().root == tmp_path / "env"
    assert Store.default("given").root == tmp_path / "given"


def test_list_counts_complete_and_incomplete_runs_and_shows_the_sentence(store: Store) -> None:
    experiment = store.create("a", "sweep")
    with experiment.begin_run(1, "one", records.JOB) as writer:
        writer.add_record(records.summary())
        writer.finish()
    experiment.begin_run(2, "two", records.JOB).close()
    assert experiment.next_run_number() == 3
    experiment.write_analysis({"sentence": "Peak 900 tps."})
    (row,) = store.list()
    assert (row.run_count, row.incomplete_count, row.sentence) == (1, 1, "Peak 900 tps.")
    assert (row.verb, row.name, row.is_sealed) == ("sweep", "a", False)


def test_decisions_journal_and_notes_survive_a_line_torn_by_a_crash(store: Store) -> None:
    experiment = store.create("a", "bench")
    experiment.add_decision({"run": 1})
    with (experiment.folder / "plan.jsonl").open("a") as stream:
        stream.write('{"run": 2, "la')
    experiment.add_decision({"run": 3})
    assert experiment.decisions() == [{"run": 1}, {"run": 3}]
    entry = {"change": "undone", "names": ["work_mem"]}
    experiment.add_audit(entry)
    experiment.add_note(5, "disk was busy")
    assert experiment.audit().entries == (entry,)
    assert experiment.notes() == [{"time_ns": 5, "text": "disk was busy"}]


def test_a_sealed_experiment_shows_changed_added_and_lost_files(store: Store) -> None:
    experiment = store.create("a", "bench")
    experiment.write_spec("[experiment]\n")
    experiment.write_facts({"version": 15})
    with pytest.raises(StoreError, match="never sealed"):
        experiment.verify()
    experiment.seal()
    assert experiment.is_sealed
    assert experiment.verify() == []
    (experiment.folder / "spec.toml").write_text("[other]\n")
    (experiment.folder / "facts.json").unlink()
    (experiment.folder / "new").write_text("")
    assert experiment.verify() == [
        "facts.json is missing.",
        "new was added.",
        "spec.toml was changed.",
    ]


def test_a_sealed_experiment_that_pgdyno_amends_is_not_altered(store: Store) -> None:
    experiment = store.create("a", "bench")
    experiment.seal()
    with experiment.amending("notes.jsonl"):
        experiment.add_note(5, "disk was busy")
        # As another process sees it at this moment, and as a killed lab leaves it.
        (experiment.folder / ".report.pdf.new").write_text("half a report")
        assert store.find("1").verify() == []
    (experiment.folder / "notes.jsonl").write_text("")
    assert experiment.verify() == ["notes.jsonl was changed."]


def test_an_amendment_keeps_alterations_of_other_files_visible(store: Store) -> None:
    experiment = store.create("a", "bench")
    experiment.write_spec("[experiment]\n")
    experiment.seal()
    experiment.write_spec("[other]\n")
    with experiment.amending("report.html"):
        experiment.write_report("<p>")
    assert experiment.verify() == ["spec.toml was changed."]


def test_resuming_an_experiment_does_not_alter_it(store: Store) -> None:
    experiment = store.create("a", "bench")
    experiment.seal()
    resume(experiment)
    (row,) = store.list()
    assert (row.altered, row.is_sealed) == ((), False)


GARBAGE = (
    b"\x00" * 40,
    b"\xff\xfe\n",
    b"settings of db1 changed",
    b"[1, 2]",
    b'{"change": "settings"}',
    b'{"change": "settings", "admin": {"host": "db1"}, "previous": "work_mem"}',
    b'{"change": "unknown", "admin": {"host": "db1"}}',
    b"{}",
)


@pytest.mark.parametrize("garbage", GARBAGE, ids=repr)
def test_a_line_of_the_journal_that_cannot_be_read_is_reported(
    store: Store, garbage: bytes
) -> None:
    experiment = store.create("a", "compare")
    experiment.add_audit({"change": "undone", "names": []})
    with (experiment.folder / "audit.jsonl").open("ab") as stream:
        stream.write(garbage)
    damage = experiment.audit_damage()
    assert damage is not None
    assert "line 2 cannot be read" in damage.message
    (row,) = store.list()
    assert row.is_journal_damaged


def test_a_journal_that_was_removed_or_emptied_after_the_seal_is_reported(store: Store) -> None:
    experiment = store.create("a", "compare")
    experiment.add_audit({"change": "undone", "names": []})
    experiment.seal()
    assert experiment.audit_damage() is None
    (experiment.folder / "audit.jsonl").write_text("")
    damage = experiment.audit_damage()
    assert damage is not None
    assert "audit.jsonl was changed after pgdyno wrote it" in damage.message


def test_documents_are_read_back_and_absent_ones_are_none(store: Store) -> None:
    experiment = store.create("a", "bench")
    assert (experiment.facts(), experiment.analysis(), experiment.spec()) == (None, None, "")
    experiment.write_facts({"ram_bytes": 1 << 40})
    assert experiment.facts() == {"ram_bytes": 1 << 40}
    assert experiment.write_report("<p>").read_text() == "<p>"


def test_a_newer_format_is_refused_by_number(store: Store) -> None:
    experiment = store.create("a", "bench")
    identity = experiment.folder / "experiment.json"
    identity.write_text(identity.read_text().replace('"format": 1', '"format": 9'))
    with pytest.raises(StoreError, match="has format 9"):
        store.find("1")


def test_passwords_reach_no_file_of_the_experiment(store: Store) -> None:
    secret = "s3same-open"
    experiment = store.create("a", "bench")
    experiment.write_spec(
        f'dsn = "postgres://me:{secret}@host/db"\nobserve = "password={secret} x=1"\n'
    )
    experiment.write_facts(
        {"primary_conninfo": f"host=a password='{secret}'", "password": secret, "n": [secret[:2]]}
    )
    experiment.add_audit({"sql": f"ALTER ROLE me PASSWORD '{secret}'"})
    for path in experiment.folder.rglob("*"):
        if path.is_file():
            assert secret not in path.read_text(), path
    assert "x=1" in experiment.spec()
