"""The core works without features, each feature without the others, and others may add theirs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.tidy.source import ROOT

from pgdyno.cli.main import VERBS
from pgdyno.feature import SLOTS, TABLES, features

_CORE_VERBS = ("bench", "sweep", "compare", "run", "init", "drop", "list", "show", "report")
_CORE_VERBS += ("diff", "export", "note", "undo", "pgbench", "help", "completion")
_TIMEOUT_S = 200


def without(folder: Path, *hidden: str) -> dict[str, str]:
    """Return the environment of a pgdyno without some features; without all, if none is named."""
    # Links, because of a copy Python would compile every module again.
    source, package = ROOT / "python/pgdyno", folder / "pgdyno"
    _link(source, package, {"features"})
    if hidden:
        _link(source / "features", package / "features", set(hidden))
    return {**os.environ, "PYTHONPATH": str(folder)}


def _link(source: Path, folder: Path, hidden: set[str]) -> None:
    """Make a folder with links to everything in `source` but what is hidden."""
    folder.mkdir(parents=True)
    for path in source.iterdir():
        if path.name not in {*hidden, "__pycache__"}:
            (folder / path.name).symlink_to(path)


def said(environment: dict[str, str], *arguments: str, code: int = 0) -> str:
    """Return what a command printed. It must end with this exit code."""
    ended = subprocess.run(
        [sys.executable, "-c", "import sys; from pgdyno.cli.main import main; main()", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    assert ended.returncode == code, ended.stderr
    assert "Traceback" not in ended.stderr
    return ended.stdout


def verbs_of(text: str) -> set[str]:
    """Return the verbs that the help lists, below headings of all kinds."""
    lines = text.partition("\nMeasure:")[2].splitlines()
    return {line.split()[0] for line in lines if line.startswith("  ")}


def test_without_features_every_verb_of_the_core_is_there(tmp_path: Path) -> None:
    environment = without(tmp_path)
    assert verbs_of(said(environment, "--help")) == set(_CORE_VERBS)
    for verb in ("bench", "init", "report"):
        assert "Usage:" in said(environment, verb, "--help")


@pytest.mark.pg
def test_without_features_the_core_measures_compares_and_shows(tmp_path: Path) -> None:
    environment = without(tmp_path / "code")
    store = ("--store", str(tmp_path / "store"))
    load = ("-b", "select-only", "-c", "2", "-s", "1", "-T", "2s", "-q", "--allow-tmpfs", *store)
    said(environment, "bench", *load, code=3)  # A run of 2 s is too short to be valid.
    shapes = ("--variant", "a: jit=on", "--variant", "b: jit=off", "--budget", "60s")
    compared = ("compare", *load, *shapes, "--dry-run")
    assert "b" in said(environment, *compared)
    assert "tps" in said(environment, "show", *store)
    assert said(environment, "list", *store).startswith("#1")
    assert Path(said(environment, "report", *store).strip()).stat().st_size > 10_000
    assert "tps" in said(environment, "export", "1", *store)
    said(environment, "note", "1", "alone", *store)
    said(environment, "diff", "1", "1", *store)
    said(environment, "undo", *store)


def core_test_files(*rooms: str) -> list[str]:
    """Return the files of tests in these rooms that do not name a feature."""
    files = (path for room in rooms for path in sorted((ROOT / "tests" / room).rglob("test_*.py")))
    named = ("pgdyno.features", "tests.features", "tests.fixtures.captures", "tests.outputs")
    return [str(path) for path in files if not any(name in path.read_text() for name in named)]


_QUICK_ROOMS = ("spec", "plan", "process")
_ROOMS = (
    *_QUICK_ROOMS,
    "designs",
    "store",
    "analysis",
    "answer",
    "engine",
    "loop",
    "measure",
    "observe",
    "report",
)
_ROOMS += ("programs", "server", "cli")


@pytest.mark.parametrize(
    "rooms",
    [
        pytest.param(_QUICK_ROOMS, id="quick"),
        pytest.param(_ROOMS, id="all", marks=[pytest.mark.slow, pytest.mark.timeout(1200)]),
    ],
)
def test_without_features_the_tests_of_the_core_pass(
    rooms: tuple[str, ...], tmp_path: Path
) -> None:
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-rfE", "-p", "no:cacheprovider", "-n", "0"),
            *("-m", "not pg and not browser and not slow", *core_test_files(*rooms)),
        ],
        env=without(tmp_path),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout[-4000:]


@pytest.mark.parametrize("feature", features(), ids=lambda feature: feature.name)
def test_without_one_feature_the_others_can_be_imported(feature: object, tmp_path: Path) -> None:
    name = getattr(feature, "name", "")
    environment = without(tmp_path, name)
    gone = {name} | {other.name for other in features() if name in other.needs}
    code = (
        "import importlib, pkgutil, pgdyno.features as those\n"
        "from pgdyno.feature import features\n"
        "kept = [feature.name for feature in features()]\n"
        "for module in pkgutil.walk_packages(those.__path__, 'pgdyno.features.'):\n"
        "    if module.name.split('.')[2] in kept and '.there' not in module.name:\n"
        "        importlib.import_module(module.name)\n"
        "print(*kept)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert set(ended.stdout.split()) == {other.name for other in features()} - gone
    verbs = verbs_of(said(environment, "--help"))
    lost = {verb for other in features() if other.name in gone for verb in other.verbs}
    assert verbs == set(VERBS) - lost


def test_an_installed_package_adds_its_feature(tmp_path: Path) -> None:
    toy = tmp_path / "pgdyno_toy"
    (toy / "verbs").mkdir(parents=True)
    (toy / "__init__.py").write_text(
        "from pgdyno.feature import Feature\n"
        "TOY = Feature(name='toy', package='pgdyno_toy', needs=('doctor',),\n"
        "              verbs={'toy': 'Print a toy.'}, heading='Toys',\n"
        "              parts={'verb_help': 'help:'})\n"
    )
    (toy / "help.py").write_text(
        "EXAMPLES = {'toy': (('A toy', 'pgdyno toy'), ('Twice', 'pgdyno toy --twice'))}\n"
        "MEANT = {}\n"
    )
    (toy / "verbs/__init__.py").write_text("")
    (toy / "verbs/toy.py").write_text(
        "import click\nfrom pgdyno.cli import output\nfrom pgdyno.cli.headings import Verb\n"
        "@click.command('toy', cls=Verb, short_help='Print a toy.')\n"
        "@click.option('--twice', is_flag=True, help='Print it twice.')\n"
        "def command(twice):\n    '''Print a toy.'''\n    output.data('toy ' * (1 + twice))\n"
        "    return 0\n"
    )
    installed = tmp_path / "pgdyno_toy-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: pgdyno-toy\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text("[pgdyno.features]\ntoy = pgdyno_toy:TOY\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    assert "\nToys:\n  toy " in said(environment, "--help")
    assert said(environment, "toy", "--twice").split() == ["toy", "toy"]


@pytest.mark.parametrize(
    ("declared", "fault"),
    [
        ("Feature(name='toy', pack='x')", "unexpected keyword argument"),
        ("'toy'", "it is a str, and no pgdyno.feature.Feature"),
        ("Feature(name='toy', package='no_such.place')", "No module named 'no_such'"),
        ("Feature(name='toy', package='pgdyno_toy', parts={'chart': 'x:Y'})", "has the name chart"),
        ("Feature(name='toy', package='pgdyno_toy', needs=('lamp',))", "it needs the feature lamp"),
        ("Feature(name='tune', package='pgdyno_toy')", "another feature has the name tune"),
        (
            "Feature(name='toy', package='pgdyno_toy', verbs={'bench': 'x'})",
            "the verb bench already",
        ),
        ("Feature(name='toy', package='pgdyno_toy', verbs={'tune': 'x'})", "the verb tune already"),
    ],
)
def test_a_package_with_a_fault_is_left_out_and_stops_nothing(
    tmp_path: Path, declared: str, fault: str
) -> None:
    toy, installed = tmp_path / "pgdyno_toy", tmp_path / "pgdyno_toy-1.0.dist-info"
    for folder in (toy, installed):
        folder.mkdir()
    (toy / "__init__.py").write_text(f"from pgdyno.feature import Feature\nTOY = {declared}\n")
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: pgdyno-toy\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text("[pgdyno.features]\ntoy = pgdyno_toy:TOY\n")
    ended = subprocess.run(
        [sys.executable, "-c", "from pgdyno.cli.main import main; main()", "help", "noise"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    said = " ".join(ended.stderr.split())
    assert "warning: The feature toy of pgdyno_toy:TOY is left out: " in said
    assert fault in said


# The whole answer of a verb: one function from its document to blocks.
_MARKET = """
from pgdyno.report.blocks import *
from pgdyno.report.result_kind import ResultKind
def blocks(document, folder):
    rows = tuple((name, str(sold)) for name, sold in document["sold"].items())
    columns = (TableColumn("toy"), TableColumn("sold", "pieces"))
    table = TableBlock("Each toy", columns, rows, short_row_count=1)
    return BlockAnswer(head_of_document("market", document), (
        Tile("sold", str(sum(document["sold"].values())), "pieces"),
        LabelledLine("weather", "dry"),
        BlockSection("Toys", "toys", "Toys", "What was on the table.", (table,)),
    ))
MARKET = ResultKind(lambda folder: folder.analysis(), blocks, ("toy", "toys"))
"""
_MARKET_VERB = """
import click
from pgdyno.cli.headings import Verb
@click.command("market", cls=Verb, short_help="Sell toys.")
def command():
    "Sell toys."
    from pgdyno.store.experiment import Store
    folder = Store.default(None).create("fair", "market")
    folder.write_analysis({"format": "pgdyno.market/1", "number": folder.number, "name": "fair",
        "pgdyno_version": "1", "target": "square", "sentence": "Three toys were sold.",
        "is_complete": True, "sold": {"ball": 2, "top": 1}})
    return 0
"""
_MARKET_INIT = """
from pgdyno.feature import Feature
TOY = Feature(name="market", package="pgdyno_market", verbs={"market": "Sell toys."},
              parts={"verb_help": "help:"}, tables={"results": {"market": "answer:MARKET"}})
"""


def test_the_answer_of_a_new_verb_costs_one_function(tmp_path: Path) -> None:
    package, installed = tmp_path / "pgdyno_market", tmp_path / "pgdyno_market-1.0.dist-info"
    files = {
        package / "__init__.py": _MARKET_INIT,
        package / "answer.py": _MARKET,
        package / "help.py": "EXAMPLES = {'market': (('Sell', 'pgdyno market'),)}\nMEANT = {}\n",
        package / "verbs/__init__.py": "",
        package / "verbs/market.py": _MARKET_VERB,
        installed / "METADATA": "Metadata-Version: 2.1\nName: pgdyno-market\nVersion: 1.0\n",
        installed / "entry_points.txt": "[pgdyno.features]\nmarket = pgdyno_market:TOY\n",
    }
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    store = str(tmp_path / "store")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "PGDYNO_STORE": store}
    said(environment, "market")
    shown = said(environment, "show")
    assert "\nweather     dry\ntoy    sold pieces\nball             2\n" in shown
    assert "top              1" in said(environment, "show", "-v")
    page = Path(said(environment, "report").strip()).read_text()
    assert "Three toys were sold." in page
    assert '<td data-label="sold pieces">1</td>' in page
    markdown = Path(said(environment, "report", "--md").strip()).read_text()
    assert "| sold | 3 pieces |" in markdown
    assert "| top | 1 |" in markdown
    assert json.loads(said(environment, "show", "--json"))["sold"] == {"ball": 2, "top": 1}
    assert "Three toys were sold." in said(environment, "list")


def test_what_a_feature_brings_has_a_place_in_the_core() -> None:
    for feature in features():
        assert SLOTS.keys() >= feature.parts.keys()
        assert TABLES.keys() >= feature.tables.keys()
        for slot in feature.parts:
            assert feature.part(slot) is not None
