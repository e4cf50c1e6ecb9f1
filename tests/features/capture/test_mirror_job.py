"""The load of a capture as a part of the job: constants of the program are text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.captures import tpcb_capture

from pgdyno.features.capture.file import encoded
from pgdyno.features.capture.mirror.job import mirror_load
from pgdyno.features.capture.mirror.source import source_document
from pgdyno.features.capture.model import Constant, Equal, Number, Source, Step
from pgdyno.features.capture.observed import Counters
from pgdyno.spec.experiment import Script


def load_of(path: Path, *parameters: tuple[Source, ...], **changes: Any) -> Any:
    """Return the load of one transaction whose steps are the same statement."""
    capture = tpcb_capture()
    text = "SELECT abalance FROM pgbench_accounts WHERE aid = $1 AND abalance > $2"
    statement = capture.statements[0].model_copy(
        update={
            "text": text,
            "kind": "select",
            "parameter_types": ("integer", "integer"),
            "constant_count": 1,
        }
    )
    steps = tuple(Step(statement=statement.id, parameters=given) for given in parameters)
    steps = (*steps[:-1], steps[-1].model_copy(update=changes))
    template = capture.templates[0].model_copy(update={"steps": steps})
    changed = capture.model_copy(update={"statements": (statement,), "templates": (template,)})
    path.write_bytes(encoded(changed))
    return mirror_load(Script(builtin="mirror", capture=path))


def test_a_constant_is_sent_as_text(tmp_path: Path) -> None:
    key, seven = Constant(value="3"), Constant(value="7")
    load = load_of(tmp_path / "a.capture", (key, seven), (key, seven))
    [statement] = load["statements"]
    assert statement["text"].endswith("aid = $1 AND abalance > 7")
    assert statement["parameter_types"] == ["integer"]
    [template] = load["templates"]
    assert [len(step["parameters"]) for step in template["steps"]] == [1, 1]
    # Its counters on both sides are found by the text that is sent.
    source = source_document(Script(builtin="mirror", capture=tmp_path / "a.capture"))
    sent = [row["text"] for row in source["statements"] if not row["reason"]]
    assert sent == [statement["text"]]


@pytest.mark.parametrize(
    ("key", "changes"),
    [
        (Equal(step=0, parameter=1), {}),
        (Constant(value="3"), {"turns": Number(step=0, parameter=1)}),
    ],
)
def test_a_constant_from_which_another_value_follows_stays_a_parameter(
    key: Source, changes: dict[str, Any], tmp_path: Path
) -> None:
    seven = Constant(value="7")
    load = load_of(tmp_path / "a.capture", (Constant(value="3"), seven), (key, seven), **changes)
    [statement] = load["statements"]
    assert statement["text"].endswith("aid = $1 AND abalance > $2")
    [template] = load["templates"]
    assert [len(step["parameters"]) for step in template["steps"]] == [2, 2]


def test_a_step_does_not_wait_for_a_constant_that_is_always_null(tmp_path: Path) -> None:
    given = (Constant(value="3"), Constant(value=None))
    # Another step has another constant, so both are sent as parameters.
    load = load_of(tmp_path / "a.capture", (Constant(value="3"),) * 2, given, not_null=(0, 1))
    assert load["templates"][0]["steps"][1]["not_null"] == [0]


def test_a_logged_statement_that_did_nothing_is_counted_if_the_server_counted_it(
    tmp_path: Path,
) -> None:
    capture, path = tpcb_capture(), tmp_path / "a.capture"
    idle = Counters(calls=5, time_ms=1)
    statements = tuple(
        own.model_copy(update={"counters": idle, "is_counted": own.kind == "update"})
        for own in capture.statements
    )
    header = capture.header.model_copy(update={"sources": ("log",)})
    changed = {"statements": statements, "header": header}
    path.write_bytes(encoded(capture.model_copy(update=changed)))
    rows = source_document(Script(builtin="mirror", capture=path))["statements"]
    counted = {row["text"].split()[0]: row["counters"]["is_counted"] for row in rows}
    assert counted["UPDATE"] == 1
    assert counted["SELECT"] == 0
