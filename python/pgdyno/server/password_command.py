"""Passwords from the command of the user, which a cloud needs whose passwords last minutes."""

from __future__ import annotations

import os
import signal
import tempfile
import threading

from pgdyno.clock import monotonic_ns
from pgdyno.errors import ServerError
from pgdyno.process.child import start

# As in the engine. A cloud's passwords last a quarter of an hour.
MAX_AGE_NS = 300_000_000_000
TIMEOUT_S = 30.0
_HINT = "run the command by hand: it must print the password as one line, and nothing else"

_lock = threading.Lock()
_printed: dict[str, tuple[str, int]] = {}


def password_of(command: str) -> str:
    """Return the password that the command printed, at most 5 minutes old; else run it again.

    Its standard error goes to ours at once. The password is kept only in memory.
    Raises: ServerError if it fails, prints no line or several, or takes more than 30 s.
    """
    with _lock:
        text, at_ns = _printed.get(command, ("", 0))
        if not text or monotonic_ns() - at_ns > MAX_AGE_NS:
            text = _run(command)
            _printed[command] = text, monotonic_ns()
        return text


def refused(command: str, password: str) -> None:
    """Forget a password that the server refused; the next call of `password_of` gets a new one."""
    with _lock:
        if _printed.get(command, ("", 0))[0] == password:
            del _printed[command]


def _run(command: str) -> str:
    # The kernel ends a child with the thread that started it; only the main thread stays.
    is_main = threading.current_thread() is threading.main_thread()
    with tempfile.TemporaryFile() as out:
        # The command is in the environment: every user of the host can read arguments.
        with start(
            ["/bin/sh", "-c", 'eval "$PGDYNO_PASSWORD_COMMAND"'],
            name="password command",
            env={**os.environ, "PGDYNO_PASSWORD_COMMAND": command},
            stdout=out,
            stderr=None,
            death_signal=signal.SIGTERM if is_main else None,
        ) as child:
            if not child.ends_within(TIMEOUT_S):
                raise ServerError(
                    f"The password command took more than {TIMEOUT_S:g} s and was stopped.",
                    hint=_HINT,
                )
            code = child.wait()
        if code != 0:
            raise ServerError(f"The password command failed with exit status {code}.", hint=_HINT)
        out.seek(0)
        lines = out.read(1 << 16).decode("utf-8", "replace").splitlines()
    if len(lines) != 1 or not lines[0]:
        raise ServerError(
            f"The password command printed {len(lines)} lines, or an empty line; it must print "
            "one line.",
            hint=_HINT,
        )
    return lines[0]
