"""The published size of "many connections": 8,000 backends, with nothing but defaults.

They need 16 GB of memory and every core, so `make prove` runs nothing else at the same time.
"""

from __future__ import annotations

import pytest
from tests.examples.small_form import FOLDER
from tests.fixtures.command import Command
from tests.fixtures.prove import Proved

pytestmark = [pytest.mark.pg, pytest.mark.slow]
RAN = (0, 3)  # The cores are shared with the load generator, and pgdyno says so.


def test_8000_connections_work_with_nothing_but_defaults(pgdyno: Command, proved: Proved) -> None:
    spec = FOLDER / "many_connections_8000.toml"  # As it is: small, it would ask something else.
    said = pgdyno("run", spec, "--json", "-q", timeout_s=1500)
    assert said.code in RAN, said.err
    [curve] = said.document["curves"]
    few, many = curve["levels"]
    assert [few["clients"], many["clients"]] == [10, 8000]
    assert few["tps"]["value"] > 0
    assert many["tps"]["value"] > 0
    proved(
        "8,000 busy connections of a real server",
        required="tps above 0",
        seen=f"{many['tps']['value']:.0f} tps; 10 connections: {few['tps']['value']:.0f} tps",
    )


def test_8000_idle_connections_leave_ten_to_work(pgdyno: Command) -> None:
    said = pgdyno(
        *("bench", "--scratch", "-s", "1", "-c", "10", "--idle", "8000", "-T", "5s"),
        *("--warmup", "0s", "--json", "-q"),
        timeout_s=900,
    )
    assert said.code in RAN, said.err
    assert said.document["tps"]["value"] > 0
