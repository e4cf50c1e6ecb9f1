"""Two results side by side: a caveat, the drift of the same load between them, no verdict."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bench.generated import generate
from click.testing import CliRunner

from pgdyno.cli.diff import command
from pgdyno.cli.measure import keep
from pgdyno.designs import answer_of
from pgdyno.errors import PgdynoError, SpecError, StoreError
from pgdyno.store.experiment import Store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    made = Store(tmp_path_factory.mktemp("store"))
    for _ in range(3):
        folder = generate(made, rounds=3, effect_ratio=0.2, noise_ratio=0.001)
        keep(folder, answer_of(folder))
    return made


def diff(store: Store, *handles: str) -> str:
    arguments = [*handles, "--store", str(store.root)]
    done = CliRunner().invoke(command, arguments, standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return done.stdout


def test_variants_of_two_results_are_set_side_by_side(store: Store) -> None:
    document = json.loads(diff(store, "1:before", "3:after", "--json"))
    first, other = document["metrics"]["tps"]
    assert other["value"] / first["value"] == pytest.approx(1.2, rel=0.02)
    assert document["warnings"][0]["kind"] == "different_times"


def test_the_drift_of_the_first_load_follows_from_its_other_results(store: Store) -> None:
    text = diff(store, "1", "3")
    assert text.startswith("CAVEAT ")
    assert "drift       the same load was measured 3 times (#1, #2, #3): tps 0.0 %" in text.replace(
        "+0.0", "0.0"
    )
    document = json.loads(diff(store, "1", "3", "--json"))
    assert document["drift"]["tps_ratio"] == pytest.approx(1.0)


def test_without_another_result_of_that_load_the_drift_is_not_known(
    store: Store, tmp_path: Path
) -> None:
    alone = Store(tmp_path)
    generate(alone, rounds=2, effect_ratio=0.2, noise_ratio=0.001)
    assert "drift       not known" in diff(alone, "1:before", "1:after")


@pytest.mark.parametrize(
    ("handles", "error", "said"),
    [
        (("1:nobody", "2"), SpecError, "no measured variant 'nobody'"),
        (("1", "77"), StoreError, "no result '77'"),
    ],
)
def test_the_error_of_a_missing_result_names_it(
    store: Store, handles: tuple[str, str], error: type[PgdynoError], said: str
) -> None:
    with pytest.raises(error, match=said):
        diff(store, *handles)
