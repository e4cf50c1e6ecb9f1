"""Reads a script of HammerDB's command line (Tcl, or its Python form) as an experiment.

The verb `spec from-hammerdb` uses it. Each key that has no counterpart becomes a note.
"""

from __future__ import annotations

import re
from typing import Any

from pgdyno.errors import SpecError
from pgdyno.features.tpcc.load import NAME
from pgdyno.spec.translation import Keys, Note, Translated, dsn_of, experiment_from, mix_of
from pgdyno.spec.workload import Script

_CALL = re.compile(r"\b(diset|dbset|vuset)\s*\(([^()]*)\)")
_SET = re.compile(r"set\s+(\w+)\s+(.+)")
_FOREACH = re.compile(r"foreach\s+(\w+)\s+[\[{]\s*(?:list\s+)?([\d\s]+)[\]}].*")
_DATABASES = ("pg", "postgresql", "postgres")
_WORKLOADS = ("tpc-c", "tproc-c", "tpcc", "tprocc")
_EXPLAINED = {
    "pg_superuser": "pgdyno init tpcc connects as the user that you name.",
    "pg_superuserpass": "a spec holds no password: use ~/.pgpass, PGPASSWORD or a service.",
    "pg_defaultdbase": "pgdyno connects to one database only.",
    "pg_pass": "a spec holds no password: use ~/.pgpass, PGPASSWORD or a service.",
    "pg_tspace": "set default_tablespace in the database before pgdyno init tpcc.",
    "pg_num_vu": "give this number to pgdyno init tpcc as --load-jobs.",
    "pg_partition": "give --partitions N to pgdyno init tpcc.",
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
    script = _Script(text)
    keys = Keys("HammerDB", path, script.values, _EXPLAINED)
    _refuse_other_workloads(keys, script)
    warehouses = keys.count("pg_count_ware", least=1) or 1
    dsn = dsn_of(
        host=keys.text("pg_host") or "localhost",
        port=keys.text("pg_port"),
        user=keys.text("pg_user"),
        database=keys.text("pg_dbase") or "tpcc",
        sslmode=keys.text("pg_sslmode"),
    )
    workload, levels = _clients(keys, script)
    workload |= _length(keys)
    if is_scratch:
        keys.note("pg_host", "--scratch replaces this server.")
    elif "pg_count_ware" in keys.values:
        words = f"load the tables with pgdyno init tpcc --warehouses {warehouses}."
        keys.note("pg_count_ware", words)
    experiment = experiment_from(
        keys,
        dataset={"kind": "tpcc", "warehouses": warehouses},
        dsn=None if is_scratch else dsn,
        script=Script(builtin=NAME, options=_options(keys)),
        workload=workload,
        design=_sweep(levels, workload) if levels else None,
    )
    return Translated(keys.tool, experiment, keys.all_notes())


class _Script:
    """The settings of a script: the last value of each key, variables resolved where they can be.

    `values` also has "db", "bm" and "vu"; `levels` are the numbers that a loop gives to `vuset vu`.
    """

    def __init__(self, text: str) -> None:
        self.values: dict[str, str] = {}
        self.levels: tuple[int, ...] = ()
        self._variables: dict[str, str] = {}
        self._loops: dict[str, tuple[int, ...]] = {}
        # The Python form is the same commands as calls.
        plain = _CALL.sub(lambda call: f"{call[1]} {call[2].replace(',', ' ')}", text)
        for line in plain.replace("\\\n", " ").splitlines():
            if not line.lstrip().startswith("#"):
                for command in line.split(";"):
                    self._read(command.strip().rstrip("}").strip())

    def _read(self, command: str) -> None:
        if match := _FOREACH.fullmatch(command):
            self._loops[match[1]] = tuple(int(number) for number in match[2].split())
        elif match := _SET.fullmatch(command):
            self._variables[match[1]] = match[2].strip("\"' ")
        words = [word.strip("\"'{}") for word in command.split()]
        if words[:1] == ["diset"] and len(words) >= 4:
            self._keep(words[2], " ".join(words[3:]))
        elif words[:1] == ["dbset"] and len(words) == 3:
            self._keep(words[1], words[2])
        elif words[:2] == ["vuset", "vu"] and len(words) == 3:
            self.levels = self._loops.get(words[2].removeprefix("$"), ())
            self._keep("vu", words[2])

    def _keep(self, key: str, value: str) -> None:
        name = value.removeprefix("$")
        self.values[key] = self._variables.get(name, value) if value.startswith("$") else value


def _refuse_other_workloads(keys: Keys, script: _Script) -> None:
    if not any(key.startswith("pg_") or key in ("db", "bm") for key in script.values):
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
    for key in ("pg_count_ware", "vu"):
        value = keys.values.get(key, "")
        is_computed = "$" in value or "[" in value or value == "vcpu"
        if is_computed and not (key == "vu" and script.levels):
            keys.values = {name: v for name, v in keys.values.items() if name != key}
            words = "the script computes this value: set it in the spec (now 1)."
            keys.notes.append(Note(key, value, words))


def _clients(keys: Keys, script: _Script) -> tuple[dict[str, Any], tuple[int, ...]]:
    """Return clients, shared connections and think times; and the levels of a loop."""
    if script.levels:
        keys.text("vu")
        return {"think_ratio": _think_ratio(keys)}, script.levels
    users = keys.count("vu", least=1) or 1
    fields: dict[str, Any] = {"clients": users, "think_ratio": _think_ratio(keys)}
    is_async, clients_per_user = keys.flag("pg_async_scale"), keys.count("pg_async_client", least=1)
    if is_async and clients_per_user is not None and clients_per_user > 1:
        fields |= {"clients": users * clients_per_user, "active": users}
    return fields, ()


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
