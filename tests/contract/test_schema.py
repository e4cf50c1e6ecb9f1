"""The contract, first test: one schema, generated from Rust, committed, and met by Python."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, Literal, get_args, get_origin

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel
from tests.fixtures.engine_process import Engine
from tests.tidy.source import ROOT

from pgdyno.engine import distribution as distribution_models
from pgdyno.engine import engine_facts as facts_models
from pgdyno.engine import job as job_models
from pgdyno.engine import records as record_models

SCHEMA_FILE = ROOT / "crates/pgdyno-engine/contract.schema.json"
MODELS: dict[str, type[BaseModel]] = {
    model.__name__: model
    for module in (job_models, record_models)
    for model in vars(module).values()
    if isinstance(model, type)
    and issubclass(model, BaseModel)
    and model.__module__ == module.__name__
}
MODELS |= {
    "ValueDistribution": distribution_models.Distribution,
    "Hot": distribution_models.Hot,
    "Spread": distribution_models.Spread,
}
# Facts are named tuples, which take no time to build.
FACTS = {name: kind for name, kind in vars(facts_models).items() if hasattr(kind, "_fields")}
# Where a Python model stands for a Rust type of another name.
NAMES = {
    "ClockPairModel": "ClockPair",
    "EngineFacts": "Facts",
    "EngineTarget": "Target",
    "Warning_": "Notice",
    "HistogramRecord": "Histogram",
    # Variants that are closed to unknown fields stand in the schema of their enum.
    "ClosedLoop": "Arrivals.closed",
    "OpenLoop": "Arrivals.open",
    "LoadWork": "Work.load",
    "InitWork": "Work.init",
}
# Bases that are in no schema, and enums with content, which Python writes as one model a variant.
NO_STRUCT = {"Strict", "Open", "DatasetOptions"}
# The schema without its words, by revision.
FINGERPRINT = {29: "a8f75022c86b333c"}
VARIANTS = {
    "BuiltinScript": "ScriptText",
    "TextScript": "ScriptText",
    "MeasureDuration": "Measure",
    "MeasureTransactions": "Measure",
}


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(SCHEMA_FILE.read_text())
    return document


def test_the_committed_schema_is_the_one_the_engine_generates(engine: Engine) -> None:
    said = engine.say("schema")
    assert said.returncode == 0, said.stderr
    assert said.stdout.decode() == SCHEMA_FILE.read_text(), (
        "run: .venv/bin/pgdyno-engine schema > crates/pgdyno-engine/contract.schema.json"
    )


def test_the_schema_is_a_schema(schema: dict[str, Any]) -> None:
    Draft202012Validator.check_schema(schema)


def _structs(schema: dict[str, Any]) -> dict[str, set[str]]:
    """Return the fields of every struct by name, of an inlined variant by `Enum.tag`."""
    kinds = {}
    for name, definition in schema["$defs"].items():
        if "properties" in definition:
            kinds[name] = set(definition["properties"])
        for variant in definition.get("oneOf", ()):
            fields = variant.get("properties", {})
            tags = {key: kind["const"] for key, kind in fields.items() if "const" in kind}
            for tag, word in tags.items():
                if "$ref" not in variant:
                    kinds[f"{name}.{word}"] = set(fields) - {tag}
    return kinds


@pytest.mark.parametrize("name", sorted(FACTS))
def test_facts_have_the_fields_of_their_struct(name: str, schema: dict[str, Any]) -> None:
    assert set(FACTS[name]._fields) == _structs(schema)[NAMES.get(name, name)]


def _fields(model: type[BaseModel]) -> set[str]:
    """Return the fields of a model but the tag that tells variants apart: a Literal of one word."""
    kinds = {name: field.annotation for name, field in model.model_fields.items()}
    return {
        name
        for name, kind in kinds.items()
        if get_origin(kind) is not Literal or len(get_args(kind)) > 1
    }


@pytest.mark.parametrize("name", sorted(MODELS.keys() - NO_STRUCT - VARIANTS.keys()))
def test_a_model_has_the_fields_of_its_struct(name: str, schema: dict[str, Any]) -> None:
    assert _fields(MODELS[name]) == _structs(schema)[NAMES.get(name, name)]


@pytest.mark.parametrize(("model", "enum"), sorted(VARIANTS.items()))
def test_a_variant_with_content_is_one_model(model: str, enum: str, schema: dict[str, Any]) -> None:
    variants = [set(variant["properties"]) for variant in schema["$defs"][enum]["oneOf"]]
    assert set(MODELS[model].model_fields) in variants


def test_every_struct_has_a_model(schema: dict[str, Any]) -> None:
    known = {NAMES.get(name, name) for name in {*MODELS, *FACTS}}
    of_datasets = _parts(schema["$defs"]["DatasetOptions"], schema, set())
    structs = {name for name in _structs(schema) if not name.startswith("DatasetOptions.")}
    assert not structs - known - of_datasets


def _parts(definition: Any, schema: dict[str, Any], seen: set[str]) -> set[str]:
    """Return the names of all definitions that a definition leads to."""
    for name in re.findall(r'"#/\$defs/(\w+)"', json.dumps(definition)):
        if name not in seen:
            seen.add(name)
            _parts(schema["$defs"][name], schema, seen)
    return seen


@pytest.mark.parametrize(
    ("literal", "enum"),
    [
        (record_models.PhaseName, "PhaseName"),
        (record_models.Measured, "Measured"),
        (record_models.ErrorKind, "ErrorKind"),
        (job_models.SslMode, "SslMode"),
        (job_models.Protocol, "Protocol"),
    ],
)
def test_an_enum_has_the_same_words_on_both_sides(
    literal: object, enum: str, schema: dict[str, Any]
) -> None:
    assert set(get_args(literal)) == _words(schema["$defs"][enum])


def _words(definition: dict[str, Any]) -> set[str]:
    words = set(definition.get("enum", ()))
    for variant in definition.get("oneOf", ()):
        words |= {variant["const"]} if "const" in variant else set(variant["enum"])
    return words


def test_a_contract_that_changed_has_a_new_revision(engine: Engine) -> None:
    said = engine.say("--version").stdout.decode()
    assert f"contract 1.{job_models.CONTRACT_REVISION})" in said
    structure = json.dumps(_without_words(json.loads(SCHEMA_FILE.read_text())), sort_keys=True)
    fingerprint = hashlib.sha256(structure.encode()).hexdigest()[:16]
    assert {job_models.CONTRACT_REVISION: fingerprint} == FINGERPRINT, (
        "the contract changed: raise REVISION in contract/mod.rs and CONTRACT_REVISION in job.py"
    )


def _without_words(value: Any) -> Any:
    """Return a schema without what only people read."""
    if isinstance(value, dict):
        # A field may be called so too: its schema is not a text.
        is_text = isinstance(value.get("description"), str)
        left_out = {"description"} if is_text else set()
        return {name: _without_words(item) for name, item in value.items() if name not in left_out}
    return [_without_words(item) for item in value] if isinstance(value, list) else value
