"""The contract, second test: what Rust can say goes Rust -> Python -> Rust and is equal."""

from __future__ import annotations

import json
from functools import cache
from typing import Any, get_args

import pytest
from tests.fixtures.engine_process import Engine

from pgdyno.engine.job import U32_MAX, U64_MAX, Job, json_line
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
    said = Engine().say("emit-corpus")
    assert said.returncode == 0, said.stderr
    return tuple(json.loads(line) for line in said.stdout.splitlines())


def _records() -> list[Document]:
    return [document for document in _corpus() if "record" in document]


def _echoed(engine: Engine, documents: list[Document]) -> list[Document]:
    said = engine.say("echo-records", given=b"".join(json_line(d) for d in documents))
    assert said.returncode == 0, said.stderr
    return [json.loads(line) for line in said.stdout.splitlines()]


def _through_python(record: Document) -> Document:
    return parse_record(json.dumps(record)).model_dump(mode="json", exclude_none=True)


def _without_none(value: Any) -> Any:
    """Drop what is null: absent and null mean the same in a record."""
    if isinstance(value, dict):
        return {key: _without_none(inner) for key, inner in value.items() if inner is not None}
    return [_without_none(inner) for inner in value] if isinstance(value, list) else value


def test_every_record_survives_python_and_comes_back_equal(engine: Engine) -> None:
    records = [_without_none(record) for record in _records()]
    from_python = [_through_python(record) for record in records]
    assert from_python == records
    assert [_without_none(record) for record in _echoed(engine, from_python)] == records


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
def test_a_field_of_a_newer_engine_is_ignored(record: str, engine: Engine) -> None:
    document = next(d for d in _records() if d["record"] == record)
    newer = {**document, "added_in_version_2": {"deep": [1]}}
    assert parse_record(json.dumps(newer)) == parse_record(json.dumps(document))
    assert _echoed(engine, [newer]) == _echoed(engine, [document])


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
