"""The command line: finds the verb, turns every error into one paragraph and an exit code.

Exit codes, highest wins: 0 done; 1 usage or refused; 2 ran with failures; 3 ran, not valid;
4 a --check failed; 130 and 143 interrupted, results kept.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
import traceback

import click

from pgdyno.cli import output
from pgdyno.errors import InterruptedByUser, PgdynoError
from pgdyno.process import cleanup, signals

EXIT_USAGE = 1
EXIT_FAILURES = 2
EXIT_NOT_VALID = 3
EXIT_INTERNAL = 2

VERBS: dict[str, str] = {
    "bench": "One measured run.",
    "sweep": "The load curve: peak and knee.",
    "compare": "Is B better than A?",
    "run": "Any experiment from a file.",
    "settings": "A server's settings, explained and checked.",
    "doctor": "Fit to be measured, sane, and which rights are there?",
    "watch": "A server without our load.",
    "init": "Load a dataset.",
    "drop": "Remove a dataset that pgdyno made.",
    "show": "A result again, as text.",
    "report": "A result again: a page, Markdown or PDF.",
    "list": "All results.",
    "pgbench": "The drop-in for pgbench.",
    "diff": "Two results side by side.",
    "export": "The runs of a result as CSV, JSON or Parquet.",
    "note": "Words of your own, kept with a result.",
    "undo": "Put back what a killed experiment left changed.",
}


_CLICKS_WORDS = {
    "is not a valid integer range": "is no whole number",
    "is not a valid float range": "is no number",
    "is not a valid float": "is no number",
    "(Did you mean one of: ": "(Did you mean one of ",
}


class Verbs(click.Group):
    """Loads a verb's module only when it is called: help and completion stay fast."""

    def list_commands(self, _context: click.Context) -> list[str]:
        """Return the verbs in the order of the README."""
        return list(VERBS)

    def get_command(self, _context: click.Context, name: str) -> click.Command | None:
        """Return the verb's command, or None when there is none of that name."""
        if name not in VERBS:
            return None
        command = importlib.import_module(f"pgdyno.cli.{name}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, _context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the verbs without loading them."""
        with formatter.section("Verbs"):
            formatter.write_dl(list(VERBS.items()))

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Say which verbs there are when the one asked for is none."""
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            raise click.UsageError(f"{args[0]} is no verb; there are {', '.join(VERBS)}.")
        return super().resolve_command(context, args)


@click.group(
    cls=Verbs,
    context_settings={"help_option_names": ["--help", "-?"], "max_content_width": 100},
    invoke_without_command=True,
)
@click.version_option(package_name="pgdyno", prog_name="pgdyno")
@click.pass_context
def pgdyno(context: click.Context) -> None:
    """Put a PostgreSQL server on the dyno: how fast, why, and with what certainty."""
    if context.invoked_subcommand is None:
        output.data(context.get_help())


def main(arguments: list[str] | None = None) -> int:
    """Run one command line and return its exit code; nothing it started is left behind."""
    arguments = sys.argv[1:] if arguments is None else arguments
    _be_modest()
    output.use_any_encoding()
    code = EXIT_INTERNAL
    with signals.handled(on_later=output.still_cleaning):
        try:
            code = _run(arguments)
        finally:
            with signals.shielded():
                for problem in cleanup.run_all():
                    output.problem(f"Not cleaned up: {problem}", hint="")
    sys.exit(code)


def _be_modest() -> None:
    """Take no more of the processor than the work needs: the server may be on the same host."""
    # Matrices are small here; more threads would mostly wait for each other, and not asleep.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Modules and results are many objects in few cycles: looked through after every 700 new ones
    # they take a twentieth of a report's time.
    gc.set_threshold(50_000, 20, 20)


def _run(arguments: list[str]) -> int:
    try:
        result = pgdyno.main(arguments, prog_name="pgdyno", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.UsageError as error:
        place = error.ctx.command_path if error.ctx else "pgdyno"
        message = _in_our_words(error.format_message())
        output.problem(message, f"{place} --help")
        return EXIT_USAGE
    except click.Abort:
        return InterruptedByUser.exit_code
    except PgdynoError as error:
        output.problem(error.message, error.hint, sqlstate=error.sqlstate)
        return error.exit_code
    except Exception as error:  # A defect of ours: one paragraph, and the trace where it helps.
        trace = output.keep_trace(traceback.format_exc())
        output.problem(
            f"pgdyno has a defect: {type(error).__name__}: {error}.", f"please report {trace}"
        )
        return EXIT_INTERNAL


def _in_our_words(message: str) -> str:
    """Return what click says of a wrong option, as this program says it, as one sentence."""
    for theirs, ours in _CLICKS_WORDS.items():
        message = message.replace(theirs, ours)
    return message if message.endswith((".", "?", "?)")) else f"{message}."


if __name__ == "__main__":
    main()
