"""Checks the data after the load of one run, and writes what was read before and after it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg

from pgdyno.clock import read_pair
from pgdyno.engine.stream import EngineOutcome
from pgdyno.errors import PgdynoError
from pgdyno.measure.before_load import PreparedRun, may_probe
from pgdyno.measure.consistency import check_after_run, conditions_after
from pgdyno.measure.run_progress import Moment
from pgdyno.measure.setup import Setup
from pgdyno.measure.statement_counters import growth_document, read_counters
from pgdyno.measure.statement_texts import read_texts
from pgdyno.measure.under_test import UnderTest
from pgdyno.observe.collector import Notice, NoticeKind
from pgdyno.observe.observer import Observer
from pgdyno.observe.totals import Totals, restarted_ns, totals_between
from pgdyno.programs.registry import part_of_files
from pgdyno.server.explain import query_ids_of
from pgdyno.spec.planned import PlannedRun
from pgdyno.store.run_writer import RunWriter


def write_after(
    ready: PreparedRun,
    writer: RunWriter,
    observer: Observer,
    outcome: EngineOutcome,
    after: Totals | None,
) -> None:
    """Check the data, and write what was read before the load and after it."""
    under_test, name = ready.under_test, ready.name
    inside = under_test.observe_within or under_test.observe
    grown = None
    if ready.counters is not None:
        counters = read_counters(inside, verb=under_test.verb, run=name)
        grown = growth_document(ready.counters, counters)
    consistency = _consistency(ready, outcome)
    seen = ready.before_after.document(observer)
    not_probed = _not_probed(outcome, under_test) if _may_probe(ready) else ()
    for notice in (*ready.before_after.notices, *not_probed):
        writer.add_notice(notice)
    if ready.examined is not None:
        writer.write_json("doctor.json", ready.examined)
    before = ready.totals
    writer.write_json(
        "server.json",
        {
            "reset": ready.reset.as_document(),
            "totals": totals_between(before, after) if before and after else None,
            "restarted_ns": restarted_ns(before, after) if before and after else None,
            "statement_counters": grown,
            "source": _source(ready.setup, ready.planned),
            "plans": ready.plans,
            "query_ids": _query_ids(ready),
            "statement_texts": read_texts(inside, verb=under_test.verb, run=name),
            **seen,
            "consistency": consistency,
        },
    )


def _consistency(ready: PreparedRun, outcome: EngineOutcome) -> dict[str, Any] | None:
    """Return the result of the data check; None if there is nothing to check.

    After an interrupt nothing is checked, because the user waits for the end.
    """
    setup, under_test = ready.setup, ready.under_test
    conditions = conditions_after(under_test.facts.dataset, setup.shapes_of(ready.planned))
    if not (setup.experiment.check and conditions) or outcome.summary is None:
        return None
    if outcome.interrupted is not None:
        return {"why_not": "the run was interrupted"}
    setup.progress.moved(Moment(setup.label_of(ready.planned), "checking the data"))
    return check_after_run(lambda: under_test.control(ready.name), conditions, ready.examination)


# The longest time between two probes is a tenth of this.
_PROBED_NS = 1_000_000_000


def _may_probe(ready: PreparedRun) -> bool:
    workload = ready.setup.experiment.workload_of(ready.planned.cell.variant)
    return may_probe(ready.under_test, ready.job.target, workload)


def _not_probed(outcome: EngineOutcome, under_test: UnderTest) -> Iterator[dict[str, Any]]:
    """Yield a notice with the reason if the network was not measured while the load ran."""
    if outcome.summary is None or outcome.summary.traffic.round_trip_probes is not None:
        return
    span = outcome.summary.span("measure")
    if span is None or span.ended_ns - span.began_ns < _PROBED_NS:
        return  # The run was too short for a probe.
    has_room = under_test.has_room_to_probe
    why = "its connection was refused or lost" if has_room else "no connection was free for it"
    yield Notice(
        read_pair().now_ns(),
        NoticeKind.NETWORK_NOT_PROBED,
        f"The network was not measured while the load ran, because {why}. Its part of the latency "
        "is from the time before the load.",
        "let the server admit one connection more (max_connections)",
    ).as_record()


def _source(setup: Setup, planned: PlannedRun) -> dict[str, Any] | None:
    """Return what a mirror keeps of its source; None for other loads."""
    known = setup.experiment.all_scripts()
    scripts = [known[index] for index in planned.cell.script_indexes]
    if len(scripts) != 1 or scripts[0].capture is None:
        return None
    part = part_of_files("source")
    assert part is not None, "a script with a file has a program that reads it"
    document: dict[str, Any] = part.source_document(scripts[0])
    return document


def _query_ids(ready: PreparedRun) -> dict[str, dict[str, list[int]]]:
    """Return the query ids of the run's statements; nothing if the server is gone.

    Call it after the load, because the engine may have created procedures that a program calls.
    """
    under_test, name = ready.under_test, ready.name
    try:
        with under_test.control(name) as control, under_test.control(name) as onlooker:
            return query_ids_of(control, onlooker, ready.setup.texts_of(ready.planned))
    except (psycopg.Error, PgdynoError):
        return {}
