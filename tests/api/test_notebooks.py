"""A result in a notebook: it shows itself, and its tables are Arrow streams."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest
from bench.generated import generate

import pgdyno
from pgdyno.errors import SpecError
from pgdyno.store.experiment import Store

NOTEBOOK = Path(__file__).parents[2] / "examples/comparison.ipynb"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results") / "pgdyno-runs"
    generate(Store(folder), rounds=6, effect_ratio=0.2, noise_ratio=0.01)
    return folder


def shown(value: Any) -> str:
    """Return what a notebook shows of the last value of a cell."""
    html = getattr(value, "_repr_html_", None)
    return str(html() if html is not None else repr(value))


def test_tables_of_a_result_are_arrow_streams_with_a_row_for_each_run(store: Path) -> None:
    result = pgdyno.open(1, store=store)
    runs = result.runs
    assert hasattr(runs, "__arrow_c_stream__")
    assert len(runs.fetchall()) == len(result.rows()) > 6
    assert result.intervals.columns[0] == "run"
    assert {row[0] for row in result.intervals.project("run").distinct().fetchall()} <= {
        row["run"] for row in result.rows()
    }
    with pytest.raises(SpecError, match="no table 'wait'"):
        result.telemetry("wait")


def test_the_worked_notebook_runs_cell_by_cell(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGDYNO_STORE", str(store))
    names: dict[str, Any] = {}
    seen = []
    for cell in json.loads(NOTEBOOK.read_text())["cells"]:
        if cell["cell_type"] == "code":
            tree = ast.parse("".join(cell["source"]))
            last = tree.body.pop()
            assert isinstance(last, ast.Expr)
            exec(compile(tree, str(NOTEBOOK), "exec"), names)
            value = eval(compile(ast.Expression(last.value), str(NOTEBOOK), "eval"), names)
            seen.append(shown(value))
    assert "<b>" in seen[0]
    assert "tps" in seen[1]
    assert "completed" in seen[2]
    assert seen[3] == repr(
        pgdyno.open(1, store=store).findings.compare.contrasts[0].comparisons["tps"].verdict
    )
