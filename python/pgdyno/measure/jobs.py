"""Makes the engine's job from a planned run.

A job leaves nothing for the engine to decide: hosts, time limits and number of threads are given.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any

from pydantic import SecretStr

from pgdyno.clock import ClockPair
from pgdyno.engine.job import (
    BuiltinScript,
    ClockPairModel,
    ClosedLoop,
    Connect,
    EngineTarget,
    HostPort,
    InitWork,
    Job,
    Keepalive,
    LoadWork,
    MeasureDuration,
    MeasureTransactions,
    OpenLoop,
    RateStep,
    Reach,
    ScriptSource,
    TextScript,
    TlsSettings,
)
from pgdyno.errors import SpecError
from pgdyno.programs.registry import part_of_files
from pgdyno.server.target import Target
from pgdyno.server.user_command import password_of
from pgdyno.spec.base import SECOND_NS
from pgdyno.spec.experiment import Experiment, Script, Workload
from pgdyno.spec.planned import PlannedRun
from pgdyno.spec.rate import RatePhase
from pgdyno.spec.workload import background_terminals
from pgdyno.user_file import read_text

# The connect phase ends with an error after this time without another connection.
CONNECT_TIMEOUT_NS = 60_000_000_000


def engine_target(target: Target, application_name: str, *, follows: bool = False) -> EngineTarget:
    """Return the target in the engine's terms: hosts with ports, start-up parameters by name.

    Args: follows, whether the engine may connect to every given host, and not only to the host that
    answered.
    """
    command = target.password_command
    return EngineTarget(
        hosts=tuple(
            HostPort(
                host=host,
                hostaddr=address or None,
                port=int(port),
                password=target.host_passwords.get((host, port)),
            )
            for host, address, port in target.hosts(given=follows)
        ),
        user=target.user,
        database=target.database,
        password=SecretStr(password_of(command)) if command else target.password,
        application_name=application_name,
        sslmode=target.sslmode,
        tls=tls_settings(target.parameters),
        options=start_up(target),
        reach=reach(target.parameters),
        password_command=SecretStr(command) if command else None,
    )


def start_up(target: Target) -> dict[str, str]:
    """Return the settings in the start-up message of the load's sessions."""
    encoding = target.parameters.get("client_encoding", "")
    asked = {"options": target.options, "client_encoding": encoding}
    return {name: value for name, value in asked.items() if value}


def reach(parameters: Mapping[str, str]) -> Reach:
    """Return libpq's parameters that choose a host."""
    # As in libpq, 0 and negative numbers mean no limit, and the minimum is 2 s.
    seconds = _connect_timeout_s(parameters)
    return Reach.model_validate(
        {
            "target_session_attrs": parameters.get("target_session_attrs") or "any",
            "load_balance": parameters.get("load_balance_hosts") == "random",
            "timeout_ns": max(2, seconds) * SECOND_NS if seconds > 0 else None,
            "keepalive": keepalive(parameters),
        }
    )


def _connect_timeout_s(parameters: Mapping[str, str]) -> int:
    """Return the time limit of one connection in seconds; 0 = no limit.

    The parameters have the value of PGCONNECT_TIMEOUT already, except for a scratch server, whose
    target libpq never resolved.
    Raises: SpecError if PGCONNECT_TIMEOUT is not a number.
    """
    asked = parameters.get("connect_timeout") or os.environ.get("PGCONNECT_TIMEOUT") or "0"
    try:
        return int(asked)
    except ValueError:
        raise SpecError(
            f"PGCONNECT_TIMEOUT is {asked!r}, which is not a whole number of seconds.",
            hint="set a number, such as PGCONNECT_TIMEOUT=10, or unset the variable",
        ) from None


def keepalive(parameters: Mapping[str, str]) -> Keepalive:
    """Return libpq's parameters for TCP keepalive."""
    names = {
        "keepalives_idle": "idle_s",
        "keepalives_interval": "interval_s",
        "keepalives_count": "count",
        "tcp_user_timeout": "user_timeout_ms",
    }
    given = {
        own: max(0, int(parameters[name])) for name, own in names.items() if parameters.get(name)
    }
    return Keepalive(off=parameters.get("keepalives") == "0", **given)


def tls_settings(parameters: Mapping[str, str]) -> TlsSettings:
    """Return libpq's parameters for TLS.

    `refuse_what_the_engine_lacks` refused other parameters before. A minimum
    version below TLS 1.2 is left out, because the engine supports nothing older.
    """
    known = {name: parameters[name] for name in TlsSettings.model_fields if parameters.get(name)}
    if known.get("ssl_min_protocol_version") not in (None, "TLSv1.2", "TLSv1.3"):
        del known["ssl_min_protocol_version"]
    return TlsSettings.model_validate(known)


def load_job(
    experiment: Experiment,
    planned: PlannedRun,
    *,
    target: EngineTarget,
    clock: ClockPair,
    scale: int | None,
    read_only: bool,
    threads: int | None = None,
    probe_name: str | None = None,
) -> Job:
    """Return the job of one planned run.

    Args: scale, of the pgbench tables, for the script variable :scale, None = not known; threads,
    of the whole load, None = the default of one engine on this host; probe_name, the
    application_name of an additional connection that measures round trips while the load runs,
    None = no such connection.
    """
    workload = experiment.workload_of(planned.cell.variant)
    known = experiment.all_scripts()
    scripts = [known[index] for index in planned.cell.script_indexes]
    variables = {"scale": str(scale)} if scale is not None else {}
    measure: MeasureDuration | MeasureTransactions = MeasureDuration(duration_ns=planned.measure_ns)
    if planned.transactions_per_client is not None:
        measure = MeasureTransactions(transactions_per_client=planned.transactions_per_client)
    connections = workload.working_connections(planned.cell.clients)
    if threads is None:
        threads = threads_for(connections, workload.threads)
    work = LoadWork(
        threads=threads,
        seed=planned.seed,
        protocol=workload.protocol,
        scripts=tuple(_script_source(script) for script in scripts),
        variables={**variables, **workload.variables},
        arrivals=_arrivals(experiment, planned),
        connect=_connect(workload, background_terminals(scripts, connections, threads)),
        warm_ns=planned.warm_ns,
        measure=measure,
        read_only=read_only,
        think_ratio=workload.think_ratio,
        allow_shell=workload.allow_shell,
        probe_application_name=probe_name,
    )
    if workload.servers_in_turns:
        in_turns = target.reach.model_copy(update={"in_turns": True})
        target = target.model_copy(update={"reach": in_turns})
    return Job(clock=_clock(clock), target=target, work=work)


def is_probed(target: EngineTarget, workload: Workload) -> bool:
    """Return whether one more connection may measure round trips while the load runs.

    A Unix socket has no network. If the load connects for each transaction, the additional
    connection could take the last one that the server allows.
    """
    is_socket = all(not host.hostaddr and host.host.startswith(("/", "@")) for host in target.hosts)
    return not is_socket and not workload.connect_each_transaction


def _connect(workload: Workload, background: int) -> Connect:
    rate = workload.connect_rate_per_second or math.inf
    return Connect(
        timeout_ns=CONNECT_TIMEOUT_NS + round(SECOND_NS / rate),
        rate_per_second=workload.connect_rate_per_second,
        idle_connections=workload.idle_connections,
        active_connections=workload.active_connections,
        background_terminals=background,
        each_transaction=workload.connect_each_transaction,
    )


def init_job(work: InitWork, *, target: EngineTarget, clock: ClockPair) -> Job:
    """Return the job that creates and fills a dataset."""
    return Job(clock=_clock(clock), target=target, work=work)


def threads_for(clients: int, asked: int | None) -> int:
    """Return the number of engine threads: `asked`, or else half the cores, at most 8.

    One thread drives hundreds of clients. More threads than necessary take CPU from a server on
    this host.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    return min(clients, asked or min(8, max(1, cores // 2)))


def _arrivals(experiment: Experiment, planned: PlannedRun) -> ClosedLoop | OpenLoop:
    cell, rate = planned.cell, experiment.workload.rate
    if cell.rate_tps is None:
        return ClosedLoop(clients=cell.clients)
    if rate is None or rate.is_constant:
        phases: tuple[RatePhase, ...] = (RatePhase(cell.rate_tps, cell.rate_tps),)
    elif planned.purpose == "pilot":
        phases = (RatePhase(rate.warm_tps, rate.warm_tps),)
    else:
        phases = rate.within(planned.measure_ns)
        if planned.warm_ns:
            phases = (RatePhase(rate.warm_tps, rate.warm_tps, planned.warm_ns), *phases)
    whole_ns = planned.warm_ns + planned.measure_ns
    steps = (
        RateStep(
            duration_ns=whole_ns if phase.duration_ns is None else phase.duration_ns,
            from_tps=phase.from_tps,
            to_tps=phase.to_tps,
        )
        for phase in phases
    )
    return OpenLoop(clients=cell.clients, steps=tuple(steps))


def _script_source(script: Script) -> ScriptSource:
    if script.builtin is not None:
        source: BuiltinScript | TextScript = BuiltinScript(builtin=script.builtin)
    else:
        assert script.file is not None
        text = script.text if script.text is not None else read_text(script.file)
        source = TextScript(text=text)
    return ScriptSource(
        name=script.name,
        weight=script.weight,
        source=source,
        options=script.options,
        mirror=_load_of_file(script) if script.capture is not None else None,
    )


def _load_of_file(script: Script) -> dict[str, Any]:
    part = part_of_files("job")
    assert part is not None, "a script with a file has a program that reads it"
    load: dict[str, Any] = part.mirror_load(script)
    return load


def _clock(clock: ClockPair) -> ClockPairModel:
    return ClockPairModel(monotonic_ns=clock.monotonic_ns, unix_ns=clock.unix_ns)
