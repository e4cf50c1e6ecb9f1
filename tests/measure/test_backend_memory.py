"""Whether the connections fit into memory is measured before the load."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fixtures.command import Command
from tests.measure.test_run_progress import Heard

from pgdyno.errors import RefusedError
from pgdyno.measure.backend_memory import BackendMemory, measured, refuse_too_little_memory
from pgdyno.server.target import Target

MIB = 2**20


def asked(target: Target, connections: int, *, is_confirmed: bool = False) -> Heard:
    heard = Heard()
    refuse_too_little_memory(
        target,
        connections=connections,
        is_local=True,
        verb="test",
        is_confirmed=is_confirmed,
        progress=heard,
    )
    return heard


def test_the_memory_of_backends_is_their_number_times_one() -> None:
    memory = BackendMemory(backend_bytes=2 * MIB, available_bytes=100 * MIB)
    assert memory.needed_bytes(40) == 80 * MIB
    assert memory.fitting_count() == 50


def test_a_backend_is_measured_on_the_server_itself(database15: Target) -> None:
    memory = measured(database15, verb="test")
    assert memory is not None
    assert MIB // 2 < memory.backend_bytes < 50 * MIB
    assert memory.available_bytes > 100 * MIB


def test_connections_that_cannot_fit_are_refused_unless_confirmed(database15: Target) -> None:
    with pytest.raises(RefusedError, match=r"100,000,000 connections need about") as caught:
        asked(database15, 100_000_000)
    assert "measured with 5 sessions" in caught.value.message
    assert "--confirm-memory" in caught.value.hint
    [words] = asked(database15, 100_000_000, is_confirmed=True).words
    assert words.startswith("100,000,000 connections need about")
    assert asked(database15, 600).words == []


def test_unknown_memory_refuses_nothing(database15: Target, tmp_path: Path) -> None:
    assert measured(database15, verb="test", proc=tmp_path) is None


@pytest.mark.pg
def test_a_load_that_cannot_fit_is_refused_before_anything_is_loaded(pgdyno: Command) -> None:
    said = pgdyno("bench", "--scratch", "-s", "1", "-c", "100000", "-T", "1s", timeout_s=120)
    assert said.code == 1
    assert "100,000 connections need about" in said.err
    assert "loading" not in said.err
