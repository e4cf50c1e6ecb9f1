"""One whole experiment: server, dataset, workload, variants and design.

Every measurement is an experiment, even a plain `bench`: cells x rounds, with contrasts. The models
are immutable and closed. A spec file and the options of a verb give the same object.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from pgdyno.programs.program import Program
from pgdyno.programs.registry import program_of
from pgdyno.quantities import counted
from pgdyno.spec.base import SECOND_NS, Command, Conninfo, DurationNs, Name, Spec
from pgdyno.spec.dataset import Dataset, ExistingDataset, PgbenchDataset, changed
from pgdyno.spec.designs import BenchDesign, CompareDesign, Design, Metric, SweepDesign
from pgdyno.spec.hosts import hosts_from
from pgdyno.spec.planned import PlannedVariant
from pgdyno.spec.variant import Settings, Variant
from pgdyno.spec.workload import Protocol, Script, Workload

__all__ = [
    "BenchDesign",
    "CacheState",
    "CompareDesign",
    "Dataset",
    "Design",
    "ExistingDataset",
    "Experiment",
    "Permissions",
    "PgbenchDataset",
    "Protocol",
    "ResetMode",
    "Scratch",
    "Script",
    "Server",
    "SweepDesign",
    "Variant",
    "Workload",
]


class Scratch(Spec):
    """A server that pgdyno creates for this experiment and removes after it."""

    version: str | None = None
    bin_dir: Path | None = None
    data_dir: Path | None = None
    wal_dir: Path | None = None
    allow_tmpfs: bool = False
    keep: bool = False


class Server(Spec):
    """The server under test: exactly one of `scratch` and `dsn`.

    On the user's own server, `admin` is the only role that changes settings. `apply_command` runs
    instead of ALTER SYSTEM, with the settings as JSON on its standard input. `restart_command` runs
    when a restart is necessary. `recover_command` repairs a server that no longer starts; it gets
    the old settings on its standard input. `command_timeout`: longest time of a command (5 min).
    The other fields only serve observation: `observe` is a way to the server that avoids a pooler,
    `pooler` is the pooler's console, and `ssh` or `host_shell` opens a shell on the server's
    host.
    """

    scratch: Scratch | None = None
    dsn: Conninfo | None = None
    observe: Conninfo | None = None
    admin: Conninfo | None = None
    apply_command: Command | None = None
    restart_command: Command | None = None
    recover_command: Command | None = None
    command_timeout_ns: Annotated[DurationNs, Field(gt=0)] | None = Field(
        default=None, alias="command_timeout"
    )
    pooler: Conninfo | None = None
    ssh: str | None = None
    host_shell: str | None = None
    settings: Settings = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _of_an_older_result(cls, given: object) -> object:
        """Accept the spec of an older result, which has empty lists of what no longer exists."""
        if not isinstance(given, dict):
            return given
        gone = [name for name in ("equal", "host_files") if given.get(name) == []]
        return {name: value for name, value in given.items() if name not in gone}

    @model_validator(mode="after")
    def _exactly_one(self) -> Server:
        if (self.scratch is None) == (self.dsn is None):
            raise ValueError("exactly one of scratch and dsn must be given")
        return self

    @property
    def command_timeout_s(self) -> float:
        """Return the longest time of a command of the user."""
        return (self.command_timeout_ns or _COMMAND_TIMEOUT_NS) / SECOND_NS


_COMMAND_TIMEOUT_NS = 300 * SECOND_NS
ResetMode = Literal["none", "vacuum", "restore"]
CacheState = Literal["warm", "prewarm", "cold"]
UNCHANGED = Variant(name="unchanged")


class Experiment(Spec):
    """The whole question.

    `reset` happens before every run: `none`; `vacuum` (empty the history, vacuum the tables, write
    a checkpoint); `restore` (copy the database from a template, then as vacuum). `cache` comes
    next: `warm` (as the previous run left it; filled after a start of a scratch server), `prewarm`
    (read tables and indexes into shared_buffers), `cold` (no file of the server is in memory).
    `reload = "round"` loads the data again in every round, so that the interval includes the effect
    of their layout on disk.
    `check`: after every load and every run, check the rows against the conditions of the dataset.
    `price_of_loss`: after the last run, servers with the settings of each variant crash this many
    times, which shows the commits that they lose.
    """

    name: Name
    reset: ResetMode = "vacuum"
    cache: CacheState = "warm"
    reload: Literal["once", "round"] = "once"
    check: bool = True
    crash_count: Annotated[int, Field(ge=0, le=1000)] = Field(default=0, alias="price_of_loss")
    server: Server
    dataset: Dataset
    workload: Workload
    variants: tuple[Variant, ...] = Field(default=(), alias="variant")
    design: Design

    def with_fields(self, **fields: object) -> Experiment:
        """Return a copy with other fields. Raises: ValidationError if they do not fit."""
        known = {name: getattr(self, name) for name in type(self).model_fields} | fields
        return Experiment.model_validate(
            {field.alias or name: known[name] for name, field in type(self).model_fields.items()}
        )

    @model_validator(mode="before")
    @classmethod
    def _name_in_its_table(cls, given: object) -> object:
        """Accept `[experiment] name = "..."` for `name`, as a file writes it."""
        if not isinstance(given, dict) or "experiment" not in given:
            return given
        if not isinstance(given["experiment"], dict):
            raise ValueError('must be a table: [experiment], then name = "..."')
        rest = {key: value for key, value in given.items() if key != "experiment"}
        return {**given["experiment"], **rest}

    @model_validator(mode="after")
    def _variants_fit_the_design(self) -> Experiment:
        if objection := self.design.objection_to(self.variants):
            raise ValueError(objection)
        names = [variant.name for variant in self.variants]
        doubled = sorted({name for name in names if names.count(name) > 1})
        if doubled:
            raise ValueError(f"two variants have the name {doubled[0]!r}")
        for variant in self.all_variants():
            try:
                changed(self.dataset, variant.dataset)
            except ValueError as error:
                raise ValueError(f"variant {variant.name!r}: {error}") from None
        if self.reset == "restore" and self.server.scratch is None:
            raise ValueError('reset = "restore" drops a database, so it needs a scratch server')
        if self.cache == "cold" and self.server.scratch is None:
            raise ValueError('cache = "cold" stops the server, so it needs a scratch server')
        if self.reload == "round" and (self.server.scratch is None or not self.has_variants()):
            raise ValueError('reload = "round" needs variants on a scratch server')
        if self.crash_count and (self.server.scratch is None or not self.has_variants()):
            raise ValueError(
                "price_of_loss lets servers crash: it needs variants on scratch servers"
            )
        if self.server.scratch is None:
            self._refuse_what_needs_scratch()
        elif any(variant.dsn is not None for variant in self.all_variants()):
            raise ValueError("a variant has a dsn, but the server is scratch: use one of the two")
        return self

    @model_validator(mode="after")
    def _scripts_fit_the_design(self) -> Experiment:
        if objection := self.design.objection_to_scripts(self.program):
            raise ValueError(objection)
        return self

    @model_validator(mode="after")
    def _connections_are_shared_by_more(self) -> Experiment:
        active = self.workload.active_connections
        if active is not None and active > self.clients_max():
            raise ValueError(
                f"active = {active} connections for {self.clients_max()} clients: connections are"
                " shared only if there are fewer of them than clients"
            )
        return self

    @model_validator(mode="after")
    def _each_host_has_a_client(self) -> Experiment:
        hosts = None if self.workload.hosts is None else hosts_from(self.workload.hosts)
        if hosts is None:
            return self
        count = hosts.local_count or len(hosts.names)
        if count > self.clients_max():
            raise ValueError(
                f"hosts = {hosts.text!r} names {count} load hosts for {self.clients_max()} clients"
                ": each needs at least one client"
            )
        return self

    def all_variants(self) -> tuple[Variant, ...]:
        """Return the variants in the order of their visits.

        A factorial visits combinations of factors, passes add the variants up.
        """
        return self.design.variants_of(self.variants)

    def has_variants(self) -> bool:
        """Return whether every run belongs to a variant."""
        return self.design.creates_variants or bool(self.all_variants())

    def planned_variants(self) -> tuple[PlannedVariant, ...]:
        """Return `all_variants` under their ids, which are their positions: "0", "1" and so on."""
        return tuple(PlannedVariant(str(i), own) for i, own in enumerate(self.all_variants()))

    def dataset_of(self, variant: PlannedVariant | None) -> Dataset:
        """Return the data that a variant runs on; for None the data of the experiment."""
        own = UNCHANGED if variant is None else variant.spec
        return changed(self.dataset, own.dataset)

    def all_scripts(self) -> tuple[Script, ...]:
        """Return the workload's scripts, then the variants' own; a cell names them by index."""
        own = (script for variant in self.all_variants() for script in variant.scripts)
        return (*self.workload.scripts, *own)

    def scripts_of(self, variant: PlannedVariant) -> tuple[int, ...]:
        """Return which of `all_scripts` run in a variant, without those of weight 0.

        Limits: a variant that is not in the spec runs the workload's scripts.
        """
        first, count = 0, len(self.workload.scripts)
        if not variant.spec.scripts:
            return tuple(i for i in range(count) if self.workload.scripts[i].weight > 0)
        before = count
        for own in self.planned_variants():
            if own == variant and own.spec.scripts:
                first, count = before, len(own.spec.scripts)
            before += len(own.spec.scripts)
        scripts = self.all_scripts()
        return tuple(i for i in range(first, first + count) if scripts[i].weight > 0)

    def metric(self) -> Metric:
        """Return the metric that decides in this design, under this load."""
        has_rate = self.workload.rate_tps is not None
        return self.design.metric_under(self.program, has_rate=has_rate)

    @property
    def program(self) -> Program:
        """Return the program that every script is; text scripts for a mixture."""
        return program_of([script.builtin for script in self.all_scripts() if script.weight > 0])

    def connections_max(self) -> int:
        """Return the largest number of connections any run of this experiment will open."""
        # Most variants of a long list change only settings, and have the same connections.
        kinds = {
            (own.clients, own.protocol, own.idle_connections, own.active_connections): own
            for own in self.all_variants() or (UNCHANGED,)
        }
        return max(
            self._workload_of(own).connections_of(
                self.design.clients_of(own, self.workload.clients)
            )
            for own in kinds.values()
        )

    def workload_of(self, variant: PlannedVariant | None) -> Workload:
        """Return the workload with the changes of a variant; for None without changes."""
        return self._workload_of(UNCHANGED if variant is None else variant.spec)

    def _workload_of(self, own: Variant) -> Workload:
        changes = {
            field: value
            for field in ("protocol", "idle_connections", "active_connections")
            if (value := getattr(own, field)) is not None
        }
        return self.workload.model_copy(update=changes) if changes else self.workload

    def protocols_of(self, dsn: str | None) -> frozenset[str]:
        """Return the query protocols of the loads of one server; None: loads without a server."""
        variants = [variant for variant in self.all_variants() if variant.dsn == dsn]
        own = [variant.protocol or self.workload.protocol for variant in variants]
        return frozenset(own or [self.workload.protocol])

    def connections_in_words(self) -> str:
        """Return who uses the connections, as in "16 clients, 8000 idle connections"."""
        workload = self.workload
        words = counted(self.clients_max(), self.program.client_word)
        if workload.active_connections is not None:
            words += f" on {min(self.clients_max(), workload.active_connections)} connections"
        if background := workload.background_connections(self.clients_max()):
            words += f", up to {background} connections for {workload.background_words}"
        idle = workload.idle_connections
        return words + (f", {idle} idle connections" if idle else "")

    def clients_max(self) -> int:
        """Return the largest number of clients any run of this experiment will have."""
        usual = self.workload.clients
        return max(
            self.design.clients_of(variant, usual) for variant in (UNCHANGED, *self.all_variants())
        )

    def _refuse_what_needs_scratch(self) -> None:
        for variant in self.all_variants():
            for field in _SCRATCH_ONLY:
                if getattr(variant, field) is not None:
                    raise ValueError(
                        f"variant {variant.name!r} changes {field}, which needs a scratch server"
                    )


_SCRATCH_ONLY = (
    *("version", "bin_dir", "data_dir", "wal_dir", "checksums", "wal_segment", "path", "pooler"),
    "standby",
)


class Permissions(Spec):
    """The permissions that the user gave; see `server.safety` and `measure.backend_memory`."""

    allow_write: bool = False
    confirm: tuple[str, ...] = ()
    confirm_memory: bool = False
    allow_durability_risk: bool = False
    abort_if: tuple[str, ...] = ()
