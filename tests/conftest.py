"""Registers the fixtures that every test may use, and marks tests by what they need."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest
from tests.fixtures import needs

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
    "tests.fixtures.short_runs",
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
    """Mark tests by what they need.

    `pg`: a server, or in tests/postgres. `browser`: Chromium. `optional`: their files name a
    program that may be missing; `.ci/run` repeats these tests without the programs.
    """
    for item in items:
        needed = SERVER_FIXTURES & set(getattr(item, "fixturenames", ()))
        if needed or "postgres" in item.path.parts:
            item.add_marker(pytest.mark.pg)
        if "browser" in item.path.parts:
            item.add_marker(pytest.mark.browser)
        if any(needs.names_a_program(path) for path in {item.path, *_fixture_files(item)}):
            item.add_marker(pytest.mark.optional)


def _fixture_files(item: pytest.Item) -> set[Path]:
    """Return the files of the fixtures that a test names, directly or through other fixtures."""
    info = getattr(item, "_fixtureinfo", None)
    if info is None:
        return set()
    every_test_has = set(item.session._fixturemanager._getautousenames(item))
    return {
        Path(definition.func.__code__.co_filename)
        for name, definitions in info.name2fixturedefs.items()
        if name not in every_test_has
        for definition in definitions
        if hasattr(definition.func, "__code__")
    }


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    call: pytest.CallInfo[None],
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Skip a test that failed because an optional program is not installed."""
    report = yield
    needs.skipped_without_its_package(report, call.excinfo.value if call.excinfo else None)
    return report
