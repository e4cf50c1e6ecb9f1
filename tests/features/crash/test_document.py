"""The answer of stored crashes."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from tests.features.crash.records import BAD, crash, losing

from pgdyno.features.crash.blocks import crash_blocks
from pgdyno.features.crash.controls import CONTROLS
from pgdyno.features.crash.document import document_again, document_of, promises_durability
from pgdyno.features.crash.record import CrashRecord
from pgdyno.report.block_text import answer_text
from pgdyno.report.html import answer_page
from pgdyno.store.experiment import Store
from pgdyno.store.folder import ExperimentFolder

SETTINGS = {
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "max_wal_size": "1GB",
    "wal_writer_delay": "200ms",
}


def stored(
    tmp_path: Path, *records: CrashRecord, controls: bool = False, **facts: Any
) -> ExperimentFolder:
    """Return the folder of a result with these crashes."""
    folder = Store(tmp_path).create("crash", "crash")
    asked = {"kind": "power", "crashes": 60, "seed": 3, "clients": 8, "controls": controls}
    folder.write_spec(tomli_w.dumps({"crash": asked}))
    folder.write_facts({"target_line": "scratch server", "settings": SETTINGS, **facts})
    for record in records:
        folder.add_crash(record.as_document())
    return folder


def _text(document: dict[str, Any]) -> str:
    return answer_text(crash_blocks(document))


def _page(document: dict[str, Any]) -> str:
    return answer_page(crash_blocks(document))


def test_sixty_crashes_without_a_loss_are_bounded(tmp_path: Path) -> None:
    document = document_of(stored(tmp_path, *map(crash, range(1, 61))), is_complete=True)
    assert document["sentence"] == (
        "0 of 60 power failures lost an acknowledged commit (60,000 commits): at 95 % fewer than "
        "4.9 % of such power failures do."
    )
    assert document["verdict"] == "nothing lost"
    assert document["loss_seconds"] is None


def test_a_loss_has_its_length_and_its_longest(tmp_path: Path) -> None:
    losses = (losing(n, lost=10 * n, lost_ns=100_000_000 * n) for n in range(1, 4))
    document = document_of(stored(tmp_path, *losses, crash(4)), is_complete=True)
    assert document["loss_seconds"]["value"] == pytest.approx(0.2)
    assert document["loss_seconds_max"] == pytest.approx(0.3)
    assert document["sentence"].startswith("3 of 4 power failures lost the last 0.20 s (")
    assert "at most 0.30 s; 60 of 4,000 commits." in document["sentence"]
    assert "3 x wal_writer_delay is 0.60 s" in " ".join(_text(document).split())


def test_a_loss_beyond_the_documented_maximum_is_a_doubt(tmp_path: Path) -> None:
    long = losing(2, lost_ns=700_000_000)
    document = document_of(stored(tmp_path / "a", losing(1), long), is_complete=True)
    [doubt] = document["doubts"]
    assert "1 of 2 power failures lost more than 3 x wal_writer_delay (0.60 s)" in doubt
    assert "crash 2 lost 0.70 s" in " ".join(_text(document).split())
    assert doubt in html.unescape(_page(document))
    within = document_of(stored(tmp_path / "b", losing(1)), is_complete=True)
    assert within["doubts"] == []


def test_a_request_that_the_disk_does_not_know_is_a_doubt(tmp_path: Path) -> None:
    warned = crash(1, disk_warnings=("[Not Implemented] bmap",))
    document = document_of(stored(tmp_path, warned, crash(2)), is_complete=True)
    assert document["doubts"] == [
        "The disk of the test does not know a request: [Not Implemented] bmap."
    ]


def test_damage_comes_before_losses(tmp_path: Path) -> None:
    folder = stored(tmp_path, losing(1), crash(2, checks=(BAD,)))
    document = document_of(folder, is_complete=True)
    assert document["verdict"] == "corrupt"
    assert "crash 2: pg_checksums: block 3 is torn" in _text(document)


def test_a_control_that_fails_makes_the_test_blind(tmp_path: Path) -> None:
    controls = [crash(1, arm=control.name) for control in CONTROLS["power"]]
    document = document_of(stored(tmp_path, *controls, crash(), controls=True), is_complete=True)
    assert document["verdict"] == "blind"
    assert document["sentence"].startswith("The test cannot see losses here: fsync = off, ")
    assert document["crashes"] == 1


def test_a_result_whose_lab_was_killed_is_read_again(tmp_path: Path) -> None:
    folder = stored(tmp_path, crash())
    assert not document_again(folder)["is_complete"]
    assert "ended early" in _text(document_again(folder))


def test_the_page_has_a_line_and_a_dot_for_each_crash(tmp_path: Path) -> None:
    folder = stored(tmp_path, crash(1), losing(2), crash(3, answered_ns=None, recovery_error="no"))
    page = _page(document_of(folder, is_complete=True))
    assert page.count('<circle class="marker"') == 1
    assert "crash 2: first answer after 0.50 s, 30 commits lost" in page
    assert "crash 3: no recovery" in page


def test_a_page_without_crashes_says_that_there_were_none(tmp_path: Path) -> None:
    page = _page(document_of(stored(tmp_path), is_complete=False))
    assert "no crash was finished" in page


def test_only_these_settings_promise_that_nothing_is_lost() -> None:
    assert promises_durability({"kind": "kill", "settings": SETTINGS})
    for name in ("fsync", "full_page_writes", "synchronous_commit"):
        assert not promises_durability({"kind": "power", "settings": {**SETTINGS, name: "off"}})


def test_a_failover_promises_only_what_the_standby_has() -> None:
    pair = {"kind": "failover", "settings": SETTINGS, "standby": "synchronous"}
    assert promises_durability(pair)
    assert not promises_durability({**pair, "standby": "asynchronous"})
    local = {**SETTINGS, "synchronous_commit": "local"}
    assert not promises_durability({**pair, "settings": local})
