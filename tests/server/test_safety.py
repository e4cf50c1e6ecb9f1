from __future__ import annotations

from dataclasses import replace

import pytest

from pgdyno.errors import RefusedError
from pgdyno.server.safety import (
    ConnectionRoom,
    Intent,
    OtherSessions,
    describe,
    refuse_too_many_connections,
    refuse_unsafe_init,
    refuse_unsafe_load,
)

READING = Intent(is_scratch=False, database="core", host="db1")
WRITING = replace(READING, scripts_writing=("tpcb-like",))
OTHERS = (OtherSessions("psql", 1), OtherSessions("", 2), OtherSessions("erp", 30))


@pytest.mark.parametrize(
    "intent",
    [
        replace(WRITING, is_scratch=True, others=OTHERS),
        READING,
        replace(READING, confirmed=("core@db1",)),
        replace(WRITING, allow_write=True),
        replace(WRITING, is_marked=True),
        replace(WRITING, allow_write=True, others=OTHERS, confirmed=("core@db1",)),
        replace(READING, others=OTHERS, landlords=("ann",), confirmed=("core@db1",)),
        replace(READING, others=OTHERS, confirmed=("core@uat", "core@db1")),
    ],
)
def test_a_harmless_or_permitted_load_runs(intent: Intent) -> None:
    refuse_unsafe_load(intent)


@pytest.mark.parametrize(
    ("intent", "option"),
    [
        (WRITING, "--allow-write"),
        (replace(WRITING, confirmed=("core@db1",)), "--allow-write"),
        (replace(READING, others=OTHERS), "--confirm core@db1"),
        (replace(WRITING, is_marked=True, others=OTHERS), "--confirm core@db1"),
        (replace(WRITING, allow_write=True, others=OTHERS), "--confirm core@db1"),
        (replace(WRITING, is_marked=True, landlords=("ann",)), "--confirm core@db1"),
    ],
)
def test_a_load_that_may_hurt_is_refused_with_the_option_that_allows_it(
    intent: Intent, option: str
) -> None:
    with pytest.raises(RefusedError) as caught:
        refuse_unsafe_load(intent)
    assert option in caught.value.hint
    assert caught.value.exit_code == 1


def test_a_confirmation_of_another_server_is_refused_even_where_none_was_needed() -> None:
    with pytest.raises(RefusedError, match="core@uat does not name this target, which is core@db1"):
        refuse_unsafe_load(replace(READING, confirmed=("core@uat",)))


def test_tables_of_somebody_else_are_never_replaced_even_on_a_scratch_server() -> None:
    for intent in (READING, replace(READING, is_scratch=True, allow_write=True)):
        with pytest.raises(RefusedError, match="pgbench_accounts, which pgdyno did not make"):
            refuse_unsafe_init(intent, tables=("pgbench_accounts",))
    refuse_unsafe_init(replace(READING, is_marked=True), tables=("pgbench_accounts",))
    refuse_unsafe_init(READING, tables=())


def test_loading_while_other_sessions_work_needs_a_confirmation() -> None:
    with pytest.raises(RefusedError) as caught:
        refuse_unsafe_init(replace(READING, others=OTHERS), tables=())
    assert "--confirm core@db1" in caught.value.hint


def test_the_largest_applications_are_named_first() -> None:
    many = (*OTHERS, OtherSessions("cron", 1))
    assert (
        describe(many) == "30 of erp, 2 of unnamed, 1 of cron, 1 of other applications (sessions)"
    )


@pytest.mark.parametrize(
    ("room", "free"),
    [
        (ConnectionRoom(max_connections=100, reserved_count=3, used_count=10), 87),
        (
            ConnectionRoom(max_connections=100, reserved_count=3, used_count=10, is_superuser=True),
            90,
        ),
        (ConnectionRoom(max_connections=100, reserved_count=13, used_count=95), 0),
    ],
)
def test_reserved_slots_are_for_superusers_only(room: ConnectionRoom, free: int) -> None:
    assert room.free == free


def test_too_many_clients_are_refused_with_the_number_needed() -> None:
    room = ConnectionRoom(max_connections=100, reserved_count=3, used_count=10)
    refuse_too_many_connections(room, load=80, control=7, in_words="80 clients")
    with pytest.raises(RefusedError) as caught:
        refuse_too_many_connections(room, load=200, control=5, in_words="200 clients")
    assert "need 205 connections, but only 87 are free" in caught.value.message
    assert "at most 82, or set max_connections to at least 218" in caught.value.hint
