"""A bad value is hidden in the settings of a server: found, attributed and proved."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.fixtures import needs
from tests.fixtures.command import Command
from tests.fixtures.prove import Proved

pytestmark = [pytest.mark.slow, pytest.mark.pg, needs.POSTGRESQL_15]
pytestmark += [pytest.mark.usefixtures("short_runs")]


@dataclass(frozen=True)
class Hidden:
    """One bad value, and a load that it slows down."""

    setting: str
    value: str
    load: tuple[str, ...]
    script: str


HIDDEN = (
    # Each read of a hundred pages goes to the operating system, because 1 MB holds 128 pages.
    Hidden(
        "shared_buffers",
        "1MB",
        ("-c", "4", "--warmup", "0s", "-T", "2s", "--budget", "8min"),
        "\\set start random(1, 90000)\n"
        "SELECT sum(a.abalance) FROM generate_series(1, 100) g"
        " JOIN pgbench_accounts a ON a.aid = g * 97 + :start;\n",
    ),
    # Each sort of the table writes temporary files.
    Hidden(
        "work_mem",
        "64kB",
        ("-c", "1", "--warmup", "0s", "-T", "1s", "--budget", "6min"),
        "SELECT count(*) FROM (SELECT aid FROM pgbench_accounts ORDER BY filler) s;\n",
    ),
    # With 40 the planner reads the whole table rather than 200 rows by the index.
    Hidden(
        "random_page_cost",
        "40",
        ("-c", "2", "--warmup", "0s", "-T", "1s", "--budget", "6min"),
        "\\set start random(1, 50000)\n"
        "SELECT sum(a.abalance) FROM generate_series(1, 200) g"
        " JOIN pgbench_accounts a ON a.aid = g * 37 + :start;\n",
    ),
    # With 32 MB a checkpoint follows another, and after each all pages go into the WAL again. The
    # WAL is the goal, because its bytes hardly depend on what else the machine does.
    Hidden(
        "max_wal_size",
        "32MB",
        ("-c", "2", "--warmup", "1s", "-T", "2s", "--budget", "11min", "--goal", "wal_per_tx"),
        "\\set a random(1, 100000 - 20)\n"
        "UPDATE pgbench_accounts SET filler = md5(random()::text) || md5(random()::text)"
        " WHERE aid BETWEEN :a AND :a + 19;\n",
    ),
)


@pytest.mark.timeout(1500)
@pytest.mark.parametrize("hidden", HIDDEN, ids=lambda hidden: str(hidden.setting))
def test_a_hidden_bad_value_is_found_by_evidence_and_proved(
    hidden: Hidden, pgdyno: Command, tmp_path: Path, proved: Proved
) -> None:
    script = tmp_path / "load.sql"
    script.write_text(hidden.script)
    said = pgdyno(
        *("tune", "--scratch", "--pg-version", "15", "-s", "1", "-f", str(script)),
        *(*hidden.load, "--set", f"{hidden.setting}={hidden.value}", "--json"),
        timeout_s=1400,
    )
    assert f"search  {hidden.setting}: " in said.err, "chosen by evidence"
    document = said.document
    assert document["verdict"] == "better", document["sentence"]
    [setting] = [row for row in document["settings"] if row["name"] == hidden.setting]
    assert setting["old"] == hidden.value
    # The effect of the right setting is the largest of those that were measured alone.
    alone = {
        row["name"]: abs(math.log(row["ratio"]["value"]))
        for row in document["settings"]
        if row["ratio"] is not None
    }
    assert max(alone, key=alone.__getitem__, default=hidden.setting) == hidden.setting
    assert document["seconds"] <= 20 * 60
    proved(
        f"tuning: hidden {hidden.setting} = {hidden.value}",
        required="found, attributed, proved",
        seen=f"{setting['new']}; {document['metric']} x {document['proved']['value']:.2f}"
        f" ({document['proved']['low']:.2f} to {document['proved']['high']:.2f})",
    )
