from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from pgdyno.errors import SpecError
from pgdyno.server.conninfo import refuse_silent_target, resolve, without_pg_environment
from pgdyno.server.target import Target, refuse_what_the_engine_lacks

SSLMODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host where nobody has set anything."""
    for name in [name for name in os.environ if name.startswith("PG")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / ".pgpass"))
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / ".pg_service.conf"))
    monkeypatch.setenv("PGUSER", "me")
    return tmp_path


def secret(target: Target) -> str | None:
    return None if target.password is None else target.password.get_secret_value()


def test_without_anything_it_is_the_local_socket_and_the_user_s_database() -> None:
    target = resolve().target
    assert target.is_socket
    assert (target.port, target.user, target.database) == (5432, "me", "me")
    assert (target.sslmode, target.password) == ("prefer", None)


def test_options_are_what_psql_means_by_them() -> None:
    target = resolve(host="db1", port=6000, user="you", database="core").target
    assert (target.host, target.port, target.user, target.database) == ("db1", 6000, "you", "core")
    assert target.place == "db1:6000/core"


def test_the_environment_fills_what_no_option_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGHOST", "envhost")
    monkeypatch.setenv("PGPORT", "7777")
    monkeypatch.setenv("PGDATABASE", "envdb")
    monkeypatch.setenv("PGPASSWORD", "sesame")
    monkeypatch.setenv("PGOPTIONS", "-c work_mem=8MB")
    target = resolve(port=6000).target
    assert (target.host, target.port, target.database) == ("envhost", 6000, "envdb")
    assert (secret(target), target.options) == ("sesame", "-c work_mem=8MB")


@pytest.mark.parametrize(
    "conninfo",
    ["postgresql://you@db2:6001/core?connect_timeout=3",
     "host=db2 port=6001 user=you dbname=core connect_timeout=3"],
)  # fmt: skip
def test_a_conninfo_is_a_uri_or_pairs(conninfo: str) -> None:
    target = resolve(conninfo=conninfo, host="elsewhere").target
    assert (target.host, target.port, target.user, target.database) == ("db2", 6001, "you", "core")
    assert target.libpq_parameters()["connect_timeout"] == "3"


def test_a_plain_word_is_a_database() -> None:
    assert resolve(conninfo="core", host="db1").target.database == "core"


def test_the_database_option_may_be_a_conninfo() -> None:
    target = resolve(database="host=db3 dbname=core").target
    assert (target.host, target.database) == ("db3", "core")


def test_two_different_databases_are_refused() -> None:
    with pytest.raises(SpecError, match="dbname has two values: core and other"):
        resolve(conninfo="host=db1 dbname=other", database="core")


def test_explicit_options_win_over_those_of_a_service(home: Path) -> None:
    (home / ".pg_service.conf").write_text(
        "[uat]\nhost=uat.example\nport=6432\ndbname=core\nuser=app\nsslmode=disable\n"
    )
    target = resolve(conninfo="service=uat", port=6000).target
    assert (target.host, target.port, target.database) == ("uat.example", 6000, "core")
    assert (target.user, target.sslmode) == ("app", "disable")
    assert "service" not in target.libpq_parameters()


def test_a_service_in_the_environment_counts_too(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / ".pg_service.conf").write_text("[uat]\nhost=uat.example\n")
    monkeypatch.setenv("PGSERVICE", "uat")
    assert resolve().target.host == "uat.example"


def test_the_error_of_an_unknown_service_is_that_of_libpq(home: Path) -> None:
    (home / ".pg_service.conf").write_text("[uat]\nhost=uat.example\n")
    with pytest.raises(SpecError, match='definition of service "nowhere" not found'):
        resolve(conninfo="service=nowhere")


@pytest.mark.parametrize("name", ["user", "password", "options", "host", "dbname", "timezone"])
def test_a_value_that_is_not_utf_8_is_refused_by_its_name_wherever_it_comes_from(
    name: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    latin = b"se\xe9cret"
    if name == "timezone":
        monkeypatch.setenv("PGTZ", os.fsdecode(latin))
    else:
        (home / ".pg_service.conf").write_bytes(b"[uat]\n%s=%s\n" % (name.encode(), latin))
    with pytest.raises(SpecError, match=rf"{name} has a byte that is not UTF-8") as refused:
        resolve(conninfo="service=uat" if name != "timezone" else "host=a")
    assert "cret" not in str(refused.value)
    with pytest.raises(SpecError, match="user has a byte that is not UTF-8"):
        resolve(user=os.fsdecode(latin))
    with pytest.raises(SpecError, match="connection string has a byte that is not UTF-8"):
        resolve(conninfo=os.fsdecode(b"password=" + latin))


@pytest.mark.parametrize("place", ["named", "home", "system"])
def test_a_service_file_that_is_a_pipe_is_refused_wherever_it_is(
    place: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe = home / ("pg_service.conf" if place == "system" else ".pg_service.conf")
    os.mkfifo(pipe)
    if place != "named":
        monkeypatch.delenv("PGSERVICEFILE")
    monkeypatch.setenv("PGSYSCONFDIR" if place == "system" else "HOME", str(home))
    with pytest.raises(SpecError, match="is a pipe, not a file"):
        resolve(conninfo="service=uat")


def test_the_password_file_is_read_as_libpq_reads_it(home: Path) -> None:
    passfile = home / ".pgpass"
    passfile.write_text("other:*:*:*:wrong\ndb1:6000:core:me:se\\:same\n*:*:*:*:last\n")
    passfile.chmod(0o600)
    assert secret(resolve(host="db1", port=6000, database="core").target) == "se:same"
    assert secret(resolve(host="db9").target) == "last"


def test_a_password_in_the_command_line_is_used_warned_of_and_never_shown() -> None:
    resolved = resolve(conninfo="postgresql://me:sesame@db1/core")
    assert secret(resolved.target) == "sesame"
    assert resolved.notes[0].kind == "password_in_arguments"
    shown = repr(resolved) + str(resolved.target) + str(resolved.target.as_document())
    assert "sesame" not in shown
    assert resolve(conninfo="postgresql://me@db1/core").notes == ()


def test_a_command_of_the_environment_prints_the_password_where_no_string_has_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PGDYNO_PASSWORD_COMMAND", "vault read")
    monkeypatch.setenv("PGPASSWORD", "old")
    target = resolve(conninfo="host=db1").target
    assert (target.password_command, secret(target)) == ("vault read", None)
    assert resolve(conninfo="host=db1", password_command="own").target.password_command == "own"
    with_its_own = resolve(conninfo="postgresql://me:sesame@db1/core").target
    assert (with_its_own.password_command, secret(with_its_own)) == ("", "sesame")


def test_an_unreadable_conninfo_is_refused_without_showing_it() -> None:
    with pytest.raises(SpecError) as caught:
        resolve(conninfo="bogus_option=1 password=sesame")
    assert "bogus_option" in caught.value.message
    assert "sesame" not in caught.value.message + caught.value.hint
    assert caught.value.__suppress_context__


def test_several_hosts_stay_until_one_has_answered() -> None:
    target = resolve(conninfo="host=a,b port=5432,5433 target_session_attrs=read-write").target
    assert target.host == "a,b"
    assert target.libpq_parameters()["target_session_attrs"] == "read-write"
    with pytest.raises(AssertionError, match="several hosts"):
        _ = target.port


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("gssencmode", "require"),
        ("sslnegotiation", "direct"),
        ("sslcertmode", "require"),
        ("sslcrl", "/etc/list.crl"),
        ("sslcrldir", "/etc/lists"),
        ("requirepeer", "postgres"),
        ("ssl_max_protocol_version", "TLSv1.1"),
    ],
)
def test_parameters_that_the_engine_lacks_are_refused_by_name(name: str, value: str) -> None:
    target = Target("db1", "5432", "u", "d", parameters={name: value})
    with pytest.raises(SpecError, match=f"{name}={value}") as caught:
        refuse_what_the_engine_lacks(target)
    assert caught.value.hint


def test_the_password_of_a_key_is_refused_without_being_shown() -> None:
    target = resolve(conninfo="host=db1 sslmode=require sslpassword=hidden").target
    with pytest.raises(SpecError, match="sslpassword") as caught:
        refuse_what_the_engine_lacks(target)
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize("mode", SSLMODES)
def test_every_sslmode_is_served(mode: str) -> None:
    refuse_what_the_engine_lacks(resolve(conninfo=f"host=db1 sslmode={mode}").target)


@pytest.mark.parametrize("name", ["PGHOST", "PGSERVICE", "PGHOSTADDR"])
def test_a_server_named_by_the_environment_alone_is_asked_about(name: str) -> None:
    with pytest.raises(SpecError, match=f"{name}=prod is set") as caught:
        refuse_silent_target(server_given=False, scratch_given=False, environ={name: "prod"})
    assert "--scratch" in caught.value.hint
    refuse_silent_target(server_given=True, scratch_given=False, environ={name: "prod"})
    refuse_silent_target(server_given=False, scratch_given=True, environ={name: "prod"})
    refuse_silent_target(server_given=False, scratch_given=False, environ={"PGPORT": "1"})


def test_a_verb_without_scratch_servers_does_not_advise_one() -> None:
    with pytest.raises(SpecError, match="PGHOST=prod is set") as caught:
        refuse_silent_target(
            server_given=False,
            scratch_given=False,
            offers_scratch=False,
            environ={"PGHOST": "prod"},
        )
    assert caught.value.hint == "use -h, -d or a conninfo (-h prod) for that server"


def test_the_environment_is_hidden_only_for_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGHOST", "prod")
    monkeypatch.setenv("PGDYNO_STORE", "/somewhere")
    with without_pg_environment():
        assert "PGHOST" not in os.environ
        assert os.environ["PGDYNO_STORE"] == "/somewhere"
    assert os.environ["PGHOST"] == "prod"


def test_hiding_the_environment_twice_does_not_deadlock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PGHOST", "prod")
    has_entered, may_leave = threading.Event(), threading.Event()

    def hide() -> None:
        with without_pg_environment():
            has_entered.set()
            may_leave.wait()

    other = threading.Thread(target=hide)
    other.start()
    has_entered.wait()
    with without_pg_environment():
        assert "PGHOST" not in os.environ
    assert "PGHOST" not in os.environ
    may_leave.set()
    other.join()
    assert os.environ["PGHOST"] == "prod"


def test_readers_of_the_environment_wait_until_it_is_restored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PGHOST", "/asked")
    targets: list[str] = []
    reading = threading.Thread(target=lambda: targets.append(resolve().target.host))
    with without_pg_environment():
        reading.start()
        reading.join(0.1)
        assert targets == []
    reading.join()
    assert targets == ["/asked"]
