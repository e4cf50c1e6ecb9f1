"""One run: written line by line, finished as Parquet, read back as arrays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from tests.fixtures import needs
from tests.store import records
from tests.store.contents import check_contents, written

from pgdyno.errors import StoreError
from pgdyno.store import parquet
from pgdyno.store.experiment import Store
from pgdyno.store.folder import ExperimentFolder
from pgdyno.store.run_writer import RunWriter
from pgdyno.store.stored_run import StoredRun


@pytest.fixture
def experiment(tmp_path: Path) -> ExperimentFolder:
    return Store(tmp_path).create("runs", "bench")


def test_a_finished_run_reads_back_as_it_waswritten(experiment: ExperimentFolder) -> None:
    run = written(experiment).finish()
    assert run.folder.name == "0007"
    assert run.is_complete
    check_contents(run)
    assert run.summary["ending"] == "completed"
    assert run.measured_span_ns() == (
        records.BEGAN_NS + records.SECOND_NS,
        records.BEGAN_NS + 3 * records.SECOND_NS,
    )
    assert [stored.number for stored in experiment.runs()] == [7]
    assert experiment.incomplete() == []


def test_a_finished_run_holds_the_files_of_the_design_and_no_rows(
    experiment: ExperimentFolder,
) -> None:
    folder = written(experiment).finish().folder
    names = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert names == {
        *("run.json", "job.json", "summary.json", "server.json", "engine.log", "events.jsonl"),
        *("intervals.parquet", "histograms.parquet", "waits.parquet", "telemetry/memory.parquet"),
    }
    assert {path.stat().st_mode & 0o077 for path in folder.rglob("*")} == {0}


def test_a_run_left_without_finish_is_readable_and_incomplete(
    experiment: ExperimentFolder,
) -> None:
    with written(experiment):
        pass
    assert experiment.runs() == []
    (run,) = experiment.incomplete()
    assert not run.is_complete
    check_contents(run)


def test_a_partial_run_whose_lines_are_torn_reads_up_to_the_tear(
    experiment: ExperimentFolder,
) -> None:
    written(experiment).close()
    (run,) = experiment.incomplete()
    for name in ("intervals", "histograms", "waits", "telemetry/memory", "events"):
        with (run.folder / f"{name}.jsonl").open("a") as stream:
            stream.write('{"time_ns":1790000000000000009,"interval_ns":1,"pha')
    (run.folder / "summary.json").unlink()
    check_contents(run)
    assert run.summary == {}
    assert run.measured_span_ns()[1] == records.BEGAN_NS + 3 * records.SECOND_NS


def test_a_run_killed_before_measuring_says_that_it_never_measured(
    experiment: ExperimentFolder,
) -> None:
    writer = experiment.begin_run(1, "", records.JOB)
    writer.add_record(records.hello())
    writer.close()
    (run,) = experiment.incomplete()
    assert len(run.intervals()["time_ns"]) == 0
    assert run.intervals()["completed_by_script"].shape == (0, 0)
    with pytest.raises(StoreError, match="ended before the measured time"):
        run.measured_span_ns()


def test_a_run_without_summary_cannot_be_finished(experiment: ExperimentFolder) -> None:
    writer = experiment.begin_run(1, "", records.JOB)
    with pytest.raises(StoreError, match="no summary"):
        writer.finish()
    assert len(experiment.incomplete()) == 1


def test_rows_that_come_after_the_end_are_refused(experiment: ExperimentFolder) -> None:
    writer = written(experiment)
    writer.finish()
    with pytest.raises(StoreError, match="came too late"):
        writer.add_samples("memory", [records.memory_row(3)])


def test_a_run_is_never_begun_twice(experiment: ExperimentFolder) -> None:
    written(experiment).finish()
    with pytest.raises(StoreError, match="exists"):
        experiment.begin_run(7, "", records.JOB)
    experiment.begin_run(8, "", records.JOB).close()
    with pytest.raises(StoreError, match="already begun"):
        experiment.begin_run(8, "", records.JOB)
    assert experiment.next_run_number() == 9


def test_the_password_of_a_job_reaches_no_file(experiment: ExperimentFolder) -> None:
    writer = written(experiment)
    writer.add_engine_log(f"postgres://me:{records.PASSWORD.replace(' ', '')}@host/db\n")
    folder = writer.finish().folder
    for path in folder.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert records.PASSWORD.encode() not in content, path
            assert b"opensesame" not in content, path
    assert StoredRun(folder).job["target"]["user"] == "me"


def test_a_row_that_is_not_of_its_table_is_refused_and_kept(experiment: ExperimentFolder) -> None:
    writer = experiment.begin_run(1, "", records.JOB)
    writer.add_samples("memory", [records.memory_row(1) | {"dirty_bytes": "much"}])
    writer.add_record(records.summary())
    with pytest.raises(StoreError, match="could not be written"):
        writer.finish()
    (run,) = experiment.incomplete()
    assert not list(run.folder.rglob("*.parquet"))


def test_rows_in_both_forms_after_a_kill_during_finish_are_tidied_by_the_seal(
    experiment: ExperimentFolder,
) -> None:
    run = written(experiment).finish()
    (run.folder / "intervals.jsonl").write_text("{}\n")
    check_contents(run)
    experiment.seal()
    assert not (run.folder / "intervals.jsonl").exists()
    assert experiment.verify() == []


WRITE_FOREVER = """
    import sys
    from pathlib import Path
    from pgdyno.store.folder import ExperimentFolder
    from tests.store import records

    experiment = ExperimentFolder(Path(sys.argv[1]))
    writer = experiment.begin_run(1, "killed", records.JOB)
    writer.add_record(records.phase("measure", "begin", 0))
    second = 1
    while True:
        writer.add_record(records.interval(second, 10))
        writer.add_samples("memory", [records.memory_row(second)])
        writer.flush()
        print(second, flush=True)
        second += 1
"""


def test_a_killed_writer_leaves_everything_it_had_flushed(experiment: ExperimentFolder) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(WRITE_FOREVER), str(experiment.folder)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert writer.stdout is not None
    with writer:
        reached = [int(writer.stdout.readline()) for _ in range(50)][-1]
        writer.send_signal(signal.SIGKILL)
    (run,) = experiment.incomplete()
    seconds = (run.intervals()["time_ns"] - records.BEGAN_NS) // records.SECOND_NS
    assert len(seconds) >= reached
    assert seconds.tolist() == list(range(1, len(seconds) + 1))
    memory = run.telemetry("memory")
    assert memory is not None
    assert len(memory["time_ns"]) >= reached


KILLED_AT = """
    import os, signal, sys
    from pathlib import Path
    from pgdyno.store import files
    from pgdyno.store.folder import ExperimentFolder
    from tests.store.contents import written

    writer = written(ExperimentFolder(Path(sys.argv[1])))
    step, calls = int(sys.argv[2]), 0

    def counted(function):
        def call(*arguments):
            global calls
            calls += 1
            if calls == step:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments)
        return call

    files.sync = counted(files.sync)
    files.sync_folder = counted(files.sync_folder)
    Path.rename = counted(Path.rename)
    Path.unlink = counted(Path.unlink)
    writer.finish()
    print("finished after", calls, "steps")
"""


@pytest.mark.parametrize("step", [1, 12, 15, 16, 18, 21])
def test_a_lab_killed_while_it_finishes_leaves_the_run_whole_in_one_form_or_the_other(
    experiment: ExperimentFolder, step: int
) -> None:
    command = [sys.executable, "-c", textwrap.dedent(KILLED_AT), str(experiment.folder), str(step)]
    python_path = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    ended = subprocess.run(command, env=python_path, capture_output=True, text=True, check=False)
    assert ended.returncode == -signal.SIGKILL, ended
    (run,) = [*experiment.runs(), *experiment.incomplete()]
    check_contents(run)
    assert run.summary["ending"] == "completed"


@pytest.fixture
def small_disk(tmp_path: Path) -> Path:
    """A file system of 256 KiB, unmounted afterwards."""
    folder = tmp_path / "small"
    folder.mkdir()
    options = ["mount", "-t", "tmpfs", "-o", "size=256k,mode=0700", "tmpfs", str(folder)]
    mounted = needs.IS_ROOT and not subprocess.run(options, capture_output=True).returncode
    needs.offered(mounted, "mounting a small file system needs root")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def _fill(writer: RunWriter) -> None:
    for second in range(1, 10_000):
        writer.add_record(records.interval(second, 10))
        writer.flush()


def test_the_error_of_a_full_disk_names_the_kept_files_and_they_stay_readable(
    small_disk: Path,
) -> None:
    experiment = Store(small_disk).create("full", "bench")
    writer = experiment.begin_run(1, "", records.JOB)
    with pytest.raises(StoreError, match="No space left") as caught:
        _fill(writer)
    assert "kept in" in caught.value.message
    assert "--store" in caught.value.hint
    writer.close()
    with pytest.raises(StoreError, match="No space left"):
        writer.add_record(records.interval(1, 10))
    (run,) = experiment.incomplete()
    seconds = (run.intervals()["time_ns"] - records.BEGAN_NS) // records.SECOND_NS
    assert 100 < len(seconds) == seconds[-1]


def test_a_disk_that_fills_while_finishing_keeps_the_rows(small_disk: Path) -> None:
    experiment = Store(small_disk).create("full", "bench")
    writer = experiment.begin_run(1, "", records.JOB)
    writer.add_record(records.summary())
    # A random walk of buckets hardly compresses: its Parquet and the rows do not fit together.
    numbers = np.random.default_rng(1).integers(0, 1 << 31, size=8_500)
    buckets = [[int(number), int(number)] for number in numbers]
    writer.add_record(records.histogram(1, buckets))
    with pytest.raises(StoreError, match="could not be written"):
        writer.finish()
    (run,) = experiment.incomplete()
    assert not list(run.folder.rglob("*.parquet"))
    assert len(run.histograms("latency")[0].counts) == 8_500


def test_distributions_of_one_kind_lie_together_by_time(experiment: ExperimentFolder) -> None:
    run = written(experiment).finish()
    path = parquet.literal(run.folder / "histograms.parquet")
    kind = "measured, script, statement, time_ns"
    rows = parquet.cursor().execute(f"SELECT {kind} FROM read_parquet({path})").fetchall()
    assert len({row[:3] for row in rows}) > 2
    assert rows == sorted(rows)


def test_every_column_of_every_table_is_described() -> None:
    from pgdyno.store.schema import tables

    for table in tables().values():
        names = [column.name for column in table.columns]
        assert len(set(names)) == len(names), table.name
        assert {"time_ns", "interval_ns"} <= set(names), table.name
        assert all(column.unit and column.meaning for column in table.columns), table.name


def test_distributions_of_older_results_take_64_bits_and_say_the_same(
    experiment: ExperimentFolder,
) -> None:
    run = written(experiment).finish()
    path = run.folder / "histograms.parquet"
    newer, older = parquet.literal(path), parquet.literal(path.with_suffix(".older"))
    execute = parquet.cursor().execute
    kinds = execute(f"SELECT typeof(buckets), typeof(counts) FROM read_parquet({newer})").fetchone()
    assert kinds == ("INTEGER[]", "INTEGER[]")
    wider = "* REPLACE (buckets::BIGINT[] AS buckets, counts::BIGINT[] AS counts)"
    execute(f"COPY (SELECT {wider} FROM read_parquet({newer})) TO {older} (FORMAT parquet)")
    path.with_suffix(".older").replace(path)
    check_contents(run)


def test_nan_is_refused_as_a_number_and_kept_as_a_text(
    experiment: ExperimentFolder,
) -> None:
    with RunWriter(experiment.folder / "runs" / "0009.partial", 9, "run", {}) as writer:
        writer.add_notice(
            {"time_ns": 1, "kind": "odd", "message": "NaN or Infinity: ü", "hint": ""}
        )
        for value in (float("nan"), float("inf"), float("-inf")):
            with pytest.raises(ValueError, match="a store must not contain"):
                writer.add_notice({"time_ns": 2, "kind": "odd", "message": value, "hint": ""})
    lines = (writer.folder / "events.jsonl").read_text(encoding="utf-8").splitlines()
    assert [line.count("NaN or Infinity: ü") for line in lines] == [1]
