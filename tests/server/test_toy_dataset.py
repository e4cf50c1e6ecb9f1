"""A kind of dataset that only tests know: one class in the registry is all the lab needs."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, Literal

import click
import pytest
from click.testing import CliRunner
from pydantic import Field
from tests.fixtures.clusters import run_sql

from pgdyno.cli import from_options, init
from pgdyno.cli import options as verb_options
from pgdyno.cli.kind_help import KIND_HELP
from pgdyno.errors import RefusedError, SpecError
from pgdyno.feature import KindHelp
from pgdyno.server.connect import Connection, connect
from pgdyno.server.dataset import inspection as datasets
from pgdyno.server.dataset import removal as dataset_removal
from pgdyno.server.dataset.kind import DatasetKind, Number
from pgdyno.server.dataset.kinds import KINDS, needed_bytes
from pgdyno.server.reset import reset
from pgdyno.server.target import Target
from pgdyno.spec.base import Spec
from pgdyno.spec.workload import Script


class StarsDataset(Spec):
    """Stars."""

    kind: Literal["stars"] = "stars"
    stars: int = Field(default=3, ge=1)


STARS = """
    Tables
    --stars N:1..  Number of stars (default 3).
"""


class StarsLoading(Spec):
    """Nothing to choose."""


class Stars(DatasetKind):
    name = "stars"
    options = StarsDataset
    loading = StarsLoading
    tables = ("stars", "sightings")
    emptied = ("sightings",)
    keyless = ("sightings",)
    size_option = "stars"

    def size_words(self, size: int | None) -> str:
        return f"{size} stars"

    def read_size(self, number: Number) -> int | None:
        return number("stars", "count(*)")

    def why_partial(self, number: Number, size: int | None) -> str:
        return "" if number("stars", "max(id)") == size else "a star is missing"

    def tables_bytes(self, dataset: Any) -> int:
        return dataset.stars * 100

    def sort_bytes(self, dataset: Any) -> int:
        return dataset.stars * 16

    def row_bytes(self, dataset: Any) -> float:
        return 100.0

    def engine_options(self, dataset: Any, loading: Spec | None, jobs: int) -> dict[str, Any]:
        return {"kind": self.name, "stars": dataset.stars, "jobs": jobs, "loading": loading}


@pytest.fixture
def stars(monkeypatch: pytest.MonkeyPatch) -> Stars:
    kind = Stars()
    monkeypatch.setitem(KINDS, kind.name, kind)
    monkeypatch.setitem(KIND_HELP, kind.name, KindHelp(options=STARS))
    return kind


@pytest.fixture
def session(database15: Target, stars: Stars) -> Iterator[Connection]:
    mark = datasets.mark_text(stars.name, {"stars": 3})
    run_sql(database15, "CREATE TABLE stars AS SELECT id FROM generate_series(1, 3) id")
    run_sql(database15, "ALTER TABLE stars ADD PRIMARY KEY (id)")
    run_sql(database15, "CREATE TABLE sightings AS SELECT id FROM stars")
    for table in stars.tables:
        run_sql(database15, f"COMMENT ON TABLE {table} IS '{mark}'")
    with connect(database15, verb="test") as connection:
        connection.use_load_path()
        yield connection


def test_a_toy_dataset_is_found_by_its_mark_reset_and_dropped(
    session: Connection, stars: Stars
) -> None:
    dataset = datasets.inspect(session)
    assert (dataset.kind, dataset.state, str(dataset)) == ("stars", "complete", "3 stars by pgdyno")
    assert dataset.options == {"stars": "3"}
    assert reset(session, dataset, is_scratch=False).history_rows_removed == 3
    assert dataset_removal.drop(session, stars).tables == ("sightings", "stars")
    assert datasets.inspect(session).state == "none"


def test_an_unmarked_table_of_that_name_belongs_to_somebody_else(
    session: Connection, stars: Stars
) -> None:
    session.execute("COMMENT ON TABLE stars IS NULL")
    assert datasets.inspect(session).state == "none"  # Nobody asked for stars.
    assert not datasets.inspect(session, stars).is_marked
    with pytest.raises(RefusedError, match="stars tables in schema public were not made by"):
        dataset_removal.drop(session, stars)


def test_a_toy_dataset_has_its_options_and_sizes(stars: Stars) -> None:
    help_text = CliRunner().invoke(init.command, ["stars", "--help-all"]).output
    assert "--stars N" in help_text
    assert "--scale" not in help_text
    assert stars.label(StarsDataset(stars=5)) == "5 stars"  # type: ignore[arg-type]
    assert needed_bytes(StarsDataset(stars=5))["data"] > 500  # type: ignore[arg-type]


def test_a_verb_with_a_scratch_server_has_the_options_of_a_toy_dataset(stars: Stars) -> None:
    command = verb_options.dataset(click.command()(lambda **given: click.echo(given["stars"])))
    assert "--stars N" in CliRunner().invoke(command, ["--help"]).output
    assert CliRunner().invoke(command, ["--stars", "5"]).output == "5\n"


def test_a_program_on_a_toy_dataset_takes_its_options_and_no_others(
    stars: Stars, monkeypatch: pytest.MonkeyPatch
) -> None:
    stargazing = SimpleNamespace(dataset=stars.name)
    facts = SimpleNamespace(builtin={"stargazing": stargazing}.get)
    monkeypatch.setattr(from_options, "engine_facts", lambda: facts)
    scripts = [Script(builtin="stargazing")]
    made = from_options.dataset_of({"stars": 5, "scale": None}, scripts)
    assert made.model_dump() == {"kind": "stars", "stars": 5}
    with pytest.raises(SpecError, match="--scale 3 is not an option of the stars tables") as wrong:
        from_options.dataset_of({"scale": 3}, scripts)
    assert "--stars for stars tables" in wrong.value.hint
