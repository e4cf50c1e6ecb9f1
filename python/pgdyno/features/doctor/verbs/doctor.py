"""`pgdyno doctor`: checks host, settings and privileges before you measure."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from pgdyno.cli import options, output, wanted
from pgdyno.cli.effect import refuse_beside_print_sql, refuse_without_effect
from pgdyno.cli.headings import ANSWER, NOISE, Verb, under
from pgdyno.errors import SpecError
from pgdyno.quantities import counted, percent, seconds
from pgdyno.report.text_page import TextPage
from pgdyno.spec.units import size_bytes

if wanted.body:
    from pydantic import ValidationError

    from pgdyno.analysis.rounding import change_text
    from pgdyno.answer.noise import HostNoise, aa_experiment, host_noise
    from pgdyno.cli.from_options import host_command_of, refuse, say_unused_ways, server_named
    from pgdyno.cli.live import Live
    from pgdyno.cli.measure import exit_code, keep
    from pgdyno.designs import answer_so_far, design_of
    from pgdyno.features.doctor.examination_text import grants_text, text_of
    from pgdyno.features.doctor.examine import Examination, Subject, examine
    from pgdyno.features.doctor.peak import peak_seen
    from pgdyno.features.doctor.server_sql import statements
    from pgdyno.features.doctor.session import OLDEST_MAJOR
    from pgdyno.loop.drive import carry_out
    from pgdyno.report.short_text import shortened
    from pgdyno.server.placement import LAST_PLACE
    from pgdyno.spec.experiment import Experiment, Permissions
    from pgdyno.store.experiment import Store

EXIT_CHECK_FAILED = 4
_answer, _noise = under(ANSWER), under(NOISE)
_FAR = ("ssh", "host_shell")
_FAILING = {"good": ("warn", "bad"), "warn": ("bad",)}


@click.command(
    "doctor", cls=Verb, short_help="Check host, settings and privileges before you measure."
)
@options.connection
@click.option(
    "--scratch", is_flag=True, help="Check this host only, as the host of a scratch server."
)
@click.option("--ram", metavar="SIZE", help="Memory of the server's host, such as 28GB.")
@click.option(
    "--flush",
    type=click.Path(path_type=Path),
    help="Measure how long a flush to disk takes in this folder (writes a file of 2 MB).",
)
@options.host
@_answer("--all", "show_all", is_flag=True, help="Print every line, also good checks.", first=True)
@_answer(
    "--grants", is_flag=True, help="Print the GRANT statements for missing privileges.", first=True
)
@_answer(
    "--check",
    type=click.Choice(["good", "warn"]),
    help="Exit with code 4 if a check is worse than this.",
    first=True,
)
@_answer(
    "--print-sql",
    is_flag=True,
    help="Print every statement that the doctor may send, and exit.",
    first=True,
)
@_noise(
    "--aa",
    is_flag=True,
    help="Measure the smallest difference that this host can show (A against A).",
    first=True,
)
@_noise(
    "--budget",
    default="5min",
    metavar="TIME",
    help="Longest duration of the measurement (default 5min).",
)
@_noise("--run", default="5s", metavar="TIME", help="Duration of each run (default 5s).")
@_noise("--confirm", metavar="DB@HOST", help="Confirm a load on a server that other sessions use.")
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
    examination = examine(
        Subject(
            target=resolved.target if resolved else None,
            folder=Path(os.environ.get("PGDYNO_DATA") or LAST_PLACE),
            ram_bytes=size_bytes(given["ram"], what="--ram") if given["ram"] else None,
            flush_folder=given["flush"],
            host_command=host_command_of(given),
            peak=peak_seen(Store.default(given["store"]), resolved.target) if resolved else None,
        )
    )
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
    failing = _FAILING.get(given["check"] or "", ())
    worse = [
        finding
        for verdict in failing
        for finding in examination.findings
        if finding.verdict == verdict
    ]
    if not worse:
        return 0
    named = ", ".join(f"{finding.id} ({finding.verdict})" for finding in worse)
    output.note(f"CHECK FAILED {given['check']}: {named}")
    return EXIT_CHECK_FAILED


_CLIENTS = 4
_SCALE = 10


def measure_noise(given: dict[str, Any]) -> int:
    """Measure A against A, print the noise floor, and return the exit code."""
    resolved = server_named(given)
    asked = _experiment(given, resolved.target.place if resolved else None)
    progress = Live()
    outcome = carry_out(
        asked,
        design_of(asked),
        verb="doctor",
        resolved=resolved,
        permissions=Permissions(confirm=(given["confirm"],) if given["confirm"] else ()),
        store=Store.default(given["store"]),
        progress=progress,
    )
    progress.ended()
    findings = answer_so_far(outcome.folder, outcome.error)
    if findings is not None and outcome.folder is not None:
        keep(outcome.folder, findings)
        noise = host_noise(findings)
        lines = list(lines_of(noise, asked, findings.facts.target))
        lines.append(f"{'saved':12}#{outcome.folder.number}   pgdyno show {outcome.folder.number}")
        document = {
            "format": "pgdyno.noise/1",
            "number": outcome.folder.number,
            "target": findings.facts.target,
            **document_of_noise(noise),
        }
        text = json.dumps(document, indent=2, ensure_ascii=False)
        options.write("\n".join(lines), text, given["json_to"])
    if outcome.error is not None:
        output.problem(outcome.error.message, outcome.error.hint)
        return outcome.error.exit_code
    return exit_code(outcome.error, findings)


def _experiment(given: dict[str, Any], dsn: str | None) -> Experiment:
    try:
        return aa_experiment(
            dsn=dsn, clients=_CLIENTS, run=given["run"], budget=given["budget"], scale=_SCALE
        )
    except ValidationError as error:
        refuse(error)


def lines_of(noise: HostNoise, asked: Experiment, target: str) -> Iterator[str]:
    """Yield the lines of the noise floor as text."""
    floor = noise.floor
    script = asked.workload.scripts[0].name
    page = TextPage(output.width())
    yield from page.row("target", target)
    yield from page.row(
        "A against A",
        f"{counted(floor.pair_count, 'pair')} of runs of {script} with {_CLIENTS} clients, "
        f"{seconds(noise.pair_seconds)} per pair",
    )
    yield from page.row(
        "scatter",
        f"the ratio of one pair has a standard deviation of {percent(floor.deviation_ratio)}",
    )
    for place, (minutes, ratio) in enumerate(noise.detectable_ratio):
        yield from page.row(
            "noise floor" if place == 0 else "",
            f"in {minutes} min, 4 of 5 experiments find a difference of {percent(ratio)}",
        )
    said = change_text(noise.contrast.deciding.ratio)
    if noise.is_false_verdict:
        yield from page.row(
            "verdict",
            f"FALSE: A differs from itself by {said}. Something on this host changes during the "
            "test. Fewer than 1 in 20 quiet hosts show this. Stop other programs and repeat.",
        )
    else:
        yield from page.row("verdict", f"none, as expected: A against itself {said}")


def document_of_noise(noise: HostNoise) -> dict[str, Any]:
    """Return the noise floor as a JSON document."""
    deciding = noise.contrast.deciding
    return {
        "pairs": noise.floor.pair_count,
        "pair_seconds": noise.pair_seconds,
        "deviation_ratio": noise.floor.deviation_ratio,
        "detectable": [{"minutes": m, "ratio": r} for m, r in noise.detectable_ratio],
        "verdict": deciding.verdict,
        "is_false_verdict": noise.is_false_verdict,
        "tps_ratio": deciding.ratio.to_json(),
        "ratios": [pair.ratio for pair in noise.contrast.pairs],
        "warnings": _warnings(noise),
    }


def _warnings(noise: HostNoise) -> list[dict[str, str]]:
    if not noise.is_false_verdict:
        return []
    message = "A differs from itself: something on this host changes during the test."
    return [{"kind": "false_verdict", "message": message, "hint": "stop other programs and repeat"}]
