"""A short tuning on real servers ends with values that can be set, each with its reason."""

from __future__ import annotations

import pytest
from tests.fixtures.command import Command

from pgdyno.spec.run_needs import NEEDS

pytestmark = pytest.mark.pg


@pytest.mark.parametrize("version", ["15", "18"])
def test_a_tuning_without_a_proof_still_names_values_and_says_that_they_are_not_proved(
    pgdyno: Command, version: str
) -> None:
    said = pgdyno(
        *("tune", "--scratch", "--pg-version", version, "-s", "5", "-c", "2", "--allow-tmpfs"),
        *("--warmup", "0s", "--budget", "70s", "--json"),
    )
    assert said.code in (0, 3, 5), said.err
    tried = {trial["candidate"].partition("=")[0] for trial in said.document["tried"]}
    assert not [name for name in tried if NEEDS.get(name) == "checkpoint"], said.err
    assert "not searched  max_wal_size: this load leads to a checkpoint every" in said.err
    formula = {value["name"]: value for value in said.document["formula"]}
    assert formula["max_wal_size"]["old"] == "1GB"
    assert formula["max_wal_size"]["why"] == "not measured"
    settled = {
        name
        for trial in said.document["tried"]
        if trial["decision"] in ("better", "worse", "no better")
        for name in trial["settings"]
    }
    assert not settled & formula.keys()
    shown = pgdyno("show", "last")
    assert not shown.code, shown.err
    text = " ".join(shown.out.split())
    assert (
        "from PGTune, not proved, and not measured unless said (statements: pgdyno report): "
        in text
    )
    assert "max_wal_size = 8GB," in text
