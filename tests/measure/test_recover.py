"""A server of the user's own that a variant keeps from starting is brought back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.fixtures.clusters import run_sql, scalar
from tests.fixtures.command import Command
from tests.fixtures.own_servers import MakeOwn, command_of

ENTRIES = "SELECT count(*) FROM pg_file_settings WHERE sourcefile LIKE '%postgresql.auto.conf'"
pytestmark = pytest.mark.pg


def test_a_variant_that_keeps_the_server_down_is_left_out_and_the_others_go_on(
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
    (tmp_path / "one.sql").write_text("SELECT 1;\n")
    said = pgdyno(
        "compare",
        *("-h", own.target.host, "-p", own.target.ports, "-U", own.target.user, "-d", "postgres"),
        *("-f", tmp_path / "one.sql", "-c", "1", "-T", "1s", "--warmup", "0s", "--budget", "1s"),
        *("--admin", own.conninfo, "--restart-command", restart, "--recover-command", recover),
        *("--variant", "as it is", "--variant", "never: shared_buffers=8000GB"),
        *("--variant", "fine: shared_buffers=24MB", "--json"),
    )
    by_name = {variant["name"]: variant for variant in said.document["variants"]}
    assert "brought back by the recover command" in by_name["never"]["cannot_start"], said.err
    assert (by_name["as it is"]["runs"], by_name["fine"]["runs"]) == (1, 1)
    assert json.loads((tmp_path / "given.json").read_text()) == {"shared_buffers": None}
    assert scalar(own.target, ENTRIES) == 0
    assert run_sql(own.target, "SHOW shared_buffers") == [("32MB",)]
