"""Open the servers that the variants of an experiment need, and give them back.

An experiment without variants has one server: a scratch cluster, made or kept, or a server of the
user's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from pgdyno.measure.foreign_servers import ForeignServers
from pgdyno.measure.loading import load_into
from pgdyno.measure.own_server import reached
from pgdyno.measure.run_progress import Progress
from pgdyno.measure.scratch_servers import ScratchServers, scratch_places
from pgdyno.measure.servers import OneServer, Servers
from pgdyno.measure.under_test import LOAD_DATABASE, Conditions, UnderTest, refuse_what_does_not_fit
from pgdyno.server import facts as server_facts
from pgdyno.server.cluster_record import read_record
from pgdyno.server.connect import connect
from pgdyno.server.dataset_kinds import needed_bytes
from pgdyno.server.find import find
from pgdyno.server.leftovers import kept_clusters, sweep_leftovers
from pgdyno.server.scratch import ScratchCluster, ScratchRequest
from pgdyno.spec.experiment import Experiment, Scratch


@contextmanager
def opened_servers(
    experiment: Experiment, conditions: Conditions, progress: Progress
) -> Iterator[Servers]:
    """Yield the servers of the experiment, loaded; give them back on every exit path.

    A variant that cannot start is not an error; it is in `excluded` of the servers.
    Raises: ServerError, SpecError, RefusedError; nothing is left behind then.
    """
    scratch = experiment.server.scratch
    if not experiment.has_variants():
        with _opened(experiment, conditions, progress) as under_test:
            yield OneServer(under_test)
    elif scratch is not None:
        with ExitStack() as stack:
            servers = ScratchServers(experiment, scratch, conditions, progress)
            servers.open(stack)
            yield servers
    else:
        with _opened(experiment, conditions, progress) as under_test:
            servers_reached = ForeignServers(experiment, conditions, under_test, progress)
            try:
                yield servers_reached
            finally:
                servers_reached.close()


@contextmanager
def _opened(
    experiment: Experiment, conditions: Conditions, progress: Progress
) -> Iterator[UnderTest]:
    """Yield one server, loaded and safe to load; give it back on every exit path.

    Raises: as `opened_servers`.
    """
    if experiment.server.scratch is not None:
        with _scratch(experiment, experiment.server.scratch, conditions, progress) as ready:
            yield ready
    else:
        assert conditions.target is not None
        yield reached(experiment, conditions, conditions.target, progress)


@contextmanager
def _scratch(
    experiment: Experiment, asked: Scratch, conditions: Conditions, progress: Progress
) -> Iterator[UnderTest]:
    for leftover in sweep_leftovers(scratch_places(asked, conditions.store_dir)):
        progress.said(f"removed the rest of a killed command: {leftover.path}")
    cluster = _kept(experiment, asked, progress) or _created(experiment, asked, conditions)
    with cluster:
        for note in cluster.notes:
            progress.said(note)
        refuse_what_does_not_fit(experiment, conditions, cluster.target, progress)
        target = load_into(cluster, LOAD_DATABASE, experiment.dataset, conditions, progress)
        with connect(target, verb=conditions.verb) as connection:
            facts = server_facts.collect(connection, target)
        yield UnderTest(target, cluster.target, cluster, facts, conditions.verb)
    if asked.keep:
        progress.said(f"kept for the next command: {cluster.path}")


def _created(experiment: Experiment, asked: Scratch, conditions: Conditions) -> ScratchCluster:
    dataset = experiment.dataset
    return ScratchCluster.create(
        ScratchRequest(
            binaries=find(bin_dir=asked.bin_dir, version=asked.version),
            clients=experiment.connections_max(),
            settings=experiment.server.settings,
            data_dir=asked.data_dir,
            wal_dir=asked.wal_dir,
            store_dir=conditions.store_dir,
            allow_tmpfs=asked.allow_tmpfs,
            keep=asked.keep,
            needed=needed_bytes(dataset),
        )
    )


def _kept(experiment: Experiment, asked: Scratch, progress: Progress) -> ScratchCluster | None:
    """Return a cluster of this version that an earlier command with --keep left, else None."""
    if not asked.keep:
        return None
    parents = [asked.data_dir] if asked.data_dir else None
    wanted = find(bin_dir=asked.bin_dir, version=asked.version)
    for path in reversed(kept_clusters(parents)):
        if read_record(path).version == wanted.version:
            progress.said(f"using the kept cluster {path}")
            return ScratchCluster.adopt(
                path, clients=experiment.connections_max(), settings=experiment.server.settings
            )
    return None
