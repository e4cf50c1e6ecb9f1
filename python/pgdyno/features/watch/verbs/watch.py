"""`pgdyno watch`: observes a server without a load from pgdyno."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from pgdyno.cli import options, output, wanted
from pgdyno.cli.headings import Verb
from pgdyno.cli.option_table import table
from pgdyno.cli.unused_options import refuse_beside_print_sql
from pgdyno.errors import SpecError
from pgdyno.features.watch.show import WatchShow
from pgdyno.quantities import percent, seconds
from pgdyno.spec.units import duration_ns

if TYPE_CHECKING:
    from pgdyno.features.doctor.examine import Examination

if wanted.body(__name__):
    from pgdyno.cli.from_options import host_command_of, say_unused_ways, server_named
    from pgdyno.features.watch.incident.finding import IncidentFinding
    from pgdyno.features.watch.statements import KnownTexts
    from pgdyno.features.watch.tally import SampleGap, Sums, Tally
    from pgdyno.features.watch.watch import WatchRequest, watch
    from pgdyno.measure.host_access import console_of
    from pgdyno.observe.collector import NoticeKind
    from pgdyno.observe.session import STATEMENT_TIMEOUT_MS
    from pgdyno.report.text_page import TextPage, clipped, joined, one_line
    from pgdyno.store.experiment import Store
    from pgdyno.store.folder import ExperimentFolder

_SHORTEST_NS = 100_000_000
_TERMINAL_EVERY_NS = 1_000_000_000
_PLAIN_EVERY_NS = 10_000_000_000
_EARLY_SAMPLES = 3
_STATEMENTS_SHOWN = 3
_STATEMENT_WIDTH = 44


@click.command("watch", cls=Verb, short_help="Observe a server without adding load.")
@options.connection
@options.host
@table("""
    Observation
    --pooler CONNINFO *  Console of the PgBouncer between clients and server.
    --duration TIME =1h *  Duration of the watch, such as 90s or 2d (default 1h).
    --interval TIME =1s *
        Time between samples of counters (default 1s). Waits are sampled ten times as often.
    Answer
    --compare-to (compared_to) PERIOD|RESULT
        Show what changed since another result or period (14:00-14:10, RESULT@14:00-14:10).
    --of (compared) RESULT
        With --compare-to: compare a stored watch, or a period of it, instead of watching.
    --note TEXT =  Remark to keep with the result.
    --print-sql *  Print every statement that watch may send, and exit.
""")
@options.results
@options.verbose
def command(**given: Any) -> int:
    """Observe a server: read-only, at most two connections, at most 2 s per statement.

    If the server restarts or the network is lost, the result has a gap. Ctrl-C ends the watch; the
    result is kept.
    """
    if given["quiet"]:
        output.be_quiet()
    if given["print_sql"]:
        refuse_beside_print_sql(given)
        output.data(_sql())
        return 0
    if given["compared"]:
        return _compare(given)
    resolved = server_named(given)
    if resolved is None:
        raise SpecError(
            "watch needs a server, but the command names none.",
            hint="name the server with -h, -d or a conninfo",
        )
    for warning in resolved.notes:
        output.warning(warning.message, warning.hint)
    interval_ns = duration_ns(given["interval"], what="--interval")
    if interval_ns < _SHORTEST_NS:
        raise SpecError(
            f"--interval must be at least 100ms, got {given['interval']}.",
            hint="waits are sampled ten times in each interval",
        )
    watched_ns = duration_ns(given["duration"], what="--duration")
    if watched_ns < interval_ns:
        raise SpecError(
            f"--duration {given['duration']} is shorter than one interval of {given['interval']}.",
            hint="watch longer, or give a shorter --interval",
        )
    output.note(f"connecting to {resolved.target.place} as {resolved.target.user}")
    outcome = watch(
        WatchRequest(
            target=resolved.target,
            duration_ns=watched_ns,
            interval_ns=interval_ns,
            name=given["name"] or f"watch {resolved.target.database}",
            note=given["note"],
            host_command=host_command_of(given),
            console=console_of(given["pooler"]),
        ),
        Store.default(given["store"]),
        WatchLines(interval_ns, given),
    )
    changes = _changes(given, outcome.folder)
    _show(given, outcome.folder, outcome.document, changes)
    if outcome.error is not None:
        output.problem(outcome.error.message, outcome.error.hint, sqlstate=outcome.error.sqlstate)
        return outcome.error.exit_code
    return 0


def _compare(given: Mapping[str, Any]) -> int:
    """Compare a stored watch with another period."""
    if not given["compared_to"]:
        raise SpecError(
            "--of names what is compared, but nothing says with what.",
            hint="add --compare-to PERIOD or RESULT",
        )
    from pgdyno.features.watch.periods import named_period
    from pgdyno.features.watch.segments import document_again

    folder = named_period(given["compared"], Store.default(given["store"]), None).folder
    _show(given, folder, document_again(folder), _changes(given, folder))
    return 0


def _changes(given: Mapping[str, Any], folder: ExperimentFolder) -> dict[str, Any] | None:
    """Return what changed since the period that the user named; None if none is named.

    A period of the same watch is compared with the rest of this watch.
    """
    if not given["compared_to"]:
        return None
    from pgdyno.features.watch.changes import changes_of
    from pgdyno.features.watch.periods import WHOLE_NS, named_period

    store = Store.default(given["store"])
    asked = named_period(given["compared_to"], store, folder)
    named = given["compared"] or str(folder.number)
    now = named_period(named, store, folder)
    if asked.folder.folder == now.folder.folder and now.ended_ns == WHOLE_NS:
        # The period in the question is the incident: what is different in it?
        return changes_of(asked.rest, asked)
    return changes_of(asked, now)


def _show(
    given: Mapping[str, Any],
    folder: ExperimentFolder,
    document: Mapping[str, Any],
    changes: dict[str, Any] | None,
) -> None:
    """Print the answer, then write the page. With --of, print the changes alone.

    The page reads all samples, which takes longer than the text, for which the document is enough.
    """
    # Charts and pages are half of what a watch imports; its first sample does not wait for them.
    from pgdyno.features.watch.blocks import watch_blocks
    from pgdyno.features.watch.change_blocks import changes_section
    from pgdyno.features.watch.panels import WatchFindings, watch_findings
    from pgdyno.report.block_text import answer_text, block_lines
    from pgdyno.report.html import answer_page
    from pgdyno.report.short_text import LINES_MAX, shortened

    if changes is not None:
        document = {**document, "changes": changes}
    findings = watch_findings(folder) if given["verbose"] else WatchFindings(document)
    answer = watch_blocks(replace(findings, document=document))
    text = answer_text(answer, output.width(), "full" if given["verbose"] else "short")
    if given["compared"] and changes is not None:
        text = joined(block_lines(TextPage(output.width()), [changes_section(changes)]))
    if not given["verbose"] and changes is None:
        text = shortened(text, f"pgdyno show -v {folder.number}", LINES_MAX - 1)
    options.write(text, json.dumps(document, indent=2, ensure_ascii=False), given["json_to"])
    with output.doing("drawing the page"), folder.amending("report.html"):
        answer = watch_blocks(replace(watch_findings(folder), document=document))
        page = folder.write_report(answer_page(answer, folder.remarks()))
    if given["json_to"] == "-":
        output.note(f"{'report':12}{page}")
    else:
        output.data(f"{'report':12}{page}")


class WatchLines(WatchShow):
    """Shows live lines on a terminal, else a line every ten seconds; and each event at once."""

    def __init__(self, interval_ns: int, given: Mapping[str, Any]) -> None:
        self._given = given
        # Nothing is new between two samples. If three samples are missing, something is wrong.
        self._patience_ns = 3 * max(interval_ns, _TERMINAL_EVERY_NS)
        self._began_ns = 0
        self._last_ns = 0
        self._seen_ns = 0
        self._gaps = 0
        self._is_early = True
        self._resets = 0
        self._texts = KnownTexts({})
        self._findings: list[str] = []
        self._said: set[tuple[str, object]] = set()

    def doing(self, words: str, /) -> AbstractContextManager[None]:
        """Name work that lasts longer than two seconds."""
        return output.doing(words)

    def began(self, examination: Examination, folder: ExperimentFolder, texts: KnownTexts) -> None:
        """Print which server is watched, and that the watch only reads."""
        self._texts = texts
        output.note(f"target  {examination.target}")
        output.note(
            f"read-only, at most 2 connections, statement_timeout {STATEMENT_TIMEOUT_MS // 1000}s; "
            "creates, resets and writes nothing on the server"
        )
        output.note("all figures are of the whole server: of all its databases")
        if examination.facts.postmaster_pid is not None:
            say_unused_ways(self._given)
        output.note(f"result #{folder.number} in {folder.folder}")

    def moved(self, time_ns: int, tally: Tally) -> None:
        """Show the last seconds; print gaps and resets when they are over."""
        if tally.gap_count > self._gaps and tally.gaps:
            self._gaps = tally.gap_count
            output.note(_gap_line(tally.gaps[-1]))
        if tally.reset_count > self._resets:
            self._resets = tally.reset_count
            output.note(f"{_clock(time_ns)} statistics were reset: this sample is left out")
        is_live = output.is_terminal()
        # Sessions are seen at once; counters need two samples.
        is_early = self._is_early and tally.total.wait_samples >= _EARLY_SAMPLES
        is_new = is_early or tally.seen_ns > self._seen_ns
        if not self._is_due(time_ns, is_new, _TERMINAL_EVERY_NS if is_live else _PLAIN_EVERY_NS):
            return
        recent, at_work = tally.look(), tally.at_work()
        recent.scale_ratio = at_work.factor_ratio if at_work is not None else 1.0
        parts = line_parts(recent, tally.connections, with_events=not is_live)
        if not is_new and tally.ended_ns:
            parts.insert(0, f"server not reached for {(time_ns - tally.ended_ns) / 1e9:.0f} s")
        if not parts:
            return
        if tally.replay_lag_ns is not None:
            parts.append(f"lag {seconds(tally.replay_lag_ns / 1e9)}")
        self._is_early = False
        if not is_early:
            self._last_ns, self._seen_ns = time_ns, tally.seen_ns
        if is_live:
            events = [f"  {events_text(recent)}"] if recent.by_event else []
            lines = packed(_clock(time_ns), parts, shutil.get_terminal_size().columns - 1)
            output.live(*lines, *self._findings, *events, *statement_lines(recent, self._texts))
        else:
            output.note(f"{_clock(time_ns)} {'  '.join(parts)}")

    def _is_due(self, time_ns: int, is_new: bool, every_ns: int) -> bool:
        """Return whether a line is due; the first is due as soon as there are numbers."""
        self._began_ns = self._began_ns or time_ns
        waited_ns = time_ns - (self._last_ns or self._began_ns)
        if is_new:
            return not self._last_ns or waited_ns >= every_ns
        return waited_ns >= max(every_ns, self._patience_ns)

    def found(self, time_ns: int, findings: Sequence[IncidentFinding]) -> None:
        """Show what is wrong; without a terminal, print a finding when it begins."""
        width = shutil.get_terminal_size().columns - 1
        self._findings = [
            clipped(f"  ! {finding.said}", width) for finding in findings if not finding.is_over
        ]
        if output.is_terminal():
            return
        for finding in findings:
            name = (finding.kind, finding.evidence.get("pid"))
            if name not in self._said and not finding.is_over:
                self._said.add(name)
                output.note(f"{_clock(time_ns)} ! {finding.said}")

    def noticed(self, notice: Mapping[str, Any]) -> None:
        """Print an event; the page lists the numbers that this server does not give."""
        if notice["kind"] == NoticeKind.NOT_MEASURABLE:
            return
        hint = f" ({notice['hint']})" if notice["hint"] else ""
        output.note(f"{_clock(notice['time_ns'])} {notice['message']}{hint}")


def line_parts(recent: Sums, connections: int, *, with_events: bool = True) -> list[str]:
    """Return the parts of a line about the last seconds, without numbers that are not known."""
    parts: list[str] = []
    if recent.tps is not None:
        most = "at most " * recent.has_uncounted_workers
        parts.append(f"tps {most}{recent.tps:,.0f}")
    if (active := recent.active) is not None:
        events = f": {events_text(recent)}" if with_events and recent.by_event else ""
        parts.append(f"active {active:.2g}/{connections}{events}")
    if (wal := recent.wal_bytes_per_second) is not None:
        parts.append(f"WAL {_rate(wal)} MB/s")
    if (disk := recent.disk_bytes_per_second) is not None:
        parts.append(f"disk {_rate(disk[1])} MB/s out, {_rate(disk[0])} in")
    if (hits := recent.hit_ratio) is not None:
        parts.append(f"hits {percent(hits)}")
    return parts


def _rate(bytes_per_second: float) -> str:
    """Return MB/s for a short line: a tenth, as long as this is at most the third digit."""
    mb = bytes_per_second / 1e6
    return f"{mb:.1f}" if mb < 100 else f"{mb:,.0f}"


def packed(start: str, parts: Sequence[str], room: int) -> list[str]:
    """Return the parts in lines of at most `room` characters; no part is clipped."""
    first, *rest = parts
    lines = [f"{start} {first}"]
    for part in rest:
        if len(lines[-1]) + len(part) + 2 > room:
            lines.append(f"{'':{len(start)}} {part}")
        else:
            lines[-1] += f"  {part}"
    return lines


def statement_lines(recent: Sums, texts: KnownTexts) -> list[str]:
    """Return the statements with most DB time in the last seconds, with their wait events."""
    total = recent.by_event.total()
    known = ((waits, query) for query, waits in recent.by_statement.items() if query)
    shown = sorted(known, key=lambda pair: (-pair[0].total(), pair[1]))[:_STATEMENTS_SHOWN]
    lines = []
    for waits, query in shown:
        [(event, _)] = waits.most_common(1)
        text = one_line(texts.of(query) or f"query {query}", _STATEMENT_WIDTH)
        lines.append(
            f"  {100 * waits.total() / total:3.0f} %  {text:{_STATEMENT_WIDTH}}  {event or 'CPU?'}"
        )
    return lines


def events_text(recent: Sums) -> str:
    """Return the wait events of the sessions at work, each with its mean number of sessions."""
    shown = recent.by_event.most_common(3)
    sessions_per_count = recent.scale_ratio / recent.wait_samples
    texts = [f"{event or 'CPU?'} {count * sessions_per_count:.2g}" for event, count in shown]
    rest = recent.by_event.total() - sum(count for _, count in shown)
    if rest:
        texts.append(f"other {rest * sessions_per_count:.2g}")
    return ", ".join(texts)


def _gap_line(gap: SampleGap) -> str:
    return f"{_clock(gap.time_ns)} gap of {gap.length_ns / 1e9:.1f} s: no samples"


def _clock(time_ns: int) -> str:
    return datetime.fromtimestamp(time_ns // 1_000_000_000).strftime("%H:%M:%S")


def _sql() -> str:
    """Return the statements of the doctor, which a watch sends first, then all others."""
    from pgdyno.features.doctor.session import OLDEST_MAJOR
    from pgdyno.features.doctor.verbs.doctor import sql_text
    from pgdyno.features.watch.incident.table_facts import statements as table_statements
    from pgdyno.features.watch.statements import statements
    from pgdyno.observe.catalogue import statements as observed
    from pgdyno.server.nodes import node_statements

    parts = [sql_text()]
    said: set[str] = set()
    for version in range(OLDEST_MAJOR, 19):
        for name, statement in observed(version).items():
            if statement not in said:
                said.add(statement)
                parts.append(f"-- {name}, PostgreSQL {version} and later\n{statement};")
    own = {**node_statements(), **statements(), **table_statements()}
    for name, statement in own.items():
        parts.append(f"-- {name}\n{statement};")
    return "\n\n".join(parts)
