"""Whether several servers are equal enough to share one experiment: looked at before any run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pgdyno.errors import RefusedError
from pgdyno.measure.under_test import UnderTest
from pgdyno.quantities import format_bytes
from pgdyno.server.connect import Connection, connect
from pgdyno.server.server_facts import ServerFacts
from pgdyno.server.target import Target

# Differs between any two servers.
_OWN = frozenset(
    {
        *("cluster_name", "config_file", "data_directory", "external_pid_file", "hba_file"),
        *("ident_file", "listen_addresses", "log_directory", "log_filename", "port"),
        *("application_name", "client_encoding", "server_version", "unix_socket_directories"),
    }
)
# Data of this much more or less have other plans and other caches.
_SIZE_RATIO_MAX = 1.5
_RAM_RATIO_MAX = 1.1
_TOLD_MAX = 5
_SETTINGS_SQL = (
    "SELECT name, pg_catalog.current_setting(name) FROM pg_catalog.pg_settings"
    " WHERE name = ANY(%s) ORDER BY name"
)
# To the microsecond: no two servers share it, and every role may ask.
_STARTED_SQL = "SELECT pg_catalog.pg_postmaster_start_time()"
# Asked first: a refused read would be an error in the server's log.
_MAY_READ_SQL = (
    "SELECT pg_catalog.has_function_privilege("
    "'pg_catalog.pg_read_file(text, bigint, bigint, boolean)', 'EXECUTE')"
    " AND pg_catalog.pg_has_role('pg_read_server_files', 'USAGE')"
)
# A file that is missing, as on an operating system without /proc, is NULL.
_HARDWARE_SQL = r"""
SELECT pg_catalog.substring(
         pg_catalog.pg_read_file('/proc/meminfo', 0, 65536, true), 'MemTotal: +([0-9]+) kB'
       )::pg_catalog.int8 * 1024,
       (SELECT pg_catalog.count(*) FROM pg_catalog.regexp_matches(
          pg_catalog.pg_read_file('/proc/stat', 0, 1048576, true), '^cpu[0-9]+ ', 'gn'))
"""


@dataclass(frozen=True, slots=True)
class Hardware:
    """RAM and cores of a server's host; None is "not known to this role"."""

    ram_bytes: int | None = None
    core_count: int | None = None

    @property
    def is_known(self) -> bool:
        """Return whether RAM and cores are known."""
        return self.ram_bytes is not None and self.core_count is not None


def hardware_of(connection: Connection) -> Hardware:
    """Return RAM and cores of the server's host, if the role may read files there.

    Limits: of a container, they are those of its host.
    """
    may_read = connection.execute(_MAY_READ_SQL).fetchone()
    if may_read is None or not may_read[0]:
        return Hardware()
    row = connection.execute(_HARDWARE_SQL).fetchone()
    assert row is not None, "the query has one row"
    return Hardware(row[0], row[1] or None)


def compare_equal(
    servers: Mapping[int, UnderTest], admins: Mapping[int, Target], searched: frozenset[str]
) -> Iterator[str]:
    """Yield the differences that a person should know, as sentences.

    Args: servers, by number; admins, the way of the role that changes each of them; searched, the
    settings that any candidate may change.
    Raises: RefusedError for a difference that matters, with both values.
    """
    first, *others = servers
    values, started, hardware = {}, {}, {}
    for number, under_test in servers.items():
        with under_test.control() as control:
            rows = control.execute(_SETTINGS_SQL, [sorted(searched)]).fetchall()
            values[number] = {str(name): str(value) for name, value in rows}
            started[number] = control.execute(_STARTED_SQL).fetchone()
        with connect(admins[number], verb=under_test.verb) as connection:
            hardware[number] = hardware_of(connection)
    facts = {number: under_test.facts for number, under_test in servers.items()}
    for number in others:
        for before in servers:
            if before < number and started[before] == started[number]:
                raise RefusedError(
                    f"Server {number} ({servers[number].target.place}) is the same server as"
                    f" server {before} ({servers[before].target.place}).",
                    hint="name each server once",
                )
        why = why_unequal(facts[first], facts[number], values[first], values[number])
        if why := why or why_other_hardware(hardware[first], hardware[number]):
            raise RefusedError(
                f"Servers {first} and {number} are not equal: {why}.",
                hint="make them equal, or measure them one by one; if a killed run left its"
                " settings, pgdyno undo restores them",
            )
    for number in others:
        yield from differences(facts[first], facts[number], f"server {number}")
        if not (hardware[first].is_known and hardware[number].is_known):
            yield (
                f"memory and cores of server {number} and server {first} were not compared: that"
                " needs Linux and an admin role that may read /proc with pg_read_file"
            )
    yield from _places(facts)


def why_unequal(
    first: ServerFacts,
    other: ServerFacts,
    values_first: Mapping[str, str],
    values_other: Mapping[str, str],
) -> str:
    """Return the first difference that matters, with both values; "" if there is none.

    Args: values_first and values_other, the settings that any candidate may change.
    """
    pairs = [("PostgreSQL", str(first.major), str(other.major))]
    pairs += [(name, value, values_other.get(name, "none")) for name, value in values_first.items()]
    pairs += [("dataset", _dataset_words(first), _dataset_words(other))]
    for name, value, value_other in pairs:
        if value != value_other:
            return f"{name} is {value} and {value_other}"
    sizes = first.database_size_bytes, other.database_size_bytes
    return _apart("database size", *sizes, _SIZE_RATIO_MAX)


def why_other_hardware(first: Hardware, other: Hardware) -> str:
    """Return how RAM or cores differ, with both values; "" if they do not or are not known."""
    if first.core_count and other.core_count and first.core_count != other.core_count:
        return f"number of cores is {first.core_count} and {other.core_count}"
    return _apart("RAM", first.ram_bytes, other.ram_bytes, _RAM_RATIO_MAX)


def _apart(name: str, size: int | None, size_other: int | None, ratio_max: float) -> str:
    if size and size_other and max(size, size_other) > ratio_max * min(size, size_other):
        return f"{name} is {format_bytes(size)} and {format_bytes(size_other)}"
    return ""


def differences(first: ServerFacts, other: ServerFacts, name: str) -> Iterator[str]:
    """Yield what else differs between two servers that are equal enough."""
    if first.version != other.version:
        yield f"{name} runs PostgreSQL {other.version}, server 1 runs {first.version}"
    names = sorted((first.settings.keys() | other.settings.keys()) - _OWN)
    differing = [
        f"{setting} = {other.settings.get(setting, 'default')}"
        f" (server 1: {first.settings.get(setting, 'default')})"
        for setting in names
        if first.settings.get(setting) != other.settings.get(setting)
    ]
    if differing:
        more = len(differing) - _TOLD_MAX
        rest = f" and {more} more" if more > 0 else ""
        yield f"{name} differs in {', '.join(differing[:_TOLD_MAX])}{rest}"


def _places(facts: Mapping[int, ServerFacts]) -> Iterator[str]:
    """Yield a doubt about servers that share this host."""
    here = [str(number) for number, known in facts.items() if known.is_local]
    if len(here) > 1:
        yield (
            f"doubt: servers {' and '.join(here)} are on this host and share its cores, memory and"
            " disk, so work on one disturbs runs on another"
        )


def _dataset_words(facts: ServerFacts) -> str:
    """Return "pgbench, scale 20, fillfactor 100, complete", as far as it is known."""
    dataset = facts.dataset
    if dataset.state == "none":
        return "none"
    scale = [] if dataset.scale is None else [f"scale {dataset.scale}"]
    marked = [f"{name} {value}" for name, value in sorted(dataset.options.items())]
    return ", ".join([dataset.kind, *(marked or scale), dataset.state])
