"""The engine that is there is one that this lab can ask."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import pytest
from tests.fixtures.command import Command
from tests.fixtures.engine_process import load_job

from pgdyno.engine import executable
from pgdyno.engine.executable import engine_for_jobs, engine_path
from pgdyno.engine.job import CONTRACT_REVISION
from pgdyno.engine.stream import check_job
from pgdyno.errors import EngineError, SpecError
from pgdyno.server.target import Target

NOWHERE = Target(host="/nowhere", ports="1", user="x", database="x", sslmode="disable")


def older(tmp_path: Path, said: str, *, to_a_job: str = "exit 1") -> Path:
    """Return an engine that says so of its version, and knows no job."""
    engine = tmp_path / "older-engine"
    engine.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo "{said}" && exit 0\n{to_a_job}\n')
    engine.chmod(0o755)
    return engine


def test_an_engine_that_is_named_and_cannot_run_is_not_replaced_by_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for named in (tmp_path, tmp_path / "nothing"):
        monkeypatch.setenv("PGDYNO_ENGINE", str(named))
        with pytest.raises(EngineError, match=f"PGDYNO_ENGINE is {named}, which is not a file"):
            engine_path()


@pytest.mark.parametrize(
    "said",
    ["pgdyno-engine 0.0.9 (release, abc)", "pgdyno-engine 0.0.9 (release, abc, contract 1.1)"],
)
def test_an_older_engine_is_refused_with_both_versions_and_the_next_step(
    said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = older(tmp_path, said)
    monkeypatch.setenv("PGDYNO_ENGINE", str(engine))
    with pytest.raises(EngineError) as caught:
        check_job(load_job(NOWHERE))
    assert f"The engine at {engine} has version 0.0.9 (release, abc" in caught.value.message
    assert (
        f"this pgdyno, version {version('pgdyno')}, needs an engine of version "
        f"{version('pgdyno')} with contract 1.{CONTRACT_REVISION}" in caught.value.message
    )
    assert "make build" in caught.value.hint


def test_an_old_engine_that_answers_in_another_form_is_refused_with_both_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = older(tmp_path, "pgdyno-engine 0.0.9 (release, abc)", to_a_job="echo usage: run")
    monkeypatch.setenv("PGDYNO_ENGINE", str(engine))
    with pytest.raises(EngineError, match=r"has version 0\.0\.9 \(release, abc"):
        check_job(load_job(NOWHERE))


def test_an_engine_of_this_version_may_have_a_later_contract(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = f"pgdyno-engine {version('pgdyno')} (release, abc, contract 1.{CONTRACT_REVISION + 7})"
    engine = older(tmp_path, said)
    monkeypatch.setenv("PGDYNO_ENGINE", str(engine))
    assert engine_for_jobs() == engine


def test_an_engine_of_a_later_release_is_refused_with_both_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = f"pgdyno-engine 9.0.0 (release, abc, contract 1.{CONTRACT_REVISION + 7})"
    monkeypatch.setenv("PGDYNO_ENGINE", str(older(tmp_path, said)))
    with pytest.raises(
        EngineError, match=r"has version 9\.0\.0 (.|\n)*engine of version"
    ) as caught:
        engine_for_jobs()
    assert version("pgdyno") in caught.value.message


def test_a_command_refuses_an_old_engine_before_it_starts_anything(
    pgdyno: Command, tmp_path: Path
) -> None:
    engine = older(tmp_path, "pgdyno-engine 0.0.9 (release, abc)")
    said = pgdyno("bench", "-S", "-T", "1", env={"PGDYNO_ENGINE": str(engine)})
    assert said.code == 2
    assert "unknown field" not in said.err
    assert "make build" in said.err
    assert engine_path().exists()
    assert not list(pgdyno.store.glob("*/runs/*"))


def test_deferred_work_needs_a_terminal_for_each_thread() -> None:
    tpcc = {"name": "tpcc", "weight": 1, "source": {"builtin": "tpcc-like"}}
    connect = {"timeout_ns": 1_000_000_000, "background_terminals": 1}
    job = load_job(
        NOWHERE, scripts=[tpcc], clients=4, threads=2, protocol="prepared", connect=connect
    )
    with pytest.raises(SpecError, match="at least the number of threads, 2"):
        check_job(job)


def test_the_release_is_that_of_the_package() -> None:
    assert version("pgdyno") == executable.RELEASE


@pytest.mark.pg
def test_a_bench_starts_the_engine_once_to_check_once_to_fill_and_once_for_the_load(
    pgdyno: Command, tmp_path: Path
) -> None:
    starts, engine = tmp_path / "starts", tmp_path / "engine"
    engine.write_text(f'#!/bin/sh\necho "$1" >> {starts}\nexec {engine_path()} "$@"\n')
    engine.chmod(0o755)
    load = ("bench", "-S", "-c", "1", "-T", "1s", "-s", "1", "--scratch")
    said = pgdyno(*load, env={"PGDYNO_ENGINE": str(engine)})
    assert said.code in (0, 3), said.err  # A second is too short to be valid.
    assert starts.read_text().split() == ["check-job", "run", "run"]
