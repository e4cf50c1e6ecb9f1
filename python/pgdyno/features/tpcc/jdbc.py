"""Reads a JDBC URL as PostgreSQL's driver does, as parameters of libpq.

Source: `Driver.parseURL` and `SslMode.of` of pgjdbc 42, and its list of connection parameters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import unquote_plus

from pgdyno.errors import SpecError

_BEGIN = "jdbc:postgresql:"
# The driver's names in libpq.
_SAME = {
    name: name for name in ("sslmode", "sslrootcert", "sslcert", "sslkey", "options", "service")
}
_LIBPQ = _SAME | {
    "ApplicationName": "application_name",
    "connectTimeout": "connect_timeout",
    "gssEncMode": "gssencmode",
    "channelBinding": "channel_binding",
}
_SERVER_TYPES = {
    "any": None,
    "primary": "primary",
    "master": "primary",
    "secondary": "standby",
    "slave": "standby",
    "preferSecondary": "prefer-standby",
    "preferSlave": "prefer-standby",
}
_PLACES = {"host": "PGHOST", "port": "PGPORT", "dbname": "PGDBNAME"}
_READ = ("user", "password", "ssl", "sslfactory", "currentSchema", "loadBalanceHosts")
_READ_TOO = ("targetServerType", *_PLACES.values())
_WORDS = {
    "sslkey": "the driver reads a key in PKCS-8, pgdyno reads PEM.",
    "sslfactory": "pgdyno encrypts and does not check the certificate, as this class does.",
    "preferQueryMode": 'pgdyno sends prepared statements: set protocol = "simple" in the spec.',
    "prepareThreshold": "pgdyno prepares statements before their first use.",
}


@dataclass(frozen=True, slots=True)
class JdbcConnection:
    """What a URL says. `database`: None for that of the user's name.

    `notes`: names of parameters with the reason why they are not as in the driver.
    """

    host: str
    port: str | None
    database: str | None
    user: str | None
    has_password: bool
    parameters: Mapping[str, str]
    notes: tuple[tuple[str, str], ...]


def connection_of(url: str, where: str) -> JdbcConnection:
    """Return what a URL says. Args: where, the file and the line, shown in errors.

    Raises: SpecError if the driver refuses it.
    """
    server, _, arguments = url.partition("?")
    if not server.startswith(_BEGIN):
        raise SpecError(
            f"{where}: conn must begin with {_BEGIN}, got {server!r}.",
            hint="pgdyno measures PostgreSQL only",
        )
    given = _server(server.removeprefix(_BEGIN), where) | _arguments(arguments, where)
    host = "" if "service" in given else "localhost"
    hosts, ports = given.get("PGHOST", host), given.get("PGPORT", "")
    for port in filter(None, ports.split(",")):
        if not port.isdecimal() or not 1 <= int(port) <= 65535:
            raise _refused(where, f"port {port} is not a number from 1 to 65535")
    if "," in ports and ports.count(",") != hosts.count(","):
        raise _refused(where, "the numbers of hosts and ports differ")
    if "," in hosts:
        # A URI of libpq has each port after its host.
        pairs = zip(hosts.split(","), (ports or "," * hosts.count(",")).split(","), strict=True)
        hosts, ports = ",".join(f"{host}:{port}" if port else host for host, port in pairs), ""
    secrets = ("password", "sslpassword")
    return JdbcConnection(
        host=hosts,
        port=ports or None,
        database=given.get("PGDBNAME"),
        user=given.get("user"),
        has_password=any(name in given for name in secrets),
        parameters=_parameters(given, where),
        notes=tuple(_notes({name: v for name, v in given.items() if name not in secrets})),
    )


def _refused(where: str, rule: str) -> SpecError:
    return SpecError(
        f"{where}: the JDBC driver refuses this conn: {rule}.",
        hint="the form is jdbc:postgresql://HOST:PORT/DATABASE?NAME=VALUE&...",
    )


def _server(text: str, where: str) -> dict[str, str]:
    """Return hosts, ports and database before the question mark."""
    if text in ("", "//", "///"):
        return {}
    if not text.startswith("//"):
        if text.startswith("/"):
            raise _refused(where, "a host cannot begin with a single /")
        return {"PGDBNAME": _decoded(text, where)}
    addresses, slash, database = text[2:].partition("/")
    if not slash:
        raise _refused(where, f"a / must follow the host and the port {addresses}")
    if "/" in database:
        raise _refused(where, "it has too many /")
    hosts, ports = [], []
    for address in addresses.split(","):
        match = re.fullmatch(r"(.*):([^\]:]*)", address)
        hosts.append((match[1] if match else address) or "localhost")
        ports.append(match[2] if match else "")
    made = {"PGHOST": ",".join(hosts)}
    if any(ports):
        made["PGPORT"] = ",".join(port or "5432" for port in ports)
    return made | ({"PGDBNAME": _decoded(database, where)} if database else {})


def _arguments(text: str, where: str) -> dict[str, str]:
    """Return the parameters after the question mark; the last of a name counts."""
    made = {}
    for part in filter(None, text.split("&")):
        name, _, value = part.partition("=")
        made[_PLACES.get(name, name)] = _decoded(value, where)
    return made


def _decoded(text: str, where: str) -> str:
    if re.search(r"%(?![0-9A-Fa-f]{2})", text):
        raise _refused(where, "a % must be followed by two hexadecimal digits")
    return unquote_plus(text)


def _parameters(given: Mapping[str, str], where: str) -> dict[str, str]:
    """Return the parameters of libpq."""
    made = {_LIBPQ[name]: value for name, value in given.items() if name in _LIBPQ}
    is_ssl = given.get("ssl", "false").lower() in ("", "true")
    if is_ssl and "sslmode" not in given:
        made["sslmode"] = "verify-full"
    if given.get("sslfactory", "").endswith("NonValidatingFactory") and is_ssl:
        made["sslmode"] = "require"
    if schema := given.get("currentSchema"):
        spaces = re.sub(r"([\\ ])", r"\\\1", schema)
        made["options"] = f"{made.get('options', '')} -c search_path={spaces}".strip()
    if given.get("loadBalanceHosts", "").lower() == "true":
        made["load_balance_hosts"] = "random"
    kind = given.get("targetServerType", "any")
    if kind not in _SERVER_TYPES:
        raise _refused(where, f"targetServerType {kind} is not known")
    if attributes := _SERVER_TYPES[kind]:
        made["target_session_attrs"] = attributes
    return made


def _notes(given: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name in given:
        if name in _WORDS or name not in (*_LIBPQ, *_READ, *_READ_TOO):
            yield name, _WORDS.get(name, f"the parameter {name} belongs to the JDBC driver.")
