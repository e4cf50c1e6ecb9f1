"""The job: all instructions to the engine, as typed and frozen models.

Mirrors `crates/engine/src/contract/job.rs`; tests/contract compares the two.
"""

from __future__ import annotations

import json
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, SecretStr

from pgdyno.engine.executable import CONTRACT_REVISION as CONTRACT_REVISION

CONTRACT_FORMAT = "pgdyno.contract/1"
U16_MAX = 2**16 - 1
U32_MAX = 2**32 - 1
U64_MAX = 2**64 - 1

U16 = Annotated[int, Field(ge=0, le=U16_MAX)]
U32 = Annotated[int, Field(ge=0, le=U32_MAX)]
U64 = Annotated[int, Field(ge=0, le=U64_MAX)]
SslMode = Literal["disable", "allow", "prefer", "require", "verify-ca", "verify-full"]
ChannelBinding = Literal["disable", "prefer", "require"]
CertificateMode = Literal["disable", "allow"]
TlsVersion = Literal["TLSv1.2", "TLSv1.3"]
Protocol = Literal["simple", "extended", "prepared"]
SessionAttrs = Literal["any", "read-write", "read-only", "primary", "standby", "prefer-standby"]
_SECRETS = ("password", "password_command")


class Strict(BaseModel):
    """A frozen model that refuses unknown fields, as the engine does."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ClockPairModel(Strict):
    """One instant on CLOCK_MONOTONIC and CLOCK_REALTIME, nanoseconds."""

    monotonic_ns: U64
    unix_ns: U64


class HostPort(Strict):
    """A host name, address or socket directory, and its port; `hostaddr` avoids the lookup.

    `password` is for this host only; without it the target's password is used.
    """

    host: str
    hostaddr: str | None = None
    port: U16
    password: SecretStr | None = None


class TlsSettings(Strict):
    """libpq's security parameters except `sslmode`; they name files, which the engine reads."""

    sslrootcert: str | None = None
    sslcert: str | None = None
    sslkey: str | None = None
    sslsni: bool | None = None
    channel_binding: ChannelBinding = "prefer"
    ssl_min_protocol_version: TlsVersion | None = None
    ssl_max_protocol_version: TlsVersion | None = None
    sslcertmode: CertificateMode = "allow"
    require_auth: str | None = None


class Keepalive(Strict):
    """How to find out that a silent peer is dead: libpq's TCP parameters."""

    off: bool = False
    idle_s: U32 | None = None
    interval_s: U32 | None = None
    count: U32 | None = None
    user_timeout_ms: U32 | None = None


class Reach(Strict):
    """Which of several hosts to use, and how long to wait for each, as in libpq."""

    target_session_attrs: SessionAttrs = "any"
    load_balance: bool = False
    in_turns: bool = False
    timeout_ns: U64 | None = None
    keepalive: Keepalive = Keepalive()


class EngineTarget(Strict):
    """Where the engine connects, and as which user; everything is already resolved."""

    hosts: tuple[HostPort, ...]
    user: str
    database: str
    password: SecretStr | None = None
    application_name: str
    sslmode: SslMode = "prefer"
    tls: TlsSettings = TlsSettings()
    options: dict[str, str] = Field(default_factory=dict)
    reach: Reach = Reach()
    password_command: SecretStr | None = None


class BuiltinScript(Strict):
    """A script the engine knows by name."""

    builtin: str


class TextScript(Strict):
    """A script given as text."""

    text: str


class ScriptSource(Strict):
    """One script of the mix; a script of weight 0 never runs.

    `mirror`: the templates of a capture, for the program of this name. The engine knows their types
    (`crates/programs/mirror/src/load.rs`).
    """

    name: str
    weight: U32 = 1
    source: BuiltinScript | TextScript
    options: dict[str, str] = Field(default_factory=dict)
    mirror: dict[str, JsonValue] | None = None


class ClosedLoop(Strict):
    """Every client starts its next transaction when the last one ended."""

    loop: Literal["closed"] = "closed"
    clients: U32


class RateStep(Strict):
    """A time in which the rate changes linearly; equal rates hold it."""

    duration_ns: U64
    from_tps: float = Field(allow_inf_nan=False)
    to_tps: float = Field(allow_inf_nan=False)


class OpenLoop(Strict):
    """The clock schedules transactions, whether or not a client is free."""

    loop: Literal["open"] = "open"
    clients: U32
    process: Literal["uniform", "poisson"] = "poisson"
    steps: tuple[RateStep, ...]
    latency_limit_ns: U64 | None = None


class Connect(Strict):
    """Limits of the connect phase."""

    timeout_ns: U64
    rate_per_second: Annotated[float, Field(allow_inf_nan=False)] | None = None
    idle_connections: U32 = 0
    active_connections: U32 | None = None
    background_terminals: U32 = 0
    each_transaction: bool = False
    patience_ns: U64 | None = None
    outlasts_crashes: bool = False


class MeasureDuration(Strict):
    """The measured phase lasts this long."""

    duration_ns: U64


class MeasureTransactions(Strict):
    """The measured phase lasts until each client has run this many transactions."""

    transactions_per_client: U64


class Part(Strict):
    """The threads that one engine runs of a load which several engines share.

    The engine then waits for `start INSTANT` when it is prepared.
    """

    first_thread: U16
    threads: U16


class LoadWork(Strict):
    """Generate load."""

    kind: Literal["load"] = "load"
    threads: U16
    seed: U64
    protocol: Protocol = "simple"
    scripts: tuple[ScriptSource, ...]
    variables: dict[str, str] = Field(default_factory=dict)
    arrivals: Annotated[ClosedLoop | OpenLoop, Field(discriminator="loop")]
    connect: Connect
    warm_ns: U64
    measure: MeasureDuration | MeasureTransactions
    drain_ns: U64 = 5_000_000_000
    max_tries: U16 = 10
    read_only: bool = False
    count_interval_ns: U64 = 100_000_000
    histogram_interval_ns: U64 = 1_000_000_000
    statement_latency: bool = True
    think_ratio: float = Field(default=0.0, ge=0.0, le=1.0)
    allow_shell: bool = False
    journal: str | None = None
    probe_application_name: str | None = None
    part: Part | None = None


class DatasetOptions(BaseModel):
    """The options of a dataset: its `DatasetKind` makes them, and the engine checks them."""

    model_config = ConfigDict(frozen=True, extra="allow")

    kind: str


class LoadShare(Strict):
    """Which chains of a load one of `count` engines does; the one with place 0 leads."""

    place: U16
    count: U16


class InitWork(Strict):
    """Create and fill a dataset."""

    kind: Literal["init"] = "init"
    dataset: DatasetOptions
    jobs: U16 = 2
    mark: str
    drop_existing: bool = False
    resume: bool = False
    keep_unfinished: bool = False
    share: LoadShare | None = None


class Job(Strict):
    """One order to the engine: one JSON line on its standard input."""

    format: str = CONTRACT_FORMAT
    clock: ClockPairModel
    target: EngineTarget
    work: Annotated[LoadWork | InitWork, Field(discriminator="kind")]

    def to_line(self) -> bytes:
        """Return the line for the engine, password included: for its standard input only."""
        document = self.model_dump(mode="json", exclude_none=True)
        for name in _SECRETS:
            secret: SecretStr | None = getattr(self.target, name)
            if secret is not None:
                document["target"][name] = secret.get_secret_value()
        for host, shown in zip(self.target.hosts, document["target"]["hosts"], strict=True):
            if host.password is not None:
                shown["password"] = host.password.get_secret_value()
        return json_line(document)

    def without_secrets(self) -> dict[str, object]:
        """Return the job in a form that may be stored: without passwords and password commands."""
        secrets = dict.fromkeys(_SECRETS, True) | {"hosts": {"__all__": {"password"}}}
        document: dict[str, object] = self.model_dump(
            mode="json", exclude_none=True, exclude={"target": secrets}
        )
        return document


def json_line(document: object) -> bytes:
    """Return `document` as compact JSON in UTF-8, ended by a line feed."""
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
