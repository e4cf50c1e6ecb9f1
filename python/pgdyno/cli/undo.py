"""`pgdyno undo`: restores settings that a killed experiment left changed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from pgdyno.cli import options, output, wanted
from pgdyno.cli.headings import Verb
from pgdyno.cli.option_table import table
from pgdyno.cli.unused_options import refuse_without_effect
from pgdyno.errors import SpecError, StoreError
from pgdyno.quantities import counted

if wanted.body(__name__):
    from pgdyno.measure.changes import (
        Commands,
        Undone,
        dismiss_outstanding,
        reached_again,
        undo_outstanding,
    )
    from pgdyno.server.conninfo import resolve
    from pgdyno.server.target import Target
    from pgdyno.store.experiment import Store
    from pgdyno.store.folder import ExperimentFolder

_INSTEAD = "instead of the one in the journal."


@click.command(
    "undo", cls=Verb, short_help="Restore settings that a killed experiment left changed."
)
@click.argument("result", required=False)
@table(
    f"""
    Options
    --admin CONNINFO *  Role and server to use (default: those of the experiment).
    --apply-command CMD *  Command that changes settings, {_INSTEAD}
    --restart-command CMD *  Command that restarts the server, {_INSTEAD}
    --recover-command CMD *  Command that repairs a server that does not start, {_INSTEAD}
    --command-timeout (command_timeout_s) TIME *
        Longest time for each of these commands (default: that of the experiment).
    --dismiss *  Print the previous values of RESULT and close its journal; change nothing.
    --confirm DB@HOST ... *
        Restore settings of this server from a journal that another user or host wrote.
    """,
    command_timeout_s={"callback": options.seconds_of_command},
)
@options.store_option
def command(
    result: str | None,
    admin: str | None,
    dismiss: bool,
    confirm: tuple[str, ...],
    store: Path | None,
    **commands: Any,
) -> int:
    """Restore changed settings from the journal. RESULT is a number (default: all that need it).

    An experiment that ended normally or by Ctrl-C has already restored its changes. undo tries each
    server separately. A server that has its previous settings counts as done. If RESULT is given,
    undo also restores the changes that `--apply` made.

    If you did not write the journal on this host, undo prints the server, the commands and the
    settings, and changes nothing without --confirm.
    """
    kept = Store.default(store)
    if dismiss:
        refuse_without_effect(
            {"admin": admin, **commands},
            ["admin", *commands],
            "--dismiss changes no server",
            "leave it out, or restore the settings without --dismiss",
        )
    if dismiss and result is None:
        raise SpecError(
            "--dismiss needs the number of a result.", hint="pgdyno list marks those to undo"
        )

    def reach(place: Mapping[str, str]) -> Target:
        if admin is not None:
            return reached_again(place, resolve(conninfo=admin).target)
        return resolve(
            host=place["host"], port=place["port"], user=place["user"], database=place["database"]
        ).target

    code = count = 0
    for folder in [kept.find(result)] if result else _with_changes(kept):
        if dismiss:
            if damaged := folder.audit().damaged:
                count += 1
                output.data(
                    f"#{folder.number}: journal closed, although "
                    f"{counted(len(damaged), 'line')} of it cannot be read"
                )
            done = dismiss_outstanding(folder)
        else:
            # Settings that `--apply` changed stay, unless their result is named.
            done = undo_outstanding(
                folder,
                reach,
                Commands(**commands, confirmed=confirm),
                with_applied=result is not None,
            )
        for undone in done:
            count += 1
            code = max(code, _said(folder, undone, is_dismissed=dismiss))
        if (damage := folder.audit_damage()) is not None:
            count += 1
            code = max(code, damage.exit_code)
            output.problem(f"#{folder.number}: {damage.message}", damage.hint)
    if not count:
        output.data(f"nothing to undo in {kept.root}")
    return code


def _with_changes(store: Store) -> list[ExperimentFolder]:
    """Return the results that wait for undo, the newest first.

    Raises: StoreError if there is no store.
    """
    if not store.root.is_dir():
        raise StoreError(
            f"There is no folder of results at {store.root}.", hint="name it with --store"
        )
    return [
        ExperimentFolder(listed.folder)
        for listed in store.list()[::-1]
        if listed.undo_count or listed.is_journal_damaged
    ]


def _said(folder: ExperimentFolder, undone: Undone, *, is_dismissed: bool) -> int:
    """Print the result of undoing one journal; return its exit code."""
    previous = sorted(undone.previous.items())
    entries = [f"{name} = {value}" for name, value in previous if value is not None]
    absent = [name for name, value in previous if value is None]
    parts = [", ".join(entries)] if entries else []
    if absent:
        parts.append(f"no entry for {', '.join(absent)} in postgresql.auto.conf")
    values = "; ".join(parts)
    at = f"#{folder.number} {undone.place}:"
    if undone.error is not None:
        steps = [undone.error.hint, f"pgdyno undo --dismiss {folder.number} forgets the change"]
        output.problem(
            f"{at} not put back: {values}. {undone.error.message}",
            "; ".join(step for step in steps if step),
            sqlstate=undone.error.sqlstate,
        )
        return undone.error.exit_code
    if is_dismissed:
        output.data(f"{at} forgotten, not put back: {values}")
    elif undone.was_changed:
        output.data(f"{at} put back: {values}")
    else:
        output.data(f"{at} already as before: {values}")
    return 0
