"""Tables of many runs, read together: the same rows as one by one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from bench.generated import generate
from tests.store import records

from pgdyno.store import parquet, stored_run
from pgdyno.store.experiment import Store
from pgdyno.store.folder import ExperimentFolder
from pgdyno.store.parquet import cursor
from pgdyno.store.schema import table
from pgdyno.store.stored_run import StoredRun


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> ExperimentFolder:
    store = Store(tmp_path_factory.mktemp("store"))
    return generate(store, rounds=3, effect_ratio=0.1, noise_ratio=0.01)


@pytest.mark.parametrize("ahead_bytes", [1, 20_000, 4 << 20])
def test_runs_read_together_have_the_rows_that_each_has_alone(
    generated: ExperimentFolder, ahead_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_run, "_AHEAD_BYTES", ahead_bytes)
    for run in generated.runs():
        alone = StoredRun(run.folder)
        same(run.intervals(), alone.intervals())
        same(run.waits(), alone.waits())
        for name in ("cpu", "backends", "database"):
            same(run.telemetry(name), alone.telemetry(name))
    first = generated.runs()[0]
    same(first.intervals(), generated.runs()[0].intervals())


def test_texts_of_many_rows_are_made_once_and_are_those_of_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = ["Lock:tuple", "", "it's", "Lock:tuple"]
    with Store(tmp_path).create("x", "bench").begin_run(1, "", records.JOB) as writer:
        writer.add_record(records.summary())
        rows = (records.wait_row(second, event) for second, event in enumerate(events))
        writer.add_samples("waits", rows)
        source = writer.finish().folder / "waits.parquet"
    without = f"SELECT * REPLACE (nullif(state, 'active') AS state) FROM read_parquet('{source}')"
    cursor().execute(f"COPY ({without}) TO '{source}' (FORMAT parquet)")
    monkeypatch.setattr(parquet, "_LARGE_BYTES", 0)
    [rows] = parquet.read_many([source], table("waits"))
    same(rows, parquet.read_arrays(source, table("waits")))
    assert rows["wait_event"].tolist() == events
    assert rows["wait_event"][0] is rows["wait_event"][3]
    assert rows["state"].tolist() == [""] * 4


@pytest.mark.parametrize("large_bytes", [0, 1 << 18])
def test_lists_follow_their_rows_into_the_order_of_time(
    tmp_path: Path, large_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "_LARGE_BYTES", large_bytes)
    with Store(tmp_path).create("x", "bench").begin_run(1, "", records.JOB) as writer:
        writer.add_record(records.summary())
        for second in (3, 1, 2):
            of_scripts = tuple(10 * second + script for script in range(4 - second))
            writer.add_record(records.interval(second, second, of_scripts))
        source = writer.finish().folder / "intervals.parquet"
    backwards = f"SELECT * FROM read_parquet('{source}') ORDER BY time_ns DESC"
    cursor().execute(f"COPY ({backwards}) TO '{source}' (FORMAT parquet)")
    for rows in parquet.read_many([source, source], table("intervals")):
        assert rows["completed"].tolist() == [1, 2, 3]
        assert rows["completed_by_script#length"].tolist() == [3, 2, 1]
        assert rows["completed_by_script"].tolist() == [10, 11, 12, 20, 21, 30]


def test_a_run_without_a_column_that_others_have_reads_as_without_it(
    generated: ExperimentFolder,
) -> None:
    source = generated.run_folders()[1] / "telemetry/checkpointer.parquet"
    older = f"SELECT * EXCLUDE (checkpoints_done) FROM read_parquet('{source}')"
    cursor().execute(f"COPY ({older}) TO '{source}' (FORMAT parquet)")
    tables = [run.telemetry("checkpointer") for run in generated.runs()]
    known = [np.isnan(rows["checkpoints_done"]).all() for rows in tables if rows is not None]
    assert known == [False, True, False, False, False, False]
    assert all(len(rows["time_ns"]) == 6 for rows in tables if rows is not None)


def test_distributions_of_statements_are_kept_in_a_separate_file(tmp_path: Path) -> None:
    whole, statement = ({"measured": name, "script": None} for name in ("latency", "statement"))
    summary = {**records.summary(), "distributions": [whole, statement]}
    with Store(tmp_path).create("x", "bench").begin_run(1, "", records.JOB) as writer:
        writer.add_record(summary)
        run = writer.finish()
    assert run.summary["distributions"] == [whole]
    assert run.statements == [statement]


def test_distributions_of_statements_are_found_in_the_summary_of_older_results(
    tmp_path: Path,
) -> None:
    statement = {"measured": "statement", "script": 0, "statement": 0}
    with Store(tmp_path).create("x", "bench").begin_run(1, "", records.JOB) as writer:
        writer.add_record(records.summary())
        run = writer.finish()
    run.summary["distributions"] = [statement]
    assert run.statements == [statement]


def same(a: object, b: object) -> None:
    assert isinstance(a, dict)
    assert isinstance(b, dict)
    assert a.keys() == b.keys()
    for name, values in a.items():
        np.testing.assert_array_equal(values, b[name], err_msg=name)
        assert values.dtype == b[name].dtype, name
