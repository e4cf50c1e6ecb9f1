"""What a command line wants of a verb: the whole verb, or for help only its options.

A verb imports what carries it out under `if wanted.body:`, so `--help` does not load the lab.
"""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno.clock import monotonic_ns

HELP = ("--help", "-?", "--help-all")
body: bool = True
# When the command line of this process began, from which a budget counts; None: used as a library.
began_ns: int | None = None


def settle(arguments: Sequence[str]) -> None:
    """Note what the command line of this process wants, before a verb is imported."""
    global body, began_ns
    began_ns = monotonic_ns()
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    # The drop-in prints the help of the engine.
    body = not any(word in HELP for word in options) or "pgbench" in options[:1]
