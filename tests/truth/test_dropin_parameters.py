"""Every parameter and variable of libpq: the drop-in serves it, or refuses it by its name."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from psycopg import pq
from tests.fixtures import needs

from pgdyno.engine.executable import engine_path
from pgdyno.errors import SpecError
from pgdyno.server import find
from pgdyno.server.conninfo import resolve
from pgdyno.server.target import ENGINE_LACKS, refuse_what_the_engine_lacks

# Nobody listens there: a served parameter lets the program come as far as that.
NOBODY = "/nonexistent"
TIMEOUT_S = 60.0
# With these values pgbench tries to connect, and so must we.
SERVED = {
    "user": "ann", "password": "x", "passfile": "/dev/null", "channel_binding": "disable",
    "connect_timeout": " 3 ", "dbname": "d", "hostaddr": "", "port": "6543",
    "client_encoding": "LATIN1", "options": "-c geqo=off", "application_name": "a",
    "fallback_application_name": "b", "keepalives": "0", "keepalives_idle": "30",
    "keepalives_interval": "5", "keepalives_count": "3", "tcp_user_timeout": "1000",
    "sslmode": "disable", "sslnegotiation": "postgres", "sslcompression": "0", "sslcert": "/x",
    "sslkey": "/y", "sslcertmode": "disable", "sslrootcert": "/z", "sslsni": "0",
    "require_auth": "scram-sha-256,md5", "min_protocol_version": "3.0",
    "max_protocol_version": "latest", "ssl_min_protocol_version": "TLSv1.3",
    "ssl_max_protocol_version": "tlsv1.3", "gssencmode": "disable", "krbsrvname": "postgres",
    "gsslib": "gssapi", "gssdelegation": "0", "target_session_attrs": "primary",
    "load_balance_hosts": "random",
}  # fmt: skip
# These ask for what is not there.
REFUSED = {
    "sslnegotiation": "direct", "sslcertmode": "require", "sslpassword": "secret-1",
    "sslcrl": "/x", "sslcrldir": "/x", "requirepeer": "postgres", "min_protocol_version": "3.2",
    "ssl_max_protocol_version": "TLSv1.1", "gssencmode": "require", "replication": "database",
    "scram_client_key": "secret-2", "scram_server_key": "secret-3", "oauth_issuer": "https://x",
    "oauth_client_id": "i", "oauth_client_secret": "secret-4", "oauth_scope": "s",
    "sslkeylogfile": "/x", "client_encoding": "auto",
}  # fmt: skip
# These values are not allowed: the message is libpq's.
INVALID = {
    "channel_binding": ("always", ""),
    "port": ("x", "0", "70000"), "sslmode": ("always", "", "Require"),
    "require_auth": ("kerberos", "md5,md5", "md5,!none", "!md5,none"),
    "target_session_attrs": ("master", ""), "load_balance_hosts": ("yes", ""),
    "max_protocol_version": ("4",), "gssencmode": ("maybe",),
    "ssl_min_protocol_version": ("SSLv3",),
    "host": ("a,b,c port=1,2",), "hostaddr": ("1.2.3.4,1.2.3.5,1.2.3.6 host=a,b",),
}  # fmt: skip
# libpq finds these when a socket is there; we find them at once.
NO_NUMBERS = {
    "connect_timeout": ("soon", "", "99999999999"), "keepalives": ("yes",),
    "keepalives_idle": ("long",), "tcp_user_timeout": ("1s",),
}  # fmt: skip
STRINGS = (
    "bogus=1", "host", "host='a", "=x", "requiressl=1 bogus=2",
    "postgresql://h/d?bogus=1", "postgresql://h/d?hoST=x", "postgresql://h/d?sslmode",
    "postgresql://h/d?user=a=b", "postgresql://h/d?user=%00", "postgresql://h/d?user=%zz",
    "postgresql://h/d?&", "postgresql://[::1/d", "postgresql://[]/d", "postgresql://[::1]x/d",
    "postgresql://h:1:2/d", "postgresql://h/d?ssl=1",
    "postgresql:///d?host=/nonexistent&port=7", "postgresql://u@%2Fnonexistent/d?port=8&",
    "postgresql://u:p?w@%2Fnonexistent:77?dbname=d", "service=nowhere",
)  # fmt: skip


def _run(program: list[str], conninfo: str, variables: Mapping[str, str]) -> str:
    """Return what it said; nothing of the environment of this test reaches it."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    outcome = subprocess.run(
        [*program, "-S", "-n", "-t", "1", conninfo],
        env={**kept, "LC_ALL": "C", "HOME": "/nonexistent", **variables},
        capture_output=True, text=True, check=False, timeout=TIMEOUT_S,
    )  # fmt: skip
    assert outcome.returncode == 1, outcome
    return outcome.stderr


def _ours(conninfo: str, variables: Mapping[str, str] | None = None) -> str:
    return _run([str(engine_path()), "pgbench"], conninfo, variables or {})


def _variables() -> dict[str, str]:
    options = pq.Conninfo.get_defaults()
    return {o.keyword.decode(): o.envvar.decode() if o.envvar else "" for o in options}


def _tried(asked: Mapping[str, str], by: str) -> Iterator[tuple[str, str, str]]:
    """Yield name, value and message, of each parameter that can be given this way."""
    variables = _variables()
    for name, value in asked.items():
        if by == "conninfo":
            yield name, value, _ours(f"host={NOBODY} {name}='{value}'")
        elif variables[name]:
            yield name, value, _ours(f"host={NOBODY}", {variables[name]: value})


@pytest.fixture(scope="module")
def pgbench() -> Path:
    """The pgbench that is held to be right."""
    versions = [
        binaries for binaries in (*find.installed(), *find.embedded()) if binaries.major == 18
    ]
    needs.offered(bool(versions), "the reference is pgbench 18, which is not installed")
    return versions[0].program("pgbench")


def test_every_parameter_of_libpq_is_served_or_refused() -> None:
    assert set(_variables()) == {*SERVED, *REFUSED, "host", "service"}


@pytest.mark.parametrize("by", ["conninfo", "variable"])
def test_supported_parameters_lead_to_an_attempt_to_connect(by: str) -> None:
    for name, value, said in _tried(SERVED, by):
        assert f'socket "{NOBODY}/.s.PGSQL' in said, f"{name}={value}: {said}"


@pytest.mark.parametrize("by", ["conninfo", "variable"])
def test_unsupported_parameters_are_refused_by_name(by: str) -> None:
    for name, _, said in _tried(REFUSED, by):
        assert name in said.splitlines()[0], said
        assert "is not supported" in said, said
        assert NOBODY not in said, said
        assert "secret-" not in said, said
        assert "pgbench: hint: " in said, said


def test_an_impossible_parameter_gives_the_error_of_pgbench(pgbench: Path) -> None:
    differences = []
    for name, values in INVALID.items():
        for value in values:
            pair, _, rest = f"{value}".partition(" ")
            conninfo = f"host={NOBODY} {name}='{pair}' {rest}"
            theirs, ours = _run([str(pgbench)], conninfo, {}), _ours(conninfo)
            if theirs != ours:
                differences.append(f"{conninfo}\npgbench: {theirs}ours:    {ours}")
    assert not differences, "\n".join(differences)


def test_the_error_of_a_wrong_number_is_that_of_libpq() -> None:
    for name, values in NO_NUMBERS.items():
        for value in values:
            said = _ours(f"host={NOBODY} {name}='{value}'")
            assert f'invalid integer value "{value}" for connection option "{name}"' in said, said


def test_strings_and_uris_are_read_as_pgbench_reads_them(pgbench: Path) -> None:
    differences = []
    for text in STRINGS:
        theirs, ours = _run([str(pgbench)], text, {}), _ours(text)
        if theirs != ours:
            differences.append(f"{text}\npgbench: {theirs}ours:    {ours}")
    assert not differences, "\n".join(differences)


def test_service_and_password_files_are_held_to_libpqs_rules(pgbench: Path, tmp_path: Path) -> None:
    readable = tmp_path / "readable"
    readable.write_text("*:*:*:*:x\n", encoding="ascii")
    readable.chmod(0o644)
    services = tmp_path / "services"
    services.write_text(
        "[good]\nhost=/nonexistent\nport=77\n[bad]\nhost\n[nested]\nservice=good\n[odd]\nx=1\n",
        encoding="ascii",
    )
    cases: list[tuple[str, dict[str, str]]] = [
        (f"host={NOBODY}", {"PGPASSFILE": str(readable)}),
        (f"host={NOBODY}", {"PGPASSFILE": str(tmp_path)}),
        (f"host={NOBODY}", {"PGSERVICE": "any", "PGSERVICEFILE": "/nonexistent"}),
        *((f"service={name}", {"PGSERVICEFILE": str(services)})
          for name in ("good", "bad", "nested", "odd", "none")),
        (f"host={NOBODY}", {"PGSERVICE": "good", "PGSERVICEFILE": str(services)}),
        (f"host={NOBODY}", {"PGSSLMODE": ""}),
    ]  # fmt: skip
    for conninfo, variables in cases:
        theirs = _run([str(pgbench)], conninfo, variables)
        assert _ours(conninfo, variables) == theirs, (conninfo, variables)


def test_the_lab_refuses_what_its_engine_lacks() -> None:
    unserved = set(REFUSED) - {"client_encoding"}
    assert unserved <= set(ENGINE_LACKS)
    for name, value in REFUSED.items():
        with pytest.raises(SpecError, match=name) as caught:
            refuse_what_the_engine_lacks(resolve(conninfo=f"host=a {name}='{value}'").target)
        assert "secret-" not in str(caught.value)
        assert caught.value.hint
    for name in set(SERVED) - {"hostaddr"}:
        refuse_what_the_engine_lacks(resolve(conninfo=f"host=a {name}='{SERVED[name]}'").target)


def test_settings_with_custom_variables_reach_the_load(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in {"PGTZ": "UTC", "PGDATESTYLE": "ISO, DMY", "PGGEQO": "default"}.items():
        monkeypatch.setenv(name, value)
    target = resolve(conninfo="host=a options='-c jit=off'").target
    assert target.options == r"-c jit=off -c datestyle=ISO,\ DMY -c timezone=UTC"
