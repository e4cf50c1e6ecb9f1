"""`pgdyno doctor`: fit to be measured, sane, and which rights are there?"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import click

from pgdyno.cli import options, speak
from pgdyno.cli.asked import host_command_of, say_unused_ways, server_named
from pgdyno.cli.doctor_aa import measure_noise
from pgdyno.cli.headings import ANSWER, NOISE, WATCHED, Verb, under
from pgdyno.doctor.examine import Asked, Examination, examine
from pgdyno.doctor.server_sql import statements
from pgdyno.doctor.session import OLDEST_MAJOR
from pgdyno.doctor.text import grants_text, text_of
from pgdyno.errors import SpecError
from pgdyno.measure.watch_stored import peak_seen
from pgdyno.server.placement import LAST_PLACE
from pgdyno.spec.units import size_bytes
from pgdyno.store.experiment import Store

EXIT_CHECK_FAILED = 4
_answer, _noise = under(ANSWER), under(NOISE)
_FAR = ("ssh", "host_shell", "host_file")
_FAILING = {"good": ("warn", "bad"), "warn": ("bad",)}


@click.command(
    "doctor", cls=Verb, short_help="Fit to be measured, sane, and which rights are there?"
)
@options.connection
@click.option("--scratch", is_flag=True, help="This host alone, as a scratch server would use it.")
@click.option("--ram", metavar="SIZE", help="Memory of the server's host, such as 28GB.")
@click.option(
    "--flush", type=click.Path(path_type=Path), help="Measure flushes in that folder: writes."
)
@options.host
@under(WATCHED)("--host-file", type=click.Path(path_type=Path), help="Printed there by hand.")
@_answer("--all", "show_all", is_flag=True, help="Good and unknown checks as well.")
@_answer("--grants", is_flag=True, help="Statements that give the role what it lacks.")
@_answer("--check", type=click.Choice(["good", "warn"]), help="Exit 4 if any is worse.")
@_answer("--print-sql", is_flag=True, help="Every statement it may send, and exit.")
@_noise("--aa", is_flag=True, help="A against A: how small a difference is seen here?")
@_noise("--budget", default="5min", metavar="TIME", help="At most this long (5min).")
@_noise("--run", default="5s", metavar="TIME", help="Length of each run (5s).")
@_noise("--confirm", metavar="DB@HOST", help="Load it, although other sessions work there.")
@options.store_option
@options.json_option
def command(**given: Any) -> int:
    """Examine a server, its settings and its host; without a server this host alone.

    Reads only: one connection, read-only, statement_timeout 2 s. --flush alone writes, a file of
    2 MB that is gone afterwards; --aa alone is load, on a server of yours of reading only. What
    cannot be judged from here never fails a --check.
    """
    if given["aa"]:
        return measure_noise(given)
    if given["print_sql"]:
        speak.data(sql_text())
        return 0
    resolved = server_named(given)
    if resolved is None and (far := next((n for n in _FAR if given[n]), None)):
        raise SpecError(
            f"--{far.replace('_', '-')} is for the host of a server, but no server was named.",
            hint="name it with -h, -d or a conninfo, or run pgdyno doctor on that host",
        )
    for warning in resolved.notes if resolved else ():
        speak.note(f"warning: {warning.message} {warning.hint}")
    examination = examine(
        Asked(
            target=resolved.target if resolved else None,
            folder=Path(os.environ.get("PGDYNO_DATA") or LAST_PLACE),
            ram_bytes=size_bytes(given["ram"], what="--ram") if given["ram"] else None,
            flush_folder=given["flush"],
            host_command=host_command_of(given),
            host_file=given["host_file"],
            peak=peak_seen(Store.default(given["store"]), resolved.target) if resolved else None,
        )
    )
    if examination.facts.postmaster_pid is not None:
        say_unused_ways(given, _FAR)
    if given["grants"]:
        speak.data(grants_text(examination))
        return 0
    return _show(examination, given)


def sql_text() -> str:
    """Return every statement, those of each version that has its own."""
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
    text = text_of(examination, verbs=VERBS, show_all=given["show_all"], width=speak.width())
    options.write(text, document, given["json_to"])
    failing = _FAILING.get(given["check"] or "", ())
    worse = [
        finding
        for verdict in failing
        for finding in examination.findings
        if finding.verdict == verdict
    ]
    if not worse:
        return 0
    speak.note(f"CHECK FAILED {given['check']}: {', '.join(one.id for one in worse)}")
    return EXIT_CHECK_FAILED
