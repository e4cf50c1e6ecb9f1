"""Opens the servers that the variants of an experiment need, and closes them on every exit.

An experiment without variants has one server: a new scratch cluster, a scratch cluster that an
earlier command kept, or the user's own server.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path

from pgdyno.errors import ServerError, SpecError
from pgdyno.measure.foreign_servers import ForeignServers
from pgdyno.measure.loading import ensure_dataset
from pgdyno.measure.own_server import reached
from pgdyno.measure.run_progress import RunProgress
from pgdyno.measure.scratch_servers import ScratchServers, scratch_places
from pgdyno.measure.servers import OneServer, Servers
from pgdyno.measure.setup import Setup
from pgdyno.measure.under_test import LOAD_DATABASE, UnderTest
from pgdyno.server import server_facts
from pgdyno.server.connect import connect
from pgdyno.server.dataset.kinds import KINDS, needed_bytes
from pgdyno.server.find import Binaries, find
from pgdyno.server.scratch.cluster import ScratchCluster, ScratchRequest
from pgdyno.server.scratch.identity import reachable_binaries, server_user
from pgdyno.server.scratch.leftovers import kept_clusters, sweep_leftovers
from pgdyno.server.scratch.record import is_in_use, read_record
from pgdyno.spec.experiment import Scratch


@contextmanager
def opened_servers(setup: Setup) -> Iterator[Servers]:
    """Yield the servers of the experiment, which hold the dataset.

    On every exit, scratch clusters are stopped, and removed unless the user keeps them; what was
    opened on the user's own server is closed. If a variant cannot start, this is not an error:
    `excluded` of the servers lists the variant.
    Raises: ServerError, SpecError, RefusedError.
    """
    experiment = setup.experiment
    scratch = experiment.server.scratch
    if not experiment.has_variants():
        with _opened(setup) as under_test:
            yield OneServer(under_test)
    elif scratch is not None:
        with ExitStack() as stack:
            servers = ScratchServers(setup, scratch)
            servers.open(stack)
            yield servers
    else:
        with _opened(setup) as under_test:
            servers_reached = ForeignServers(setup, under_test)
            try:
                yield servers_reached
            finally:
                servers_reached.close()


@contextmanager
def _opened(setup: Setup) -> Iterator[UnderTest]:
    """Yield one server that holds the dataset and that may be put under load.

    Raises: the same errors as `opened_servers`.
    """
    scratch = setup.experiment.server.scratch
    if scratch is not None:
        with _scratch(setup, scratch) as ready:
            yield ready
    else:
        assert setup.target is not None
        yield reached(setup, setup.target)


@contextmanager
def _scratch(setup: Setup, asked: Scratch) -> Iterator[UnderTest]:
    experiment, progress = setup.experiment, setup.progress
    for leftover in sweep_leftovers(scratch_places(asked, setup.store_dir)):
        progress.said(f"removed files of a killed command: {leftover.path}")
    cluster = _kept_cluster(setup, asked)
    if cluster is None:
        with progress.doing("creating a scratch server"):
            cluster = _new_cluster(setup, asked)
    lent = setup.lent
    if lent is not None:
        lent.cluster = cluster
    with _closed_in_words(cluster, progress) if lent is None else nullcontext():
        for note in cluster.notes:
            progress.said(note)
        setup.refuse_too_little_memory(cluster.target)
        target = ensure_dataset(cluster, LOAD_DATABASE, experiment.dataset, setup)
        with connect(target, verb=setup.verb) as connection:
            kind = KINDS.get(experiment.dataset.kind)
            facts = server_facts.collect(connection, target, kind)
        yield UnderTest(target, cluster.target, cluster, facts, setup.verb)
    if asked.keep:
        progress.said(f"The cluster is kept for the next command: {cluster.path}")


@contextmanager
def _closed_in_words(cluster: ScratchCluster, progress: RunProgress) -> Iterator[None]:
    """Close the cluster at the end of the block, and say so if it lasts."""
    try:
        yield
    finally:
        with progress.doing("stopping the scratch server"):
            cluster.close()


def _new_cluster(setup: Setup, asked: Scratch) -> ScratchCluster:
    experiment = setup.experiment
    return ScratchCluster.create(
        ScratchRequest(
            binaries=find(bin_dir=asked.bin_dir, version=asked.version),
            clients=experiment.connections_max(),
            settings=experiment.server.settings,
            data_dir=asked.data_dir,
            wal_dir=asked.wal_dir,
            store_dir=setup.store_dir,
            allow_tmpfs=asked.allow_tmpfs,
            keep=asked.keep,
            needed=needed_bytes(experiment.dataset),
        )
    )


def _kept_cluster(setup: Setup, asked: Scratch) -> ScratchCluster | None:
    """Return the newest cluster that --keep left and that is as asked for, started; else None."""
    if not asked.keep:
        return None
    experiment = setup.experiment
    wanted = find(bin_dir=asked.bin_dir, version=asked.version)
    wanted = reachable_binaries(wanted, server_user(wanted))
    parents = [asked.data_dir] if asked.data_dir else scratch_places(asked, setup.store_dir)
    for path in reversed(kept_clusters(parents)):
        try:
            if not _is_as_asked(path, asked, wanted):
                continue
            cluster = ScratchCluster.adopt(
                path, clients=experiment.connections_max(), settings=experiment.server.settings
            )
        except (SpecError, ServerError):
            if path.exists() and not is_in_use(path):
                raise
            continue  # Another command took or removed the cluster in between.
        setup.progress.said(f"using the kept cluster {path}")
        return cluster
    return None


def _is_as_asked(path: Path, asked: Scratch, wanted: Binaries) -> bool:
    """Return whether a kept cluster has the programs and the place of the WAL that are asked for.

    Raises: ServerError if its record cannot be read.
    """
    kept = read_record(path)
    wal_parent = path.parent if kept.wal_dir is None else Path(kept.wal_dir).parent
    asked_parent = path.parent if asked.wal_dir is None else asked.wal_dir.absolute()
    is_same_build = (kept.bin_dir, kept.version) == (str(wanted.bin_dir), wanted.version)
    return is_same_build and wal_parent == asked_parent
