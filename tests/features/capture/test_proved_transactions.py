"""No transaction is kept that the load does not have: simulated loads whose truth is known."""

from __future__ import annotations

import pytest
from tests.features.capture.simulated_load import (
    Conditions,
    Mix,
    block,
    groups_of,
    joined_share,
    run,
    single,
    wrong,
)

_NEW_ORDER = block(
    *("get_customer", "get_warehouse", "upd_district", "add_order", "add_new_order"),
    get_item=(5, 15),
    get_stock=(5, 15),
    upd_stock=(5, 15),
    add_line=(5, 15),
)
_PAYMENT = block(
    *("upd_warehouse", "get_street", "upd_sum", "get_district", "get_debtor", "upd_debtor"),
    add_history=(1, 1),
)
_DELIVERY = block(
    remove_new_order=(10, 10), get_order=(10, 10), upd_order=(10, 10), upd_lines=(10, 10)
)
_TPCC = (
    (45, (_NEW_ORDER,)),
    (43, (_PAYMENT,)),
    (4, (block("get_last_customer", "get_last_order", "get_last_lines"),)),
    (4, (_DELIVERY,)),
    (4, (block("get_next", "get_low"),)),
)
_TPCB = block("upd_accounts", "get_balance", "upd_tellers", "upd_branches", "add_history")

# Mixes, and how much of their calls is in transactions with several statements.
MIXES = {
    "tpcc-like": (Mix(_TPCC), 1.0),
    "tpcc-like, from decks": (Mix(_TPCC, is_deck=True), 1.0),
    "three scripts": (
        Mix(
            (
                (3, (_TPCB,)),
                (3, (block("upd_accounts", "get_balance", "add_history"),)),
                (3, (single("get_balance"),)),
            )
        ),
        0.89,
    ),
    "two kinds that share a statement": (
        Mix(
            (
                (1, (block("get_user", "upd_a", "add_a"),)),
                (1, (block("get_user", "upd_b", "add_b"),)),
            )
        ),
        1.0,
    ),
    "statements that run 0 to n times": (
        Mix(
            (
                (2, (block("get_user", "upd_user", add_audit=(0, 1)),)),
                (1, (block("get_page", "upd_page", add_line=(0, 6)),)),
            )
        ),
        0.9,
    ),
    "only single statements": (
        Mix(tuple((1, (single(name),)) for name in ("get_a", "get_b", "upd_c", "add_d"))),
        0.0,
    ),
    "single statements and blocks": (
        Mix(
            (
                (5, (single("get_a"),)),
                (5, (single("get_b"),)),
                (3, (block("get_a", "upd_b"),)),
                (2, (block("upd_c", "add_d"),)),
            )
        ),
        0.5,
    ),
    "single statements that always follow each other": (
        Mix(((1, (single("get_a"), single("get_b"))), (1, (single("upd_c"),)))),
        0.0,
    ),
    "transactions that always follow each other": (
        Mix(
            (
                (1, (block("get_a", "upd_a"), block("get_b", "upd_b"))),
                (1, (block("upd_c", "add_d"),)),
            )
        ),
        1.0,
    ),
    # Their numbers fit other transactions as well: nothing is proved.
    "each two of three": (
        Mix(
            (
                (2, (block("get_u", "upd_u", "add_x"),)),
                (1, (block("get_u", "upd_u"),)),
                (4, (block("get_u", "add_x"),)),
            )
        ),
        None,
    ),
    "one that is in two halves of others": (
        Mix(
            (
                (1, (block("get_r", "upd_w"),)),
                (1, (block("get_r", "upd_z"),)),
                (6, (single("upd_w"),)),
                (6, (single("upd_z"),)),
            )
        ),
        None,
    ),
}
CONDITIONS = {
    "a minute": Conditions(),
    "12 s": Conditions(seconds=12),
    "a busy machine": Conditions(seconds=20, statement_s=0.02, look_s=0.4, stall_ratio=0.4),
    "every 10 s, with lost snapshots": Conditions(
        snapshot_s=10, lost_ratio=0.3, statement_s=0.008, stall_ratio=0.2
    ),
    "sessions without ids": Conditions(seconds=20, sees_ids=False),
}


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("conditions", ["12 s", "a busy machine", "sessions without ids"])
def test_no_transaction_is_kept_that_the_load_does_not_have(mix: str, conditions: str) -> None:
    _no_wrong(mix, conditions, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("conditions", CONDITIONS)
@pytest.mark.parametrize("mix", MIXES)
def test_no_transaction_of_many_loads_is_wrong(mix: str, conditions: str, seed: int) -> None:
    _no_wrong(mix, conditions, seed=seed)


@pytest.mark.parametrize("mix", [name for name, (_, share) in MIXES.items() if share is not None])
def test_a_capture_of_a_minute_proves_nearly_all_transactions(mix: str) -> None:
    joined = _no_wrong(mix, "a minute", seed=1)
    assert joined == pytest.approx(MIXES[mix][1], abs=0.11)


def _no_wrong(mix: str, conditions: str, *, seed: int) -> float:
    """Return the share of the calls that are in transactions with others; none is wrong."""
    load = run(MIXES[mix][0], CONDITIONS[conditions], seed)
    groups, statements = groups_of(load, seed)
    assert not wrong(load, groups), f"{mix}, {conditions}, seed {seed}"
    # Every call is in a group, whether proved or not.
    in_groups = sum(group.calls * sum(group.turns.values()) for group in groups)
    assert in_groups == pytest.approx(sum(item.calls for item in statements), rel=0.03)
    return joined_share(groups, {item.id: item.calls for item in statements})
