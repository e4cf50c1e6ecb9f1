"""Reads a properties file of BenchmarkSQL (versions 4 to 6) as an experiment.

The verb `spec from-benchmarksql` uses it. Each key that has no counterpart becomes a note.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pgdyno.errors import SpecError
from pgdyno.features.tpcc.jdbc import connection_of
from pgdyno.features.tpcc.load import NAME, TERMINALS_PER_WAREHOUSE
from pgdyno.spec.translation import (
    Keys,
    Note,
    Translated,
    dsn_of,
    experiment_from,
    mix_of,
)
from pgdyno.spec.workload import Script

# A key ends at a space, = or :, unless a backslash is before it.
_ENTRY = re.compile(r"((?:\\.|[^\\\s=:])*)[ \t\f]*[=:]?[ \t\f]*")
# Read with Integer.parseInt and Double.parseDouble.
_INTEGERS = (
    *("warehouses", "terminals", "sutThreads", "runMins", "rampupMins", "runTxnsPerTerminal"),
    "limitTxnsPerMin",
)
_DOUBLES = ("terminalMultiplier", "keyingTimeMultiplier", "thinkTimeMultiplier")
_INTEGER = re.compile(r"[-+]?\d{1,99}")
_DOUBLE = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?([fd]?)", re.ASCII | re.IGNORECASE)
_INTEGER_MAX = (1 << 31) - 1
# From this number per minute on, the limit of version 5 stands for "no limit".
_NO_LIMIT_PER_MINUTE = 1_000_000
_KNOWN = ("warehouses", "terminals", "sutThreads", "conn", "db", "runMins", "newOrderWeight")
# The weights of the samples of versions 4 and 5, and of version 6.
_TYPES = {
    "paymentWeight": ("payment", (43.0, 43.2)),
    "orderStatusWeight": ("order-status", (4.0, 4.2)),
    "deliveryWeight": ("delivery", (4.0, 4.2)),
    "stockLevelWeight": ("stock-level", (4.0, 4.2)),
}
_EXPLAINED = {
    "driver": "pgdyno speaks PostgreSQL's protocol itself, so it needs no driver.",
    "password": "a spec holds no password: use ~/.pgpass, PGPASSWORD or a service.",
    "loadWorkers": "give this number to pgdyno init tpcc as --load-jobs.",
    "monkeys": "pgdyno needs no threads for screens.",
    "maxDeliveryBGThreads": "the queue of deferred deliveries has no such limit in pgdyno.",
    "maxDeliveryBGPerWarehouse": "the queue of deferred deliveries has no such limit in pgdyno.",
    "rampupSUTMins": "connections are opened before the warm-up; connect_rate slows them down.",
    "rampupTerminalMins": "all terminals begin with the warm-up.",
    "rampupDelay": "connections are opened before the warm-up; connect_rate slows them down.",
    "reportIntervalSecs": "pgdyno keeps every second of every run.",
    "restartSUTThreadProbability": "pgdyno does not close connections at random.",
    "traceTerminalIO": "pgdyno has no screens to trace.",
    "resultDirectory": "pgdyno keeps results in its own folder (--store).",
    "osCollectorScript": "pgdyno measures the server's host itself (--ssh if it is another one).",
    "osCollectorInterval": "pgdyno measures the host every second.",
    "osCollectorSSHAddr": "give this address to pgdyno as --ssh.",
    "osCollectorDevices": "pgdyno measures all devices.",
    "reportScript": "pgdyno writes a report after every experiment.",
    "rollbackPercent": "pgdyno rolls back 1 % of New-Order, as specified.",
    "useWarehouseFrom": "pgdyno uses all warehouses.",
    "useWarehouseTo": "pgdyno uses all warehouses.",
    "fileLocation": "pgdyno loads through COPY, without files.",
    "csvNullValue": "pgdyno loads through COPY, without files.",
}


def from_benchmarksql(text: str, path: str, *, is_scratch: bool = False) -> Translated:
    """Return the experiment of a properties file.

    Args: path, shown in errors and in the name of the experiment; is_scratch, True for a scratch
    server instead of the server that the file names.
    Raises: SpecError if the text is not such a file, or describes an impossible experiment.
    """
    keys = _keys(text, path)
    _refuse_other_databases(keys)
    _require_numbers_of_java(keys)
    warehouses = keys.count("warehouses", least=1) or int(keys.missing("warehouses", "1"))
    dsn = _dsn(keys)
    workload = _clients(keys, warehouses) | _length(keys) | _rate(keys)
    options = _options(keys, is_version_6="sutThreads" in keys.values)
    if is_scratch:
        keys.note("conn", "--scratch replaces this server.")
    elif "warehouses" in keys.values:
        keys.note("warehouses", f"load the tables with pgdyno init tpcc --warehouses {warehouses}.")
    experiment = experiment_from(
        keys,
        dataset={"kind": "tpcc", "warehouses": warehouses},
        dsn=None if is_scratch else dsn,
        script=Script(builtin=NAME, options=options),
        workload=workload,
    )
    return Translated(keys.tool, experiment, keys.all_notes())


def _keys(text: str, path: str) -> Keys:
    """Return the keys of a Java properties file.

    Raises: SpecError if no key of BenchmarkSQL is among them.
    """
    values: dict[str, str] = {}
    lines: dict[str, int] = {}
    notes: list[Note] = []
    for line, key, value in _entries(text):
        if key.startswith("//"):
            # A comment in the samples; to Java it is a key that nobody reads.
            continue
        if key in values and values[key] != value.strip():
            words = f"line {line} sets this key again, and Java takes its last value."
            notes.append(Note(key, values[key], words))
        values[key], lines[key] = value.strip(), line
        if value != value.strip() and key != "password":
            words = f"line {line} ends with a space, with which BenchmarkSQL reads no number."
            notes.append(Note(key, value.strip(), words))
    if not any(key in values for key in _KNOWN):
        raise SpecError(
            f"{path} is not a properties file of BenchmarkSQL: it has none of the keys "
            f"{', '.join(_KNOWN)}.",
            hint="give the file that runBenchmark.sh gets",
        )
    return Keys("BenchmarkSQL", path, values, _EXPLAINED, notes, lines)


def _entries(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield line, key and value as `java.util.Properties.load` reads them."""
    natural = iter(enumerate(re.split(r"\r\n|\r|\n", text), 1))
    for number, line in natural:
        line = line.lstrip(" \t\f")
        if not line or line[0] in "#!":
            continue
        while len(line) - len(line.rstrip("\\")) & 1:
            line = line[:-1] + next(natural, (0, ""))[1].lstrip(" \t\f")
        match = _ENTRY.match(line)
        if match is not None:
            yield number, _unescaped(match[1]), _unescaped(line[match.end() :])


def _unescaped(text: str) -> str:
    def character(match: re.Match[str]) -> str:
        if match[1].startswith("u") and len(match[1]) == 5:
            return chr(int(match[1][1:], 16))
        return {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}.get(match[1], match[1])

    return re.sub(r"\\(u[0-9A-Fa-f]{4}|.)", character, text)


def _refuse_other_databases(keys: Keys) -> None:
    database = keys.text("db")
    if database is not None and database != "postgres":
        raise SpecError(
            f"{keys.path} is for db={database}, but pgdyno measures PostgreSQL only.",
            hint="set db=postgres and a conn of PostgreSQL",
        )


def _require_numbers_of_java(keys: Keys) -> None:
    """Raise SpecError with the line of a number that Java would not read."""
    values = dict(keys.values)
    for key in (*_INTEGERS, *_DOUBLES, *_TYPES):
        given = values.get(key)
        if not given:
            continue
        if key in _INTEGERS:
            is_read = _INTEGER.fullmatch(given) and abs(int(given)) <= _INTEGER_MAX
        else:
            match = _DOUBLE.fullmatch(given)
            is_read = match is not None
            values[key] = given.removesuffix(match[1]) if match is not None else given
        if not is_read:
            kind = "whole number" if key in _INTEGERS else "number"
            raise SpecError(
                f"{keys.path}, line {keys.lines[key]}: {key} must be a {kind} in the form that"
                f" Java reads, got {given!r}.",
                hint="correct the line: BenchmarkSQL would not start with it",
            )
    keys.values = values


def _dsn(keys: Keys) -> str:
    conn = keys.text("conn") or keys.missing("conn", "jdbc:postgresql://localhost:5432/postgres")
    line = keys.lines.get("conn")
    jdbc = connection_of(conn, keys.path if line is None else f"{keys.path}, line {line}")
    if jdbc.has_password:
        keys.values = {**keys.values, "conn": conn.partition("?")[0]}
        keys.note("conn", "a spec holds no password: use ~/.pgpass, PGPASSWORD or a service.")
    for _, words in jdbc.notes:
        keys.note("conn", words)
    user = keys.text("user")
    if jdbc.user and user and jdbc.user != user:
        keys.note("user", f"the driver takes the user of conn: {jdbc.user}.")
    return dsn_of(
        host=jdbc.host,
        port=jdbc.port,
        user=jdbc.user or user,
        database=jdbc.database,
        parameters=jdbc.parameters,
    )


def _clients(keys: Keys, warehouses: int) -> dict[str, Any]:
    """Return clients, shared connections and think times."""
    connections = keys.count("sutThreads", least=1)
    terminals = keys.count("terminals", least=1)
    if connections is None:
        return {"clients": terminals or int(keys.missing("terminals", "1"))}
    factor = keys.number("terminalMultiplier") or 1.0
    terminals = max(1, round(warehouses * TERMINALS_PER_WAREHOUSE * factor))
    fields: dict[str, Any] = {"clients": terminals, "think_ratio": _think_ratio(keys)}
    if connections < terminals:
        fields["active"] = connections
    else:
        keys.note("sutThreads", f"{terminals} terminals need no more than {terminals} connections.")
    return fields


def _think_ratio(keys: Keys) -> float:
    keying = keys.number("keyingTimeMultiplier")
    think = keys.number("thinkTimeMultiplier")
    ratio = think if think is not None else keying if keying is not None else 1.0
    if keying is not None and think is not None and keying != think:
        keys.note("keyingTimeMultiplier", f"one factor holds for both times: {min(1.0, think):g}.")
    if ratio > 1:
        keys.note("thinkTimeMultiplier", "the factor is at most 1, as specified.")
    return min(1.0, ratio)


def _length(keys: Keys) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if (minutes := keys.number("runMins")) is not None and minutes > 0:
        fields["duration"] = f"{minutes:g}min"
    if (rampup := keys.number("rampupMins")) is not None:
        fields["warmup"] = f"{rampup:g}min"
    if "duration" not in fields and not keys.number("runTxnsPerTerminal"):
        keys.missing("runMins", "the duration of pgdyno")
    if (transactions := keys.count("runTxnsPerTerminal")) is not None and transactions > 0:
        if "duration" in fields:
            keys.note("runTxnsPerTerminal", "runMins sets the end of the run.")
        else:
            fields["transactions_per_client"] = transactions
    return fields


def _rate(keys: Keys) -> dict[str, Any]:
    per_minute = keys.number("limitTxnsPerMin") or 0
    if per_minute == 0:
        return {}
    if per_minute >= _NO_LIMIT_PER_MINUTE:
        keys.note(
            "limitTxnsPerMin", "a limit this high means no limit, so the load is a closed loop."
        )
        return {}
    keys.note(
        "limitTxnsPerMin",
        "pgdyno uses this rate for an open loop: transactions arrive at random times, and latency "
        "begins at the scheduled start of a transaction.",
    )
    return {"rate": round(per_minute / 60, 3)}


def _options(keys: Keys, *, is_version_6: bool) -> dict[str, str]:
    application = keys.text("application") or "Generic"
    is_procedures = "StoredProc" in application or bool(keys.flag("useStoredProcedures"))
    options = {"mode": "procedures" if is_procedures else "statements"}
    is_fixed = keys.flag("terminalWarehouseFixed")
    if not is_fixed and not is_version_6:
        options["home"] = "uniform"
        if is_fixed is None:
            # Java reads no text as false.
            keys.missing("terminalWarehouseFixed", "false")
    return options | _mix(keys, is_version_6=is_version_6)


def _mix(keys: Keys, *, is_version_6: bool) -> dict[str, str]:
    """Return the options of the mix: independent draws; New-Order gets the rest of 100 %."""
    keys.text("newOrderWeight")
    shares: dict[str, float] = {}
    for key, (name, usual) in _TYPES.items():
        given = keys.number(key)
        sample = f"{usual[is_version_6]:g}"
        shares[name] = float(keys.missing(key, sample)) if given is None else given
    left = 100 - sum(shares.values())
    if min(left, *shares.values()) <= 0:
        raise SpecError(
            f"{keys.path}: each of the five types needs a share above 0 %, but {', '.join(_TYPES)}"
            f" are {', '.join(f'{share:g}' for share in shares.values())} and leave {left:g} for"
            " newOrderWeight.",
            hint="correct the weights: together they are 100",
        )
    return mix_of({"new-order": left, **shares})
