"""What the engine says it has, and how the lab reads it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.fixtures.engine_process import Engine

from pgdyno.engine.engine_facts import engine_facts, facts_of
from pgdyno.errors import SpecError
from pgdyno.server.dataset.kinds import KINDS


def plain(value: Any) -> Any:
    """Return facts as JSON has them."""
    if hasattr(value, "_asdict"):
        return {name: plain(part) for name, part in value._asdict().items()}
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    return [plain(part) for part in value] if isinstance(value, tuple) else value


def test_the_document_goes_through_python_and_is_equal(engine: Engine) -> None:
    said = json.loads(engine.say("facts").stdout)
    assert plain(facts_of(said)) == said


def test_built_ins_are_known_with_what_they_do() -> None:
    facts = engine_facts()
    reading, writing = facts.builtin("select-only"), facts.builtin("tpcb-like")
    assert reading is not None
    assert writing is not None
    assert (reading.reads_only, writing.reads_only) == (True, False)
    assert reading.reads_scale
    assert reading.dataset == "pgbench"
    assert not reading.is_native
    assert [kind.name for kind in writing.types] == ["tpcb-like"]
    assert facts.builtin("select") is None
    assert {"set", "gset", "setshell", "startpipeline"} <= set(facts.meta_commands)


def test_the_datasets_of_the_engine_are_those_of_the_lab_and_of_the_built_ins() -> None:
    facts = engine_facts()
    assert set(facts.datasets) == set(KINDS)
    assert set(facts.datasets) == {builtin.dataset for builtin in facts.builtins}
    for name, kind in KINDS.items():
        assert set(facts.datasets[name].tables) == set(kind.tables)


def test_the_beginning_of_one_name_is_enough() -> None:
    facts = engine_facts()
    assert facts.builtin_beginning("sel").name == "select-only"
    assert facts.builtin_beginning("select-only").name == "select-only"


def test_another_beginning_is_refused_with_the_names() -> None:
    facts = engine_facts()
    with pytest.raises(SpecError, match="no built-in has that name or beginning") as unknown:
        facts.builtin_beginning("nosuch")
    assert "tpcb-like" in unknown.value.hint
    assert "update-only" in unknown.value.hint
    with pytest.raises(SpecError, match="begin with that name: simple-update, select-only"):
        facts.builtin_beginning("s")
    with pytest.raises(SpecError):
        facts.builtin_beginning("")


def test_the_kept_facts_are_those_of_the_engine(engine: Engine) -> None:
    assert engine_facts() == facts_of(json.loads(engine.say("facts").stdout)), "make docs"
