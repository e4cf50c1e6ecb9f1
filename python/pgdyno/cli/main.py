"""The command line: finds the verb, and turns every error into one paragraph and an exit code.

The highest exit code applies: 0 done; 1 usage error or refused; 2 ran with failures; 3 ran, but
the result is not valid; 4 a --check failed; 130 and 143 interrupted, results kept. Code 5, only if
no other applies: measured, but the interval does not decide.
"""

from __future__ import annotations

import errno
import gc
import importlib
import os
import re
import sys
from itertools import pairwise

import click

from pgdyno import feature as features
from pgdyno.cli import output, wanted
from pgdyno.cli.headings import write_examples
from pgdyno.cli.version import print_version
from pgdyno.errors import InterruptedByUser, PgdynoError
from pgdyno.process import cleanup, signals
from pgdyno.user_file import require_utf8

EXIT_USAGE = 1
EXIT_FAILURES = 2
EXIT_INTERNAL = 2

_HELP = "Help"
# The headings of `pgdyno --help`; a feature names the one of its verbs.
_CORE: dict[str, dict[str, str]] = {
    "Measure": {
        "bench": "Measure one run.",
        "sweep": "Measure the load curve: peak and knee.",
        "compare": "Compare variants: is B better than A?",
        "run": "Run an experiment from a file.",
        "pgbench": "Do what pgbench does (drop-in).",
    },
    "Data and loads": {
        "init": "Load a dataset.",
        "drop": "Remove a dataset that pgdyno made.",
    },
    "Results": {
        "list": "List all results.",
        "show": "Print a result as text.",
        "report": "Write a result as HTML page or Markdown.",
        "diff": "Compare two results, side by side.",
        "export": "Write the runs of a result as CSV, JSON or Parquet.",
        "note": "Keep a remark with a result.",
        "undo": "Restore settings that a killed experiment left changed.",
    },
}
_LAST = {
    "help": "Explain a word, the method or an option.",
    "completion": "Print what the Tab key needs in your shell.",
}


def _headings() -> dict[str, dict[str, str]]:
    """Return heading -> verb -> line of help, with the verbs of features."""
    headings = {heading: dict(verbs) for heading, verbs in _CORE.items()}
    for verb, (line, feature) in features.verbs().items():
        headings.setdefault(feature.heading, {})[verb] = line
    return headings | {_HELP: headings.get(_HELP, {}) | _LAST}


HEADINGS = _headings()
VERBS = {verb: line for verbs in HEADINGS.values() for verb, line in verbs.items()}
MODULES = {verb: f"pgdyno.cli.{verb}" for verb in VERBS} | {
    verb: f"{feature.package}.verbs.{verb.replace('-', '_')}"
    for verb, (_, feature) in features.verbs().items()
}


class Verbs(click.Group):
    """Loads a verb's module only when the verb is called, so that help and completion are fast."""

    def list_commands(self, _context: click.Context) -> list[str]:
        """Return the verbs in the order of their headings."""
        return list(VERBS)

    def get_command(self, _context: click.Context, name: str) -> click.Command | None:
        """Return the command of the verb, or None if there is no such verb."""
        if name not in VERBS:
            return None
        command = importlib.import_module(MODULES[name]).command
        assert isinstance(command, click.Command)
        return command

    def format_help(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write two examples before everything else."""
        write_examples("pgdyno", formatter)
        super().format_help(context, formatter)

    def format_commands(self, _context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the verbs without loading them."""
        width = max(map(len, VERBS))
        for heading, verbs in HEADINGS.items():
            with formatter.section(heading):
                formatter.write_dl([(f"{verb:<{width}}", line) for verb, line in verbs.items()])

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the verb of the command line. An error names the nearest verb, or all verbs."""
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            import difflib

            like = difflib.get_close_matches(args[0], VERBS, n=1)
            meant = f"did you mean {like[0]}?" if like else f"the verbs are {', '.join(VERBS)}."
            raise click.UsageError(f"{args[0]} is not a verb; {meant}")
        return super().resolve_command(context, args)


@click.group(
    cls=Verbs,
    context_settings={"help_option_names": ["--help", "-?"], "max_content_width": 100},
    invoke_without_command=True,
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=print_version,
    help="Show version and commit of pgdyno and of its engine, and exit.",
)
@click.pass_context
def pgdyno(context: click.Context) -> None:
    """Measure a PostgreSQL server: how fast it is, why, and whether a change makes it faster."""
    if context.invoked_subcommand is None:
        output.data(context.get_help())


def main(arguments: list[str] | None = None) -> int:
    """Run one command line and return its exit code; stop everything that it started."""
    arguments = sys.argv[1:] if arguments is None else arguments
    wanted.settle(arguments)
    _be_modest()
    _open_what_is_closed()
    output.use_any_encoding()
    code = EXIT_INTERNAL
    with signals.handled(on_later=output.still_cleaning, on_wait=output.waits_for):
        try:
            code = _run(arguments)
        finally:
            with signals.shielded():
                for problem in cleanup.run_all():
                    output.problem(f"Clean-up failed: {problem}", hint="")
    sys.exit(code)


def _open_what_is_closed() -> None:
    """Open closed standard streams as /dev/null; otherwise the next file would be such a stream."""
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != descriptor:
                os.dup2(opened, descriptor)
                os.close(opened)
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, os.fdopen(descriptor, mode, closefd=False))


def _be_modest() -> None:
    """Keep CPU use low, because the server may be on the same host."""
    # Matrices are small here. More threads would mostly wait for each other in a busy loop.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Otherwise pydantic reads the metadata of every installed package to look for plug-ins.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    # Modules and results have many objects and few cycles. With the default threshold of 700, the
    # garbage collector takes a twentieth of a report's time.
    gc.set_threshold(50_000, 20, 20)


# A file name that is too long, or symbolic links in a circle.
_NO_NAMES = (errno.ENAMETOOLONG, errno.ELOOP)


def _run(arguments: list[str]) -> int:
    output.expect_json(_asks_for_json(arguments))
    try:
        # pgbench takes names of any bytes.
        for number, word in enumerate(arguments if arguments[:1] != ["pgbench"] else (), 1):
            require_utf8(word, of=f"Argument {number} of the command")
        for sentence in features.left_out():
            output.warning(sentence, "docs/adding.md says what a feature declares.")
        result = pgdyno.main(arguments, prog_name="pgdyno", standalone_mode=False)
        return _after_signal(result) if isinstance(result, int) else 0
    except click.UsageError as error:
        place = error.ctx.command_path if error.ctx else "pgdyno"
        message = _sentence(error.format_message())
        levels = _LIST_OF_CLIENTS.search(message)
        step = (
            f"pgdyno sweep -c {levels[1]} measures each; --variant adds variants" if levels else ""
        )
        output.failed("usage", message, step or f"{place} --help")
        return EXIT_USAGE
    except click.Abort:
        return InterruptedByUser.exit_code
    except PgdynoError as error:
        output.failed(error.kind, error.message, error.hint, sqlstate=error.sqlstate)
        # An error that arrives here ended the command before it started anything, except in the
        # engine.
        has_run = error.has_run or isinstance(error, InterruptedByUser)
        return _after_signal(error.exit_code if has_run else EXIT_USAGE)
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _NO_NAMES:
            # Whichever verb asked for it: no system has a file of such a name.
            message = f"{str(error.filename)[:100]}...: {error.strerror}."
            output.failed("usage", message, "name another file or result")
            return EXIT_USAGE
        # A defect of pgdyno: one paragraph, and the trace in a file.
        import traceback

        trace = output.keep_trace(traceback.format_exc())
        output.failed(
            "internal",
            f"Internal error (a defect of pgdyno): {type(error).__name__}: {error}.",
            f"please report {trace}",
        )
        return EXIT_INTERNAL


def _after_signal(code: int) -> int:
    """Return the exit code of the signal, if a command ended with an error after it arrived.

    The error may be another one, such as that of a server that was given up.
    """
    asked = signals.interruption()
    return asked.exit_code if asked and code in (EXIT_USAGE, EXIT_FAILURES) else code


def _asks_for_json(arguments: list[str]) -> bool:
    """Return whether --json asks for a document on standard output, and not in a file."""
    return any(
        argument == "--json=-" or (argument == "--json" and following.startswith("-"))
        for argument, following in pairwise([*arguments, "-"])
    )


# Of a range, click says that the text is not a range, where it is not a number.
_NO_NUMBER = re.compile(r"\bis not a valid (integer|float)( range)?\b")
_LIST_OF_CLIENTS = re.compile(r"/ '--clients' .*: '(\d+(?:,\d+)+)' is not a whole number")
_NUMBERS = {"integer": "is not a whole number", "float": "is not a number"}


def _sentence(message: str) -> str:
    """Return click's message, which may have several lines, as one paragraph with a full stop."""
    message = " ".join(message.split())
    message = _NO_NUMBER.sub(lambda match: _NUMBERS[match[1]], message)
    return message if message.endswith((".", "?", "?)")) else f"{message}."


if __name__ == "__main__":
    main()
