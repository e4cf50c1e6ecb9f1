"""The contract, second test: samples of all that the engine can say survive Python unchanged.

`corpus.jsonl` has them, one a line. `contract_schema.rs` of the engine's executable holds that Rust
reads each line and writes it equal to the letter.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any, get_args

import pytest
from tests.tidy.source import ROOT

from pgdyno.engine.job import U32_MAX, U64_MAX, Job
from pgdyno.engine.records import (
    ErrorKind,
    Measured,
    PhaseName,
    Record,
    Summary,
    parse_record,
)
from pgdyno.errors import EngineError

Document = dict[str, Any]


@cache
def _corpus() -> tuple[Document, ...]:
    lines = (ROOT / "tests/contract/corpus.jsonl").read_text().splitlines()
    return tuple(json.loads(line) for line in lines)


def _records() -> list[Document]:
    return [document for document in _corpus() if "record" in document]


def _through_python(record: Document) -> Document:
    return parse_record(json.dumps(record)).model_dump(mode="json", exclude_none=True)


def _without_none(value: Any) -> Any:
    """Drop what is null: absent and null mean the same in a record."""
    if isinstance(value, dict):
        return {key: _without_none(inner) for key, inner in value.items() if inner is not None}
    return [_without_none(inner) for inner in value] if isinstance(value, list) else value


def test_every_record_survives_python() -> None:
    records = [_without_none(record) for record in _records()]
    assert [_through_python(record) for record in records] == records


def test_the_corpus_has_every_field_of_the_contract() -> None:
    schema = json.loads((ROOT / "crates/pgdyno-engine/contract.schema.json").read_text())
    contract = [schema["properties"][part] for part in ("job", "record")]
    in_corpus = {name for document in _corpus() for name in _names(document)}
    assert set(_fields(contract, schema["$defs"], set())) <= in_corpus


def _fields(part: Any, definitions: Document, followed: set[str]) -> Iterator[str]:
    """Yield the names of all fields that a part of a schema allows."""
    if isinstance(part, list):
        for inner in part:
            yield from _fields(inner, definitions, followed)
    if not isinstance(part, dict):
        return
    yield from part.get("properties", {})
    for inner in part.get("properties", {}).values():
        yield from _fields(inner, definitions, followed)
    for key in ("oneOf", "anyOf", "allOf", "items", "prefixItems", "additionalProperties"):
        yield from _fields(part.get(key), definitions, followed)
    name = part.get("$ref", "").removeprefix("#/$defs/")
    if name and name not in followed:
        followed.add(name)
        yield from _fields(definitions[name], definitions, followed)


def _names(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value
    for inner in value.values() if isinstance(value, dict) else value:
        if isinstance(inner, dict | list):
            yield from _names(inner)


def test_the_corpus_has_every_kind_and_every_word() -> None:
    text = {word for record in _records() for word in _strings(record)}
    kinds = {get_args(model.model_fields["record"].annotation)[0] for model in _models()}
    assert kinds <= {record["record"] for record in _records()}
    for words in (PhaseName, Measured, ErrorKind, Summary.model_fields["ending"].annotation):
        assert set(get_args(words)) <= text


def _models() -> tuple[Any, ...]:
    return get_args(get_args(Record)[0])


def test_the_corpus_has_the_boundary_integers() -> None:
    numbers = {number for record in _records() for number in _integers(record)}
    # 2^53 + 1 is the first integer that a JSON reader with doubles would spoil.
    assert {0, 1, 2**53 + 1, 2**63, U32_MAX, U64_MAX} <= numbers


def test_the_corpus_has_every_option_both_absent_and_given() -> None:
    summaries = [record for record in _records() if record["record"] == "summary"]
    assert {record.get("init") is None for record in summaries} == {True, False}
    histograms = [record for record in _records() if record["record"] == "histogram"]
    assert {record.get("script") is None for record in histograms} == {True, False}


def test_every_job_of_the_corpus_is_read_by_python_and_written_equal() -> None:
    jobs = [_without_none(document) for document in _corpus() if "work" in document]
    assert {job["work"]["kind"] for job in jobs} == {"load", "init"}
    assert {job["work"].get("arrivals", {}).get("loop") for job in jobs} >= {"closed", "open"}
    for job in jobs:
        read = Job.model_validate_json(json.dumps(job))
        written = json.loads(read.to_line())
        assert {**_flat(written), **_flat(job)} == _flat(written)


def _flat(value: Any, path: str = "") -> dict[str, Any]:
    if isinstance(value, dict):
        return {
            k: v for key, inner in value.items() for k, v in _flat(inner, f"{path}/{key}").items()
        }
    if isinstance(value, list):
        pairs = enumerate(value)
        return {k: v for place, inner in pairs for k, v in _flat(inner, f"{path}/{place}").items()}
    return {path: value}


@pytest.mark.parametrize("record", ["hello", "interval", "summary"])
def test_a_field_of_a_newer_engine_is_ignored(record: str) -> None:
    document = next(d for d in _records() if d["record"] == record)
    newer = {**document, "added_in_version_2": {"deep": [1]}}
    assert parse_record(json.dumps(newer)) == parse_record(json.dumps(document))


def test_the_error_of_a_wrong_line_quotes_it() -> None:
    with pytest.raises(EngineError, match="hello, world") as caught:
        parse_record('{"record": "hello", "note": "hello, world"}')
    assert "make build" in caught.value.hint


def _strings(value: Any) -> set[str]:
    if isinstance(value, dict):
        return {word for inner in value.values() for word in _strings(inner)}
    if isinstance(value, list):
        return {word for inner in value for word in _strings(inner)}
    return {value} if isinstance(value, str) else set()


def _integers(value: Any) -> set[int]:
    if isinstance(value, dict):
        return {number for inner in value.values() for number in _integers(inner)}
    if isinstance(value, list):
        return {number for inner in value for number in _integers(inner)}
    return {value} if isinstance(value, int) and not isinstance(value, bool) else set()
