"""Runs a command of the user, such as the one that restarts the server, in a shell."""

from __future__ import annotations

from collections.abc import Mapping

from pgdyno.errors import ProcessError, ServerError
from pgdyno.process import signals
from pgdyno.process.child import run
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
