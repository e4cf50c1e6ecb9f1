"""`pgdyno work-mem`: finds how much memory sorts and hashes need, from evidence."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from pgdyno.cli import options, output, wanted
from pgdyno.cli.headings import Verb
from pgdyno.cli.option_table import table
from pgdyno.cli.unused_options import (
    is_given,
    option_text,
    refuse_beside_print_sql,
    refuse_without_effect,
)
from pgdyno.clock import read_pair
from pgdyno.errors import RefusedError, SpecError
from pgdyno.server.dataset.kinds import KINDS
from pgdyno.spec.units import duration_ns, ram_here_bytes, size_bytes
from pgdyno.user_file import read_text

if wanted.body(__name__):
    from pgdyno.cli.from_options import AskedExperiment, dataset_of, server_named
    from pgdyno.cli.kind_help import option_fields
    from pgdyno.cli.live import Live
    from pgdyno.cli.measure import measure
    from pgdyno.cli.script_options import pairs_of
    from pgdyno.features.doctor.check_facts import CheckFacts, system_bytes
    from pgdyno.features.doctor.examine import Subject
    from pgdyno.features.doctor.finding import Unknown
    from pgdyno.features.doctor.peak import peak_seen
    from pgdyno.features.doctor.session import read_only
    from pgdyno.features.tune.server_settings import read_live
    from pgdyno.features.tune.spill import Advice, Need, advise
    from pgdyno.features.tune.spill_text import Again, exact_setting_text, setting_text, text_of
    from pgdyno.features.tune.spilling import (
        STATEMENTS_SQL,
        TEMPORARY_SQL,
        TRIED_SQL,
        LoggedFiles,
        Spilled,
        needs_of,
        read_log,
        read_spilled,
        statements_in,
    )
    from pgdyno.measure.loading import load_dataset
    from pgdyno.server.connect import Connection, connect
    from pgdyno.server.conninfo import Resolved
    from pgdyno.server.find import find
    from pgdyno.server.scratch.cluster import ScratchCluster, ScratchRequest
    from pgdyno.server.sql_script import run_script
    from pgdyno.spec.designs import CompareDesign
    from pgdyno.spec.experiment import Experiment, Permissions, Scratch, Script, Server, Workload
    from pgdyno.spec.variant import Variant
    from pgdyno.store.experiment import Store

_DEFAULT_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class _Where:
    """The server on which statements are tried, and the facts about it."""

    target: str
    connection: Connection | None
    facts: CheckFacts
    spilled: Spilled | None
    now_bytes: int
    is_scratch: bool


@click.command("work-mem", cls=Verb, short_help="Find how much memory sorts and hashes need.")
@options.connection
@table(
    """
    Statements
    -f --file (files) SQL ... *  Statements to try under several values of work_mem.
    -D --define NAME=VALUE ... *  Value of :NAME in the SQL.
    --max (largest) SIZE =1GB *  Largest work_mem to try (default 1GB).
    --timeout TIME =60s  Longest execution of a statement (default 60s).
    --active N:1..
        Number of statements that run at the same time (default: the largest number that pgdyno
        saw).
    --ram SIZE  Memory of the server's host, such as 28GB.
    --log FILE  Server log with the sizes of temporary files (log_temp_files = 0).
    --prove TIME *
        Also compare the present and the proposed value under load, for at most this duration.
    """,
    files={"type": click.Path(path_type=Path, exists=True, dir_okay=False)},
    log={"type": click.Path(path_type=Path, exists=True, dir_okay=False)},
)
@table("""
    On your own server
    --allow-explain-analyze *
        Allow pgdyno to execute the statements on your own server, in read-only transactions.
""")
@options.dataset
@table(
    """
    Scratch server
    --scratch  Try the statements on a scratch server.
    --pg-version MAJOR  Major version of the scratch server, 14 to 18.
    --sql FILE *  SQL that creates the tables (default: the pgbench tables).
    """,
    sql={"type": click.Path(path_type=Path, exists=True, dir_okay=False)},
)
@table("""
    Answer
    --print-sql  Print the statements that read evidence, and exit.
""")
@options.store_option
@options.json_option
@options.quiet
def command(**given: Any) -> int:
    """Find the smallest work_mem with which statements write no temporary files.

    Reads which temporary files were written so far. With -f, executes each statement under several
    values of work_mem with EXPLAIN (ANALYZE, BUFFERS), in transactions that are rolled back. Then
    prints a value for the server and values for single statements, with the memory they need.
    """
    if given["quiet"]:
        output.be_quiet()
    if given["print_sql"]:
        refuse_beside_print_sql(given)
        asked = "\n\n".join(f"{sql};" for sql in (TEMPORARY_SQL, STATEMENTS_SQL, TRIED_SQL))
        output.data(asked.format(schema="public"))
        return 0
    resolved = server_named({**given, "settings": ()})
    _refuse(given, resolved)
    variables = pairs_of(given["define"], "-D")
    max_bytes = size_bytes(given["largest"], what="--max")
    timeout_ms = _timeout_ms(given["timeout"])
    statements = {str(path): statements_in(path, variables) for path in given["files"]}
    logged = read_log(given["log"]) if given["log"] else None
    with _opened(given, resolved) as where:
        needs: tuple[Need, ...] = ()
        if where.connection is not None and statements:
            needs = needs_of(
                where.connection,
                statements,
                now_bytes=where.now_bytes,
                max_bytes=max_bytes,
                is_scratch=where.is_scratch,
                timeout_ms=timeout_ms,
            )
    advice = _advice(needs, where, given)
    document = _document(where, needs, advice, logged)
    text = text_of(
        *(where.target, where.spilled, logged, needs, advice),
        files=tuple(statements),
        again=_again(given, resolved),
        width=output.width(),
        has_log=given["log"] is not None,
    )
    options.write(text, json.dumps(document, indent=2, ensure_ascii=False), given["json_to"])
    if given["prove"] and advice.server_bytes is not None:
        return _prove(given, resolved, needs, advice)
    return 0


def _again(given: dict[str, Any], resolved: Resolved | None) -> Again:
    """Return the words that name the same server and variables to another verb; no password."""
    words: list[str] = []
    if resolved is not None:
        words.append(resolved.conninfo)
        if given["password_command"]:
            words += ["--password-command", given["password_command"]]
    elif given["scratch"]:
        words.append("--scratch")
        if given["pg_version"] is not None:
            words += ["--pg-version", given["pg_version"]]
        for kind in KINDS:
            for name in option_fields(kind):
                if name != "seed" and is_given(given, name) and "--" + name not in words:
                    words += option_text(given, name).split()
    for text in given["define"]:
        words += ["-D", text]
    tables = f"; sql=@{given['sql'].absolute()}" if given["sql"] is not None else ""
    return Again(tuple(words), tables)


def _timeout_ms(text: str) -> int:
    """Return --timeout. Raises: SpecError below 1 ms: for PostgreSQL, 0 means without limit."""
    timeout_ms = duration_ns(text, what="--timeout") // 1_000_000
    if timeout_ms < 1:
        raise SpecError(
            f"--timeout {text}: the longest execution of a statement must be at least 1ms.",
            hint="give the longest time that a statement may take, such as --timeout 10min",
        )
    return timeout_ms


def _refuse(given: dict[str, Any], resolved: Resolved | None) -> None:
    """Raise SpecError for options that cannot work, RefusedError for options without permission."""
    if resolved is None and not given["scratch"] and not given["log"]:
        raise SpecError(
            "No server was named.",
            hint="name it with -h, -d or a conninfo, or try statements with --scratch",
        )
    if given["scratch"] and not given["files"]:
        raise SpecError(
            "A scratch server has no past: there is nothing to look at without statements.",
            hint="give the statements with -f FILE",
        )
    if not given["scratch"]:
        tables = [name for kind in KINDS for name in option_fields(kind) if name != "seed"]
        because = "it is for a scratch server, but --scratch is not given"
        names = ("sql", "pg_version", *tables)
        refuse_without_effect(given, names, because, "add --scratch, or leave the option out")
    elif given["sql"] is not None:
        tables = [name for kind in KINDS for name in option_fields(kind) if name != "seed"]
        because = "--sql creates the tables"
        refuse_without_effect(given, tables, because, "use one of the two")
    if not given["files"]:
        names = ("define", "largest", "timeout", "prove", "allow_explain_analyze")
        because = "no statement is executed"
        refuse_without_effect(given, names, because, "give the statements with -f FILE")
    elif resolved is None and not given["scratch"]:
        because = "--log alone has no server that could execute statements"
        hint = "name the server with -h, -d or a conninfo, or add --scratch"
        refuse_without_effect(given, ["files"], because, hint)
    if given["scratch"]:
        because = "a scratch server needs no permission"
        refuse_without_effect(given, ["allow_explain_analyze"], because, "leave it out")
    if given["prove"] and given["sql"] is not None:
        raise SpecError(
            "--prove loads the pgbench tables and cannot be used with --sql.",
            hint="load your own server, and compare there",
        )
    if resolved is not None and given["files"] and not given["allow_explain_analyze"]:
        raise RefusedError(
            "-f executes the statements on your own server.",
            hint="add --allow-explain-analyze, or try them on a scratch copy with --scratch",
        )


@contextmanager
def _opened(given: dict[str, Any], resolved: Resolved | None) -> Iterator[_Where]:
    """Yield the server with a session; a scratch server is removed afterwards."""
    ram_bytes = size_bytes(given["ram"], what="--ram") if given["ram"] else None
    if resolved is None and not given["scratch"]:
        yield _Where(
            "a log alone", None, CheckFacts(ram_bytes=ram_bytes), None, _DEFAULT_BYTES, False
        )
        return
    if resolved is not None:
        yield from _own(given, resolved, ram_bytes)
        return
    with ScratchCluster.create(ScratchRequest(find(version=given["pg_version"]))) as cluster:
        target = cluster.target
        if given["sql"] is None:
            dataset = dataset_of(given)
            load_dataset(dataset, target, clock=read_pair(), verb="work-mem", progress=Live())
        with connect(target, verb="work-mem", interruptible=True) as connection:
            if given["sql"] is not None:
                run_script(connection, read_text(given["sql"]))
                connection.execute("ANALYZE")
            row = connection.execute(_SETTINGS_SQL).fetchone()
            assert row is not None, "a SELECT without FROM returns one row"
            memory = CheckFacts(ram_bytes=ram_bytes or ram_here_bytes())
            version = f"scratch PostgreSQL {cluster.binaries.version}"
            yield _Where(version, connection, memory, None, int(row[0]), True)


_SETTINGS_SQL = "SELECT pg_size_bytes(current_setting('work_mem'))"


def _own(given: dict[str, Any], resolved: Resolved, ram_bytes: int | None) -> Iterator[_Where]:
    for warning in resolved.notes:
        output.warning(warning.message, warning.hint)
    reviewed = read_live(
        Subject(
            target=resolved.target,
            ram_bytes=ram_bytes,
            peak=peak_seen(Store.default(given["store"]), resolved.target),
            verb="work-mem",
        )
    )
    with read_only(resolved.target, "work-mem") as (session, _):
        spilled = read_spilled(session)
    now_bytes = reviewed.facts.on_server().size_bytes("work_mem")
    if not given["files"]:
        yield _Where(reviewed.target, None, reviewed.facts, spilled, now_bytes, False)
        return
    with connect(resolved.target, verb="work-mem", interruptible=True) as connection:
        yield _Where(reviewed.target, connection, reviewed.facts, spilled, now_bytes, False)


def _advice(needs: tuple[Need, ...], where: _Where, given: dict[str, Any]) -> Advice:
    peak = where.facts.peak.sessions if where.facts.peak is not None else 0
    return advise(
        needs,
        now_bytes=where.now_bytes,
        active_count=given["active"] or max(1, peak),
        budget_bytes=_budget_bytes(where.facts),
    )


def _budget_bytes(facts: CheckFacts) -> int | None:
    """Return the memory that sorts and hashes may use together; None if RAM is not known."""
    try:
        ram_bytes = facts.memory_bytes()
    except Unknown:
        return None
    fixed_bytes = system_bytes(ram_bytes)
    if facts.server is not None:
        names = ("shared_buffers", "maintenance_work_mem")
        fixed_bytes += sum(facts.server.size_bytes(name) for name in names)
    return max(0, ram_bytes - fixed_bytes)


def _document(
    where: _Where, needs: tuple[Need, ...], advice: Advice, logged: LoggedFiles | None
) -> dict[str, Any]:
    return {
        "format": "pgdyno.work-mem/1",
        "target": where.target,
        "work_mem_bytes": where.now_bytes,
        "active_count": advice.active_count,
        "budget_bytes": advice.budget_bytes,
        "spilled": where.spilled.as_document() if where.spilled is not None else None,
        "log": asdict(logged) if logged is not None else None,
        "statements": [asdict(need) for need in needs],
        "server_work_mem_bytes": advice.server_bytes,
        "apart": [
            {"place": role.need.place, "at_one_time_count": role.at_one_time_count}
            for role in advice.apart
        ],
        "why": advice.why,
        "warnings": [],
    }


def _prove(
    given: dict[str, Any], resolved: Resolved | None, needs: tuple[Need, ...], advice: Advice
) -> int:
    """Compare both values under a load of the statements; return the comparison's exit code."""
    assert advice.server_bytes is not None, "there is a value to prove"
    now, enough = exact_setting_text(advice.now_bytes), setting_text(advice.server_bytes)
    longest_ms = max(need.now.duration_ms for need in needs)
    experiment = Experiment(
        name="work-mem",
        server=Server(
            scratch=Scratch(version=given["pg_version"]) if resolved is None else None,
            dsn=resolved.target.place if resolved is not None else None,
        ),
        dataset=dataset_of(given),
        workload=Workload(
            scripts=tuple(Script(file=path, text=read_text(path)) for path in given["files"]),
            clients=min(advice.active_count, os.cpu_count() or 1),
            duration=f"{max(5, round(longest_ms / 50))}s",
            warmup="2s",
            variables=pairs_of(given["define"], "-D"),
        ),
        variant=(
            Variant(name="now", settings={"work_mem": now}),
            Variant(name="enough", settings={"work_mem": enough}),
        ),
        design=CompareDesign(budget=given["prove"]),
    )
    output.note(f"proof   {enough} against {now}")
    asked = AskedExperiment(experiment, resolved, Permissions())
    return measure("compare", asked, {**given, "json_to": None})
