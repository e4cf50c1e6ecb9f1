"""Sections of `--help`: nobody reads a list of sixty options."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import click

SERVER = "Server"
COMPARED = "Comparison"
LOAD = "Load"
BEFORE = "Before each run"
FOREIGN = "On your own server"
TABLES = "Tables"
LOADING = "Loading"
NOISE = "Noise (A against A)"
SCRATCH = "Scratch server"
WATCHED = "Observation"
ANSWER = "Answer"
REST = "Options"


class Headed(click.Option):
    """An option with the heading of its section in --help."""

    def __init__(self, *names: Any, heading: str, **rest: Any) -> None:
        if isinstance(rest.get("type"), click.IntRange | click.FloatRange):
            rest.setdefault("metavar", "N")
        super().__init__(*names, **rest)
        self.heading = heading


def under(heading: str) -> Callable[..., Callable[[Any], Any]]:
    """Return `click.option` for options of the section `heading`."""
    return partial(click.option, cls=Headed, heading=heading)


class Operand(click.Argument):
    """An argument with a heading and a help text, as options have."""

    def __init__(self, names: Any, *, heading: str, help: str, **rest: Any) -> None:
        super().__init__(names, **rest)
        self.heading = heading
        self._explained = help

    def get_help_record(self, context: click.Context) -> tuple[str, str]:
        """Return its name as in the usage line, and its help text."""
        return self.make_metavar(context), self._explained


class Verb(click.Command):
    """A verb whose --help has sections, in the order of their first options."""

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the sections: options without heading first, --help last."""
        sections: dict[str, list[tuple[str, str]]] = {}
        help_option = self.get_help_option(context)
        for one in self.get_params(context):
            record = one.get_help_record(context)
            heading = getattr(one, "heading", REST)
            is_explained = isinstance(one, click.Option | Operand) and one is not help_option
            if record is not None and is_explained:
                sections.setdefault(heading, []).append(record)
        if help_option is not None and (record := help_option.get_help_record(context)):
            last = next(reversed(sections), REST)
            sections.setdefault(last, []).append(record)
        for heading, records in sections.items():
            with formatter.section(heading):
                formatter.write_dl(records)
