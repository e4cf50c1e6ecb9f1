"""Sections of `--help`: two examples, then the options that most commands need."""

from __future__ import annotations

import re
from typing import Any

import click

from pgdyno.cli import output, wanted
from pgdyno.cli.unused_options import refuse_given_twice
from pgdyno.cli.verb_help import examples_of, meant_by

SERVER = "Server"
COMPARED = "Comparison"
LOAD = "Load"
ANSWER = "Answer"
REST = "Options"


# A misspelt option shares more of its letters with the right one: --duraton and --duration 0.93,
# --round and --dry-run 0.5.
_ALIKE = 0.7
# The option for the long help, and its key in the context.
_HELP_ALL = "--help-all"
_SHOWS_ALL = "pgdyno.help_all"


# A longer description of a value, such as a list of words, does not fit a short line.
_METAVAR_MAX = 20
# The names of click's types of numbers begin with these.
_NUMBERS = ("integer", "float")


class HeadedOption(click.Option):
    """An option with the heading of its section in --help.

    `first`: a first user needs it, so --help shows it. --help-all shows every option.
    """

    def __init__(self, *names: Any, heading: str, first: bool = False, **rest: Any) -> None:
        if isinstance(rest.get("type"), click.IntRange | click.FloatRange):
            rest.setdefault("metavar", "N")
        super().__init__(*names, **rest)
        self.heading = heading
        self.first = first

    def type_cast_value(self, context: click.Context, value: Any) -> Any:
        """Return the value; refuse what only Python reads as a number, such as 1_000 or ٣."""
        is_number = not isinstance(self.type, click.Choice) and self.type.name.startswith(_NUMBERS)
        for text in value if isinstance(value, tuple | list) else (value,):
            if is_number and isinstance(text, str) and ("_" in text or not text.isascii()):
                kind = "integer" if self.type.name.startswith("integer") else "number"
                self.type.fail(f"{text!r} is not a valid {kind}.", self, context)
        return super().type_cast_value(context, value)


def _are_alike(name: str, other: str) -> bool:
    """Return whether one option may be a misspelling of the other."""
    import difflib

    return difflib.SequenceMatcher(None, name.lstrip("-"), other.lstrip("-")).ratio() > _ALIKE


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
    """A verb whose --help has examples, and sections in the order of their first options.

    --help shows the options that are declared with `first`, --help-all shows all.
    """

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        """Read the arguments. An unknown option from habit is refused with the option meant.

        Raises: click.NoSuchOption, without options that are only spelled alike; click.UsageError
        for an option that is given twice.
        """
        try:
            if not context.resilient_parsing:
                *_, order = self.make_parser(context).parse_args(list(args))
                refuse_given_twice(order, context)
            return super().parse_args(context, args)
        except click.NoSuchOption as error:
            meant = self._meant(error.option_name)
            if meant is None:
                alike = [n for n in error.possibilities or () if _are_alike(error.option_name, n)]
                raise click.NoSuchOption(
                    error.option_name, possibilities=alike, ctx=context
                ) from error
            raise click.UsageError(
                f"No such option '{error.option_name}'. {meant}", ctx=context
            ) from error

    def _meant(self, name: str) -> str | None:
        """Return the option that is meant by one from habit, also if that is shortened."""
        habits = meant_by(self.name or "")
        if name in habits:
            return habits[name]
        begun = {
            words for habit, words in habits.items() if len(name) > 3 and habit.startswith(name)
        }
        return begun.pop() if len(begun) == 1 else None

    def invoke(self, context: click.Context) -> Any:
        """Carry out the verb. Raises: click.UsageError if `--help` is the value of an option."""
        if wanted.is_help:
            raise click.UsageError("--help is an option, and cannot be a value.", ctx=context)
        # This takes 1 s, and several seconds on a busy machine.
        with output.doing(f"{context.command_path} starts", after_s=0.3):
            wanted.load_bodies()
        return super().invoke(context)

    def get_params(self, context: click.Context) -> list[click.Parameter]:
        """Return the verb's parameters; if --help is short, --help-all is before --help."""
        parameters = super().get_params(context)
        if all(is_first(parameter) for parameter in parameters):
            return parameters
        count = sum(isinstance(parameter, click.Option) for parameter in parameters)
        help_all = click.Option(
            [_HELP_ALL],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_show_all,
            help=f"Show all {count} options.",
        )
        return [*parameters[:-1], help_all, parameters[-1]]

    def format_help(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, then the usual help."""
        write_examples(example_name(context), formatter)
        super().format_help(context, formatter)

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the sections: options without heading first, --help last."""
        parameters = self.get_params(context)
        is_short = any(_HELP_ALL in parameter.opts for parameter in parameters)
        is_short = is_short and not context.meta.get(_SHOWS_ALL)
        record = _short_record if is_short else _record
        sections: dict[str, list[tuple[str, str]]] = {}
        last: list[tuple[str, str]] = []
        help_option = self.get_help_option(context)
        for parameter in parameters:
            if (words := record(parameter, context)) is None:
                continue
            if parameter is help_option or _HELP_ALL in parameter.opts:
                last.append(words)
            elif not is_short or is_first(parameter):
                heading = getattr(parameter, "heading", REST)
                sections.setdefault(heading, []).append(words)
        sections.setdefault(next(reversed(sections), REST), []).extend(last)
        for heading, records in sections.items():
            if is_short:
                _write_close(heading, records, formatter)
                continue
            with formatter.section(heading):
                formatter.write_dl(records)


def is_first(parameter: click.Parameter) -> bool:
    """Return whether --help shows it. Options without a heading are few, and of one verb alone."""
    return not isinstance(parameter, HeadedOption) or parameter.first


def _record(parameter: click.Parameter, context: click.Context) -> tuple[str, str] | None:
    """Return names and help text; None for an argument that only the usage line explains."""
    if not isinstance(parameter, click.Option | Operand):
        return None
    return parameter.get_help_record(context)


def _short_record(parameter: click.Parameter, context: click.Context) -> tuple[str, str] | None:
    """Return the letter and the first long name, and the first sentence of the help text."""
    if (words := _record(parameter, context)) is None or not isinstance(parameter, click.Option):
        return words
    long_name = next((name for name in parameter.opts if name.startswith("--")), parameter.opts[0])
    letters = [name for name in parameter.opts if not name.startswith("--")][:1]
    names = ", ".join([*letters, *({} if long_name in letters else {long_name: None})])
    if not parameter.is_flag:
        metavar = parameter.make_metavar(context)
        names += f" {metavar if len(metavar) <= _METAVAR_MAX else 'NAME'}"
    return names, first_words(parameter.help or "")


def first_words(text: str) -> str:
    """Return the first sentence without examples, and of a default only the usual one."""
    sentence = re.split(r"(?<=\.) (?=[A-Z])|(?<=\w); (?=[a-z-])(?![^(]*\))", text)[0]
    sentence = re.sub(r"\(([^();]*);[^()]*\)", r"(\1)", sentence)
    return re.sub(r",? (or phases )?(such as|for example) [^()]*$", "", sentence).rstrip(".;") + "."


def _write_close(
    heading: str, records: list[tuple[str, str]], formatter: click.HelpFormatter
) -> None:
    """Write a section without empty lines, so that a screen shows all sections."""
    formatter.write(f"{heading}:\n")
    with formatter.indentation():
        formatter.write_dl(records)


def example_name(context: click.Context) -> str:
    """Return the name of a command in the table of examples."""
    path = context.command_path.removeprefix("pgdyno ")
    return path if examples_of(path) else context.command.name or ""


def write_examples(name: str, formatter: click.HelpFormatter) -> None:
    """Write the examples of the verb `name`; each command stays on its line."""
    if not (examples := examples_of(name)):
        return
    with formatter.section("Examples"):
        for meaning, typed in examples:
            formatter.write_text(meaning if meaning.endswith("?") else f"{meaning}:")
            formatter.write(f"{'':>{formatter.current_indent + 2}}{typed}\n")
    formatter.write("\n")


def _show_all(context: click.Context, _option: click.Parameter, given: bool) -> None:
    if given and not context.resilient_parsing:
        context.meta[_SHOWS_ALL] = True
        click.echo(context.get_help(), color=context.color)
        context.exit()
