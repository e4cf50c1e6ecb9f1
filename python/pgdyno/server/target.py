"""Where to connect: every part resolved and explicit, the password never visible by accident."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pydantic import SecretStr

from pgdyno.errors import SpecError

LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})
PLAIN_SSLMODES = frozenset({"disable", "allow", "prefer"})


@dataclass(frozen=True, slots=True)
class Target:
    """One server as libpq resolved it from options, environment, service and password files.

    `host` and `ports` may list several, as libpq allows; `connect.pinned` turns that into the one
    that answered. `parameters` are all other libpq parameters that were given.
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

    @property
    def port(self) -> int:
        """Return the one port; a target with several hosts must be pinned first."""
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
        """Return "host:port/database" for a person, "host" of a socket being "local"."""
        host = "local" if self.is_socket else (self.host or self.hostaddr)
        return f"{host}:{self.ports}/{self.database}"

    def with_database(self, database: str) -> Target:
        """Return the same server and user, another database."""
        return replace(self, database=database)

    def as_document(self) -> dict[str, str]:
        """Return what a result may keep: no password, no file names."""
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


def refuse_tls_for_the_engine(target: Target) -> None:
    """Raise SpecError if the target insists on encryption, which the engine does not speak yet."""
    demanded = {
        "sslmode": target.sslmode not in PLAIN_SSLMODES,
        "gssencmode": target.parameters.get("gssencmode") == "require",
        "channel_binding": target.parameters.get("channel_binding") == "require",
    }
    values = {**target.parameters, "sslmode": target.sslmode}
    for name, is_demanded in demanded.items():
        if is_demanded:
            raise SpecError(
                f"{name}={values[name]} demands encryption, which the load engine does not speak.",
                hint=f"give {name}=prefer if the server also accepts plain connections",
            )
