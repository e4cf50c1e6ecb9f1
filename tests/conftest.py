"""Fixtures every test may use, and the marks that tell quick tests from slow ones."""

from __future__ import annotations

import pytest

pytest_plugins = (
    "tests.fixtures.hangups",
    "tests.fixtures.house",
    "tests.fixtures.clusters",
    "tests.fixtures.citus",
    "tests.fixtures.bank",
    "tests.fixtures.engine_process",
    "tests.fixtures.first_texts",
    "tests.fixtures.command",
    "tests.fixtures.line",
    "tests.fixtures.null_server",
    "tests.fixtures.own_files",
    "tests.fixtures.own_servers",
    "tests.fixtures.poolers",
    "tests.fixtures.prove",
    "tests.fixtures.set_clock",
    "tests.fixtures.slow_flush",
    "tests.fixtures.ssh",
    "tests.fixtures.tls_server",
    "tests.fixtures.tpcc",
)

# What `make check` leaves to `make test`: real servers, and the fake one, which takes time.
SERVER_FIXTURES = {"pg15", "pg18", "any_server", "new_cluster", "database", "database15"}
SERVER_FIXTURES |= {"new_own_server", "first_texts"}
SERVER_FIXTURES |= {"bank", "bank15", "null_server", "pooler", "ssh_server"}
SERVER_FIXTURES |= {"secure", "line", "far_line", "slow_flush", "set_clock", "warehouse"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark `pg` what asks for a server or lies in tests/postgres; `browser` likewise."""
    for item in items:
        needed = SERVER_FIXTURES & set(getattr(item, "fixturenames", ()))
        if needed or "postgres" in item.path.parts:
            item.add_marker(pytest.mark.pg)
        if "browser" in item.path.parts:
            item.add_marker(pytest.mark.browser)
