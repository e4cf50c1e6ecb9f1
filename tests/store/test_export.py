"""Tables that other programs read: the same numbers in every form, with units."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from bench.generated import generate
from click.testing import CliRunner

from pgdyno.answer.table import COLUMNS
from pgdyno.cli.export import command
from pgdyno.errors import SpecError
from pgdyno.observe.collector import Column
from pgdyno.store.experiment import Store
from pgdyno.store.export import export_rows
from pgdyno.store.folder import ExperimentFolder
from pgdyno.store.parquet import cursor


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> ExperimentFolder:
    store = Store(tmp_path_factory.mktemp("store"))
    return generate(store, rounds=2, effect_ratio=0.1, noise_ratio=0.01)


def export(folder: ExperimentFolder, *options: str) -> str:
    arguments = [str(folder.folder), "--store", str(folder.folder.parent), *options]
    done = CliRunner().invoke(command, arguments, standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return done.stdout


def test_runs_are_the_same_in_csv_json_and_parquet(
    generated: ExperimentFolder, tmp_path: Path
) -> None:
    as_csv = list(csv.DictReader(export(generated).splitlines()))
    document = json.loads(export(generated, "--format", "json"))
    file = tmp_path / "runs.parquet"
    assert export(generated, "--format", "parquet", "-o", str(file)).strip() == str(file)
    rows = cursor().execute(f"SELECT run, variant, tps, p99_ms FROM '{file}'").fetchall()
    assert sorted(row["variant"] for row in as_csv) == ["after", "after", "before", "before"]
    for read, estimate, (run, variant, tps, p99) in zip(
        as_csv, document["runs"], rows, strict=True
    ):
        assert (
            (int(read["run"]), read["variant"])
            == (estimate["run"], estimate["variant"])
            == (run, variant)
        )
        assert float(read["tps"]) == estimate["tps"] == tps
        assert float(read["p99_ms"]) == estimate["p99_ms"] == p99
        assert (read["rate_tps"], estimate["rate_tps"]) == ("", None)


def test_every_column_comes_with_unit_and_meaning(
    generated: ExperimentFolder, tmp_path: Path
) -> None:
    document = json.loads(export(generated, "--format", "json"))
    units = {column["name"]: column["unit"] for column in document["columns"]}
    assert (units["tps"], units["p99_ms"], units["wal_per_tx_B"]) == ("tps", "ms", "B")
    assert list(document["runs"][0]) == [column.name for column in COLUMNS]
    file = tmp_path / "cpu.parquet"
    export(generated, "--table", "cpu", "--format", "parquet", "-o", str(file))
    query = f"SELECT value FROM parquet_kv_metadata('{file}') WHERE key = 'pgdyno_columns'"
    [(described,)] = cursor().execute(query).fetchall()
    assert json.loads(described)["user_ns"]["unit"] == "ns"


def test_a_table_has_the_rows_of_all_runs_with_their_numbers(generated: ExperimentFolder) -> None:
    rows = list(csv.DictReader(export(generated, "--table", "intervals").splitlines()))
    assert len(rows) == 4 * 50
    assert [rows[n]["run"] for n in (0, 50, 199)] == ["1", "2", "4"]
    assert rows[0]["completed_by_script"] == rows[0]["completed"]


def test_an_unknown_table_and_parquet_on_the_screen_are_refused(
    generated: ExperimentFolder,
) -> None:
    with pytest.raises(SpecError, match="--table nonsense"):
        export(generated, "--table", "nonsense")
    with pytest.raises(SpecError, match="is binary and cannot be printed"):
        export(generated, "--format", "parquet")


@pytest.mark.parametrize(
    "text", ["=1+1", "+1", "-1", "@a", "\tb", "\rc", "\uff1d1", "=cmd|' /C calc'!A0"]
)
def test_a_text_in_csv_is_no_formula(text: str, tmp_path: Path) -> None:
    columns = (
        Column("name", "text", "name", "a name", "key"),
        Column("lag_ns", "int64", "ns", "a number", "key"),
    )
    rows = [{"name": text, "lag_ns": -5}, {"name": "plain", "lag_ns": 7}]
    for is_raw, begin in ((False, "'"), (True, "")):
        path = tmp_path / f"{is_raw}.csv"
        export_rows(rows, columns, path, "csv", raw=is_raw)
        with path.open(newline="") as stream:
            read = list(csv.reader(stream))
        assert read[1] == [begin + text, "-5"]
        assert read[2] == ["plain", "7"]
