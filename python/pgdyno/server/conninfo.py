"""psql's connection habits: options, PG* variables, one conninfo, service and password files.

libpq itself resolves them, so the answer is the same as psql's. libpq has no function that only
resolves. But a connection attempt resolves everything before it checks `channel_binding`, and an
impossible value ends the attempt there. Then no socket was opened, and every parameter can be read.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import psycopg
from psycopg import conninfo as libpq_conninfo
from psycopg import pq
from pydantic import SecretStr

from pgdyno.errors import SpecError
from pgdyno.redaction import MASK
from pgdyno.server.target import Target
from pgdyno.user_file import require_file

DEBIAN_SERVICE_FOLDER = Path("/etc/postgresql-common")
# For verbs that read servers from a file or a journal, which may not contain a command.
PASSWORD_COMMAND_VARIABLE = "PGDYNO_PASSWORD_COMMAND"
_STOP_VALUE = "resolve-only"
_OWN_FIELDS = frozenset(
    {"host", "hostaddr", "port", "user", "dbname", "password", "sslmode", "options"}
)
_NOT_PASSED_ON = _OWN_FIELDS | {"service", "servicefile", "passfile", "application_name"}


@dataclass(slots=True)
class _Environment:
    """The hidden part of this process's environment, and the number of threads that hide it."""

    changing: threading.Condition = field(default_factory=threading.Condition)
    hidden: Mapping[str, str] = field(default_factory=dict)
    users: int = 0


_environment = _Environment()


@dataclass(frozen=True, slots=True)
class ConnectionNote:
    """A warning about the connection string that does not stop the connection."""

    kind: str
    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class Resolved:
    """A target, and notes about how it was given."""

    target: Target
    notes: tuple[ConnectionNote, ...] = ()
    service: str = ""
    """The entry of the service file that was named, if one was."""

    @property
    def conninfo(self) -> str:
        """Return the connection string that leads to this target again, without a password."""
        return self.target.as_conninfo(service=self.service)


def resolve(
    *,
    conninfo: str | None = None,
    host: str | None = None,
    port: str | int | None = None,
    user: str | None = None,
    database: str | None = None,
    password_command: str | None = None,
) -> Resolved:
    """Return the target that these options and the environment select, as psql would.

    Args: conninfo, a URI, `key=value ...` or a plain database name; `database` may be a conninfo,
    too. As in psql, a conninfo has precedence over the options. password_command prints the
    password and has precedence over every other password; a command from the environment is used
    only if the conninfo has no password.
    Raises: SpecError with libpq's message if something cannot be parsed or found.
    """
    options = (("host", host), ("port", str(port or "")), ("user", user))
    given = {name: value for name, value in options if value}
    for name, value in (*options, ("database", database), ("connection string", conninfo)):
        _utf8(name, os.fsencode(value or ""))
    in_strings: dict[str, str] = {}
    for text in (database, conninfo):
        parsed = _parse(text) if text else {}
        clashing = [key for key in parsed if key in in_strings and in_strings[key] != parsed[key]]
        if clashing:
            raise SpecError(
                f"{clashing[0]} has two values: {in_strings[clashing[0]]} and "
                f"{parsed[clashing[0]]}.",
                hint="set it once",
            )
        in_strings.update(parsed)
    notes = [_password_note()] if in_strings.get("password") else []
    target = _ask_libpq({**given, **in_strings}, database, conninfo)
    if not password_command and not in_strings.get("password"):
        password_command = os.environ.get(PASSWORD_COMMAND_VARIABLE)
    if password_command:
        target = replace(
            target, password=None, host_passwords={}, password_command=password_command
        )
    return Resolved(target, tuple(notes), in_strings.get("service", ""))


def refuse_silent_target(
    *,
    server_given: bool,
    scratch_given: bool,
    offers_scratch: bool = True,
    environ: Mapping[str, str] | None = None,
) -> None:
    """Raise SpecError if only the environment names a server: the user must choose explicitly.

    Args: offers_scratch, whether the verb has the option --scratch.
    """
    environ = os.environ if environ is None else environ
    named = [name for name in ("PGSERVICE", "PGHOST", "PGHOSTADDR") if environ.get(name)]
    if named and not server_given and not scratch_given:
        scratch = "use --scratch for a scratch server, or " if offers_scratch else "use "
        raise SpecError(
            f"{named[0]}={environ[named[0]]} is set, but the command line names no server.",
            hint=(
                f"{scratch}-h, -d or a conninfo (-h {environ.get('PGHOST') or 'HOST'}) for that "
                "server"
            ),
        )


@contextlib.contextmanager
def without_pg_environment() -> Iterator[None]:
    """Hide libpq's environment variables: inside, only explicit parameters count.

    A resolved target already contains the environment's values, and a scratch server needs none.
    Several threads may be inside at the same time, and do not wait for each other.
    """
    with _environment.changing:
        if not _environment.users:
            _environment.hidden = {
                name: value for name, value in os.environ.items() if _is_libpq_variable(name)
            }
            for name in _environment.hidden:
                del os.environ[name]
        _environment.users += 1
    try:
        yield
    finally:
        with _environment.changing:
            _environment.users -= 1
            if not _environment.users:
                os.environ.update(_environment.hidden)
                _environment.changing.notify_all()


def whole_environment() -> dict[str, str]:
    """Return a copy of the environment, with the variables that are hidden at this moment."""
    with _environment.changing:
        hidden = _environment.hidden if _environment.users else {}
        return {**os.environ, **hidden}


# What libpq quotes of a string that it could not read may be a part of a password.
_QUOTED_PART = re.compile(r"\"(.*)\"", re.S)
_MAY_HAVE_PASSWORD = re.compile(r"passw|://", re.I)


def _without_quotes(said: str, *texts: str | None) -> str:
    """Return libpq's message without quoted parts that stand behind the begin of a password."""
    secret = [text for text in texts if text and _MAY_HAVE_PASSWORD.search(text)]
    if not secret:
        return said

    def shown(part: re.Match[str]) -> str:
        before = [_MAY_HAVE_PASSWORD.split(text, maxsplit=1)[0] for text in secret]
        return part[0] if any(part[1] in text for text in before) else f'"{MASK}"'

    return _QUOTED_PART.sub(shown, said)


def _refuse_misplaced_password(text: str) -> None:
    """Raise SpecError if a part of a password would count as host, port or database.

    libpq takes the first "@" of a URI, and none after a slash, for the end of the password.
    """
    before, separator, rest = text.partition("://")
    if not separator:
        if "=" not in text and _MAY_HAVE_PASSWORD.search(text):
            raise _misplaced("is not key=value")
        return
    if before.strip().lower() not in ("postgres", "postgresql") or before != before.lower().strip():
        if "=" not in before:
            raise _misplaced("does not begin with postgresql://")
        return
    authority = rest.partition("?")[0]
    if rest.count("@") > 1 or "@" in authority.partition("/")[2]:
        raise _misplaced('has "@" or "/" in its password')
    host = re.sub(r"\[[^\]]*\]", "", authority.partition("/")[0].rpartition("@")[2])
    ports = [part.partition(":")[2] for part in host.split(",")]
    if any(port and not (port.isdecimal() and int(port) < 65536) for port in ports):
        raise _misplaced("has a port that is not a number from 0 to 65535")


def _misplaced(why: str) -> SpecError:
    return SpecError(
        f"The connection string {why}, so pgdyno cannot tell where its password ends.",
        hint="use postgresql://user:password@host:port/database, and write special characters of "
        "the password as %40 for @, %2F for /, %3A for :, or use ~/.pgpass",
    )


def _parse(text: str) -> dict[str, str]:
    _refuse_misplaced_password(text)
    if "=" not in text and not text.startswith(("postgres://", "postgresql://")):
        return {"dbname": text}
    try:
        parsed = libpq_conninfo.conninfo_to_dict(text)
    except psycopg.Error as error:
        raise SpecError(
            f"The connection string cannot be read: {_without_quotes(str(error).strip(), text)}.",
            hint="use a URI postgresql://user@host:port/database, or key=value pairs",
        ) from None  # The chained text would show the string, and with it a password.
    return {key: str(value) for key, value in parsed.items() if value is not None}


def _require_files(given: Mapping[str, str]) -> None:
    """Raise SpecError for a file of the connection that libpq would read for ever."""
    for name, variable in _FILES.items():
        text = given.get(name) or os.environ.get(variable)
        if text:
            require_file(Path(text).expanduser(), of=name)
    if given.get("service") or os.environ.get("PGSERVICE"):
        folder = os.environ.get("PGSYSCONFDIR") or DEBIAN_SERVICE_FOLDER
        for path in (Path("~/.pg_service.conf").expanduser(), Path(folder, "pg_service.conf")):
            require_file(path, of="servicefile")


_FILES = {
    "servicefile": "PGSERVICEFILE",
    "passfile": "PGPASSFILE",
    "sslcert": "PGSSLCERT",
    "sslkey": "PGSSLKEY",
    "sslrootcert": "PGSSLROOTCERT",
    "sslcrl": "PGSSLCRL",
}


def _ask_libpq(given: dict[str, str], *texts: str | None) -> Target:
    _require_files(given)
    asked = libpq_conninfo.make_conninfo("", **{**given, "channel_binding": _STOP_VALUE})
    with _debian_service_folder():
        attempt = pq.PGconn.connect_start(asked.encode())
        defaults = {option.keyword: option.val for option in pq.Conninfo.get_defaults()}
    said = attempt.error_message.decode("utf-8", "replace").strip()
    if "channel_binding" not in said:
        raise SpecError(
            f"The connection cannot be resolved: {_without_quotes(said, *texts)}.",
            hint="check -h -p -U -d, the PG* variables and ~/.pg_service.conf",
        )
    values = {
        name: _utf8(name, option.val)
        for option in attempt.info
        if option.val and (name := option.keyword.decode())
    }
    values.pop("channel_binding", None)
    for name in {"ssl_min_protocol_version", "ssl_max_protocol_version"} & set(values):
        values[name] = values[name].lower().replace("tls", "TLS")
    binding = given.get("channel_binding") or _utf8(
        "channel_binding", defaults.get(b"channel_binding") or b""
    )
    if binding:
        values["channel_binding"] = binding
    hostaddr = values.get("hostaddr", "")
    password = _utf8("password", attempt.password)  # It may come from the password file.
    target = Target(
        # If several addresses have no names, libpq returns only the first.
        host=values.get("host") or ("" if "," in hostaddr else attempt.host.decode()),
        ports=values.get("port") or "5432",
        user=_utf8("user", attempt.user),
        database=_utf8("database", attempt.db),
        password=SecretStr(password) if password else None,
        hostaddr=hostaddr,
        sslmode=values.get("sslmode", "prefer"),
        options=" ".join(filter(None, (values.get("options", ""), _settings_of_environment()))),
        parameters={key: value for key, value in values.items() if key not in _NOT_PASSED_ON},
    )
    attempt.finish()
    if len(target.hosts()) > 1 and "password" not in values and values.get("passfile"):
        return _with_passwords_of_hosts(target, values["passfile"])
    return target


def _utf8(name: str, value: bytes) -> str:
    """Return the text of a parameter. Raises: SpecError, without the value, if it is not UTF-8."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise SpecError(
            f"The value of {name} has a byte that is not UTF-8.",
            hint=f"write {name} in UTF-8: in the option, the PG* variable, the service file or "
            "the password file",
        ) from None


def _with_passwords_of_hosts(target: Target, passfile: str) -> Target:
    """Return the target with the password of each of its hosts from the password file.

    libpq returns only the password of the first host, so it is called once for each host.
    """
    passwords: dict[tuple[str, str], SecretStr] = {}
    with without_pg_environment():
        for host, address, port in target.hosts():
            single = replace(
                target,
                host="" if host == address else host,
                hostaddr=address,
                ports=port,
                password=None,
                parameters={"passfile": passfile, "channel_binding": _STOP_VALUE},
            )
            asked = libpq_conninfo.make_conninfo("", **single.libpq_parameters())
            attempt = pq.PGconn.connect_start(asked.encode())
            if attempt.password:
                passwords[host, port] = SecretStr(_utf8("password", attempt.password))
            attempt.finish()
    parameters = {**target.parameters, "passfile": passfile}
    return replace(target, password=None, host_passwords=passwords, parameters=parameters)


def _settings_of_environment() -> str:
    """Return, as `-c` options, the settings that libpq takes from separate variables."""
    names = {"PGDATESTYLE": "datestyle", "PGTZ": "timezone", "PGGEQO": "geqo"}
    given = {own: os.environ.get(name, "") for name, own in names.items()}
    return " ".join(
        f"-c {own}=" + _utf8(own, os.fsencode(value)).replace("\\", r"\\").replace(" ", r"\ ")
        for own, value in given.items()
        if value and value.lower() != "default"
    )


@contextlib.contextmanager
def _debian_service_folder() -> Iterator[None]:
    """Let libpq see Debian's system-wide service file, as Debian's own libpq does."""
    with _environment.changing:
        _environment.changing.wait_for(lambda: not _environment.users)
        adds = "PGSYSCONFDIR" not in os.environ and DEBIAN_SERVICE_FOLDER.is_dir()
        if adds:
            os.environ["PGSYSCONFDIR"] = str(DEBIAN_SERVICE_FOLDER)
        try:
            yield
        finally:
            if adds:
                del os.environ["PGSYSCONFDIR"]


def _is_libpq_variable(name: str) -> bool:
    return name.startswith("PG") and not name.startswith(("PGDYNO", "PGDATA"))


def _password_note() -> ConnectionNote:
    return ConnectionNote(
        kind="password_in_arguments",
        message=(
            "The command line contains a password, and every user of this host can read it "
            "there; pgdyno does not store it."
        ),
        hint="use ~/.pgpass or PGPASSWORD",
    )
