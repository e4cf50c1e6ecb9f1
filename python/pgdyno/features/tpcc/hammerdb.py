"""Reads a script of HammerDB's command line (Tcl, or its Python form) as an experiment.

The verb `spec from-hammerdb` uses it. Each key that has no counterpart becomes a note.
"""

from __future__ import annotations

import re
from typing import Any

from pgdyno.errors import SpecError
from pgdyno.features.tpcc.load import NAME
from pgdyno.features.tpcc.python_form import PythonForm
from pgdyno.features.tpcc.script_settings import ScriptSetting, ScriptSettings, UndecidedValue
from pgdyno.features.tpcc.tcl import Tcl
from pgdyno.spec.translation import Keys, Note, Translated, dsn_of, experiment_from, mix_of
from pgdyno.spec.workload import Script

# Commands are calls in the Python form.
_PYTHON = re.compile(r"^\s*(?:diset|dbset|vuset)\s*\(", re.M)
# HammerDB's values of keys that a script does not set.
_USUAL = {
    "vu": "1",
    "pg_host": "localhost",
    "pg_port": "5432",
    "pg_user": "tpcc",
    "pg_dbase": "tpcc",
    "pg_count_ware": "1",
    "pg_driver": "timed",
    "pg_rampup": "2",
    "pg_duration": "5",
    "pg_keyandthink": "false",
    "pg_allwarehouse": "false",
    "pg_async_scale": "false",
}
_DATABASES = ("pg", "postgresql", "postgres")
_WORKLOADS = ("tpc-c", "tproc-c", "tpcc", "tprocc")
_EXPLAINED = {
    "pg_superuser": "pgdyno init tpcc connects as the user that you name.",
    "pg_superuserpass": "a spec holds no password: use ~/.pgpass, PGPASSWORD or a service.",
    "pg_defaultdbase": "pgdyno connects to one database only.",
    "pg_pass": "a spec holds no password: use ~/.pgpass, PGPASSWORD or a service.",
    "pg_tspace": "set default_tablespace in the database before pgdyno init tpcc.",
    "pg_num_vu": "give this number to pgdyno init tpcc as --load-jobs.",
    "pg_cituscompat": "give --distribute citus to pgdyno init tpcc.",
    "pg_oracompat": "pgdyno uses PL/pgSQL only.",
    "pg_vacuum": "pgdyno vacuums the tables and writes a checkpoint before every run.",
    "pg_timeprofile": "pgdyno measures the latency of every transaction.",
    "pg_raiseerror": "pgdyno counts errors by SQLSTATE; --abort-if ends a run early.",
    "pg_dritasnap": "pgdyno reads the server's counters before and after every run.",
    "pg_connect_pool": "give the connection string of the pooler as the server.",
    "pg_async_verbose": "pgdyno has no such output.",
    "pg_async_delay": "connect_rate limits new connections per second.",
    "pg_no_stored_procs": "pgdyno has the option mode instead.",
}


def from_hammerdb(text: str, path: str, *, is_scratch: bool = False) -> Translated:
    """Return the experiment of a script for HammerDB's TPROC-C on PostgreSQL.

    Args: path, shown in errors and in the name of the experiment; is_scratch, True for a scratch
    server instead of the server that the script names.
    Raises: SpecError if the text is not such a script, or describes an impossible experiment.
    """
    settings = _read(text, path)
    keys, levels = _keys(settings, path)
    _refuse_other_workloads(keys)
    warehouses = keys.count("pg_count_ware", least=1) or 1
    dsn = dsn_of(
        host=keys.text("pg_host") or "localhost",
        port=keys.text("pg_port"),
        user=keys.text("pg_user") or _USUAL["pg_user"],
        database=keys.text("pg_dbase") or _USUAL["pg_dbase"],
        parameters={"sslmode": keys.text("pg_sslmode")},
    )
    workload = _clients(keys, has_levels=bool(levels))
    workload |= _length(keys)
    if is_scratch:
        keys.note("pg_host", "--scratch replaces this server.")
    elif "pg_count_ware" in keys.values:
        words = f"load the tables with pgdyno init tpcc --warehouses {warehouses}."
        keys.note("pg_count_ware", words)
    if keys.flag("pg_partition"):
        keys.note("pg_partition", "give --partitions N to pgdyno init tpcc.")
    experiment = experiment_from(
        keys,
        dataset={"kind": "tpcc", "warehouses": warehouses},
        dsn=None if is_scratch else dsn,
        script=Script(builtin=NAME, options=_options(keys)),
        workload=workload,
        design=_sweep(levels, workload) if levels else None,
    )
    return Translated(keys.tool, experiment, keys.all_notes())


def _read(text: str, path: str) -> ScriptSettings:
    """Follow a script, which is Tcl or HammerDB's Python."""
    settings = ScriptSettings()
    if _PYTHON.search(text):
        PythonForm(settings, path).run(text)
    else:
        Tcl(settings, path).run(text)
    return settings


def _keys(settings: ScriptSettings, path: str) -> tuple[Keys, tuple[int, ...]]:
    """Return the settings of the load with notes, and the numbers of virtual users of its runs.

    An unknown value is left out, with a note that names its line.
    """
    first, *others = settings.runs()
    notes = [Note(f"line {r.line}, {r.words}", "", r.why) for r in settings.remarks]
    if not settings.starts_a_load:
        notes.append(Note("vurun", "", "the script never calls it, so it starts no load."))
    users = [run["vu"] for run in (first, *others) if "vu" in run]
    numbers = {int(u.value) for u in users if isinstance(u.value, str) and u.value.isdecimal()}
    unknown = next((user for user in users if isinstance(user.value, UndecidedValue)), None)
    levels = tuple(sorted(numbers)) if len(numbers) > 1 and unknown is None else ()
    if unknown is not None:
        first = {**first, "vu": unknown}
    values: dict[str, str] = {}
    for key, setting in first.items():
        if isinstance(setting.value, UndecidedValue):
            notes.append(_not_known(key, setting, setting.value))
        else:
            values[key] = setting.value
        other = next((r[key] for r in others if r[key].value != setting.value), None)
        if other is not None and key != "vu":
            words = f"line {other.line}: a later load of the script has another value, not used."
            notes.append(Note(key, setting.words, words))
    lines = {key: setting.line for key, setting in first.items()}
    return Keys("HammerDB", path, values, _EXPLAINED, notes, lines), levels


def _not_known(key: str, setting: ScriptSetting, unknown: UndecidedValue) -> Note:
    where = f"line {setting.line}"
    if unknown.line != setting.line:
        where += f", from line {unknown.line}"
    usual = f" (now {_USUAL[key]})" if key in _USUAL else ""
    words = f"the script computes this value, and pgdyno cannot ({unknown.why})"
    return Note(key, setting.words, f"{where}: {words}: set it in the spec{usual}.")


def _refuse_other_workloads(keys: Keys) -> None:
    named = [*keys.values, *(note.key for note in keys.notes)]
    if not any(key.startswith("pg_") or key in ("db", "bm") for key in named):
        raise SpecError(
            f"{keys.path} is not a script of HammerDB for PostgreSQL: it has no dbset and no "
            "diset command with a pg_ key.",
            hint="give the script that hammerdbcli runs",
        )
    database = keys.text("db") or "pg"
    if database.lower() not in _DATABASES:
        raise SpecError(
            f"{keys.path} is for dbset db {database}, but pgdyno measures PostgreSQL only.",
            hint="use a script with dbset db pg",
        )
    benchmark = keys.text("bm") or "TPC-C"
    if benchmark.lower() not in _WORKLOADS:
        raise SpecError(
            f"{keys.path} is for dbset bm {benchmark}, but only TPC-C can be translated.",
            hint="use a script with dbset bm TPC-C",
        )


def _clients(keys: Keys, *, has_levels: bool) -> dict[str, Any]:
    """Return clients, shared connections and think times."""
    fields: dict[str, Any] = {"think_ratio": _think_ratio(keys)}
    is_async, clients_per_user = keys.flag("pg_async_scale"), keys.count("pg_async_client", least=1)
    if has_levels:
        keys.text("vu")
        if is_async:
            words = "each virtual user of the sweep has one connection and one client."
            keys.note("pg_async_scale", words)
        return fields
    users = keys.count("vu", least=1) or 1
    clients_per_user = (clients_per_user or 10) if is_async else 1
    fields["clients"] = users * clients_per_user
    if clients_per_user > 1:
        fields["active"] = users
    return fields


def _think_ratio(keys: Keys) -> float:
    return 1.0 if keys.flag("pg_keyandthink") else 0.0


def _length(keys: Keys) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    is_timed = (keys.text("pg_driver") or "timed") == "timed"
    minutes, rampup = keys.number("pg_duration"), keys.number("pg_rampup")
    iterations = keys.count("pg_total_iterations")
    if is_timed:
        fields["duration"] = f"{minutes or 5:g}min"
        fields["warmup"] = f"{2 if rampup is None else rampup:g}min"
        keys.note("pg_total_iterations", "pg_duration sets the end of the run.")
    elif iterations:
        fields["transactions_per_client"] = iterations
    return fields


def _options(keys: Keys) -> dict[str, str]:
    keys.flag("pg_storedprocs")
    keys.note("pg_storedprocs", "functions and procedures are both the mode procedures.")
    # HammerDB calls a function or procedure of the server (one round trip), delivers within the
    # transaction, and draws each type independently of those before.
    weights = dict.fromkeys(("order-status", "delivery", "stock-level"), 1)
    weights |= {"new-order": 10, "payment": 10}
    options = {"mode": "procedures", "delivery": "inline", **mix_of(weights)}
    if keys.flag("pg_allwarehouse"):
        options["home"] = "uniform"
    return options


def _sweep(levels: tuple[int, ...], workload: dict[str, Any]) -> dict[str, Any]:
    """Return the sweep that corresponds to a loop over numbers of virtual users."""
    length = workload.pop("duration", "60s")
    return {"kind": "sweep", "levels": levels, "rounds": 3, "run": length, "knee": length}
