"""The pgbench tables, made with plain SQL: loaders must make equal tables."""

from __future__ import annotations

from pgdyno.server.connect import Connection
from pgdyno.server.dataset.inspection import mark_text
from pgdyno.server.dataset.pgbench_tables import PGBENCH

_TABLES = """
CREATE TABLE pgbench_history(tid int, bid int, aid int, delta int, mtime timestamp,
  filler char(22));
CREATE TABLE pgbench_tellers(tid int not null, bid int, tbalance int, filler char(84))
  WITH (fillfactor={fillfactor});
CREATE TABLE pgbench_accounts(aid int not null, bid int, abalance int, filler char(84))
  WITH (fillfactor={fillfactor});
CREATE TABLE pgbench_branches(bid int not null, bbalance int, filler char(88))
  WITH (fillfactor={fillfactor});
INSERT INTO pgbench_branches SELECT bid, 0, NULL FROM generate_series(1, {scale}) bid;
INSERT INTO pgbench_tellers SELECT tid, (tid - 1) / 10 + 1, 0, NULL
  FROM generate_series(1, {scale} * 10) tid;
INSERT INTO pgbench_accounts SELECT aid, (aid - 1) / 100000 + 1, 0, ''
  FROM generate_series(1, {scale} * {accounts}) aid;
ALTER TABLE pgbench_branches ADD PRIMARY KEY (bid);
ALTER TABLE pgbench_tellers ADD PRIMARY KEY (tid);
ALTER TABLE pgbench_accounts ADD PRIMARY KEY (aid);
"""


def load(
    connection: Connection,
    *,
    scale: int = 1,
    fillfactor: int = 100,
    accounts: int = 100_000,
    is_marked: bool = True,
) -> None:
    """Replace the tables; with fewer than 100,000 `accounts` per scale they are incomplete."""
    connection.execute("DROP TABLE IF EXISTS " + ", ".join(PGBENCH.tables))
    text = _TABLES.format(scale=scale, fillfactor=fillfactor, accounts=accounts)
    for statement in text.split(";"):
        if statement.strip():
            connection.execute(statement)
    if is_marked:
        for table in PGBENCH.tables:
            mark = mark_text("pgbench", {"scale": scale, "fillfactor": fillfactor})
            connection.execute(f"COMMENT ON TABLE {table} IS '{mark}'")
