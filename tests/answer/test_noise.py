"""A against A: what is asked, and what its pairs say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bench.generated import generate
from pydantic import ValidationError

from pgdyno.analysis.findings import ExperimentFindings
from pgdyno.answer.noise import aa_experiment, host_noise
from pgdyno.designs import answer_of
from pgdyno.errors import AnalysisError
from pgdyno.features.doctor.verbs import noise_floor
from pgdyno.spec.experiment import Experiment
from pgdyno.spec.file import to_toml
from pgdyno.store.experiment import Store


def asked(dsn: str | None = None, run: str = "5s") -> Experiment:
    return aa_experiment(dsn=dsn, clients=4, run=run, budget="5min", scale=10)


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> ExperimentFindings:
    store = Store(tmp_path_factory.mktemp("quiet"))
    return answer_of(generate(store, rounds=8, effect_ratio=0.0, noise_ratio=0.02))


def test_the_experiment_is_a_comparison_of_one_variant_with_itself() -> None:
    experiment = asked()
    assert [variant.changes() for variant in experiment.all_variants()] == [{}, {}]
    assert 'kind = "compare"' in to_toml(experiment)


def test_a_server_of_ones_own_is_only_read() -> None:
    experiment = asked("host=db dbname=app")
    assert [script.name for script in experiment.all_scripts()] == ["select-only"]
    assert experiment.dataset.kind == "existing"
    assert experiment.server.scratch is None


def test_a_wrong_length_is_refused() -> None:
    with pytest.raises(ValidationError):
        asked(run="soon")


def test_more_time_sees_smaller_differences(quiet: ExperimentFindings) -> None:
    noise = host_noise(quiet)
    seen = [ratio for _, ratio in noise.detectable_ratio]
    assert seen == sorted(seen, reverse=True)
    assert 0.01 < noise.floor.deviation_ratio < 0.08  # sqrt(2) times 2 %, from 8 pairs
    assert noise.pair_seconds > 0


def test_a_host_without_drift_gives_no_verdict(quiet: ExperimentFindings) -> None:
    noise = host_noise(quiet)
    assert not noise.is_false_verdict
    text = " ".join(" ".join(noise_floor.lines_of(noise, asked(), "here")).split())
    assert "verdict none, as expected: A against itself" in text
    assert "8 pairs of runs of tpcb-like" in text
    assert "4 of 5 experiments find a difference of" in text


def test_a_verdict_on_a_against_a_is_called_false(tmp_path: Path) -> None:
    folder = generate(Store(tmp_path), rounds=8, effect_ratio=0.2, noise_ratio=0.01)
    noise = host_noise(answer_of(folder))
    assert noise.is_false_verdict
    text = " ".join(" ".join(noise_floor.lines_of(noise, asked(), "here")).split())
    assert "verdict FALSE: A differs from itself by +" in text
    document = json.loads(json.dumps(noise_floor.document_of_noise(noise, 1, "db1")))
    assert document["is_false_verdict"] is True
    assert document["warnings"][0]["kind"] == "false_verdict"
    assert len(document["ratios"]) == document["pairs"] == 8


def test_a_note_says_that_there_are_too_few_pairs(tmp_path: Path) -> None:
    folder = generate(Store(tmp_path), rounds=2, effect_ratio=0.0, noise_ratio=0.01)
    with pytest.raises(AnalysisError, match="needs 3 pairs of runs, but only 2 were measured"):
        host_noise(answer_of(folder))
