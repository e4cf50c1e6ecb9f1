"""Registers the fixtures that every test may use, and marks tests by what they need."""

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

# Tests with these fixtures run in `make test` and not in `make check`: they start a server.
SERVER_FIXTURES = {"pg15", "pg18", "any_server", "new_cluster", "database", "database15"}
SERVER_FIXTURES |= {"new_own_server", "first_texts"}
SERVER_FIXTURES |= {"bank", "bank15", "null_server", "pooler", "ssh_server"}
SERVER_FIXTURES |= {"secure", "line", "far_line", "slow_flush", "set_clock", "warehouse"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests that need a server, or are in tests/postgres, with `pg`; others with `browser`."""
    for item in items:
        needed = SERVER_FIXTURES & set(getattr(item, "fixturenames", ()))
        if needed or "postgres" in item.path.parts:
            item.add_marker(pytest.mark.pg)
        if "browser" in item.path.parts:
            item.add_marker(pytest.mark.browser)
