"""What reaches the server in each query protocol, read in the server's own log."""

from __future__ import annotations

import re

import pytest
from tests.fixtures.bank import make_bank
from tests.fixtures.clusters import Make
from tests.fixtures.engine_process import Engine, load_job

STATEMENT = "UPDATE pgbench_accounts SET abalance = abalance"
LOGGED = {
    "simple": rf"statement: {STATEMENT} \+ -?\d+ WHERE aid = \d+;",
    "extended": rf"execute <unnamed>: {STATEMENT} \+ \$\d WHERE aid = \$\d;",
    "prepared": rf"execute \w+: {STATEMENT} \+ \$\d WHERE aid = \$\d;",
}


@pytest.mark.parametrize("version", ["15", "18"])
def test_each_protocol_sends_what_pgbench_would(
    version: str, new_cluster: Make, engine: Engine
) -> None:
    cluster = new_cluster(version, settings={"log_statement": "all"})
    bank = make_bank(cluster, "logged")
    for protocol, pattern in LOGGED.items():
        before = cluster.log_path.stat().st_size
        end = engine(load_job(bank, "tpcb-like", protocol=protocol, clients=1, transactions=5))
        assert end.exit_code == 0, end
        with cluster.log_path.open() as log:
            log.seek(before)
            text = log.read()
        assert len(re.findall(pattern, text)) == 5, text[-3000:]
        others = [other for name, other in LOGGED.items() if name != protocol]
        if protocol != "extended":  # <unnamed> is not a word
            assert not any(re.search(other, text) for other in others)
        assert len(re.findall(r"(statement|execute [^:]+): END;", text)) == 5


def test_the_sessions_carry_the_application_name(new_cluster: Make, engine: Engine) -> None:
    cluster = new_cluster(settings={"log_statement": "all", "log_line_prefix": "<%a> "})
    engine(load_job(cluster.target, "SELECT 1;", clients=1, transactions=3))
    lines = cluster.log_path.read_text().splitlines()
    assert sum(line.startswith("<pgdyno/test> LOG:") and "SELECT 1" in line for line in lines) >= 3


def test_a_read_only_job_cannot_write(new_cluster: Make, engine: Engine) -> None:
    bank = make_bank(new_cluster(), "careful")
    end = engine(load_job(bank, "tpcb-like", clients=1, transactions=2, read_only=True))
    assert end.exit_code != 0 or set(end.summary.failures) == {"25006"}
    assert end.summary.transactions_committed_all_phases == 0
