"""Results for other programs, and words kept with them."""

from __future__ import annotations

import csv
import io
import json

import pytest
from tests.fixtures.clusters import QUICK
from tests.fixtures.command import Command

from pgdyno.store.experiment import Store

pytestmark = pytest.mark.pg


def test_runs_are_exported_with_units_and_notes_are_kept(pgdyno: Command) -> None:
    settings = [part for n, v in QUICK.items() for part in ("--set", f"{n}={v}")]
    done = pgdyno(
        *("bench", "-s", "1", "-S", "-c", "1", "-T", "1s", "--warmup", "0s", "-q", *settings)
    )
    assert done.code == 3, done.err
    [row] = csv.DictReader(io.StringIO(pgdyno("export").out))
    assert (row["run"], row["script"], row["clients"]) == ("1", "select-only", "1")
    assert float(row["tps"]) > 0
    assert float(row["p99_ms"]) > 0
    [same] = json.loads(pgdyno("export", "--format", "json").out)["runs"]
    assert same["tps"] == float(row["tps"])
    assert "CHG0048211" in pgdyno("note", "last", "before CHG0048211").out
    assert "before CHG0048211" in pgdyno("note", "last").out
    side_by_side = " ".join(pgdyno("diff", "last", "last").out.split())
    assert "For a verdict, use pgdyno compare" in side_by_side
    assert "0.0 %, no interval" in side_by_side
    assert "differs" not in side_by_side
    assert Store(pgdyno.store).find("last").verify() == []
