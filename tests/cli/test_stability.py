"""docs/stability.md: what may not change without a new version is compared with what was."""

from __future__ import annotations

import copy

import pytest
from tests.cli.stable import broken_keys, kept, lost, promises, types_of
from tests.tidy.source import ROOT

from pgdyno.cli import main, measure
from pgdyno.features.capture.file import read as read_capture
from pgdyno.spec.file import read_spec
from pgdyno.store.files import FORMAT_VERSION


@pytest.mark.parametrize("version", [1])
def test_a_spec_of_each_format_version_is_read(version: int) -> None:
    read = read_spec(ROOT / f"tests/spec/formats/{version}.toml")
    assert len(read.experiment.variants) > 1


def test_there_is_a_stored_result_of_each_format_version() -> None:
    stored = [
        *(ROOT / "tests/outputs/stored").iterdir(),
        *(ROOT / "tests/store/fixtures").iterdir(),
    ]
    assert stored
    assert FORMAT_VERSION == 1, "add a stored result of the new version, and keep reading version 1"


def test_a_capture_of_each_format_version_is_read() -> None:
    for path in (ROOT / "tests/features/capture/edited").glob("*.capture"):
        assert read_capture(path).header.format == "pgdyno.capture/1"


def test_options_letters_exit_codes_keys_and_columns_stay() -> None:
    now = promises()
    assert lost(kept(), now) == []
    # What is new is promised, too, from the day on which it is released.
    new = lost(now, {section: kept().get(section, {}) for section in now})
    assert new == [], "add them: .venv/bin/python -m tests.cli.stable"


def test_a_promise_that_is_broken_is_named() -> None:
    now = copy.deepcopy(kept())
    now["options of the short help"]["bench"].remove("--rate")
    now["letters"]["bench"].remove("-c --clients")
    now["exit codes"]["4"] = ["something else"]
    keys = now["json"]["pgdyno.bench/1"]
    keys[keys.index("tps: object")] = "tps: number"
    now["tables"]["runs"].reverse()
    assert [line.partition(": ")[0] for line in lost(kept(), now)] == [
        *("options of the short help", "letters", "exit codes", "json", "tables"),
    ]


def test_exit_codes_are_those_of_the_program() -> None:
    assert (main.EXIT_USAGE, main.EXIT_FAILURES, measure.EXIT_FAILURES) == (1, 2, 2)
    assert (measure.EXIT_NOT_VALID, measure.EXIT_CHECK_FAILED, measure.EXIT_CANNOT_TELL) == (
        3,
        4,
        5,
    )


def test_the_type_of_a_key_is_promised() -> None:
    kept = ["tps: number", "note: null", "rows[].value: number|text"]
    now = ["tps: null", "note: text", "rows[].value: text", "added: list"]
    assert broken_keys(kept, now) == []
    assert broken_keys(kept, ["tps: text", *now[1:]]) == ["tps: number"]
    assert broken_keys(kept, now[:2]) == ["rows[].value: number|text"]
    assert types_of({"runs": [{"tps": 1.5}], "is_valid": True, "note": None}) == {
        "runs": "list",
        "runs[].tps": "number",
        "is_valid": "true or false",
        "note": "null",
    }
