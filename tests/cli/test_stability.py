"""docs/stability.md: what may not change without a new version is compared with what was."""

from __future__ import annotations

import re

import pytest
from tests.tidy.source import ROOT

from pgdyno.cli import main
from pgdyno.cli.reference import EXIT_CODES
from pgdyno.spec.file import read_spec
from pgdyno.store.files import FORMAT_VERSION

# Options that the short help of a verb showed in 1.0: they stay.
STABLE = {
    "bench": "--allow-write --builtin --clients --database --dry-run --duration --file --host"
    " --json --rate --scale",
    "sweep": "--allow-write --builtin --database --dry-run --duration --file --host --json --scale"
    " --slo --variant",
    "compare": "--allow-write --budget --builtin --clients --database --dry-run --duration --file"
    " --host --json --metric --precision --rate --scale --variant",
}


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


@pytest.mark.parametrize("verb", sorted(STABLE))
def test_the_options_of_the_short_help_stay(
    verb: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert main._run([verb, "--help"]) == 0
    shown = set(re.findall(r"(?<= )--[a-z-]+", capsys.readouterr().out.partition("Usage:")[2]))
    assert set(STABLE[verb].split()) <= shown


def test_exit_codes_stay() -> None:
    assert list(EXIT_CODES) == ["0", "1", "2", "3", "4", "5", "130, 143"]
    assert (main.EXIT_USAGE, main.EXIT_FAILURES, main.EXIT_NOT_VALID) == (1, 2, 3)
