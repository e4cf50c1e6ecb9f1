"""--help: every option once, under a heading, as wide as the terminal and no wider."""

from __future__ import annotations

import importlib

import click
import pytest

from pgdyno.cli.main import VERBS


def help_of(verb: str, width: int) -> str:
    """Return what `pgdyno VERB --help` says on a terminal so wide."""
    command = importlib.import_module(f"pgdyno.cli.{verb.replace('-', '_')}").command
    context = click.Context(command, info_name=verb, terminal_width=width)
    return str(command.get_help(context))


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "pgbench"])
def test_help_has_every_option_of_a_verb_once_and_itself_last(verb: str) -> None:
    command = importlib.import_module(f"pgdyno.cli.{verb.replace('-', '_')}").command
    said = help_of(verb, 100).splitlines()
    first = next(i for i, line in enumerate(said) if line.endswith(":") and line[0] != " ")
    lines = [line.strip() for line in said[first:]]
    for option in command.params:
        if isinstance(option, click.Option):
            begins = [line for line in lines if line.split(" ")[0].rstrip(",") == option.opts[0]]
            assert len(begins) == 1, option.opts
    assert lines[-1].partition("  ")[0].endswith("--help")


@pytest.mark.parametrize("verb", ["bench", "sweep", "compare", "run", "doctor", "watch", "init"])
def test_help_of_a_verb_with_many_options_stands_under_headings(verb: str) -> None:
    said = help_of(verb, 100)
    headings = [line for line in said.splitlines() if line.endswith(":") and line[0] != " "]
    assert len(headings) == len(set(headings)) >= 3
    assert headings[-1] == "Answer:" or verb in ("doctor", "init")


def test_help_on_a_narrow_terminal_is_no_wider_than_it() -> None:
    long = [line for line in help_of("bench", 60).splitlines() if len(line) > 60]
    assert not long
