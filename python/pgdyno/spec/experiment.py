"""What is asked: server, dataset, workload, variants and design of one experiment.

Everything measured is an experiment, also a plain `bench`: cells x rounds, with contrasts. The
models are immutable and closed; a spec file and a verb's options end in the same object.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, model_validator

from pgdyno.errors import SpecError
from pgdyno.spec.units import duration_ns

SECOND_NS = 1_000_000_000
BUILTINS = ("tpcb-like", "simple-update", "select-only", "insert-only", "update-only")


def _duration(value: object) -> int:
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        try:
            return duration_ns(value)
        except SpecError as error:
            raise ValueError(error.message) from error
    raise ValueError(f'a duration such as "60s", got {value!r}')


# Given as text or seconds under its alias, held as nanoseconds, written back as text.
DurationNs = Annotated[
    int, BeforeValidator(_duration), Field(ge=0), PlainSerializer(lambda ns: f"{ns}ns")
]
Protocol = Literal["simple", "extended", "prepared"]


class Spec(BaseModel):
    """Frozen, and closed to unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Scratch(Spec):
    """A server of pgdyno's own, made for this experiment and removed after it."""

    version: str | None = None
    bin_dir: Path | None = None
    data_dir: Path | None = None
    wal_dir: Path | None = None
    allow_tmpfs: bool = False
    keep: bool = False


class Server(Spec):
    """The server under test: exactly one of `scratch` and `dsn`."""

    scratch: Scratch | None = None
    dsn: str | None = None
    observe: str | None = None
    admin: str | None = None
    settings: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _exactly_one(self) -> Server:
        if (self.scratch is None) == (self.dsn is None):
            raise ValueError("exactly one of scratch and dsn must be given")
        return self


class Dataset(Spec):
    """The data the load runs on; `existing` is never loaded, dropped, truncated or vacuumed."""

    kind: Literal["pgbench", "existing"] = "pgbench"
    scale: Annotated[int, Field(ge=1, le=2**31 - 1)] = 1
    fillfactor: Annotated[int, Field(ge=10, le=100)] | None = None
    unlogged: bool = False
    foreign_keys: bool = False
    partitions: Annotated[int, Field(ge=0)] = 0
    partition_method: Literal["range", "hash"] = "range"


class Script(Spec):
    """One script of the mix: a built-in by name, or a file with its text."""

    builtin: str | None = None
    file: Path | None = None
    text: str | None = Field(default=None, exclude=True)
    weight: Annotated[int, Field(ge=0)] = 1

    @model_validator(mode="after")
    def _exactly_one(self) -> Script:
        if (self.builtin is None) == (self.file is None):
            raise ValueError("exactly one of builtin and file must be given")
        return self

    @property
    def name(self) -> str:
        """Return the name shown in results."""
        return self.builtin or str(self.file)


class Workload(Spec):
    """What the clients do, how many they are, and for how long."""

    scripts: tuple[Script, ...]
    clients: Annotated[int, Field(ge=1, le=100_000)] = 1
    rate_tps: float | None = Field(default=None, gt=0, allow_inf_nan=False, alias="rate")
    threads: Annotated[int, Field(ge=1, le=1024)] | None = None
    protocol: Protocol = "simple"
    duration_ns: DurationNs = Field(default=60 * SECOND_NS, alias="duration")
    transactions_per_client: Annotated[int, Field(ge=1)] | None = None
    warmup_ns: DurationNs | None = Field(default=None, alias="warmup")
    """None = auto: found by a pilot run."""
    variables: dict[str, str] = Field(default_factory=dict)
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1

    @model_validator(mode="after")
    def _has_something_to_run(self) -> Workload:
        if not any(script.weight > 0 for script in self.scripts):
            raise ValueError("the weights of all scripts are 0: nothing would run")
        return self


class BenchDesign(Spec):
    """One measured run."""

    kind: Literal["bench"] = "bench"


class SweepDesign(Spec):
    """The load curve: every level `rounds` times, then one longer run at the knee."""

    kind: Literal["sweep"] = "sweep"
    levels: tuple[Annotated[int, Field(ge=1, le=100_000)], ...] | Literal["auto"] = "auto"
    rounds: Annotated[int, Field(ge=1, le=100)] = 3
    run_ns: DurationNs = Field(default=5 * SECOND_NS, alias="run")
    knee_ns: DurationNs = Field(default=30 * SECOND_NS, alias="knee")
    clients_max: Annotated[int, Field(ge=1, le=100_000)] = 64
    """Where `auto` stops doubling."""


Design = Annotated[BenchDesign | SweepDesign, Field(discriminator="kind")]


class Experiment(Spec):
    """The whole question."""

    name: str
    server: Server
    dataset: Dataset
    workload: Workload
    design: Design

    def clients_max(self) -> int:
        """Return the largest number of connections any run of this experiment will open."""
        if isinstance(self.design, BenchDesign):
            return self.workload.clients
        if self.design.levels == "auto":
            return self.design.clients_max
        return max(self.design.levels)


class Permissions(Spec):
    """What was allowed on a server of the user's own; see `server.safety`."""

    allow_write: bool = False
    confirm: str | None = None
