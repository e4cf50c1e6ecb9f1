"""Signals at ten moments of a capture and of a rebuilt copy: no file that remains is cut short."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
from tests.fixtures.captures import shop_capture
from tests.fixtures.clusters import run_sql, scalar
from tests.fixtures.command import Command, eventually, server_options
from tests.fixtures.observed import make_shop

from pgdyno.features.capture import file
from pgdyno.server.target import Target

# Seconds after the first connection: while the schema is read, and while it counts or loads.
MOMENTS_S = (0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.8, 1.2, 2.0)
SESSIONS = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'pgdyno/%'"
pytestmark = [pytest.mark.slow, pytest.mark.pg]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_capture_that_ends_at_any_moment_leaves_whole_files_and_no_session(
    pgdyno: Command, observed: Target, tmp_path: Path, number: signal.Signals
) -> None:
    make_shop(observed)
    for turn, moment_s in enumerate(MOMENTS_S):
        folder = tmp_path / str(turn)
        folder.mkdir()
        path = folder / "shop.capture"
        where = server_options(observed)
        running = pgdyno.start("capture", *where, "-o", path, "--duration", "1h")
        eventually(lambda: scalar(observed, SESSIONS) > 0)
        time.sleep(moment_s)
        had_counted = path.with_name("shop.capture.partial").exists()
        running.process.send_signal(number)
        said = running.wait(60)
        kept = sorted(entry.name for entry in folder.iterdir())
        for name in kept:
            assert len(file.read(folder / name).tables) == 3, (moment_s, name)
        if number == signal.SIGINT:
            assert said.code in (-signal.SIGINT, 130), (moment_s, said.err)
            assert kept in ([], ["shop.capture"]), moment_s
            assert "Traceback" not in said.err, moment_s
        else:
            assert kept in ([], ["shop.capture.partial"]), moment_s
        assert kept or not had_counted, moment_s
        eventually(lambda: scalar(observed, SESSIONS) == 0)


@pytest.mark.parametrize("number", [signal.SIGKILL])
def test_a_copy_that_ends_at_any_moment_is_finished_or_removed_by_the_next_command(
    pgdyno: Command, database15: Target, tmp_path: Path, number: signal.Signals
) -> None:
    capture = shop_capture()
    # Enough rows for all moments.
    tables = [shape.model_copy(update={"rows": 20 * shape.rows}) for shape in capture.tables]
    path = tmp_path / "shop.capture"
    path.write_bytes(file.encoded(capture.model_copy(update={"tables": tuple(tables)})))
    where = server_options(database15)
    for moment_s in MOMENTS_S:
        # The session that looks for connections is another application's.
        confirmed = ("--confirm", f"{database15.database}@local")
        running = pgdyno.start("init", path, *where, *confirmed)
        eventually(lambda: scalar(database15, SESSIONS) > 0)
        time.sleep(moment_s)
        running.process.send_signal(number)
        said = running.wait(60)
        assert said.code in (0, -number, 130), (moment_s, said.err)
        assert "Traceback" not in said.err, moment_s
        eventually(lambda: scalar(database15, SESSIONS) == 0)
        again = pgdyno("init", path, *where, "--json")
        assert again.code == 0, (moment_s, again.err)
        assert scalar(database15, "SELECT count(*) FROM shop.orders") == 200_000
        gone = pgdyno("drop", *where)
        assert gone.code == 0, (moment_s, gone.err)
        left = "SELECT count(*) FROM pg_class WHERE relnamespace = to_regnamespace('shop')"
        assert scalar(database15, left) == 0
    assert run_sql(database15, "SELECT to_regtype('shop.level')") == [(None,)]
