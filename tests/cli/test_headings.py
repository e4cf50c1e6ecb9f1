"""--help: two examples and 25 lines of options; --help-all has every option under a heading."""

from __future__ import annotations

import importlib
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from pgdyno.cli.main import MODULES, VERBS, _run
from pgdyno.cli.reference import every_context, reference
from pgdyno.cli.verb_help import examples_of, meant_by

# --help-all of the drop-in prints what pgbench prints.
OURS = [verb for verb in VERBS if verb != "pgbench"]


def help_of(verb: str, width: int, *, is_all: bool = True) -> str:
    """Return what `pgdyno VERB --help-all` says on a terminal so wide; or --help."""
    command = importlib.import_module(MODULES[verb]).command
    context = click.Context(command, info_name=verb, terminal_width=width)
    context.meta["pgdyno.help_all"] = is_all
    return str(command.get_help(context))


def options_of(text: str) -> list[str]:
    """Return the first name of each option that a help text explains."""
    sections = re.split(r"^\S.*:$", text.partition("Usage:")[2], flags=re.MULTILINE)[1:]
    return re.findall(r"^  (-[\w?-]+)", "".join(sections), re.MULTILINE)


@pytest.mark.parametrize("verb", ["", *VERBS])
def test_help_begins_with_two_examples_of_the_verb(
    verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run([*verb.split(), "--help"]) == 0
    first, _, rest = capsys.readouterr().out.partition("Usage: ")
    heading, *lines = first.rstrip().splitlines()
    assert heading == "Examples:"
    typed = [line.strip() for line in lines if line.startswith("    ")]
    assert len(typed) == 2 == len({*typed})
    for line in typed:
        words = shlex.split(line)
        assert words[0] == "pgdyno"
        assert words[1] in VERBS
        assert verb in ("", words[1])
    assert rest


@pytest.mark.parametrize("verb", [*OURS, "init tpcc", "init ledger", "init capture"])
def test_help_shows_25_lines_of_options_at_most_and_help_all_shows_the_rest(
    verb: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert _run([*verb.split(), "--help"]) == 0
    said = capsys.readouterr().out
    lines = said.partition("Usage: ")[2].splitlines()
    first = next(i for i, line in enumerate(lines) if re.fullmatch(r"[A-Z].*:", line))
    assert len(lines[first:]) <= 25, said
    shown = options_of(said)
    if "--help-all" in shown:
        assert _run([*verb.split(), "--help-all"]) == 0
        every = options_of(capsys.readouterr().out)
        assert set(shown) < set(every)
    else:
        command = importlib.import_module(MODULES[verb.split()[0]]).command
        own = [name for name in shown if name not in ("--help", "-?")]
        assert len(own) == sum(isinstance(option, click.Option) for option in command.params)


def test_help_of_the_drop_in_is_short_and_help_all_is_that_of_pgbench() -> None:
    programs = Path(sys.executable).parent

    def said(*words: str) -> str:
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        return done.stdout

    pgdyno, engine = str(programs / "pgdyno"), str(programs / "pgdyno-engine")
    short = said(pgdyno, "pgbench", "--help")
    assert short == said(pgdyno, "pgbench", "-?")
    lines = short.partition("Tables:")[2].splitlines()
    assert 10 < len(lines) < 25
    whole = said(engine, "pgbench", "--help")
    assert said(pgdyno, "pgbench", "--help-all") == whole
    for name in re.findall(r"^  (?:-\w, )?(--[\w-]+)", short, re.MULTILINE):
        assert name in whole or name == "--help-all"


def test_a_short_help_text_is_one_sentence_with_its_default() -> None:
    said = help_of("compare", 80, is_all=False)
    assert "Number of clients (default 1)." in said
    assert "Transactions per second to offer (open loop).\n" in said


@pytest.mark.parametrize(
    ("words", "others"),
    [("init", "tpcc, capture or ledger"), ("init tpcc", "pgbench, capture or ledger")],
)
def test_help_of_init_names_the_other_datasets(
    words: str, others: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run([*words.split(), "--help"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"For other tables see pgdyno init {others}, with --help." in said


def test_a_question_above_an_example_ends_with_its_question_mark() -> None:
    for verb in OURS:
        assert "?:" not in help_of(verb, 80)
    assert "How many temporary files did this server write?\n" in help_of("work-mem", 80)


def test_every_verb_has_examples() -> None:
    assert [name for name in (*OURS, "pgdyno") if not examples_of(name)] == []


@pytest.mark.parametrize("verb", OURS)
def test_help_all_has_every_option_of_a_verb_once_and_help_last(verb: str) -> None:
    command = importlib.import_module(MODULES[verb]).command
    said = help_of(verb, 100).splitlines()
    usage = next(i for i, line in enumerate(said) if line.startswith("Usage:"))
    first = next(i for i, line in enumerate(said[usage:], usage) if line.endswith(":"))
    lines = [line.strip() for line in said[first:]]
    for option in command.params:
        if isinstance(option, click.Option):
            begins = [line for line in lines if line.split(" ")[0].rstrip(",") == option.opts[0]]
            assert len(begins) == 1, option.opts
    assert lines[-1].partition("  ")[0].endswith("--help")


@pytest.mark.parametrize("verb", ["bench", "sweep", "compare", "run", "doctor", "watch", "init"])
def test_long_help_has_headings(verb: str) -> None:
    said = help_of(verb, 100)
    headings = [line for line in said.splitlines() if line.endswith(":") and line[:1] != " "]
    assert len(headings) == len(set(headings)) >= 3
    assert headings[-1] == "Answer:" or verb in ("doctor", "init")


def test_help_fits_a_narrow_terminal() -> None:
    long = [
        line for line in help_of("bench", 60).partition("Usage:")[2].splitlines() if len(line) > 60
    ]
    assert not long


@pytest.mark.parametrize(
    ("verb", "option"), [(verb, option) for verb in OURS for option in sorted(meant_by(verb))]
)
def test_a_verb_lacks_options_that_only_others_use(verb: str, option: str) -> None:
    params = importlib.import_module(MODULES[verb]).command.params
    assert option not in {name for param in params for name in param.opts}


def test_help_of_all_verbs_loads_no_library_but_click() -> None:
    code = "import sys, pgdyno.cli.main; print(*sys.modules)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(ended.stdout.split())
    assert "click" in loaded
    assert not loaded & {"duckdb", "matplotlib", "numpy", "psycopg", "pydantic", "scipy"}


# The same meaning in another form: one number or several, a list of what a verb supports.
OTHER_FORM = {"--clients", "--terminals", "--define", "--pg-version", "--output", "--distribute"}


def test_the_reference_names_the_options_with_two_meanings() -> None:
    forms: dict[str, set[str]] = {}
    for verb, context in every_context():
        if verb == "pgbench":
            continue  # Its options mean what they mean in pgbench.
        for option in context.command.get_params(context):
            if isinstance(option, click.Option):
                name = next((name for name in option.opts if len(name) > 2), option.opts[0])
                form = "" if option.is_flag else option.make_metavar(context)
                forms.setdefault(name, set()).add(form)
    differing = {name for name, found_forms in forms.items() if len(found_forms) > 1}
    named = set(re.findall(r"^- `(-[\w-]+)`", reference(), re.MULTILINE))
    # The same form, but other numbers: of connections, of statements, of threads.
    assert differing - OTHER_FORM == named - {"--active", "-j"}
