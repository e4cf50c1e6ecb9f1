"""The report in its three forms, from the command line."""

from __future__ import annotations

import signal
from pathlib import Path
from xml.etree import ElementTree

import pytest
from bench.generated import generate
from click.testing import CliRunner

from pgdyno.cli.report import command
from pgdyno.errors import InterruptedByUser, SpecError, StoreError
from pgdyno.process import signals
from pgdyno.store.experiment import Store
from pgdyno.store.folder import ExperimentFolder


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> ExperimentFolder:
    store = Store(tmp_path_factory.mktemp("store"))
    folder = generate(store, rounds=2, effect_ratio=0.1, noise_ratio=0.01)
    folder.seal()
    return folder


def report(folder: ExperimentFolder, *options: str) -> Path:
    arguments = [folder.name, "--store", str(folder.folder.parent), *options]
    done = CliRunner().invoke(command, arguments, standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return Path(done.stdout.strip())


def test_each_form_is_in_the_folder_and_in_the_seal(generated: ExperimentFolder) -> None:
    assert report(generated).name == "report.html"
    markdown = report(generated, "--md")
    assert markdown.name == "report.md"
    pictures = sorted(generated.folder.glob("report-*.svg"))
    assert pictures
    assert all(path.name in markdown.read_text() for path in pictures)
    assert all(ElementTree.parse(path).getroot().tag.endswith("}svg") for path in pictures)
    assert generated.verify() == []
    assert markdown.stat().st_mode & 0o077 == 0


def test_markdown_for_a_wiki_has_its_pictures_in_the_same_folder(
    generated: ExperimentFolder, tmp_path: Path
) -> None:
    made = report(generated, "--md", "-o", str(tmp_path / "buffers.md"))
    assert made == tmp_path / "buffers.md"
    assert {path.suffix for path in tmp_path.iterdir()} == {".md", ".svg"}
    assert all(path.stem.startswith("buffers") for path in tmp_path.iterdir())


def test_an_error_names_a_place_that_cannot_be_written(generated: ExperimentFolder) -> None:
    with pytest.raises(StoreError, match="cannot be written"):
        report(generated, "--md", "-o", "/nowhere/at/all.md")


@pytest.mark.parametrize("form", [[], ["--md"]], ids=["page", "md"])
def test_ctrl_c_ends_a_report_before_it_is_written(
    generated: ExperimentFolder, tmp_path: Path, form: list[str]
) -> None:
    place = tmp_path / f"report.{form[0][2:] if form else 'html'}"
    with signals.handled():
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(InterruptedByUser):
            report(generated, *form, "-o", str(place))
    assert not place.exists()


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("x.md", b"#"),
        ("x.html", b"<!doctype html>"),
        ("X.HTM", b"<!doctype html>"),
        ("x.json", b"{"),
    ],
)
def test_the_end_of_the_name_decides_what_is_written(
    generated: ExperimentFolder, tmp_path: Path, name: str, start: bytes
) -> None:
    assert report(generated, "-o", str(tmp_path / name)) == tmp_path / name
    assert (tmp_path / name).read_bytes().startswith(start)


@pytest.mark.parametrize("name", ["x.docx", "x", "x.csv", ".html"])
def test_a_name_that_says_no_form_is_refused_with_the_known_ones(
    generated: ExperimentFolder, tmp_path: Path, name: str
) -> None:
    with pytest.raises(SpecError) as refused:
        report(generated, "-o", str(tmp_path / name))
    assert ".md, .json" in (refused.value.hint or "")
    assert not (tmp_path / name).exists()
    with pytest.raises(SpecError, match="asks for HTML, but the command also has --md"):
        report(generated, "--md", "-o", str(tmp_path / "x.html"))
