"""A whole run written through the store, and what a reader must find in it again."""

from __future__ import annotations

import numpy as np
from tests.store import records

from pgdyno.store.folder import ExperimentFolder
from pgdyno.store.run_writer import RunWriter
from pgdyno.store.stored_run import StoredRun


def written(experiment: ExperimentFolder, number: int = 7) -> RunWriter:
    writer = experiment.begin_run(number, "clients=8", records.JOB)
    for record in records.whole_run():
        writer.add_record(record)
    writer.add_samples("memory", [records.memory_row(1), records.memory_row(2)])
    writer.add_samples("waits", [records.wait_row(2, "Lock:tuple"), records.wait_row(1, "")])
    writer.add_notice({"time_ns": 3, "kind": "collector_failed", "message": "M.", "hint": "h"})
    writer.add_engine_log("panic: nothing\n")
    writer.write_json("server.json", {"version": 15})
    return writer


def check_contents(run: StoredRun) -> None:
    assert (run.number, run.label) == (7, "clients=8")
    intervals = run.intervals()
    assert intervals["completed"].tolist() == [10, 20]
    assert intervals["completed"].dtype == np.int64
    assert intervals["unfinished"].tolist() == [1, 1]
    assert intervals["phase"].tolist() == ["measure", "measure"]
    assert intervals["completed_by_script"].tolist() == [[1, 2], [1, 2]]
    first, second = run.histograms("latency")
    assert first.time_ns == records.BEGAN_NS + 2 * records.SECOND_NS
    assert (first.interval_ns, first.phase) == (records.SECOND_NS, "measure")
    assert (first.buckets.tolist(), first.counts.tolist()) == ([1, 7], [4, 6])
    assert (first.sum_ns, first.min_ns, first.max_ns) == (640, 64, (1 << 63) - 1)
    assert (second.buckets.tolist(), second.counts.tolist()) == ([1], [20])
    assert [h.buckets.tolist() for h in run.histograms("latency", 0)] == [[3]]
    assert [h.buckets.tolist() for h in run.histograms("statement", 0, 1)] == [[2]]
    assert run.histograms("lag") == []
    waits = run.waits()
    assert waits["wait_event"].tolist() == ["", "Lock:tuple"]
    assert waits["query_id"].tolist() == [-5, -5]
    memory = run.telemetry("memory")
    assert memory is not None
    assert memory["dirty_bytes"].tolist() == [1024, 1024]
    assert np.isnan(memory["swap_free_bytes"]).all()
    assert run.telemetry("disk") is None
    assert run.collectors() == ["memory"]
    assert [warning["kind"] for warning in run.warnings] == ["steal", "collector_failed"]
    assert run.hello["engine_version"] == "0.1.0"
    assert len(run.phases) == 2
    assert run.document("server.json") == {"version": 15}
    assert run.document("doctor.json") is None
