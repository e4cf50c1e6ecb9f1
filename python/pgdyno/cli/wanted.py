"""What a command line wants of a verb: the whole verb, or for help only its options.

A verb imports what carries it out under `if wanted.body:`, so `--help` does not load the lab.
"""

from __future__ import annotations

from collections.abc import Sequence

HELP = ("--help", "-?", "--help-all")
body: bool = True


def settle(arguments: Sequence[str]) -> None:
    """Note what the command line of this process wants, before a verb is imported."""
    global body
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    # The drop-in prints the help of the engine.
    body = not any(word in HELP for word in options) or "pgbench" in options[:1]
