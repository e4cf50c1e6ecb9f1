"""A server of the user's own that a variant keeps from starting is brought back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.fixtures.clusters import run_sql, scalar
from tests.fixtures.command import Command
from tests.fixtures.own_servers import MakeOwn, OwnServer, command_of

ENTRIES = "SELECT count(*) FROM pg_file_settings WHERE sourcefile LIKE '%postgresql.auto.conf'"
pytestmark = pytest.mark.pg


def test_a_variant_whose_server_stays_down_is_left_out(
    new_own_server: MakeOwn, pgdyno: Command, tmp_path: Path
) -> None:
    own = new_own_server()
    restart = own.restart_command(tmp_path / "restart.sh")
    recover = command_of(
        tmp_path / "recover.sh",
        f"cat > {tmp_path}/given.json",
        f": > {own.data_dir}/postgresql.auto.conf",
        "cd /",
        f"{own.pg_ctl} start >&2",
    )
    (tmp_path / "one.sql").write_text("SELECT pg_sleep(0.005);\n")
    said = pgdyno(
        "compare",
        *("-h", own.target.host, "-p", own.target.ports, "-U", own.target.user, "-d", "postgres"),
        *("-f", tmp_path / "one.sql", "-c", "1", "-T", "1s", "--warmup", "0s", "--rounds", "3"),
        *("--admin", own.conninfo, "--restart-command", restart, "--recover-command", recover),
        *("--variant", "as it is", "--variant", "never: max_wal_senders=900; wal_level=minimal"),
        *("--variant", "fine: shared_buffers=24MB", "--json"),
    )
    by_name = {variant["name"]: variant for variant in said.document["variants"]}
    assert "With the recover command it was started again" in by_name["never"]["cannot_start"], (
        said.err
    )
    assert (by_name["as it is"]["runs"], by_name["fine"]["runs"]) == (3, 3)
    assert json.loads((tmp_path / "given.json").read_text()) == {
        "max_wal_senders": None,
        "shared_buffers": None,
        "wal_level": None,
    }
    assert scalar(own.target, ENTRIES) == 0
    assert run_sql(own.target, "SHOW shared_buffers") == [("32MB",)]


def compared(
    pgdyno: Command, own: OwnServer, tmp_path: Path, restart: str, *variants: str
) -> tuple[str | Path, ...]:
    """Return a comparison whose second variant keeps the server from starting."""
    (tmp_path / "one.sql").write_text("SELECT pg_sleep(0.005);\n")
    permissions = ("--admin", own.conninfo, "--restart-command", restart)
    asked = pgdyno.in_order(
        "compare",
        *("-h", own.target.host, "-p", own.target.ports, "-U", own.target.user, "-d", "postgres"),
        *("-f", tmp_path / "one.sql", "-c", "1", "-T", "1s", "--warmup", "0s", "--rounds", "3"),
        *("--variant", "as it is", "--variant", "never: max_wal_senders=5; wal_level=minimal"),
        *(*variants, *permissions),
    )
    return (*asked, *permissions)


def test_without_a_recover_command_the_file_on_this_host_is_put_back(
    new_own_server: MakeOwn, pgdyno: Command, tmp_path: Path
) -> None:
    own = new_own_server()
    restart = own.restart_command(tmp_path / "restart.sh")
    said = pgdyno(*compared(pgdyno, own, tmp_path, restart))
    assert "With the previous settings it was started again" in " ".join(
        (said.out + said.err).split()
    )
    assert scalar(own.target, ENTRIES) == 0
    assert scalar(own.target, "SHOW wal_level") == "replica"
    assert "nothing to undo" in pgdyno("undo").out


def test_a_server_that_stays_down_is_named_with_file_line_and_commands(
    new_own_server: MakeOwn, pgdyno: Command, tmp_path: Path
) -> None:
    own = new_own_server()
    run_sql(own.target, "ALTER SYSTEM SET max_wal_senders = 7")
    # It stops the server, and does not start it any more after the first time.
    restart = command_of(
        tmp_path / "restart.sh",
        "cd /",
        f"if test -e {tmp_path}/no; then {own.pg_ctl} stop -m fast >&2 || true; exit 5; fi",
        f"grep -q wal_level {own.data_dir}/postgresql.auto.conf && touch {tmp_path}/no",
        f"{own.pg_ctl} restart -m fast >&2",
    )
    said = pgdyno(*compared(pgdyno, own, tmp_path, restart))
    error = " ".join(said.err.split())
    assert said.code == 3, said.err  # One run of a second is not valid either.
    assert "is DOWN since it was restarted with max_wal_senders=5, wal_level=minimal" in error
    assert f"in {own.data_dir}/postgresql.auto.conf: remove the line of wal_level" in error
    assert "write max_wal_senders = '7'" in error
    again = pgdyno("undo", "--restart-command", own.restart_command(tmp_path / "works.sh"))
    assert again.code == 0, again.err
    assert scalar(own.target, "SHOW max_wal_senders") == "7"
    assert scalar(own.target, "SHOW wal_level") == "replica"


def test_a_restart_that_nothing_could_take_back_is_refused(
    new_own_server: MakeOwn, pgdyno: Command, tmp_path: Path
) -> None:
    own = new_own_server()
    file, away = own.data_dir / "postgresql.auto.conf", own.data_dir / "elsewhere"
    file.rename(away)  # As on a host that is not this one.
    said = pgdyno(*compared(pgdyno, own, tmp_path, "true"))
    away.rename(file)
    assert said.code == 1
    assert "--recover-command" in said.error


def test_more_shared_buffers_than_memory_are_refused_before_the_restart(
    new_own_server: MakeOwn, pgdyno: Command, tmp_path: Path
) -> None:
    own = new_own_server()
    restart = own.restart_command(tmp_path / "restart.sh", f"touch {tmp_path}/restarted")
    said = pgdyno(
        *compared(pgdyno, own, tmp_path, restart, "--variant", "all: shared_buffers=8000GB")
    )
    assert said.code == 1
    assert "exceeds the memory" in said.error
    assert not (tmp_path / "restarted").exists()
