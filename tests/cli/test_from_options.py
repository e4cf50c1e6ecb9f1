"""From options to the question: an error names option, value and rule."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pgdyno.cli.from_options import experiment_of
from pgdyno.errors import SpecError
from pgdyno.server.conninfo import resolve
from pgdyno.spec.designs import CompareDesign
from pgdyno.spec.experiment import BenchDesign
from pgdyno.spec.file import read_spec, to_toml
from pgdyno.spec.variant_text import variant_from

DEFAULTS: dict[str, Any] = {
    "builtin": (),
    "file": (),
    "select_only": False,
    "skip_some_updates": False,
    "protocol": "simple",
    "define": (),
    "warmup": "auto",
    "seed": 1,
    "allow_write": False,
    "allow_shell": False,
    "confirm": (),
    "pg_version": None,
    "pg_bin": None,
    "data_dir": None,
    "wal_dir": None,
    "allow_tmpfs": False,
    "keep": False,
    "settings": (),
    "scale": None,
    "fillfactor": None,
    "unlogged_tables": False,
    "foreign_keys": False,
    "partitions": 0,
    "partition_method": None,
}


@pytest.fixture(autouse=True)
def _no_server_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PGHOST", "PGSERVICE", "PGHOSTADDR"):
        monkeypatch.delenv(name, raising=False)


def asked(**given: Any) -> Any:
    return experiment_of("bench", {**DEFAULTS, **given}, BenchDesign())


@pytest.mark.parametrize("name", ["host", "port", "user", "database", "conninfo"])
def test_an_empty_value_means_the_default_server_as_in_psql(name: str) -> None:
    question = asked(**{name: ""})
    assert question.resolved.target == resolve().target
    assert question.experiment.server.scratch is None


def test_without_a_server_a_scratch_server_runs_tpcb_like() -> None:
    question = asked()
    assert question.resolved is None
    assert question.experiment.server.scratch is not None
    assert [s.name for s in question.experiment.workload.scripts] == ["tpcb-like"]


def test_a_server_of_the_users_own_is_only_read_by_default() -> None:
    question = asked(host="127.0.0.1", database="app")
    assert question.experiment.dataset.kind == "existing"
    assert [s.name for s in question.experiment.workload.scripts] == ["select-only"]


def test_a_beginning_that_only_one_built_in_has_is_enough() -> None:
    scripts = asked(builtin=("se@3", "tpcb")).experiment.workload.scripts
    assert [(s.name, s.weight) for s in scripts] == [("select-only", 3), ("tpcb-like", 1)]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"builtin": ("nope",)}, "no built-in has that name or beginning"),
        ({"builtin": ("s",)}, "begin with that name: simple-update, select-only"),
        ({"builtin": ("tpcb-like@x",)}, "the weight after @ must be a whole number, got 'x'"),
        ({"file": ("/nonexistent/x.sql",)}, "cannot be read: No such file or directory"),
        ({"settings": ("work_mem",)}, "--set work_mem must have the form NAME=VALUE"),
        ({"settings": ("nosuch_setting=1",)}, "--set nosuch_setting=1: "),
        ({"settings": ("shared_buffers=banana",)}, "--set shared_buffers=banana: "),
        ({"settings": ("max_connections=5",), "clients": 10}, "10 clients and .* need 30"),
        ({"define": ("=3",)}, "-D =3 must have the form NAME=VALUE"),
        ({"host": "127.0.0.1", "keep": True}, "--keep needs a scratch server"),
        ({"host": "127.0.0.1", "settings": ("a=b",)}, "--set needs a scratch server"),
        ({"builtin": ("tpcb-like@0",)}, "nothing would run"),
        ({"warmup": "soon"}, "warmup must be a number|duration must be a number"),
    ],
)
def test_an_impossible_option_is_refused_with_its_value(given: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError, match=said) as refused:
        asked(**given)
    assert refused.value.hint


def test_a_server_in_the_environment_needs_an_explicit_choice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PGHOST", "db1")
    with pytest.raises(SpecError, match="PGHOST=db1 is set"):
        asked()
    assert asked(scratch=True).resolved is None


def test_a_script_file_is_read_once_and_keeps_its_name(tmp_path: Path) -> None:
    path = tmp_path / "orders.sql"
    path.write_text("SELECT 1;\n")
    (script,) = asked(file=(f"{path}@2",)).experiment.workload.scripts
    assert (script.text, script.weight, script.name) == ("SELECT 1;\n", 2, str(path))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"name": "a\nb"}, r"--name 'a\\nb': one line of 1 to 200 printable characters\.$"),
        ({"name": "\x1b[31mred"}, r"--name '\\x1b\[31mred': one line"),
        ({"name": "x" * 3000}, "--name x+: one line"),
        ({"duration": "0"}, r"--duration 0: must be greater than 0\.$"),
        ({"duration": "99999999999d"}, "--duration 99999999999d: a duration of at most 31 d"),
        ({"duration": "-5"}, r"--duration -5: must be a number .* h, d\.$"),
        ({"rate": 1e9}, "rate: '1000000000' exceeds 10,000,000 per second"),
    ],
)
def test_impossible_options_are_refused_before_anything_starts(
    given: dict[str, Any], said: str
) -> None:
    with pytest.raises(SpecError, match=said):
        asked(**given)


def test_a_refusal_names_the_option_the_value_and_the_rule() -> None:
    for given, said in (
        ({"duration": "abc"}, "--duration abc: must be a number with one of the units ns, us,"),
        ({"settings": ("shared_bufers=1GB",)}, "--set shared_bufers=1GB: PostgreSQL has no"),
    ):
        with pytest.raises(SpecError) as refused:
            asked(**given)
        assert refused.value.message.startswith(said)
        assert "?." not in refused.value.message


def test_a_setting_of_a_variant_that_no_postgresql_has_is_refused_before_anything() -> None:
    variants = (variant_from("a: work_mem=4MB"), variant_from("b: synchronous_comit=off"))
    with pytest.raises(SpecError, match=r"--variant 'b': synchronous_comit=off: .* mean sync"):
        experiment_of("compare", DEFAULTS, CompareDesign(), variants)


@pytest.mark.parametrize(
    "given",
    [
        {"host": "127.0.0.1", "port": "54811", "database": "corebank", "user": "dba"},
        {"conninfo": "postgresql://dba@db1:5433/corebank?sslmode=require"},
        {"conninfo": "host=/tmp user=dba dbname='core bank' options='-c work_mem=1MB'"},
        {"host": "db1,db2", "port": "1,2", "user": "u", "database": "d"},
    ],
)
def test_a_printed_spec_names_the_same_server(given: dict[str, Any], tmp_path: Path) -> None:
    question = asked(**given)
    assert question.resolved is not None
    path = tmp_path / "spec.toml"
    path.write_text(to_toml(question.experiment))
    dsn = read_spec(path).experiment.server.dsn
    assert resolve(conninfo=dsn).target == question.resolved.target


def test_a_service_is_kept_by_name_and_its_password_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    services = tmp_path / "pg_service.conf"
    services.write_text("[bank]\nhost=db1\nport=5433\nuser=dba\ndbname=core\npassword=secret\n")
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    dsn = asked(conninfo="service=bank").experiment.server.dsn
    assert dsn is not None
    assert "secret" not in dsn
    assert resolve(conninfo=dsn).target == resolve(conninfo="service=bank").target


def test_every_option_of_a_load_survives_the_spec_that_is_printed(tmp_path: Path) -> None:
    script = tmp_path / "a b.sql"
    script.write_text("SELECT :a, :b;\n")
    options = {
        "file": (f"{script}@3",), "clients": 9, "active": 4, "idle": 7, "rate": "5-10:9s,10",
        "threads": 2, "protocol": "prepared", "latency_limit": "50", "duration": "90s",
        "warmup": "3s", "define": ("a=1", "b=x y"), "seed": 77, "allow_shell": True,
        "connect_rate": 5.5, "name": "night shift", "scale": 3, "fillfactor": 90,
        "unlogged_tables": True, "foreign_keys": True, "partitions": 4, "partition_method": "hash",
        "settings": ("work_mem=8MB", "search_path='a', b"), "pg_version": "15",
        "data_dir": Path("/mnt/a"), "wal_dir": Path("/mnt/b"), "allow_tmpfs": True, "keep": True,
    }  # fmt: skip
    experiment = asked(**options).experiment
    path = tmp_path / "spec.toml"
    path.write_text(to_toml(experiment))
    assert read_spec(path).experiment == experiment
