"""The contract, third test: whatever the Python models can ask, the engine can read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import SecretStr, ValidationError
from tests.fixtures.engine_process import Engine

from pgdyno.engine.engine_facts import engine_facts
from pgdyno.engine.job import (
    U16_MAX,
    U32_MAX,
    U64_MAX,
    BuiltinScript,
    ClockPairModel,
    ClosedLoop,
    Connect,
    DatasetOptions,
    EngineTarget,
    HostPort,
    InitWork,
    Job,
    LoadWork,
    MeasureDuration,
    MeasureTransactions,
    OpenLoop,
    RateStep,
    ScriptSource,
    TextScript,
    TlsSettings,
)

BUILTINS = tuple(b.name for b in engine_facts().builtins if not b.is_native)
NANOSECONDS = st.integers(0, U64_MAX)
# What a person or a service file may write, without the zero byte that the protocol forbids.
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
NAME = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1)
PARAMETER = st.from_regex(r"[a-z][a-z0-9_]{0,20}", fullmatch=True)
RATE = st.floats(1.0, 1e6)

targets = st.builds(
    EngineTarget,
    hosts=st.lists(st.builds(HostPort, host=NAME, port=st.integers(1, U16_MAX)), min_size=1).map(
        tuple
    ),
    user=NAME,
    database=NAME,
    password=st.none() | TEXT.map(SecretStr),
    application_name=TEXT,
    sslmode=st.sampled_from(("disable", "allow", "prefer", "require")),
    tls=st.builds(
        TlsSettings,
        sslsni=st.none() | st.booleans(),
        channel_binding=st.sampled_from(("disable", "prefer")),
        ssl_min_protocol_version=st.sampled_from((None, "TLSv1.2", "TLSv1.3")),
    ),
    options=st.dictionaries(PARAMETER, TEXT, max_size=3),
)
scripts = st.builds(
    ScriptSource,
    name=NAME,
    weight=st.integers(1, U32_MAX // 4),
    source=st.sampled_from(BUILTINS).map(lambda name: BuiltinScript(builtin=name))
    | st.just(TextScript(text="\\set aid random(1, :scale)\nSELECT :aid;")),
)
steps = st.builds(RateStep, duration_ns=st.integers(1, 10**12), from_tps=RATE, to_tps=RATE)
arrivals = st.builds(ClosedLoop, clients=st.integers(1, 100_000)) | st.builds(
    OpenLoop,
    clients=st.integers(1, 100_000),
    process=st.sampled_from(("uniform", "poisson")),
    steps=st.lists(steps, min_size=1, max_size=4).map(tuple),
    latency_limit_ns=st.none() | st.integers(1, 10**12),
)
THINK = st.floats(0.0, 1.0)
intervals = st.sampled_from([(10**8, 10**9), (10**7, 10**8), (10**9, 10**9)])


@st.composite
def load_works(draw: st.DrawFn) -> LoadWork:
    count_ns, histogram_ns = draw(intervals)
    load = draw(arrivals)
    by_time = st.builds(MeasureDuration, duration_ns=st.integers(1, 10**14))
    by_count = st.builds(MeasureTransactions, transactions_per_client=st.integers(1, 10**9))
    return LoadWork(
        threads=draw(st.integers(1, 1024)),
        seed=draw(NANOSECONDS),
        protocol=draw(st.sampled_from(("simple", "extended", "prepared"))),
        scripts=tuple(draw(st.lists(scripts, min_size=1, max_size=5))),
        variables={"scale": "1", **draw(st.dictionaries(PARAMETER, TEXT, max_size=3))},
        arrivals=load,
        connect=Connect(
            timeout_ns=draw(st.integers(1, 10**12)), rate_per_second=draw(st.none() | RATE)
        ),
        warm_ns=draw(st.integers(0, 10**12)),
        measure=draw(by_time | by_count if isinstance(load, ClosedLoop) else by_time),
        drain_ns=draw(st.integers(0, 10**11)),
        max_tries=draw(st.integers(1, U16_MAX)),
        read_only=draw(st.booleans()),
        count_interval_ns=count_ns,
        histogram_interval_ns=histogram_ns,
        statement_latency=draw(st.booleans()),
        think_ratio=draw(THINK) if isinstance(load, ClosedLoop) else 0.0,
        allow_shell=draw(st.booleans()),
    )


def options(kind: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[DatasetOptions]:
    return st.builds(DatasetOptions, kind=st.just(kind), **fields)


pgbench_options = options(
    "pgbench",
    # pgbench's own limit: account numbers are 32-bit integers below scale 20,000.
    scale=st.integers(1, 20_000),
    fillfactor=st.none() | st.integers(10, 100),
    unlogged=st.booleans(),
    foreign_keys=st.booleans(),
    partitions=st.integers(0, 1000),
    partition_method=st.sampled_from(("range", "hash")),
    tablespace=st.none() | NAME,
    index_tablespace=st.none() | NAME,
    steps=st.none() | st.text("dtgGvpf ", min_size=1).filter(str.strip),
)
# Neither goes with partitions, and distribution by branch not with foreign keys.
pgbench_options |= options(
    "pgbench",
    scale=st.integers(1, U32_MAX),
    foreign_keys=st.booleans(),
    range_rows=st.none() | st.integers(1, U64_MAX),
    distribute=st.none()
    | st.fixed_dictionaries(
        {"server": st.sampled_from(("citus", "greenplum")), "column": st.just("aid")}
    ),
)
tpcc_options = options(
    "tpcc",
    warehouses=st.integers(1, 1_000_000),
    seed=st.integers(0, U64_MAX),
    c_last=st.integers(0, 255),
    fillfactor=st.none() | st.integers(10, 100),
    unlogged=st.booleans(),
    foreign_keys=st.booleans(),
    partitions=st.integers(0, 1000),
)
ledger_options = options("ledger", accounts=st.integers(1, 1_000_000))
init_works = st.builds(
    InitWork,
    dataset=pgbench_options | tpcc_options | ledger_options,
    jobs=st.integers(1, 64),
    mark=TEXT,
    drop_existing=st.booleans(),
    resume=st.booleans(),
    keep_unfinished=st.booleans(),
)
jobs = st.builds(
    Job,
    clock=st.builds(ClockPairModel, monotonic_ns=NANOSECONDS, unix_ns=NANOSECONDS),
    target=targets,
    work=load_works() | init_works,
)


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(jobs)
def test_a_job_the_models_can_write_is_a_job_the_engine_reads(job: Job) -> None:
    said = Engine().say("check-job", given=job.to_line())
    assert said.returncode == 0, f"{said.stdout!r} {said.stderr!r}"
    [record] = [json.loads(line) for line in said.stdout.splitlines()][-1:]
    assert record["record"] == "hello"


A_JOB = {
    "format": "pgdyno.contract/1",
    "clock": {"monotonic_ns": 1, "unix_ns": 2},
    "target": {
        "hosts": [{"host": "/tmp", "port": 5432}],
        "user": "u",
        "database": "d",
        "password": "not-to-be-told",
        "application_name": "a",
        "sslmode": "disable",
    },
    "work": {
        "kind": "load",
        "threads": 1,
        "seed": 1,
        "protocol": "simple",
        "scripts": [{"name": "s", "weight": 1, "source": {"builtin": "select-only"}}],
        "arrivals": {"loop": "closed", "clients": 1},
        "connect": {"timeout_ns": 1000000000},
        "warm_ns": 0,
        "measure": {"duration_ns": 1000000000},
        "drain_ns": 0,
        "max_tries": 1,
        "count_interval_ns": 100000000,
        "histogram_interval_ns": 1000000000,
    },
}


def _with(path: str, value: object) -> dict[str, Any]:
    job = json.loads(json.dumps(A_JOB))
    *above, last = path.split("/")
    place = job
    for name in above:
        place = place[int(name) if name.isdigit() else name]
    place[last] = value
    return dict(job)


def test_the_plain_job_is_accepted_by_both_sides(engine: Engine) -> None:
    assert Job.model_validate(A_JOB)
    assert engine.say("check-job", given=json.dumps(A_JOB).encode() + b"\n").returncode == 0


UNKNOWN = (
    "extra",
    "clock/extra",
    "target/extra",
    "target/hosts/0/extra",
    "work/extra",
    "work/scripts/0/extra",
    "work/arrivals/extra",
    "work/connect/extra",
)


@pytest.mark.parametrize("path", UNKNOWN)
def test_an_unknown_field_of_a_job_is_refused_by_both_sides(path: str, engine: Engine) -> None:
    job = _with(path, 1)
    with pytest.raises(ValidationError):
        Job.model_validate(job)
    said = engine.say("check-job", given=json.dumps(job).encode() + b"\n")
    record = json.loads(said.stdout.splitlines()[-1])
    assert said.returncode != 0
    assert record["record"] == "error"
    assert record["kind"] == "job"
    assert "extra" in record["message"]


IMPOSSIBLE = [
    ("format", "pgdyno.contract/999"),
    ("target/hosts", []),
    ("work/threads", 0),
    ("work/scripts", []),
    ("work/scripts/0/weight", 0),
    ("work/scripts/0/source", {"builtin": "no-such-script"}),
    ("work/arrivals/clients", 0),
    ("work/max_tries", 0),
    ("work/count_interval_ns", 0),
    ("work/histogram_interval_ns", 150_000_000),
]


@pytest.mark.parametrize(("path", "value"), IMPOSSIBLE)
def test_an_impossible_job_is_refused_before_anything_is_opened(
    path: str, value: object, engine: Engine
) -> None:
    for verb in ("check-job", "run"):
        said = engine.say(verb, given=json.dumps(_with(path, value)).encode() + b"\n")
        assert said.returncode != 0
        errors = [json.loads(line) for line in said.stdout.splitlines()]
        errors = [record for record in errors if record["record"] == "error"]
        assert errors, said
        assert errors[0]["message"]
        assert errors[0]["hint"]
        assert "not-to-be-told" not in said.stdout.decode() + said.stderr.decode()


@pytest.mark.parametrize("given", [b"", b"\n", b"{", b"[]\n", b"\xff\xfe\n", b"null\n"])
def test_a_wrong_job_gives_an_error_record_and_no_panic(given: bytes, engine: Engine) -> None:
    said = engine.say("run", given=given)
    assert said.returncode not in (0, 101)
    assert b"panicked" not in said.stderr
    assert json.loads(said.stdout.splitlines()[0])["record"] == "error"
