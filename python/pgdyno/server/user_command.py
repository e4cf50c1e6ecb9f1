"""Runs commands of the user in a shell: one that restarts the server, or prints a password.

A cloud whose passwords last minutes needs the second.
"""

from __future__ import annotations

import os
import signal
import tempfile
import threading
from collections.abc import Mapping

from pgdyno.clock import monotonic_ns
from pgdyno.errors import ProcessError, ServerError
from pgdyno.process import signals
from pgdyno.process.child import run, start
from pgdyno.server.conninfo import whole_environment

COMMAND_TIMEOUT_S = 300.0
# After a signal: a restart that is stopped half-way leaves a server that is down.
_GRACE_S = 3.0
# Only this last part of the output is shown.
_SAID_LINES = 3


def run_command(
    command: str,
    *,
    option: str,
    timeout_s: float,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
) -> None:
    """Run a command to its end.

    After a signal the command has 3 s. Then it ends, with every process of its session. While
    settings are put back, only a second signal ends it.

    Args: option, its option, such as "--restart-command"; env, further variables.
    Raises: ServerError if it fails or lasts too long; InterruptedByUser if a signal ended it.
    """
    # The command is in the environment: every user of the host can read arguments.
    variables = {**whole_environment(), **(env or {}), "PGDYNO_COMMAND": command}
    limit = f"at most {timeout_s:g} s; another signal ends it"
    try:
        with signals.ended_by_another_signal(f"{option} {command} ({limit})"):
            done = run(
                ["/bin/sh", "-c", 'eval "$PGDYNO_COMMAND"'],
                env=variables,
                timeout_s=timeout_s,
                stdin=stdin,
                name=f"{option} {command}",
                grace_s=_GRACE_S,
            )
    except ProcessError as error:
        raise ServerError(
            error.message,
            hint="pgdyno ended the command and what it had started; see what it waits for, or "
            "allow more time with --command-timeout",
        ) from None
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()[-_SAID_LINES:]
        words = " / ".join(line.strip() for line in said) or "it printed nothing"
        raise ServerError(
            f"{option} {command} ended with exit code {done.returncode}: {words.rstrip('.')}.",
            hint="the command runs as sh -c, and must end with exit code 0",
        )


# As in the engine. A cloud's passwords last a quarter of an hour.
PASSWORD_AGE_NS_MAX = 300_000_000_000
_PASSWORD_TIMEOUT_S = 30.0
_PASSWORD_HINT = "run the command by hand: it must print the password as one line, and nothing else"

_lock = threading.Lock()
_printed: dict[str, tuple[str, int]] = {}


def password_of(command: str) -> str:
    """Return the password that the command printed, at most 5 minutes old; else run it again.

    Its standard error goes to ours at once. The password is kept only in memory.
    Raises: ServerError if it fails, prints no line or several, or takes more than 30 s.
    """
    with _lock:
        text, at_ns = _printed.get(command, ("", 0))
        if not text or monotonic_ns() - at_ns > PASSWORD_AGE_NS_MAX:
            text = _printed_by(command)
            _printed[command] = text, monotonic_ns()
        return text


def refuse_password(command: str, password: str) -> None:
    """Forget a password that the server refused; the next call of `password_of` gets a new one."""
    with _lock:
        if _printed.get(command, ("", 0))[0] == password:
            del _printed[command]


def _printed_by(command: str) -> str:
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
            if not child.ends_within(_PASSWORD_TIMEOUT_S):
                raise ServerError(
                    f"The password command took over {_PASSWORD_TIMEOUT_S:g} s and was stopped.",
                    hint=_PASSWORD_HINT,
                )
            code = child.wait()
        if code != 0:
            raise ServerError(
                f"The password command failed with exit status {code}.", hint=_PASSWORD_HINT
            )
        out.seek(0)
        lines = out.read(1 << 16).decode("utf-8", "replace").splitlines()
    if len(lines) != 1 or not lines[0]:
        raise ServerError(
            f"The password command printed {len(lines)} lines, or an empty line; it must print "
            "one line.",
            hint=_PASSWORD_HINT,
        )
    return lines[0]
