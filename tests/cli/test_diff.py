"""Two results side by side: a caveat, the drift of the same load between them, no verdict."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from bench.generated import generate
from click.testing import CliRunner

from pgdyno.cli import diff as cli_diff
from pgdyno.cli.diff import command
from pgdyno.cli.measure import keep
from pgdyno.designs import answer_of
from pgdyno.errors import PgdynoError, SpecError, StoreError
from pgdyno.report.changes import ChangeOfTime
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


def test_another_order_of_runs_is_the_same_load(tmp_path: Path) -> None:
    made = Store(tmp_path)
    for number in ("1", "2"):
        generate(made, rounds=2, effect_ratio=0.2, noise_ratio=0.001)
        folder = made.find(number)
        spec = f"[workload]\norder_seed = {number}"
        (folder.folder / "spec.toml").write_text(folder.spec().replace("[workload]", spec))
        keep(folder, answer_of(folder))
    assert "measured 2 times (#1, #2)" in diff(made, "1", "2")


def test_without_another_result_of_that_load_the_drift_is_not_known(
    store: Store, tmp_path: Path
) -> None:
    alone = Store(tmp_path)
    generate(alone, rounds=2, effect_ratio=0.2, noise_ratio=0.001)
    assert "drift       not known" in diff(alone, "1:before", "1:after")


def test_what_changed_comes_first_and_different_loads_are_named(
    store: Store, tmp_path: Path
) -> None:
    labels = [line.split(" ", 1)[0] for line in diff(store, "1", "3").splitlines()]
    named = [label for label in labels if label]
    assert named[:3] == ["CAVEAT", "results", "tps"]
    assert "loads differ" not in diff(store, "1", "3")
    other = Store(tmp_path)
    for clients in (2, 3):
        generate(other, rounds=2, effect_ratio=0.2, noise_ratio=0.001)
        folder = other.find(str(clients - 1))
        spec = folder.folder / "spec.toml"
        changed = re.sub(r"clients = \d+", f"clients = {clients}", folder.spec())
        spec.write_text(changed)
    text = diff(other, "1", "2")
    assert "The loads differ" in " ".join(text.split())
    assert "load, clients: 2 | 3" in text


def test_a_long_diff_is_shortened_and_says_where_the_rest_is(store: Store) -> None:
    many = [ChangeOfTime("time", f"part {i}", None, None) for i in range(40)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cli_diff, "changes_between", lambda *_: many)
        text, whole = diff(store, "1", "3").splitlines(), diff(store, "-v", "1", "3").splitlines()
    assert len(text) <= 25 < len(whole)
    assert text[-1].endswith("lines: pgdyno diff -v 1 3")


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
