"""Evidence for a setting comes from each table and statement of the load, never from sums."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pgdyno.features.tune.evidence import (
    Evidence,
    choose,
    not_allowed,
    small_cache,
    unusual_values,
)
from pgdyno.features.tune.evidence_of_run import evidence_of, next_checkpoint_ns
from pgdyno.features.tune.planning import Known, formula_of, not_shown, unsearchable
from pgdyno.features.tune.space import DEFAULT_RISKS
from pgdyno.observe.catalogue import columns_of
from pgdyno.settings.formula import Machine
from pgdyno.settings.value import defaults_of
from pgdyno.spec.file import read_spec
from pgdyno.store.experiment import Store
from pgdyno.store.run_writer import RunWriter

SECOND_NS = 1_000_000_000
LENGTH_S = 10
MACHINE = Machine(15, 100, ram_bytes=8 << 30, cores=4, disk="ssd")
# One statement reads a table of 100,000 rows from end to end; another finds rows by its index.
SCANNED = {"seq_scans": 50, "seq_rows": 5_000_000, "heap_blks_hit": 80_000}
INDEXED = {"index_scans": 400_000, "index_rows": 400_000, "heap_blks_hit": 800_000}


def add_growth(writer: RunWriter, collector: str, grown: Mapping[str, Any]) -> None:
    """Add two samples around the run: nothing, and what grew."""
    numbers = {
        column.name: 0 if column.dtype not in ("str", "string") else ""
        for column in columns_of(collector)
        if column.name not in ("time_ns", "interval_ns")
    }
    keys = {name: value for name, value in grown.items() if isinstance(value, str)}
    for second, values in ((0, keys), (LENGTH_S, grown)):
        stamp = {"time_ns": second * SECOND_NS, "interval_ns": second * SECOND_NS}
        writer.add_samples(collector, [{**numbers, **stamp, **values}])


def settings_for(
    tmp_path: Path, *tables: Mapping[str, int], wal: Mapping[str, int] | None = None
) -> list[str]:
    """Return what is searched after a run in which these tables and the WAL grew."""
    folder = Store(tmp_path).create("evidence", "bench")
    with folder.begin_run(1, "run", {}) as writer:
        for place, table in enumerate(tables):
            add_growth(writer, "tables", {"schema": "public", "table": f"t{place}", **table})
        if wal is not None:
            add_growth(writer, "wal", wal)
        total = {name: sum(table.get(name, 0) for table in tables) for name in INDEXED | SCANNED}
        sums = {
            "tup_returned": total["seq_rows"] + total["index_rows"],
            "tup_fetched": total["index_rows"],
        }
        add_growth(writer, "database", {"scope": "ours", **sums})
        phase = {"phase": "measure", "began_ns": 0, "ended_ns": LENGTH_S * SECOND_NS}
        writer.add_record({"record": "summary", **phase, "phases": [phase]})
        writer.finish()
    return [choice.setting for choice in choose(evidence_of(folder.runs()[0]), MACHINE)]


def test_index_reads_of_another_statement_do_not_hide_a_full_scan(tmp_path: Path) -> None:
    """In the sums of the database, twelve rows were read for each row found by an index."""
    assert settings_for(tmp_path, INDEXED, SCANNED) == ["random_page_cost", "effective_cache_size"]


def test_small_tables_are_read_from_end_to_end_for_good_reasons(tmp_path: Path) -> None:
    assert settings_for(tmp_path, {"seq_scans": 100_000, "seq_rows": 1_000_000}) == []


IMAGES = {"bytes": 8_000_000, "full_page_images": 1_000}


@pytest.mark.parametrize(("updated", "is_searched"), [(0, False), (1_000, True)])
def test_wal_is_evidence_only_if_the_load_changes_rows(
    tmp_path: Path, updated: int, is_searched: bool
) -> None:
    """A read-only load got max_wal_size, because hint bits and autovacuum write WAL, too."""
    chosen = settings_for(tmp_path, {**INDEXED, "rows_updated": updated}, wal=IMAGES)
    assert ("max_wal_size" in chosen) is is_searched


def test_pages_that_are_not_found_name_their_table(tmp_path: Path) -> None:
    missed = {**INDEXED, "heap_blks_read": 300_000}
    assert settings_for(tmp_path, INDEXED, missed)[0] == "shared_buffers"


def test_a_setting_without_a_range_is_left_out_and_the_others_are_searched() -> None:
    known = Known(MACHINE, {"log_min_duration_statement": "0", "work_mem": "4MB"}, {})
    experiment = read_spec(Path(__file__).parents[3] / "examples/tune.toml").experiment
    [unusual] = unusual_values({"log_min_duration_statement": "0"}, MACHINE.major)
    names = [unusual.setting, "work_mem"]
    assert unsearchable(experiment, known, names, DEFAULT_RISKS) == {
        "log_min_duration_statement": "there is no range worth searching on this machine"
    }


def with_data(size_bytes: int) -> Machine:
    return replace(MACHINE, database_bytes=size_bytes)


def test_a_setting_whose_class_is_not_allowed_is_named_with_its_price() -> None:
    waits = [Evidence("wal_flush", 0.4, "40 % of the samples"), Evidence("jit_time", 0.01, "1 %")]
    [left] = not_allowed(waits, MACHINE)
    assert left.setting == "synchronous_commit"
    assert "40 % of the samples. With off, a crash may lose" in left.why
    assert left.why.endswith("--class durability searches it")
    assert not list(not_allowed(waits, MACHINE, (*DEFAULT_RISKS, "durability")))


def test_a_cache_smaller_than_the_data_is_searched_before_other_settings() -> None:
    missed = Evidence("buffer_misses", 0.02, "0.5 % of the pages read")
    evidence = [Evidence("lock_waits", 0.9, "many"), missed]
    now = {"shared_buffers": "128MB"}
    [cache] = small_cache(evidence, now, with_data(300 << 20))
    chosen = choose(evidence, MACHINE, DEFAULT_RISKS, unusual=[cache])
    assert [choice.setting for choice in chosen] == ["shared_buffers", "deadlock_timeout"]
    assert chosen[0].why == (
        "the data is 2.3 times its size, and it lacked 0.5 % of the pages read"
    )
    for without in (
        small_cache(evidence[:1], now, with_data(300 << 20)),
        small_cache(evidence, now, with_data(100 << 20)),
        small_cache(evidence, {"shared_buffers": "2GB"}, with_data(9 << 30)),
    ):
        assert not [*without]


@pytest.mark.parametrize(
    ("megabytes", "settings", "seconds"),
    [
        (100, {}, 51.2),
        (10, {}, 300),
        (10, {"checkpoint_timeout": "30s"}, 30),
        (1000, {"max_wal_size": "100MB"}, 0.5),
        (0, {}, 300),
    ],
)
def test_the_next_checkpoint_comes_when_wal_fills_or_time_is_over(
    tmp_path: Path, megabytes: int, settings: Mapping[str, str], seconds: float
) -> None:
    settings_for(tmp_path, wal={"bytes": megabytes << 20})
    run = Store(tmp_path).find("last").runs()[-1]
    known = defaults_of(15) | dict(settings)
    assert next_checkpoint_ns(run, known, 15) == pytest.approx(seconds * SECOND_NS, rel=1e-3)


def test_a_setting_of_checkpoints_is_not_searched_with_runs_that_have_none() -> None:
    names = ("max_wal_size", "checkpoint_timeout", "wal_compression", "shared_buffers")
    left_out = not_shown(names, 51 * SECOND_NS, 15 * SECOND_NS)
    assert set(left_out) == {"max_wal_size", "checkpoint_timeout"}
    assert "every 51 s, and the budget has time for runs of 15 s" in left_out["max_wal_size"]
    assert not not_shown(names, 51 * SECOND_NS, 60 * SECOND_NS)
    assert not not_shown(names, None, 15 * SECOND_NS)


def test_a_formula_gives_no_more_shared_buffers_than_the_data_needs() -> None:
    def advised(size_bytes: int) -> dict[str, str]:
        return formula_of(Known(with_data(size_bytes), defaults_of(15), {}))

    assert advised(300 << 20)["shared_buffers"] == "1GB"
    assert advised(100 << 30)["shared_buffers"] == "2GB"
    assert "shared_buffers" not in advised(20 << 20), "128MB are enough"
    assert "max_connections" not in advised(300 << 20)


def test_the_values_of_one_list_are_of_one_machine_and_round() -> None:
    """work_mem has what the lowered shared_buffers leaves, and no "74280kB"."""
    machine = replace(MACHINE, ram_bytes=24 << 30, cores=2, database_bytes=300 << 20)
    advised = formula_of(Known(machine, defaults_of(15), {}))
    # (24 GB - 1 GB) / (108 x 3) x 1.3 = 94 MB; with shared_buffers = 6 GB it would be 74 MB.
    assert (advised["shared_buffers"], advised["work_mem"]) == ("1GB", "96MB")
    assert "wal_buffers" not in advised, "the server computes it from shared_buffers"
