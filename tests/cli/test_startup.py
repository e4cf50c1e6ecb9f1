"""What a command loads before it works: help and lists need neither the lab nor its libraries."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import click
import pytest
from annotated_types import Ge, Le

from pgdyno.cli.kind_help import kind_help
from pgdyno.cli.main import VERBS
from pgdyno.cli.option_table import lines_of
from pgdyno.programs.registry import PROGRAM_WORDS, programs
from pgdyno.server.dataset.kinds import KINDS
from pgdyno.spec.base import Spec

HEAVY = {
    *("asyncio", "duckdb", "email", "importlib.metadata", "jinja2", "multiprocessing", "numpy"),
    *("pgparse", "psycopg", "pydantic", "rich"),
}
FEATURES = "pgdyno.features."
LAB = tuple(
    f"pgdyno.{room}" for room in ("analysis", "answer", "designs", "loop", "measure", "plan")
)
_CODE = """
import sys
from pgdyno.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit as ended:
    print(ended.code, *sys.modules, file=sys.stderr)
"""


def loaded_by(*words: str) -> set[str]:
    """Return the modules that a command line has loaded when it ends; it must end well."""
    ended = subprocess.run(
        [sys.executable, "-c", _CODE, *words], capture_output=True, text=True, check=True
    )
    code, *modules = ended.stderr.split()
    assert code == "0", ended.stdout + ended.stderr
    assert ended.stdout
    return set(modules)


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "pgbench"])
def test_help_of_a_verb_loads_no_heavy_library_and_not_the_lab(verb: str) -> None:
    loaded = loaded_by(verb, "--help")
    assert not loaded & HEAVY
    assert not {name for name in loaded if name.startswith(LAB)}


@pytest.mark.parametrize("verb", ["bench", "watch", "crash"])
def test_a_list_of_results_loads_no_heavy_library_and_not_the_lab(
    verb: str, tmp_path: Path
) -> None:
    (tmp_path / "a/runs").mkdir(parents=True)
    result = {"format": 1, "number": 1, "verb": verb, "name": "a", "began_ns": 1}
    (tmp_path / "a/experiment.json").write_text(json.dumps(result))
    loaded = loaded_by("list", "--store", str(tmp_path))
    assert not loaded & HEAVY
    assert not {name for name in loaded if name.startswith(LAB)}


def values_of(model: type[Spec], name: str) -> Any:
    """Return the values that a field can have: its words, or its least and largest number."""
    field = model.model_fields[name]
    words = [
        arg for kind in (field.annotation, *get_args(field.annotation)) for arg in get_args(kind)
    ]
    least = [rule.ge for rule in field.metadata if isinstance(rule, Ge)]
    most = [rule.le for rule in field.metadata if isinstance(rule, Le)]
    return [word for word in words if isinstance(word, str)] or least + most


@pytest.mark.parametrize("name", KINDS)
def test_the_options_of_a_dataset_are_the_fields_of_its_model(name: str) -> None:
    kind, said = KINDS[name], kind_help(name)
    for model, text in ((kind.options, said.options), (kind.loading, said.loading)):
        settings = {line.field: line.settings for line in lines_of(text)}
        assert settings.keys() == model.model_fields.keys() - {"kind", "size", "file"}
        for field, of_option in settings.items():
            asked = of_option.get("type")
            if isinstance(asked, click.IntRange):
                assert values_of(model, field) == [asked.min, asked.max]
            elif isinstance(asked, click.Choice):
                assert values_of(model, field) == list(asked.choices)
            assert of_option.get("is_flag", False) is (model.model_fields[field].annotation is bool)
    assert bool(said.check) == bool(kind.conditions)


def test_help_of_a_load_says_of_programs_what_they_declare() -> None:
    named = [program for program in programs() if program.client_word != "client"]
    assert list(PROGRAM_WORDS) == [program.name for program in named]
    for program in named:
        words, limited = PROGRAM_WORDS[program.name], program.types[0]
        assert words.option == f"--{program.client_word}s"
        share = f"{program.clients_per_size} per {program.size_word}"
        assert words.clients == f"{share} if {program.client_word}s think"
        assert words.target == f"{limited.name}.p90={limited.p90_limit_s:g}s"


@pytest.mark.pg
def test_a_plain_bench_loads_no_module_of_a_feature_that_it_does_not_use(tmp_path: Path) -> None:
    load = ("bench", "-S", "-c", "1", "-T", "1s", "-s", "1", "--scratch", "--allow-tmpfs")
    command = [sys.executable, "-c", _CODE, *load, "--store", str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    code, *modules = ended.stderr.splitlines()[-1].split()
    assert code in ("0", "3"), ended.stderr  # A second is too short to be valid.
    loaded = {name for name in modules if name.startswith(FEATURES)}
    used = {name for name in loaded if name.startswith(f"{FEATURES}doctor")}
    assert used, "the checks before a run are used"
    assert loaded == used


def test_the_word_help_cannot_be_the_value_of_an_option() -> None:
    command = [sys.executable, "-m", "pgdyno.cli.main", "show", "--store", "--help"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "--help" in ended.stderr


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb not in ("help", "pgbench")])
def test_an_error_of_an_option_does_not_wait_for_the_lab(verb: str) -> None:
    command = [sys.executable, "-c", _CODE, verb, "--no-such-option"]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "no such option" in ended.stderr.lower()
    code, *modules = ended.stderr.splitlines()[-1].split()
    assert code == "1"
    assert not set(modules) & HEAVY
    assert not {name for name in modules if name.startswith(LAB)}


def test_a_watch_takes_its_first_sample_before_it_loads_charts_and_pages() -> None:
    command = [sys.executable, "-c", _CODE, "watch", "-h", "127.0.0.1", "-p", "1"]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "Connection refused" in ended.stderr
    modules = ended.stderr.splitlines()[-1].split()
    assert not {name for name in modules if name.startswith("pgdyno.answer.charts")}
    assert not {"jinja2", "pgdyno.report.html"} & {*modules}
