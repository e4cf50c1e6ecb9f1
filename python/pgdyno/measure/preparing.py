"""Brings the server to the state from which every run starts: data, cache and checkpoint."""

from __future__ import annotations

from dataclasses import replace

from psycopg import sql

from pgdyno.measure.under_test import UnderTest
from pgdyno.server import server_facts
from pgdyno.server.connect import Connection, connect
from pgdyno.server.dataset_kinds import KINDS
from pgdyno.server.reset import (
    Reset,
    ResetStep,
    make_cold,
    no_reset,
    prewarm,
    reset,
    restore_database,
)
from pgdyno.spec.experiment import CacheState, Experiment, ResetMode

# Extensions with views for the counts of libraries that may be loaded.
_COUNTING = ["pg_stat_statements", "pg_wait_sampling"]
_MISSING_SQL = (
    "SELECT name FROM pg_catalog.pg_available_extensions"
    " WHERE name = ANY(%s) AND installed_version IS NULL"
    " AND strpos(current_setting('shared_preload_libraries'), name) > 0"
)


def prepare_server(
    experiment: Experiment, under_test: UnderTest, name: str
) -> tuple[UnderTest, Reset]:
    """Bring the server to the state from which every run of the experiment starts.

    Returns: the server, which was restarted if the cache shall be cold, and the steps taken.
    Raises: ServerError if a step fails.
    """
    done = _reset(experiment.reset, under_test, name)
    under_test, steps = _prepare_cache(experiment.cache, under_test, name)
    return under_test, replace(done, steps=(*done.steps, *steps))


def _reset(mode: ResetMode, under_test: UnderTest, name: str) -> Reset:
    first: tuple[ResetStep, ...] = ()
    if mode == "restore" and under_test.cluster is not None:
        with under_test.cluster.connect(verb=under_test.verb, run_name=name) as control:
            first = (restore_database(control, under_test.target.database),)
    with under_test.control(name) as control:
        if under_test.is_scratch:
            _make_extensions(control)
        dataset = under_test.facts.dataset
        if mode == "none":
            done = no_reset(control, dataset)
        else:
            done = reset(control, dataset, is_scratch=under_test.is_scratch)
    return replace(done, steps=(*first, *done.steps))


def _make_extensions(control: Connection) -> None:
    """Create the extensions of the loaded libraries in a database of a scratch server."""
    for (name,) in control.execute(_MISSING_SQL, [_COUNTING]).fetchall():
        control.execute(sql.SQL("CREATE EXTENSION {} SCHEMA public").format(sql.Identifier(name)))


def is_filled(state: CacheState, under_test: UnderTest) -> bool:
    """Return whether a run begins with reading the data into shared_buffers.

    A warm cache is as the run before left it; after a start of a scratch server it is empty.
    """
    cluster = under_test.cluster
    return state == "prewarm" or (
        state == "warm" and cluster is not None and cluster.is_cache_empty
    )


def _prepare_cache(
    state: CacheState, under_test: UnderTest, name: str
) -> tuple[UnderTest, tuple[ResetStep, ...]]:
    cluster = under_test.cluster
    if is_filled(state, under_test):
        with under_test.control(name) as control:
            step = prewarm(control, is_scratch=under_test.is_scratch)
        if cluster is not None:
            cluster.is_cache_empty = False
        return under_test, (step,)
    if state == "cold":
        assert cluster is not None, "only a scratch server is stopped for this"
        step = make_cold(cluster)
        target = under_test.direct or under_test.target
        with connect(target, verb=under_test.verb, patient=True) as connection:
            kind = KINDS[under_test.facts.dataset.kind]
            facts = server_facts.collect(connection, target, kind)
        return replace(under_test, facts=facts), (step,)
    return under_test, ()
