"""Manual pages have the text of --help-all, and are right for groff."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pgdyno.cli.main import VERBS, _run
from pgdyno.cli.man import man_pages

PAGES = dict(man_pages("2026-11-29"))


def test_each_verb_has_a_page() -> None:
    assert {"pgdyno", *(f"pgdyno-{verb}" for verb in VERBS)} <= PAGES.keys()


def test_groff_reads_every_page_without_a_warning(groff: Path, tmp_path: Path) -> None:
    files = []
    for name, text in PAGES.items():
        files.append(tmp_path / f"{name}.1")
        files[-1].write_text(text)
    argv = [groff, "-man", "-Tutf8", "-ww", "-z", "-k", *files]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_a_page_shows_the_options_as_help_all_does(
    groff: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.1"
    page.write_text(PAGES["pgdyno-compare"])
    argv = [groff, "-man", "-Tascii", "-P-cbou", page]
    shown = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    assert _run(["compare", "--help-all"]) == 0
    words = {word for word in capsys.readouterr().out.split() if word.startswith("--")}
    assert {word.rstrip(".,;") for word in words} - {"--help-all", "--help"} <= {
        word.rstrip(".,;") for word in shown.split()
    }
