"""`pgdyno doctor`: checks host, settings and privileges before you measure."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import click

from pgdyno.cli import options, output, wanted
from pgdyno.cli.headings import Verb
from pgdyno.cli.option_table import table
from pgdyno.cli.unused_options import refuse_beside_print_sql, refuse_without_effect
from pgdyno.errors import SpecError
from pgdyno.spec.units import size_bytes

if wanted.body(__name__):
    from pgdyno.cli.from_options import host_command_of, say_unused_ways, server_named
    from pgdyno.features.doctor.examination_text import grants_text, text_of
    from pgdyno.features.doctor.examine import Examination, Subject, examine
    from pgdyno.features.doctor.finding import Verdict
    from pgdyno.features.doctor.peak import peak_seen
    from pgdyno.features.doctor.server_sql import statements
    from pgdyno.features.doctor.session import OLDEST_MAJOR
    from pgdyno.report.short_text import shortened
    from pgdyno.store.experiment import Store

EXIT_CHECK_FAILED = 4
_FAR = ("ssh", "host_shell")


@click.command(
    "doctor", cls=Verb, short_help="Check host, settings and privileges before you measure."
)
@options.connection
@table("""
    Options
    --scratch *  Check this host only, as the host of a scratch server.
    --ram SIZE *  Memory of the server's host, such as 28GB.
    --flush PATH *  Measure how long a flush to disk takes in this folder (writes a file of 2 MB).
""")
@options.host
@table("""
    Answer
    --all (show_all) *  Print every line, also good checks.
    --grants *  Print the GRANT statements for missing privileges.
    --check good|warn *  Exit with code 4 if a check is worse than this.
    --print-sql *  Print every statement that the doctor may send, and exit.
    Noise (A against A)
    --aa *  Measure the smallest difference that this host can show (A against A).
    --budget TIME =5min  Longest duration of the measurement (default 5min).
    --run TIME =5s  Duration of each run (default 5s).
    --confirm DB@HOST  Confirm a load on a server that other sessions use.
""")
@options.store_option
@options.json_option
def command(**given: Any) -> int:
    """Check a server, its settings and its host; without a server, check this host.

    The doctor only reads: one read-only connection, statement_timeout 2 s. Only --flush writes: a
    file of 2 MB, which is deleted afterwards. Only --aa creates load; on your own server that load
    only reads. If the answer of a check is unknown, --check does not count it.
    """
    _refuse_unused(given)
    if given["aa"]:
        # Only this way measures, and what it needs takes half a second to load.
        from pgdyno.features.doctor.verbs.noise_floor import measure_noise

        return measure_noise(given)
    if given["print_sql"]:
        refuse_beside_print_sql(given)
        output.data(sql_text())
        return 0
    resolved = server_named(given)
    if resolved is None and (far := next((n for n in _FAR if given[n]), None)):
        raise SpecError(
            f"--{far.replace('_', '-')} needs a server on another host, but the command names "
            "no server.",
            hint="name the server with -h, -d or a conninfo, or run pgdyno doctor on that host",
        )
    for warning in resolved.notes if resolved else ():
        output.warning(warning.message, warning.hint)
    subject = Subject(
        target=resolved.target if resolved else None,
        ram_bytes=size_bytes(given["ram"], what="--ram") if given["ram"] else None,
        flush_folder=given["flush"],
        host_command=host_command_of(given),
        peak=peak_seen(Store.default(given["store"]), resolved.target) if resolved else None,
    )
    with output.doing("examining the server" if resolved else "examining this host"):
        examination = examine(subject)
    if examination.facts.postmaster_pid is not None:
        say_unused_ways(given, _FAR)
    if given["grants"]:
        output.data(grants_text(examination))
        return 0
    return _show(examination, given)


def _refuse_unused(given: dict[str, Any]) -> None:
    """Raise SpecError for options that change nothing together with the others."""
    hint = "use one of the two"
    if not given["aa"]:
        because = "only --aa runs a load"
        refuse_without_effect(given, ("budget", "run", "confirm"), because, "add --aa")
    else:
        others = ("ram", "flush", *_FAR, "show_all", "grants", "check", "print_sql")
        refuse_without_effect(given, others, "--aa measures and checks nothing", hint)
    if given["grants"]:
        because = "--grants prints only statements"
        refuse_without_effect(given, ("show_all", "check", "json_to"), because, hint)


def sql_text() -> str:
    """Return every statement; if versions need different statements, all of them."""
    parts: list[str] = []
    said: set[str] = set()
    for version in range(OLDEST_MAJOR, 19):
        for name, statement in statements(version).items():
            if statement not in said:
                said.add(statement)
                parts.append(f"-- {name}, PostgreSQL {version} and later\n{statement};")
    return "\n\n".join(parts)


def _show(examination: Examination, given: dict[str, Any]) -> int:
    from pgdyno.cli.main import VERBS

    document = json.dumps(examination.as_document(), indent=2, ensure_ascii=False)
    text = text_of(examination, verbs=VERBS, show_all=given["show_all"], width=output.width())
    if not given["show_all"]:
        text = shortened(text, "add --all")
    options.write(text, document, given["json_to"])
    return failed_code(given, ((finding.id, finding.verdict) for finding in examination.findings))


def failed_code(given: dict[str, Any], verdicts: Iterable[tuple[str, Verdict]]) -> int:
    """Print the checks that are worse than --check allows; return the exit code.

    Args: verdicts, of each name; the first of a name counts.
    """
    failing = {"good": ("bad", "warn"), "warn": ("bad",)}.get(given["check"] or "", ())
    worst: dict[str, Verdict] = {}
    for name, verdict in verdicts:
        worst.setdefault(name, verdict)
    worse = [(name, v) for verdict in failing for name, v in worst.items() if v == verdict]
    if not worse:
        return 0
    named = ", ".join(f"{name} ({verdict})" for name, verdict in worse)
    output.note(f"CHECK FAILED {given['check']}: {named}")
    return EXIT_CHECK_FAILED
