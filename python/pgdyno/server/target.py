"""Where to connect: every part resolved and explicit, the password never visible by accident."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from psycopg.conninfo import make_conninfo
from pydantic import SecretStr

from pgdyno.errors import SpecError

LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})
# Parameters of libpq whose other values the engine would ignore, and the next step instead.
SECRET = ("sslpassword", "scram_client_key", "scram_server_key", "oauth_client_secret")
ENGINE_LACKS = {
    "gssencmode": (("disable", "prefer"), "use gssencmode=disable, and sslmode=require for TLS"),
    "sslnegotiation": (("postgres",), "use sslnegotiation=postgres"),
    "sslcertmode": (
        ("disable", "allow"),
        "use sslcertmode=allow: a certificate is sent if the server asks",
    ),
    "sslcrl": (
        (),
        "certificate revocation lists are not supported: remove the parameter to connect without",
    ),
    "sslcrldir": (
        (),
        "certificate revocation lists are not supported: remove the parameter to connect without",
    ),
    "sslpassword": ((), "use an sslkey without a password: openssl pkey -in KEY -out COPY"),
    "requirepeer": ((), "remove the parameter: the owner of the server is not checked"),
    "min_protocol_version": (
        ("3.0",),
        "use min_protocol_version=3.0: later versions are not supported",
    ),
    "replication": ((), "remove the parameter: a load does not replicate"),
    "scram_client_key": ((), "use the password itself"),
    "scram_server_key": ((), "use the password itself"),
    "oauth_issuer": ((), "remove the parameter: OAuth is not supported"),
    "oauth_client_id": ((), "remove the parameter: OAuth is not supported"),
    "oauth_client_secret": ((), "remove the parameter: OAuth is not supported"),
    "oauth_scope": ((), "remove the parameter: OAuth is not supported"),
    "sslkeylogfile": ((), "remove the parameter: session keys are never written"),
    "ssl_max_protocol_version": (("TLSv1.2", "TLSv1.3"), "the engine supports TLS 1.2 and 1.3"),
}


@dataclass(frozen=True, slots=True)
class Target:
    """One server as libpq resolved it from options, environment, service and password files.

    `host` and `ports` may list several, as libpq allows. `connect.pinned` reduces the list to the
    server that answered. It keeps the list for the load, which continues elsewhere if that server
    dies. `parameters` are all other libpq parameters that were given.
    """

    host: str
    ports: str
    user: str
    database: str
    password: SecretStr | None = None
    hostaddr: str = ""
    sslmode: str = "prefer"
    options: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict, repr=False)
    is_scratch: bool = False
    password_command: str = field(default="", repr=False)
    """Prints the password, again whenever it is old or was refused (`server.connect`)."""
    host_passwords: Mapping[tuple[str, str], SecretStr] = field(default_factory=dict, repr=False)
    """If there are several hosts: the password of each from the password file, by host and port.
    libpq reads the file itself (parameter `passfile`)."""
    hosts_given: tuple[str, str, str] | None = None
    """Of a pinned target: host, hostaddr and ports as given, before it was pinned."""

    def environment(self) -> dict[str, str]:
        """Return the variables with which a program finds this server, without a password."""
        place = {"PGHOST": self.host, "PGPORT": self.ports}
        return {**place, "PGUSER": self.user, "PGDATABASE": self.database}

    @property
    def port(self) -> int:
        """Return the only port; a target with several hosts must be pinned first."""
        if "," in self.ports or "," in self.host:
            raise AssertionError("this target names several hosts: pin it to one")
        return int(self.ports)

    @property
    def is_socket(self) -> bool:
        """True for a Unix socket folder or an abstract socket."""
        return not self.hostaddr and self.host.startswith(("/", "@"))

    @property
    def is_loopback(self) -> bool:
        """True if the address never leaves this host; a tunnel may still lead elsewhere."""
        return self.is_socket or (self.hostaddr or self.host) in LOOPBACK_HOSTS

    @property
    def place(self) -> str:
        """Return "host:port/database" on one line for a reader; the host of a socket is "local"."""
        host = "local" if self.is_socket else (self.host or self.hostaddr)
        database = re.sub(r"\s", lambda blank: repr(blank[0])[1:-1], self.database)
        return f"{host}:{self.ports}/{database}"

    def hosts(self, *, given: bool = False) -> list[tuple[str, str, str]]:
        """Return name, address ("" if not yet resolved) and port of every host.

        Args: given, whether to return the hosts from before the target was pinned. libpq has
        already matched the lists.
        """
        host, hostaddr, ports = self.host, self.hostaddr, self.ports
        if given and self.hosts_given is not None:
            host, hostaddr, ports = self.hosts_given
        names = (host or hostaddr).split(",")
        addresses = hostaddr.split(",") if hostaddr else [""] * len(names)
        numbers = ports.split(",")
        if len(numbers) == 1:
            numbers *= len(names)
        return list(zip(names, addresses, numbers, strict=True))

    def with_database(self, database: str) -> Target:
        """Return the same server and user, another database."""
        return replace(self, database=database)

    def with_settings(self, settings: Mapping[str, str]) -> Target:
        """Return the same target, whose sessions begin with these settings."""
        # Start-up options end at a space of any kind.
        given = [f" -c {n}=" + re.sub(r"([\\\s])", r"\\\1", v) for n, v in settings.items()]
        return replace(self, options=(self.options + "".join(given)).strip())

    def as_conninfo(self, *, service: str = "") -> str:
        """Return the connection string of this target, without passwords and secret keys.

        Args: service, the name of the entry in the service file, which may contain the password.
        """
        given = {**({"service": service} if service else {}), **self.libpq_parameters()}
        hidden = {"password", "passfile", *SECRET}
        kept = {name: value for name, value in given.items() if name not in hidden}
        if kept.get("sslmode") == "prefer":
            del kept["sslmode"]
        return make_conninfo("", **kept)

    def as_document(self) -> dict[str, str]:
        """Return JSON values for a result: no password, no file names."""
        return {
            "host": self.host,
            "port": self.ports,
            "user": self.user,
            "database": self.database,
            "sslmode": self.sslmode,
            "options": self.options,
        }

    def libpq_parameters(self) -> dict[str, str]:
        """Return every parameter libpq needs, the password included."""
        given = {
            **self.parameters,
            "host": self.host,
            "hostaddr": self.hostaddr,
            "port": self.ports,
            "user": self.user,
            "dbname": self.database,
            "sslmode": self.sslmode,
            "options": self.options,
            "password": self.password.get_secret_value() if self.password else "",
        }
        return {name: value for name, value in given.items() if value}


def refuse_what_the_engine_lacks(target: Target) -> None:
    """Raise SpecError for a security feature of connections that the engine does not have."""
    if target.parameters.get("client_encoding") == "auto":
        raise SpecError(
            "The load engine does not support client_encoding=auto.",
            hint="name the encoding, such as client_encoding=UTF8",
        )
    for name, (served, next_step) in ENGINE_LACKS.items():
        value = target.parameters.get(name)
        if value and value not in served:
            shown = name if name in SECRET else f"{name}={value}"
            raise SpecError(f"The load engine does not support {shown}.", hint=next_step)
