"""`pgdyno capture`: a user's own load in a file; `capture show` and `capture scripts` read it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from pgdyno.cli import options, output, wanted
from pgdyno.cli.headings import Operand, Verb
from pgdyno.cli.option_table import table
from pgdyno.cli.unused_options import is_given, refuse_beside_print_sql, refuse_without_effect
from pgdyno.errors import SpecError, StoreError
from pgdyno.process import signals
from pgdyno.quantities import seconds
from pgdyno.spec.units import SECOND_NS, duration_ns
from pgdyno.user_file import require_long_file

if wanted.body(__name__):
    from pgdyno.cli.from_options import server_named
    from pgdyno.features.capture import file
    from pgdyno.features.capture import text as capture_text
    from pgdyno.features.capture.coverage import coverage_of
    from pgdyno.features.capture.model import Capture
    from pgdyno.features.capture.permitted import permitted
    from pgdyno.features.capture.reading import log
    from pgdyno.features.capture.reading.counting import CaptureProgress
    from pgdyno.features.capture.reading.recorder import RECORDING_SUFFIX, Recorder
    from pgdyno.features.capture.reading.statistics import (
        Reading,
        Request,
        sources_text,
        statements_sent,
    )
    from pgdyno.features.capture.scripts import scripts_of
    from pgdyno.features.capture.sent import with_harmless_load
    from pgdyno.server.target import Target
    from pgdyno.store.files import write_bytes

_SHORTEST_NS = 2 * SECOND_NS
_LOGS = ("logs", "log_line_prefix", "log_sample_rate")
_SERVER = ("host", "port", "user", "database", "password_command")
_ONLY_CAPTURE = (*_SERVER, *_LOGS, "to", "duration", "keep_values", "may_store_values", "print_sql")
_ADVISED_RATE = 0.01
# The unfinished capture: a whole file, written again from time to time.
_PARTIAL = ".partial"


@click.command(
    "capture", cls=Verb, short_help="Capture your own load in a file, without your data."
)
@options.connection
@click.argument(
    "path",
    required=False,
    metavar="[FILE]",
    type=click.Path(path_type=Path),
    cls=Operand,
    heading="Reading a capture",
    help="The capture to read, after the word show or scripts.",
)
@click.argument(
    "folder",
    required=False,
    metavar="[FOLDER]",
    type=click.Path(path_type=Path, file_okay=False),
    cls=Operand,
    heading="Reading a capture",
    help="With scripts: the folder for the pgbench scripts.",
)
@table(
    """
    Observation
    --duration TIME =15min *  Duration of the capture, such as 90s or 2h (default 15min).
    --log (logs) FILE ... *
        Log of the server in format stderr, csvlog or jsonlog, or from syslog, journalctl (short,
        export, json), containers or clouds, also as .gz or .zst. pgdyno takes whole transactions
        with their parameters from the log. It reads only the schema from the server, unless you
        also give --duration. Repeat the option for rotated files, in any order.
    --log-line-prefix PREFIX *
        log_line_prefix when the log was written. Default: pgdyno tries the server's setting, then
        the usual prefixes, and guesses other ones from the lines.
    --log-sample-rate RATIO
        log_transaction_sample_rate when the log was written. Default: the server's setting; 1 if
        the server logs all statements.
    """,
    logs={"type": click.Path(path_type=Path, dir_okay=False)},
    log_sample_rate={"type": click.FloatRange(0, 1, min_open=True)},
)
@table(
    """
    Answer
    --log-advice
        Print the statements that make a server log whole transactions, with their price, and exit.
        They are not executed.
    -o --output (to) FILE *  File to write (default DATABASE.capture).
    --keep-values
        Keep common values and bounds of columns and, with --log, every transaction with its values:
        bench repeats it on a restored dump. Needs --i-may-store-values. The name and the first line
        of the file say that it has values.
    --i-may-store-values (may_store_values)
        You may store values of this database in a file, which only you can read.
    --coverage (only_coverage)
        With show: print only how much of the load can be reproduced, and what prevents the rest.
    --all (shows_all)  With show: print every item of every class.
    --print-sql *  Print every statement that capture may send, and exit.
    """,
    to={"type": click.Path(path_type=Path, dir_okay=False)},
)
@options.json_option
@options.quiet
def command(**given: Any) -> int:
    """Capture schema, statistics and load of a server in a file that has no values of rows.

    Only reads, with one connection. Stand-ins replace the values of rows; the random key of the
    stand-ins is never written. If Ctrl-C ends the capture early, the file is still written.
    `capture show FILE` prints the content of a file, `capture scripts FILE FOLDER` writes its load
    as pgbench scripts.
    """
    if given["quiet"]:
        output.be_quiet()
    if given["print_sql"]:
        refuse_beside_print_sql(given)
        output.data("\n\n".join(f"-- {name}\n{sql};" for name, sql in statements_sent().items()))
        return 0
    if given["log_advice"]:
        output.data(log.advice(given["log_sample_rate"] or _ADVISED_RATE))
        return 0
    if given["conninfo"] in _READERS:
        return _READERS[given["conninfo"]](given)
    return _capture(given)


def _capture(given: dict[str, Any]) -> int:
    if given["path"] is not None:
        raise SpecError(
            f"{given['conninfo']} {given['path']}: one conninfo, or show FILE, or scripts FILE"
            " FOLDER.",
            hint="pgdyno capture --help",
        )
    because = "it is for pgdyno capture show FILE"
    refuse_without_effect(given, ("only_coverage", "shows_all"), because, "leave it out")
    if not given["logs"]:
        because = "no log is given"
        refuse_without_effect(given, _LOGS[1:], because, "add --log FILE, or leave it out")
    for log_file in given["logs"]:
        require_long_file(log_file, of="--log")
    _refuse_values_without_permission(given)
    # Logs alone: nothing is counted, only the schema is read.
    counts = not given["logs"] or is_given(given, "duration")
    duration = duration_ns(given["duration"], what="--duration") if counts else 0
    if counts and duration < _SHORTEST_NS:
        raise SpecError(
            f"--duration must be at least 2s, got {given['duration']}.",
            hint="capture a time that is typical of the load, such as 30min",
        )
    resolved = server_named(given)
    if resolved is None:
        raise SpecError(
            "capture needs a server, but the command names none.",
            hint="name the server with -h, -d or a conninfo",
        )
    for warning in resolved.notes:
        output.warning(warning.message, warning.hint)
    path = _path_of(given, resolved.target)
    partial = path.with_name(path.name + _PARTIAL)
    for taken in (path, partial, _recording_path(path)):
        if taken.exists():
            whole = f"it is a whole capture: mv {partial} {path}, or remove it"
            raise SpecError(
                f"{taken} exists.",
                hint=whole if taken is partial else "name another file with -o, or remove it",
            )
    return _carry_out(given, resolved.target, duration / SECOND_NS, path, partial)


def _refuse_values_without_permission(given: Mapping[str, Any]) -> None:
    if given["keep_values"] and not given["may_store_values"]:
        what = "values of rows, and every value that the log has" if given["logs"] else "values"
        raise SpecError(
            f"--keep-values writes {what} into a file, and nothing says that you may store them.",
            hint="if you may, add --i-may-store-values; otherwise leave --keep-values out",
        )
    if given["may_store_values"]:
        because = "without --keep-values no value is stored"
        if not given["keep_values"]:
            refuse_without_effect(given, ("may_store_values",), because, "leave it out")


def _path_of(given: Mapping[str, Any], target: Target) -> Path:
    """Return the file; its name says that it has values of rows, if it has."""
    path: Path = given["to"] or Path(f"{target.database}.capture")
    if given["keep_values"] and file.KEPT_SUFFIX not in path.suffixes:
        path = path.with_name(f"{path.stem}{file.KEPT_SUFFIX}{path.suffix or '.capture'}")
        output.note(f"values are kept: the file is {path}")
    return path


def _carry_out(
    given: dict[str, Any], target: Target, duration_s: float, path: Path, partial: Path
) -> int:
    def keep(capture: Capture) -> None:
        _write(partial, permitted(capture))

    request = Request(
        target=target,
        seconds=duration_s,
        keeps_values=given["keep_values"],
        moved=lambda progress: _show_progress(progress, duration_s),
        checkpoint=keep,
        lost=lambda words: output.note(words),
        has_logs=bool(given["logs"]),
    )
    with Reading(request) as reading:
        output.note(
            f"target  {target.place}, PostgreSQL {reading.source.version}; one connection, reads"
        )
        for label, words in sources_text(reading.sources):
            output.note(f"{label:20}{words}")
        with output.doing("reading the schema and its statistics"):
            reading.read_once()
        recorder = None
        if given["logs"] and given["keep_values"]:
            recorder = Recorder(_recording_path(path), reading.capture().columns)
        with output.doing("reading the log"):
            logged = _logged(given, reading, recorder) if given["logs"] else None
        # Now the disk, too, is known to work; a kill from here on leaves a whole file.
        keep(reading.capture())
        interruption = reading.count()
        with output.doing("joining what was counted, and writing the file"):
            try:
                capture = _joined(reading, logged)
            except BaseException:
                # Only a whole recording is kept, and a file without the log that was asked for
                # only if something was counted.
                if recorder is not None:
                    recorder.discard()
                if not duration_s:
                    partial.unlink(missing_ok=True)
                raise
            with signals.shielded("the file of the capture"):
                _write(path, capture)
            partial.unlink(missing_ok=True)
    output.clear_live()
    coverage = coverage_of(capture)
    text = capture_text.summary_text(capture, coverage, path, width=output.width())
    document = {
        "format": "pgdyno.captured/1",
        "file": str(path),
        "seconds": capture.header.seconds,
        "keeps_values": capture.header.keeps_values,
        "coverage": asdict(coverage),
        "notes": list(capture.notes),
        "warnings": [],
    }
    options.write(text, json.dumps(document, indent=2, ensure_ascii=False), given["json_to"])
    if interruption is not None:
        raise interruption
    return 0


def _joined(reading: Reading, logged: log.Logged | None) -> Capture:
    """Return what the server and the logs said, as one capture."""
    capture = reading.capture()
    if logged is not None:
        types, raw = reading.types_of, reading.raw
        means, stand_ins = reading.means(), reading.stand_ins
        with signals.raised_at_once():
            capture = logged.joined(capture, types, raw, means, stand_ins)
    return with_harmless_load(permitted(capture))


def _recording_path(path: Path) -> Path:
    """Return the file of the transactions with their values, next to the capture."""
    return path.with_suffix(RECORDING_SUFFIX)


def _logged(given: Mapping[str, Any], reading: Reading, recorder: Recorder | None) -> log.Logged:
    try:
        return _read_logs(given, reading, recorder)
    except BaseException:
        if recorder is not None:
            recorder.discard()
        raise


def _read_logs(given: Mapping[str, Any], reading: Reading, recorder: Recorder | None) -> log.Logged:
    """Read the logs. The server's own prefix is tried first, then the usual ones."""
    server, given_prefix = reading.logging(), given["log_line_prefix"]
    request = log.LogRequest(
        paths=given["logs"],
        database=reading.source.database,
        prefix=given_prefix or server.prefix,
        is_certain=given_prefix is not None,
        sample_ratio=given["log_sample_rate"] or server.sample_ratio,
        rows_of_copies=reading.rows_of_copies(),
        logs_some=server.logs_some,
        recorder=recorder,
    )
    logged = log.Logged(request, reading.names)
    reading.schema.use(logged.texts)
    end = logged.seen.end
    output.note(f"{'log':20}{end['statements']} statements of {end['messages']} messages")
    return logged


def _write(path: Path, capture: Capture) -> None:
    try:
        write_bytes(path, file.encoded(capture))
    except StoreError as error:
        raise StoreError(error.message, hint="name another file with -o") from None


def _show_progress(progress: CaptureProgress, duration_s: float) -> None:
    output.live(
        f"{seconds(progress.seconds)} of {seconds(duration_s)}"
        f"  {progress.transactions_tps:,.0f} transactions a second"
        f"  {progress.active_sessions:.1f} active  {progress.statements} statements"
    )


def _show(given: dict[str, Any]) -> int:
    path, capture = _read(given)
    coverage = coverage_of(capture)
    if given["only_coverage"]:
        refuse_without_effect(given, ["shows_all"], "--coverage prints the coverage", "use one")
        text = capture_text.coverage_text(coverage, width=output.width())
        document: dict[str, Any] = {"format": "pgdyno.coverage/1", **asdict(coverage)}
    else:
        text = capture_text.show_text(
            capture, path, shows_all=given["shows_all"], width=output.width()
        )
        document = {"format": capture.header.format, **capture.model_dump(mode="json")}
    document["warnings"] = []
    options.write(text, json.dumps(document, indent=2, ensure_ascii=False), given["json_to"])
    return 0


def _scripts(given: dict[str, Any]) -> int:
    _, capture = _read(given)
    because = "scripts writes files"
    refuse_without_effect(given, ("json_to", "only_coverage", "shows_all"), because, "leave it out")
    if given["folder"] is None:
        raise SpecError(
            "scripts needs a folder.", hint="pgdyno capture scripts core.capture scripts/"
        )
    scripts = scripts_of(capture)
    if not scripts:
        raise SpecError(
            f"{given['path']} has no templates of transactions.",
            hint="pgdyno capture show FILE --coverage tells why",
        )
    try:
        given["folder"].mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"{given['folder']} cannot be made: {error.strerror}.", hint="name another folder"
        ) from None
    for name, text in scripts.items():
        options.write_file(given["folder"] / name, text)
        output.data(str(given["folder"] / name))
    return 0


def _read(given: dict[str, Any]) -> tuple[Path, Capture]:
    verb = given["conninfo"]
    because = f"{verb} reads a file and asks no server"
    refuse_without_effect(given, _ONLY_CAPTURE, because, "leave it out")
    if given["path"] is None:
        raise SpecError(f"{verb} needs a file.", hint=f"pgdyno capture {verb} core.capture")
    if verb == "show" and given["folder"] is not None:
        raise SpecError("show takes one file.", hint="pgdyno capture show core.capture")
    return given["path"], file.read(given["path"])


_READERS = {"show": _show, "scripts": _scripts}
