"""`pgdyno crash`: lets a server crash, and shows which acknowledged commits survive."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from pgdyno.cli import options, output, wanted
from pgdyno.cli.headings import Verb
from pgdyno.cli.option_table import table
from pgdyno.cli.unused_options import refuse_without_effect
from pgdyno.errors import RefusedError, SpecError
from pgdyno.features.crash.show import CrashShow
from pgdyno.spec.units import duration_ns
from pgdyno.user_file import read_text

if wanted.body(__name__):
    from pgdyno.cli.from_options import server_named, settings_of
    from pgdyno.cli.live import Live
    from pgdyno.features.crash.blocks import crash_blocks
    from pgdyno.features.crash.controls import ControlSeen
    from pgdyno.features.crash.crash import crash
    from pgdyno.features.crash.document import promises_durability
    from pgdyno.features.crash.own_pair import refuse_no_pair
    from pgdyno.features.crash.power_disk import why_not_here
    from pgdyno.features.crash.record import CrashRecord
    from pgdyno.features.crash.request import CrashRequest, OwnServer
    from pgdyno.quantities import counted
    from pgdyno.report.block_text import answer_text
    from pgdyno.report.html import answer_page
    from pgdyno.report.short_text import shortened
    from pgdyno.server.find import find
    from pgdyno.server.sql_script import split_statements
    from pgdyno.server.target import refuse_what_the_engine_lacks
    from pgdyno.server.user_command import COMMAND_TIMEOUT_S
    from pgdyno.store.experiment import Store
    from pgdyno.store.folder import ExperimentFolder

EXIT_LOST = 2
EXIT_BLIND = 3


@click.command("crash", cls=Verb, short_help="Show what an acknowledged commit survives.")
@table(
    """
    Crashes
    --kind kill|power|failover|command =kill *
        How the server crashes. kill: its processes get SIGKILL. power: its disk also loses what was
        not synced. failover: the primary is killed and its standby is promoted. command: your
        --crash-command crashes your own server (default kill).
    --crashes N:1..10000 =60 *  Number of crashes (default 60).
    --crash (only) N:1..  Repeat only the crash with this number.
    --seed N:0..9223372036854775807 =1  Seed of the random number generator (default 1).
    -c --clients --client N:1..1000 =8 *  Number of clients that commit (default 8).
    --directories strict|ext4 =strict
        With --kind power: which file names survive. strict: names whose folder was synced. ext4:
        all names up to one moment, as in the journal of ext4 (default strict).
    --on (on_file_system) ext4|xfs
        With --kind power: put a real file system of the kernel on the disk of the test, as a loop
        device.
    --sector 512|4096 =512
        With --kind power: number of bytes that survive together or are lost together (default 512).
    --check-sql FILE *  Statements that must return no rows after each crash.
    --recovery-timeout TIME =60s  Longest time that a recovery may take (default 60s).
    --standby synchronous|asynchronous =synchronous *
        With --kind failover: whether commits wait for the standby (default synchronous).
    --promote-command CMD =
        With --kind failover: command that promotes the standby (default pg_promote). PGHOST and
        PGPORT name the standby. For your own servers there is no default: without this command,
        your own tool must promote the standby.
    --fault (faults) fsync-eio|full|stall ...
        With --kind power: also test a server whose disk fails. fsync-eio: one fsync fails. full:
        the disk is full for 2 s. stall: the disk does not answer for 5 s.
    --no-controls *  Skip the controls, which show that this test sees losses.
    """,
    check_sql={"type": click.Path(exists=True, dir_okay=False, path_type=Path)},
)
@options.connection
@table("""
    On your own server
    --crash-command CMD  Command that crashes your own server.
    --recover-command CMD =
        Command that starts your own server again, if the server does not start by itself. After a
        failover, the command must make the failed server a standby.
""")
@options.command_timeout
@options.confirm
@options.scratch_that_crashes
@table("""
    Answer
    --note TEXT =  Remark to keep with the result.
""")
@options.results
@options.verbose
def command(**given: Any) -> int:
    """Let a server crash under load, recover it, and check every acknowledged commit.

    Each crash has a new scratch server with the same data. Controls with a known outcome run first:
    they show that this test sees losses.
    """
    if given["quiet"]:
        output.be_quiet()
    request = _request(given)
    store = Store.default(given["store"])
    store.require_writable()
    outcome = crash(request, store, CrashLines())
    output.clear_live()
    document = outcome.document
    answer = crash_blocks(document)
    with output.doing("drawing the page"):
        page = outcome.folder.write_report(answer_page(answer))
        outcome.folder.seal()
    shown = answer_text(answer, output.width(), "full" if given["verbose"] else "short")
    text = f"{shown}\n{'report':12}{page}"
    if not given["verbose"]:
        text = shortened(text, f"pgdyno show -v {outcome.folder.number}")
    options.write(text, json.dumps(document, indent=2, ensure_ascii=False), given["json_to"])
    codes = [_code(document)]
    if outcome.error is not None:
        output.problem(outcome.error.message, outcome.error.hint, sqlstate=outcome.error.sqlstate)
        codes.append(outcome.error.exit_code)
    return max(codes)


def _request(given: dict[str, Any]) -> CrashRequest:
    own = _own_server(given)
    if given["kind"] != "power":
        names = ("directories", "sector")
        refuse_without_effect(
            given, names, "only a power failure cuts off a disk", "add --kind power"
        )
    if given["kind"] != "failover":
        names = ("standby", "promote_command")
        refuse_without_effect(given, names, "only a failover has a standby", "add --kind failover")
    if own is None:
        of_own = ("crash_command", "recover_command", "command_timeout")
        refuse_without_effect(
            given, of_own, "pgdyno crashes a scratch server itself", "name the server with -h"
        )
    elif given["kind"] == "failover":
        because = "your own servers decide whether commits wait for the standby"
        refuse_without_effect(given, ["standby"], because, "set synchronous_standby_names there")
        _refuse_second_failover(given)
    if given["kind"] == "power" and (why := why_not_here()):
        raise SpecError(
            f"--kind power is not possible here: {why}.", hint="use --kind kill and --kind failover"
        )
    if given["on_file_system"] and given["kind"] != "power":
        raise SpecError(
            f"--on {given['on_file_system']} needs the disk of --kind power.",
            hint="add --kind power",
        )
    if given["faults"] and given["kind"] != "power":
        raise SpecError(
            f"--fault {given['faults'][0]} needs the disk of --kind power.",
            hint="add --kind power",
        )
    checks: tuple[str, ...] = ()
    if given["check_sql"] is not None:
        checks = tuple(split_statements(read_text(given["check_sql"], of="--check-sql")))
    return CrashRequest(
        kind=given["kind"],
        crashes=given["crashes"],
        seed=given["seed"],
        clients=given["clients"],
        binaries=None if own else find(bin_dir=given["pg_bin"], version=given["pg_version"]),
        own=own,
        confirm=given["confirm"],
        settings=settings_of(given["settings"], given["pg_version"]),
        data_dir=given["data_dir"],
        allow_tmpfs=given["allow_tmpfs"],
        checks=checks,
        controls=not given["no_controls"],
        directories=given["directories"],
        sector_bytes=int(given["sector"]),
        on=given["on_file_system"],
        recovery_timeout_s=duration_ns(given["recovery_timeout"], what="--recovery-timeout") / 1e9,
        replication=given["standby"],
        promote_command=given["promote_command"],
        faults=given["faults"],
        only_number=given["only"],
        name=given["name"] or "",
        note=given["note"],
    )


def _own_server(given: dict[str, Any]) -> OwnServer | None:
    """Return the user's own server; None for scratch servers.

    Raises: RefusedError without the command that may crash it; SpecError if the kind does not fit.
    """
    resolved = server_named(given)
    if resolved is None:
        if given["kind"] == "command":
            raise SpecError(
                "--kind command needs a server of your own, but the command names none.",
                hint="name the server with -h, -d or a conninfo",
            )
        return None
    if given["kind"] not in ("command", "failover") or not given["crash_command"]:
        raise RefusedError(
            "pgdyno crashes your own server only with the command that you name for it.",
            hint="add --kind command --crash-command CMD, or use --scratch",
        )
    if given["kind"] == "failover":
        refuse_no_pair(resolved.target)
    for warning in resolved.notes:
        output.warning(warning.message, warning.hint)
    refuse_what_the_engine_lacks(resolved.target)
    commands = given["crash_command"], given["recover_command"], given["promote_command"]
    return OwnServer(resolved.target, *commands, given["command_timeout"] or COMMAND_TIMEOUT_S)


def _refuse_second_failover(given: dict[str, Any]) -> None:
    """Raise SpecError for several failovers without the command that repairs the pair."""
    only_one = given["no_controls"] and (given["crashes"] == 1 or given["only"] is not None)
    if not given["recover_command"] and not only_one:
        raise SpecError(
            "After a failover, a second one needs the pair again: there is no --recover-command.",
            hint="add --recover-command CMD, which makes the failed server a standby again, or"
            " --crashes 1 --no-controls",
        )


class CrashLines(CrashShow):
    """Prints a line for each control, and the last crash or a line for each of them."""

    def __init__(self) -> None:
        self.progress = Live()

    def began(self, folder: ExperimentFolder, server: str) -> None:
        """Print what crashes, and where the result is."""
        output.note(f"target  {server}")
        output.note(f"result #{folder.number} in {folder.folder}")

    def controlled(self, seen: ControlSeen, what: str = "control") -> None:
        """Print what a control or a fault showed."""
        output.clear_live()
        as_expected = "as expected" if seen.holds else f"but it must show: {seen.expected}"
        output.note(f"{what} {seen.name}: {seen.seen}, {as_expected}")

    def crashed(self, record: CrashRecord, of_count: int) -> None:
        """Show the last crash."""
        line = _crash_line(record, of_count)
        if output.is_terminal() and not (record.lost or record.is_corrupt):
            output.live(line)
        else:
            output.note(line)


def _code(document: dict[str, Any]) -> int:
    """Return the exit code of the verdict: a loss that the settings allow is an answer."""
    if document["verdict"] == "blind":
        return EXIT_BLIND
    is_promised = promises_durability(document)
    has_loss = document["verdict"] in ("corrupt", "lost")
    has_loss |= any(not fault["holds"] for fault in document["faults"])
    if has_loss and is_promised:
        return EXIT_LOST
    return 0


def _crash_line(record: CrashRecord, of_count: int) -> str:
    """Return one line about a crash, for the time while they happen."""
    during = "while idle" if record.phase == "idle" else f"during {record.phase}"
    if record.recovery_error:
        end = f"no recovery: {record.recovery_error}"
    else:
        end = f"recovered in {(record.recovery_ns or 0) / 1e9:.1f} s"
        if record.lost:
            end += f", {counted(record.lost, 'commit')} lost"
        bad = [check for check in record.checks if check.verdict == "bad"]
        end += "".join(f"; {check.name}: {check.seen}" for check in bad[:1])
    return f"crash {record.number} of {of_count}  {during}  {end}"
