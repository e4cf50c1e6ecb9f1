"""docs/stability.md: the keys of the JSON documents that need a server, with their types."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.cli.stable import broken_keys, types_of, words_of
from tests.fixtures.captures import shop_capture
from tests.fixtures.clusters import Make, connection
from tests.fixtures.command import Command, server_options

from pgdyno.features.capture.file import encoded
from pgdyno.server.target import Target

pytestmark = pytest.mark.pg
KEPT = Path(__file__).with_name("stable_documents.json")


def documents(pgdyno: Command, make: Make, folder: Path) -> Iterator[dict[str, Any]]:
    """Yield one document of each verb that needs a server and has no stored result."""
    counts = {"shared_preload_libraries": "pg_stat_statements"}
    target = make("18", settings=counts).target
    made, other = (server_options(target.with_database(name)) for name in ("made", "other"))
    capture = folder / "shop.capture"
    capture.write_bytes(encoded(shop_capture()))
    statement = folder / "sort.sql"
    statement.write_text("SELECT * FROM pg_class ORDER BY relname;\n")
    for words in (
        ("init", "-s", "1", *made),
        ("init", "tpcc", "-W", "1", *other),
        ("check", "tpcc", *other),
        ("drop", *made),
        ("capture", *other, "--duration", "2s", "-o", folder / "own.capture"),
        ("capture", "show", capture),
        ("capture", "show", capture, "--coverage"),
        ("work-mem", "-f", statement, "--allow-explain-analyze", *other),
        ("crash", "--crashes", "1", "--no-controls", "-c", "2"),
        ("doctor", *other),
        ("init", "-s", "1", *made, "--dry-run"),
    ):
        yield document_of(pgdyno, *words)
    with waiting_for_a_lock(target.with_database("other")):
        yield document_of(pgdyno, "watch", "--duration", "3s", *other)


def document_of(pgdyno: Command, *words: str | Path) -> dict[str, Any]:
    """Return what a command prints with --json."""
    said = pgdyno(*words, "--json")
    assert said.document["format"] != "pgdyno.error/1", said.err
    return said.document


@contextmanager
def waiting_for_a_lock(target: Target) -> Iterator[None]:
    """Within the block, a session waits for the lock of another one."""
    with (
        ThreadPoolExecutor(1) as pool,
        connection(target) as holder,
        connection(target) as waiter,
        holder.transaction(),
    ):
        holder.execute("LOCK TABLE warehouse")
        pool.submit(waiter.execute, "SELECT count(*) FROM warehouse")
        yield


def test_keys_of_documents_of_servers_stay(
    pgdyno: Command, new_cluster: Make, tmp_path: Path
) -> None:
    now: dict[str, list[str]] = {}
    for document in documents(pgdyno, new_cluster, tmp_path):
        now.setdefault(document["format"], words_of(types_of(document)))
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    lost = {name: sorted(_lost(paths, now.get(name, []))) for name, paths in kept.items()}
    assert {name: paths for name, paths in lost.items() if paths} == {}
    new = {name: broken_keys(paths, kept.get(name, ())) for name, paths in now.items()}
    missing = {name: paths for name, paths in new.items() if paths}
    assert missing == {}, f"add them to {KEPT.name}: {json.dumps(missing)}"


def _lost(kept: list[str], now: list[str]) -> set[str]:
    """Return the paths that are gone; a list that has no element now shows none of its keys."""
    filled = {path.partition("[]")[0] for path in now if "[]" in path}
    gone = broken_keys(kept, now)
    return {path for path in gone if "[]" not in path or path.partition("[]")[0] in filled}
