"""What a command line wants of a verb: first its options, then also what carries it out.

A verb imports what carries it out under `if wanted.body(__name__):`. Help and errors of options do
not wait for the lab.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

from pgdyno.clock import monotonic_ns

HELP = ("--help", "-?", "--help-all")
is_help: bool = False
# When the command line of this process began, from which a budget counts; None: used as a library.
began_ns: int | None = None
_is_whole = True
_without_body: list[str] = []


def settle(arguments: Sequence[str]) -> None:
    """Note what the command line of this process wants, before a verb is imported."""
    global is_help, began_ns, _is_whole
    began_ns = monotonic_ns()
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    # The drop-in prints the help of the engine.
    is_help = any(word in HELP for word in options) and "pgbench" not in options[:1]
    _is_whole = False


def body(module: str) -> bool:
    """Return whether a module shall import its body now; otherwise `load_bodies` does it."""
    if not _is_whole:
        _without_body.append(module)
    return _is_whole


def load_bodies() -> None:
    """Import the bodies of all verbs that have only their options."""
    global _is_whole
    _is_whole = True
    while _without_body:
        # The functions of the module see the new names: a reload keeps the namespace.
        importlib.reload(sys.modules[_without_body.pop(0)])
