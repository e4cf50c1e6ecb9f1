"""pgdyno from Python."""

from __future__ import annotations

import re
import subprocess
import sys
import types
from pathlib import Path

import pytest
from bench.generated import generate
from tests.fixtures.clusters import QUICK

import pgdyno
from pgdyno.errors import SpecError, StoreError
from pgdyno.store.experiment import Store

GUIDE = Path(__file__).parents[2] / "docs/api.md"
SPEC = """
[experiment]
name = "commit"
[server]
scratch = {{}}
settings = {{ {settings} }}
[dataset]
scale = 1
[workload]
scripts = [{{ builtin = "select-only" }}]
clients = 1
transactions_per_client = 2000
warmup = "0s"
[[variant]]
name = "on"
settings = {{ synchronous_commit = "on" }}
[[variant]]
name = "off"
settings = {{ synchronous_commit = "off" }}
[design]
kind = "passes"
rounds = 2
"""


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> pgdyno.Result:
    store = tmp_path_factory.mktemp("store")
    generate(Store(store), rounds=6, effect_ratio=0.2, noise_ratio=0.01)
    return pgdyno.open(1, store=store)


def test_a_comparison_has_typed_ratios_with_intervals(result: pgdyno.Result) -> None:
    contrast = result.compare("after", "before")
    assert contrast.verdict == contrast.tps.verdict == "faster"
    ratio = contrast.tps.ratio
    assert ratio.low is not None
    assert ratio.low < 1.2 < (ratio.high or 0)
    assert contrast.p99.verdict == "lower"
    assert [pair.round for pair in contrast.pairs] == [1, 2, 3, 4, 5, 6]
    # On a busy machine it begins with how many runs are valid.
    assert "after is faster than before: tps +" in result.sentence


def test_asked_the_other_way_round_ratios_and_verdicts_are_turned(result: pgdyno.Result) -> None:
    there, back = result.compare("after", "before").tps, result.compare("before", "after").tps
    assert back.verdict == "slower"
    assert back.ratio.value == pytest.approx(1 / there.ratio.value)
    assert back.ratio.low == pytest.approx(1 / (there.ratio.high or 0))


def test_the_error_of_an_unknown_name_lists_the_known_ones(result: pgdyno.Result) -> None:
    with pytest.raises(SpecError, match="did not compare 'x'") as caught:
        result.compare("x", "before")
    assert "after against before" in caught.value.hint
    with pytest.raises(SpecError, match="no variant 'x'") as caught:
        result.variant("x")
    assert caught.value.hint == "there are: before, after"
    with pytest.raises(SpecError, match="wal_per_tx was not measured"):
        _ = result.compare("after", "before").wal_per_tx
    with pytest.raises(SpecError, match="without a detailed run"):
        _ = result.run
    with pytest.raises(StoreError, match="no result 'x'"):
        pgdyno.open("x", store=result.folder.parent)


def test_rows_are_one_a_run_and_the_notebook_shows_the_sentence(result: pgdyno.Result) -> None:
    rows = result.rows()
    assert [row["run"] for row in rows] == list(range(1, 13))
    assert {row["variant"] for row in rows} == {"before", "after"}
    assert result.sentence in result._repr_html_()
    assert result.document()["format"] == "pgdyno.compare/1"
    assert [stored.number for stored in pgdyno.results(store=result.folder.parent)] == [1]


def test_the_error_without_pandas_names_the_next_step(
    result: pgdyno.Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(SpecError, match="needs pandas") as caught:
        result.to_dataframe()
    assert "rows()" in caught.value.hint


def test_with_pandas_the_rows_become_a_frame_with_units(
    result: pgdyno.Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    pandas = types.ModuleType("pandas")
    pandas.DataFrame = Frame  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pandas", pandas)
    frame = result.to_dataframe()
    assert frame.columns[:4] == ["run", "purpose", "round", "variant"]
    assert frame.attrs["units"]["p99_ms"] == "ms"


class Frame:
    def __init__(self, rows: list[dict[str, object]], columns: list[str]) -> None:
        self.rows, self.columns, self.attrs = rows, columns, {}  # type: ignore[var-annotated]


def test_importing_pgdyno_loads_nothing_heavy() -> None:
    code = "import pgdyno, sys; print(sorted({'numpy', 'duckdb', 'click'} & set(sys.modules)))"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"


@pytest.mark.pg
def test_the_commands_of_the_guide_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PGDYNO_STORE", raising=False)
    settings = ", ".join(f'"{name}" = "{value}"' for name, value in QUICK.items())
    Path("commit.toml").write_text(SPEC.format(settings=settings))
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL):
        exec(compile(block, str(GUIDE), "exec"), names)
    said = capsys.readouterr().out
    assert "off" in said
    assert "<pgdyno.Result #1 'commit'>" in said
    assert pgdyno.open("commit").number == 1
