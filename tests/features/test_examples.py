"""Every example is a spec without a mistake, and says what it would do."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgdyno.designs import design_of
from pgdyno.engine.engine_facts import engine_facts
from pgdyno.loop.preview import preview
from pgdyno.spec.file import read_spec

FOLDER = Path(__file__).parents[2] / "examples"
EXAMPLES = sorted(FOLDER.glob("*.toml"))


def test_every_design_has_an_example() -> None:
    kinds = {read_spec(path).experiment.design.kind for path in EXAMPLES}
    assert {"compare", "matrix", "passes", "sweep"} <= kinds


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_can_be_planned(path: Path) -> None:
    spec = read_spec(path)
    assert spec.doubts == ()
    plan = preview(spec.experiment, design_of(spec.experiment))
    assert "order " in plan
    assert "time " in plan
    for script in spec.experiment.all_scripts():
        assert engine_facts().builtin(script.builtin) or script.text
