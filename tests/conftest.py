"""Registers the fixtures that every test may use, and marks tests by what they need."""

from __future__ import annotations

import gc
import itertools
import re
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler.loadfile import LoadFileScheduling

pytest_plugins = (
    "tests.fixtures.own_files",  # Others import it.
    "tests.fixtures.programs",
    "tests.fixtures.browser",
    "tests.fixtures.hangups",
    "tests.fixtures.house",
    "tests.fixtures.clusters",
    "tests.fixtures.citus",
    "tests.fixtures.bank",
    "tests.fixtures.engine_process",
    "tests.fixtures.command",
    "tests.fixtures.cpu_times",
    "tests.fixtures.line",
    "tests.fixtures.null_server",
    "tests.fixtures.observed",
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
SERVER_FIXTURES |= {"new_own_server", "observed"}
SERVER_FIXTURES |= {"bank", "bank15", "null_server", "pooler", "ssh_server"}
SERVER_FIXTURES |= {"secure", "line", "far_line", "slow_flush", "set_clock", "warehouse"}
SERVER_FIXTURES |= {"either_server", "fresh_warehouse15"}

# What every test of a folder needs.
FOLDER_MARKS = {"postgres": "pg", "browser": "browser"}

# One process runs the files of a line: it fills a warehouse, or starts Citus, only once for them.
TOGETHER = (
    ("test_tpcc", "test_tpcc_run"),
    ("test_tpcc_designs", "test_tpcc_lab", "test_tpcc_faults", "test_tpcc_known"),
    ("test_citus_runs", "test_citus", "test_citus_nodes", "test_citus_traps", "test_distribution"),
)
# These come first, then files that take a minute or more while others run, longest first
# (`pytest --cpu FILE`).
LONG_FILES = tuple(itertools.chain(*TOGETHER))
LONG_FILES += ("test_known_loads", "test_report_page", "test_small_forms", "test_crash_verb")
LONG_FILES += ("test_commands",)
LONG_FILES += ("test_watch", "test_compare", "test_every_option", "test_completion")
LONG_FILES += ("test_packages", "test_features")
LONG_FILES += ("test_mirror_lab", "test_planning", "test_signals_of_verbs")
LONG_FILES += ("test_applications", "test_sweep_lines", "test_bad_luck", "test_servers")
LONG_FILES += ("test_watched_run", "test_where_the_time_goes")
LONG_FILES += ("test_bad_input", "test_capture", "test_design", "test_on_own_server", "test_spill")
LONG_FILES += ("test_far_hosts", "test_formats")


# As in the product: with the default threshold, the garbage collector takes a tenth of the time.
gc.set_threshold(50_000, 20, 20)


class _FilesTogether(LoadFileScheduling):
    """Gives each process whole files, and those that share a server to the same process."""

    def _split_scope(self, nodeid: str) -> str:
        path: str = super()._split_scope(nodeid)
        return next((files[0] for files in TOGETHER if Path(path).stem in files), path)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling:
    """Return what gives the tests to the processes."""
    return _FilesTogether(config, log)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out a file of which every test needs a server where none of these is wanted."""
    if "not pg" not in config.option.markexpr or not collection_path.name.startswith("test_"):
        return None
    is_left_out = collection_path.parent.name in FOLDER_MARKS
    return is_left_out or bool(_ALL_NEED_A_SERVER.search(collection_path.read_text())) or None


_ALL_NEED_A_SERVER = re.compile(r"^pytestmark = .*pytest\.mark\.pg\b", re.MULTILINE)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by what they need.

    `pg`: a server, or in tests/postgres. `browser`: Chromium.
    """
    for item in items:
        needed = SERVER_FIXTURES & set(getattr(item, "fixturenames", ()))
        folder_marks = {FOLDER_MARKS[part] for part in item.path.parts if part in FOLDER_MARKS}
        for mark in folder_marks | ({"pg"} if needed else set()):
            item.add_marker(mark)
    # Processes take one file after another. The last files are short, or the others would wait.
    with_servers = {item.path for item in items if item.get_closest_marker("pg")}
    items.sort(key=lambda item: _place(item.path, with_servers))


def pytest_collection_finish() -> None:
    """Leave what was collected, which stays until the end, out of garbage collections."""
    gc.freeze()


def pytest_unconfigure() -> None:
    """Let go of it again: duckdb would list what nobody has freed."""
    gc.unfreeze()


def _place(path: Path, with_servers: set[Path]) -> int:
    """Return the place of a file: first the long ones, then others with servers, then the rest."""
    if path.stem in LONG_FILES:
        return LONG_FILES.index(path.stem)
    return len(LONG_FILES) + int(path not in with_servers)
