"""`pgdyno settings`: a server's settings explained and checked."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from pgdyno.cli import options, output, wanted
from pgdyno.cli.headings import Verb
from pgdyno.cli.option_table import table
from pgdyno.cli.unused_options import refuse_beside_print_sql, refuse_without_effect
from pgdyno.errors import SpecError
from pgdyno.settings.formula import DISKS, LOADS
from pgdyno.settings.rule import MAJORS
from pgdyno.spec.units import size_bytes
from pgdyno.user_file import TEXT_MAX_BYTES, read_bytes

if wanted.body(__name__):
    from pgdyno.cli.from_options import host_command_of, server_named
    from pgdyno.features.doctor.check_facts import CheckFacts
    from pgdyno.features.doctor.examine import Subject, examine
    from pgdyno.features.doctor.peak import peak_seen
    from pgdyno.features.doctor.verbs.doctor import failed_code, sql_text
    from pgdyno.features.tune.machine import machine_of, machine_text
    from pgdyno.features.tune.review import review
    from pgdyno.features.tune.review_conf import conf_of
    from pgdyno.features.tune.review_text import (
        document_of,
        rules_text,
        text_of,
    )
    from pgdyno.features.tune.server_settings import Reviewed, read_file, read_live
    from pgdyno.features.tune.setting_help import as_new, explained
    from pgdyno.features.tune.statements import CONF_BEGINS
    from pgdyno.server.conninfo import Resolved
    from pgdyno.store.experiment import Store


@click.command("settings", cls=Verb, short_help="Explain and check the settings of a server.")
@options.connection
@table(
    f"""
    Server
    --file (conf_file) CONF *  Check this postgresql.conf instead of a server.
    --pg-version (file_version) {"|".join(map(str, MAJORS))} ={MAJORS[-1]} *
        PostgreSQL version of --file, or of a new server (default {MAJORS[-1]}).
    Machine
    --ram SIZE *  Memory of the server's host, such as 28GB.
    --cores N:1..  CPU cores of the server's host.
    --disk {"|".join(DISKS)}  Kind of disk under the data.
    --size SIZE  Size of the database, such as 400GB.
    --load {"|".join(LOADS)} =oltp  Kind of load (default oltp).
    """,
    conf_file={"type": click.Path(path_type=Path, exists=True, dir_okay=False)},
)
@options.host
@table("""
    Answer
    --all (show_all) *  Explain every setting that differs from its default.
    --rules  Print the values of published rules and their formulas.
    --explain NAME *  Print everything about one setting; no server is needed.
    --check good|warn *  Exit with code 4 if a check is worse than this.
    --print-sql  Print every statement that settings may send, and exit.
""")
@options.store_option
@options.conf_option
@options.json_option
def command(**given: Any) -> int:
    """Explain and check the settings of a server, of a postgresql.conf, or for this host.

    Without a server and --file, it proposes settings for a new server on this host.
    Prints the settings that differ from the defaults, the settings that contradict each other,
    weaken durability or do not fit the machine, and how much memory all of them allow. Only reads.
    """
    if given["print_sql"]:
        refuse_beside_print_sql(given)
        output.data(sql_text())
        return 0
    resolved = server_named(given)
    _refuse_unused(given, has_server=resolved is not None)
    if given["explain"] == "":
        raise SpecError(
            "--explain names no setting.", hint="name a setting, such as --explain work_mem"
        )
    size = given["size"]
    known = {
        "ram_bytes": size_bytes(given["ram"], what="--ram") if given["ram"] else None,
        "cores": given["cores"],
        "disk": given["disk"],
        "load": given["load"],
        "database_bytes": size_bytes(size, what="--size") if size else None,
    }
    with output.doing("reading the settings, and what the host has"):
        reviewed = _reviewed(given, known, resolved)
    machine = machine_of(reviewed.facts, known)
    reviewed_settings = review(reviewed, machine, is_file=resolved is None)
    if given["explain"]:
        output.data(explained(reviewed_settings, given["explain"], output.width()))
        return 0
    width = output.width()
    text = rules_text(reviewed_settings, width) if given["rules"] else ""
    text = text or text_of(reviewed_settings, show_all=given["show_all"], width=width)
    if given["conf_to"] is not None:
        conf = conf_of(reviewed_settings, machine_text(machine))
        if given["conf_to"] != "-":
            options.write_file(Path(given["conf_to"]), conf)
            output.note(f"{given['conf_to']} has the values to apply, and says how to undo them")
        else:
            text = conf.rstrip()
    document = json.dumps(document_of(reviewed_settings), indent=2, ensure_ascii=False)
    options.write(text, document, given["json_to"])
    # The worst verdict of a setting comes first.
    return failed_code(given, ((a.setting, a.verdict) for a in reviewed_settings.attention))


def _refuse_unused(given: dict[str, Any], *, has_server: bool) -> None:
    """Raise SpecError for options that change nothing together with the others."""
    hint = "use one of the two"
    if given["explain"]:
        others = ("rules", "show_all", "check", "json_to", "conf_to")
        refuse_without_effect(given, others, "--explain prints one setting as text", hint)
    if given["conf_to"] is not None:
        refuse_without_effect(given, ["rules"], "--conf has the values of the rules", hint)
        refuse_to_replace(given["conf_to"])
    if given["rules"]:
        refuse_without_effect(given, ["show_all"], "--rules prints published values", hint)
    if has_server:
        refuse_without_effect(given, ["conf_file"], "a server was named as well", hint)
        refuse_without_effect(given, ["file_version"], "a server has its own version", hint)
    else:
        because = "no server is read"
        refuse_without_effect(given, ["ssh", "host_shell", "store"], because, hint)


def refuse_to_replace(conf_to: str | None) -> None:
    """Raise SpecError for a file that is there, unless --conf made it."""
    path = Path(conf_to or "-")
    if conf_to is None or not path.is_file():
        return
    given = read_bytes(path, of="--conf", max_bytes=TEXT_MAX_BYTES)
    if not given.startswith(CONF_BEGINS.encode()):
        raise SpecError(
            f"{path} exists, and --conf did not make it: it is not replaced.",
            hint="name a new file",
        )


def _reviewed(given: dict[str, Any], said: dict[str, Any], resolved: Resolved | None) -> Reviewed:
    """Return the settings of the server, of the named file, or of a new server on this host."""
    ram_bytes = said["ram_bytes"]
    known = {"known_cores": said["cores"], "known_bytes": said["database_bytes"]}
    major = int(given["file_version"])
    facts = CheckFacts(ram_bytes=ram_bytes, **known)
    if given["conf_file"] is not None:
        return read_file(given["conf_file"], major, facts)
    if resolved is None and given["explain"]:  # As a new server has it.
        return as_new(facts, major)
    if resolved is None:
        seen = examine(Subject(target=None, ram_bytes=ram_bytes, verb="settings"))
        return as_new(replace(seen.facts, **known), major)
    for warning in resolved.notes:
        output.warning(warning.message, warning.hint)
    return read_live(
        Subject(
            target=resolved.target,
            ram_bytes=ram_bytes,
            peak=peak_seen(Store.default(given["store"]), resolved.target),
            verb="settings",
            host_command=host_command_of(given),
        ),
        **known,
    )
