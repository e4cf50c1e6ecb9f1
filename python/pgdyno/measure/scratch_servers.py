"""Clusters of our own for the variants of an experiment, each made ready in the cheapest way.

Variants that differ in settings share a cluster; those that differ in their data have a database
each; disks, versions and options of initdb need separate clusters. Nothing is loaded before
every variant has been started once on its empty cluster.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from pgdyno.clock import monotonic_ns
from pgdyno.errors import ServerError, SpecError
from pgdyno.measure.loading import ensure_dataset
from pgdyno.measure.servers import Servers
from pgdyno.measure.setup import Setup
from pgdyno.measure.under_test import LOAD_DATABASE, UnderTest
from pgdyno.server import server_facts
from pgdyno.server.connect import connect
from pgdyno.server.dataset.kinds import needed_bytes
from pgdyno.server.find import Binaries, find
from pgdyno.server.reset import drop_database
from pgdyno.server.scratch.cluster import ScratchCluster, ScratchRequest
from pgdyno.server.scratch.leftovers import sweep_leftovers
from pgdyno.server.scratch.pgbouncer import PgBouncer, PoolerProgram, find_pgbouncer
from pgdyno.server.scratch.placement import LAST_PLACE
from pgdyno.server.scratch.standby import await_following, standby_of
from pgdyno.server.sql_script import run_script
from pgdyno.server.target import Target
from pgdyno.spec.experiment import UNCHANGED, Dataset, Scratch, Variant
from pgdyno.spec.planned import PlannedVariant
from pgdyno.spec.variant import Pooler

# A standby does not start if one of these is smaller than on its primary.
_LIMITS_OF_STANDBY = (
    *("max_connections", "max_worker_processes", "max_wal_senders"),
    *("max_prepared_transactions", "max_locks_per_transaction"),
)


@dataclass(frozen=True, slots=True)
class _ClusterPlace:
    """Changes that need a separate cluster."""

    binaries: Binaries
    data_dir: Path | None
    wal_dir: Path | None
    checksums: bool | None
    wal_segment: str | None
    has_standby: bool

    def __str__(self) -> str:
        where = f" in {self.data_dir}" if self.data_dir else ""
        with_standby = " with a standby" if self.has_standby else ""
        return f"PostgreSQL {self.binaries.version}{where}{with_standby}"


@dataclass(slots=True)
class _Cluster:
    """A running cluster and the databases loaded in it, by what is in them.

    `standby` follows it, if its variants have one. `broken`: data that could not be made, and why.
    """

    cluster: ScratchCluster
    variants: list[PlannedVariant]
    standby: ScratchCluster | None = None
    databases: dict[tuple[Dataset, str | None], str] = field(default_factory=dict)
    broken: dict[tuple[Dataset, str | None], str] = field(default_factory=dict)


class ScratchServers(Servers):
    """Clusters of our own."""

    def __init__(self, setup: Setup, asked: Scratch) -> None:
        super().__init__()
        self._setup = setup
        self._experiment = setup.experiment
        self._variants = setup.experiment.planned_variants()
        self._known: set[str] = set()
        self._stack = ExitStack()
        self._asked = asked
        self._progress = setup.progress
        self._clusters: dict[_ClusterPlace, _Cluster] = {}
        self._restarts_each_run = False
        self._loaded_in: dict[str, int] = {}
        self._program: PoolerProgram | None = None
        self._pooler: PgBouncer | None = None

    def open(self, stack: ExitStack) -> None:
        """Make every cluster, start every variant once, load what the others need."""
        if self._asked.keep:
            raise SpecError(
                "--keep keeps one loaded cluster, but variants may need several.",
                hint="remove --keep",
            )
        self._stack = stack
        for variant in self._variants:
            self._find_pooler(variant.spec)
        for leftover in sweep_leftovers(scratch_places(self._asked, self._setup.store_dir)):
            self._progress.said(f"removed files of a killed command: {leftover.path}")
        members: dict[_ClusterPlace, list[PlannedVariant]] = {}
        for variant in self._variants:
            members.setdefault(self._place_of(variant.spec), []).append(variant)
        for place, variants in members.items():
            self._create(place, variants)
        stack.callback(self._end_pooler)
        stack.callback(self._end_standbys)
        for served in self._clusters.values():
            self._try_every_variant(served)
        for served in self._clusters.values():
            self._load(served)
        self._known = {variant.id for variant in self._variants}

    def ready(
        self,
        variant: PlannedVariant | None,
        round_number: int = 0,
        *,
        restarts: bool = False,
    ) -> UnderTest:
        """Return the variant's server with its settings, restarted if any variant needs that."""
        assert variant is not None, "every run of such an experiment is of a variant"
        self._end_pooler()  # Each run begins with a new one, whose pool is empty.
        if variant.id not in self._known:
            self._admit(variant)
        served = self._cluster_of(variant)
        if served.cluster.pid is None:
            self._progress.said(f"{variant.name}: the server starts again")
            served.cluster.restart()
        was_restarted = self._apply(served, self._settings_of(variant))
        if not was_restarted and (self._restarts_each_run or restarts):
            # Every run starts from the same state, so no run finds a warm cache that others lack.
            with self.spent.on("restart"):
                served.cluster.restart()
        if self._experiment.reload == "round":
            self._reload(served, variant, round_number)
        if variant.spec.standby is not None:
            self._follow(served, is_synchronous=variant.spec.standby == "synchronous")
        target = self._target_of(variant, served)
        with connect(target, verb=self._setup.verb) as connection:
            facts = server_facts.collect(connection, target)
        ready = UnderTest(target, served.cluster.target, served.cluster, facts, self._setup.verb)
        asked = variant.spec.pooler
        return ready if asked is None else self._pooled(ready, asked, served.cluster)

    def switch(self, running: PlannedVariant, after: PlannedVariant) -> None:
        """Give the server the settings of `after` by a reload."""
        self._apply(self._cluster_of(running), self._settings_of(after))

    def _follow(self, served: _Cluster, *, is_synchronous: bool) -> None:
        """Wait until the standby follows its primary; make it if loading data ended it."""
        if served.standby is None:
            request = self._request(self._place_of(served.variants[0].spec), served.variants)
            served.standby = standby_of(served.cluster, request)
        await_following(served.cluster, is_synchronous=is_synchronous)

    def _end_standbys(self) -> None:
        for served in self._clusters.values():
            self._end_standby(served)

    def _end_standby(self, served: _Cluster) -> None:
        if served.standby is not None:
            served.standby.close()
            served.standby = None

    def _pooled(self, ready: UnderTest, asked: Pooler, cluster: ScratchCluster) -> UnderTest:
        """Return the server as it is reached through a pooler, started now."""
        assert self._program is not None, "it was looked for before anything was made"
        clients = self._experiment.connections_max()
        self._pooler = PgBouncer(
            cluster,
            self._program,
            mode=asked.mode,
            pool_size=asked.session_count,
            clients=clients,
        )
        target = self._pooler.target.with_database(ready.target.database)
        return replace(ready, target=target, direct=ready.target, pooler=self._pooler.admin)

    def _end_pooler(self) -> None:
        if self._pooler is not None:
            self._pooler.close()
            self._pooler = None

    def _admit(self, variant: PlannedVariant) -> None:
        """Prepare a variant that the design created while the experiment runs.

        Raises: ServerError where it cannot start, or its data cannot be made.
        """
        self._find_pooler(variant.spec)
        place = self._place_of(variant.spec)
        if place not in self._clusters:
            self._create(place, [])
        served = self._clusters[place]
        served.variants.append(variant)
        self._try(served, variant)
        if self._data_of(variant) not in served.databases:
            # The load's settings are those of the spec.
            self._apply(served, self._experiment.server.settings)
            with self.spent.on("loading"):
                self._load(served, only=variant)
        if variant.id in self.excluded:
            served.variants.remove(variant)
            raise ServerError(
                self.excluded[variant.id], hint="the experiment goes on without this variant"
            )
        self._known.add(variant.id)

    def _find_pooler(self, variant: Variant) -> None:
        """Find PgBouncer if the variant needs it. Raises: SpecError for what it cannot do."""
        if variant.pooler is None:
            return
        self._program = self._program or find_pgbouncer()
        protocol = variant.protocol or self._experiment.workload.protocol
        knows = self._program.knows_prepared_statements
        if protocol == "prepared" and variant.pooler.mode != "session" and not knows:
            raise SpecError(
                f"Variant {variant.name!r}: PgBouncer {self._program.version} does not "
                f"support prepared statements in {variant.pooler.mode} mode; 1.21 and later do.",
                hint='use protocol = "extended", pooler mode "session", or a newer PgBouncer',
            )

    def _create(self, place: _ClusterPlace, variants: list[PlannedVariant]) -> None:
        lent = self._setup.lent
        if lent is not None and lent.cluster is not None and place == self._place_of(UNCHANGED):
            cluster = lent.cluster
        else:
            cluster = self._stack.enter_context(self._created(place, variants))
        for note in cluster.notes:
            self._progress.said(note)
        self._clusters[place] = _Cluster(cluster, variants)
        if len(self._clusters) == 1:
            # One is measured: the versions differ little, and one at a time makes load.
            target = cluster.target
            self._setup.refuse_too_little_memory(target)

    def _place_of(self, variant: Variant) -> _ClusterPlace:
        asked = self._asked
        is_other = variant.version is not None or variant.bin_dir is not None
        return _ClusterPlace(
            binaries=find(
                bin_dir=variant.bin_dir if is_other else asked.bin_dir,
                version=variant.version if is_other else asked.version,
            ),
            data_dir=variant.data_dir or asked.data_dir,
            wal_dir=variant.wal_dir or asked.wal_dir,
            checksums=variant.checksums,
            wal_segment=variant.wal_segment,
            has_standby=variant.standby is not None,
        )

    def _created(self, place: _ClusterPlace, members: list[PlannedVariant]) -> ScratchCluster:
        request = self._request(place, members)
        return ScratchCluster.create(replace(request, settings=self._experiment.server.settings))

    def _request(self, place: _ClusterPlace, members: list[PlannedVariant]) -> ScratchRequest:
        """Return what the servers of a place need; the settings are those of a standby."""
        experiment = self._experiment
        datasets = {experiment.dataset_of(variant) for variant in members}
        needed = {"data": 0, "wal": 0}
        for dataset in datasets:
            for what, size in needed_bytes(dataset).items():
                needed[what] = max(needed[what], size) if what == "wal" else needed[what] + size
        return ScratchRequest(
            binaries=place.binaries,
            clients=experiment.connections_max(),
            settings=self._settings_of_standby(members),
            data_dir=place.data_dir,
            wal_dir=place.wal_dir,
            store_dir=self._setup.store_dir,
            allow_tmpfs=self._asked.allow_tmpfs,
            listens_tcp=any(variant.spec.path == "tcp" for variant in members),
            checksums=place.checksums,
            wal_segment=place.wal_segment,
            needed=needed,
        )

    def _settings_of_standby(self, members: list[PlannedVariant]) -> dict[str, str]:
        """Return the settings of the spec; a standby needs the largest limit of all variants."""
        largest = {
            name: max(values, key=int)
            for name in _LIMITS_OF_STANDBY
            if (values := [own[name] for v in members if name in (own := self._settings_of(v))])
        }
        return {**self._experiment.server.settings, **largest}

    def _settings_of(self, variant: PlannedVariant) -> dict[str, str]:
        return {**self._experiment.server.settings, **variant.spec.settings}

    def _try_every_variant(self, served: _Cluster) -> None:
        """Start each variant once on the empty cluster; note what does not start."""
        for variant in served.variants:
            was_restarted = self._try(served, variant)
            self._restarts_each_run |= was_restarted and len(served.variants) > 1
        served.cluster.apply(self._experiment.server.settings)

    def _try(self, served: _Cluster, variant: PlannedVariant) -> bool:
        """Apply the variant's settings; return whether that took a restart."""
        try:
            return self._apply(served, self._settings_of(variant))
        except (ServerError, SpecError) as error:
            self.excluded[variant.id] = error.message
            self._progress.said(f"variant {variant.name} cannot start: {error.message}")
            return False

    def _apply(self, served: _Cluster, settings: dict[str, str]) -> bool:
        """Change the settings; return whether that took a restart."""
        began_ns = monotonic_ns()
        was_restarted = served.cluster.apply(settings)
        self.spent.add("restart" if was_restarted else "reload", monotonic_ns() - began_ns)
        return was_restarted

    def _data_of(self, variant: PlannedVariant) -> tuple[Dataset, str | None]:
        return self._experiment.dataset_of(variant), variant.spec.sql

    def _load(self, served: _Cluster, *, only: PlannedVariant | None = None) -> None:
        """Load each different dataset once, into a separate database."""
        for variant in served.variants if only is None else [only]:
            if variant.id in self.excluded:
                continue
            key = self._data_of(variant)
            if key not in served.databases:
                number = len(served.databases) + 1
                name = LOAD_DATABASE if number == 1 else f"{LOAD_DATABASE}_{number}"
                served.databases[key] = name
                try:
                    self._fill(served, name, *key)
                except ServerError as error:
                    served.broken[key] = error.message
            if key in served.broken:
                why = served.broken[key]
                self.excluded[variant.id] = why
                self._progress.said(f"variant {variant.name} cannot be created: {why}")

    def _fill(self, served: _Cluster, database: str, dataset: Dataset, sql: str | None) -> None:
        self._end_standby(served)  # Loading writes less WAL than a standby needs.
        target = ensure_dataset(served.cluster, database, dataset, self._setup)
        if sql is not None:
            with connect(target, verb=self._setup.verb) as connection:
                run_script(connection, sql)

    def _reload(self, served: _Cluster, variant: PlannedVariant, round_number: int) -> None:
        """Load the variant's data anew, once a round: another layout, as another machine has it."""
        key = self._data_of(variant)
        database = served.databases[key]
        before = self._loaded_in.setdefault(database, 0)
        if round_number <= max(before, 1):  # What was loaded first is round 1's.
            self._loaded_in[database] = max(before, round_number)
            return
        self._loaded_in[database] = round_number
        self._end_standby(served)
        drop_database(served.cluster, database)
        self._fill(served, database, *key)

    def _cluster_of(self, variant: PlannedVariant) -> _Cluster:
        return next(served for served in self._clusters.values() if variant in served.variants)

    def _target_of(self, variant: PlannedVariant, served: _Cluster) -> Target:
        own = variant.spec
        target = served.cluster.tcp_target if own.path == "tcp" else served.cluster.target
        return target.with_database(served.databases[self._data_of(variant)])


def scratch_places(asked: Scratch, store_dir: Path) -> list[Path]:
    """Return the folders in which a scratch cluster of a killed command may lie."""
    named = os.environ.get("PGDYNO_DATA")
    places = [asked.data_dir, store_dir, Path(named) if named else None, LAST_PLACE]
    return [*dict.fromkeys(place for place in places if place is not None and place.is_dir())]
