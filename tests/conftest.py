"""Fixtures every test may use, and the marks that tell quick tests from slow ones."""

from __future__ import annotations

import pytest

pytest_plugins = (
    "tests.fixtures.house",
    "tests.fixtures.clusters",
    "tests.fixtures.bank",
    "tests.fixtures.engine_process",
    "tests.fixtures.command",
    "tests.fixtures.null_server",
)

SERVER_FIXTURES = {"pg15", "pg18", "any_server", "new_cluster", "database", "database15"}
SERVER_FIXTURES |= {"bank", "bank15"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that asks for a server is marked `pg`, one under tests/browser `browser`."""
    for item in items:
        if SERVER_FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.pg)
        if "browser" in item.path.parts:
            item.add_marker(pytest.mark.browser)
