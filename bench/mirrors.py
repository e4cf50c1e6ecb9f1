"""Scripts of pgbench, and the same transactions as templates of a mirror."""

from __future__ import annotations

from typing import Any

SELECT_ONLY = "SELECT abalance FROM pgbench_accounts WHERE aid = $1"
TPCB_LIKE = r"""
\set aid random(1, 100000 * :scale)
\set bid random(1, 1 * :scale)
\set tid random(1, 10 * :scale)
\set delta random(-5000, 5000)
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;
UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = :bid;
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime)
VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP);
END;
"""
_DELTA = {"kind": "integer", "bounds": ["-5000", "5000"], "distinct": 10_001}


def _key(table: str, column: str) -> dict[str, Any]:
    return {"from": "column", "table": table, "column": column}


def _equal(step: int, parameter: int) -> dict[str, Any]:
    return {"from": "equal", "step": step, "parameter": parameter}


def _load(texts: list[str], steps: list[list[dict[str, Any]]]) -> dict[str, Any]:
    """Return the load of one template, whose steps have these parameters."""
    return {
        "statements": [{"text": text} for text in texts],
        "templates": [
            {
                "name": "bench",
                "weight": 1,
                "reads_only": False,
                "steps": [
                    {"statement": number, "parameters": parameters}
                    for number, parameters in enumerate(steps)
                ],
            }
        ],
    }


def select_only() -> dict[str, Any]:
    """Return select-only as a mirror."""
    return _load([SELECT_ONLY], [[_key("pgbench_accounts", "aid")]])


def tpcb_like() -> dict[str, Any]:
    """Return the TPC-B-like transaction as a mirror."""
    delta = {"from": "drawn", "distribution": _DELTA}
    texts = [
        "BEGIN",
        "UPDATE pgbench_accounts SET abalance = abalance + $1 WHERE aid = $2",
        SELECT_ONLY,
        "UPDATE pgbench_tellers SET tbalance = tbalance + $1 WHERE tid = $2",
        "UPDATE pgbench_branches SET bbalance = bbalance + $1 WHERE bid = $2",
        "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime)"
        " VALUES ($1, $2, $3, $4, CURRENT_TIMESTAMP)",
        "END",
    ]
    return _load(
        texts,
        [
            [],
            [delta, _key("pgbench_accounts", "aid")],
            [_equal(1, 1)],
            [_equal(1, 0), _key("pgbench_tellers", "tid")],
            [_equal(1, 0), _key("pgbench_branches", "bid")],
            [_equal(3, 1), _equal(4, 1), _equal(1, 1), _equal(1, 0)],
            [],
        ],
    )
