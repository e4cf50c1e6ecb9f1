"""Which commits count as lost, in doubt, a hole, or a suffix."""

from __future__ import annotations

from pgdyno.features.crash.losses import Losses, SentCommit, losses_of

CRASHED_NS = 1_000


def sent(client: int, sequence: int, at_ns: int, acknowledged_ns: int | None) -> SentCommit:
    return SentCommit(client, sequence, 100 * client + sequence, at_ns, acknowledged_ns)


# Two clients, whose commits follow each other; each last one got no answer.
JOURNAL = [
    sent(1, 1, 100, 110),
    sent(2, 1, 120, 130),
    sent(1, 2, 200, 210),
    sent(2, 2, 220, 230),
    sent(1, 3, 300, None),
    sent(2, 3, 310, None),
]


def after(*keys: tuple[int, int], status: dict[int, str | None] | None = None) -> Losses:
    present = {(client, sequence): 100 * client + sequence for client, sequence in keys}
    return losses_of(JOURNAL, present, status or {}, crashed_ns=CRASHED_NS)


def test_nothing_is_lost_if_every_acknowledged_commit_is_there() -> None:
    seen = after((1, 1), (2, 1), (1, 2), (2, 2))
    assert (seen.acknowledged, seen.lost, seen.lost_ns, seen.is_suffix) == (4, 0, 0, True)


def test_commits_in_doubt_may_be_there_or_not() -> None:
    status = {103: "committed", 203: "aborted"}
    seen = after((1, 1), (2, 1), (1, 2), (2, 2), (1, 3), status=status)
    assert (seen.lost, seen.in_doubt, seen.in_doubt_committed, seen.in_doubt_wrong) == (0, 2, 1, 0)


def test_a_commit_in_doubt_whose_row_contradicts_the_server_is_wrong() -> None:
    keys = ((1, 1), (2, 1), (1, 2), (2, 2))
    assert after(*keys, status={103: "committed", 203: None}).in_doubt_wrong == 1
    assert after(*keys, (2, 3), status={103: "aborted", 203: "aborted"}).in_doubt_wrong == 1


def test_a_rolled_back_commit_has_no_row() -> None:
    journal = [SentCommit(1, 1, 101, 100, None, is_aborted=True)]
    assert losses_of(journal, {}, {}, crashed_ns=CRASHED_NS).in_doubt == 0
    assert losses_of(journal, {(1, 1): 101}, {}, crashed_ns=CRASHED_NS).in_doubt_wrong == 1


def test_a_missing_end_is_a_suffix_and_begins_at_the_first_lost_acknowledgement() -> None:
    seen = after((1, 1), (2, 1))
    assert (seen.lost, seen.is_suffix, seen.lost_ns) == (2, True, CRASHED_NS - 210)


def test_a_loss_goes_on_while_processes_of_a_killed_server_still_answer() -> None:
    present = {(1, 1): 101, (2, 1): 201}
    seen = losses_of(JOURNAL, present, {}, crashed_ns=205)
    assert (seen.lost, seen.is_suffix, seen.lost_ns) == (2, True, 230 - 210)


def test_a_hole_is_not_a_suffix() -> None:
    assert not after((1, 1), (1, 2), (2, 2)).is_suffix


def test_a_survivor_in_doubt_after_a_lost_commit_is_not_a_suffix() -> None:
    assert not after((1, 1), (2, 1), (1, 2), (2, 3)).is_suffix


def test_commits_at_the_same_time_may_be_lost_in_any_order() -> None:
    journal = [sent(1, 1, 100, 150), sent(2, 1, 110, 160)]
    for survivor in journal:
        seen = losses_of(journal, {survivor.key: survivor.xid}, {}, crashed_ns=CRASHED_NS)
        assert seen.is_suffix


def test_a_row_of_another_transaction_does_not_replace_a_lost_one() -> None:
    journal = [sent(1, 1, 100, 110)]
    assert losses_of(journal, {(1, 1): 7}, {}, crashed_ns=CRASHED_NS).lost == 1


def test_rows_of_an_earlier_load_are_not_of_this_one() -> None:
    journal = [sent(1, 11, 100, 110)]
    seen = losses_of(journal, {(1, 10): 5, (1, 11): 111}, {}, crashed_ns=CRASHED_NS)
    assert (seen.lost, seen.unsent) == (0, 0)


def test_a_standby_may_give_the_number_of_a_lost_transaction_again() -> None:
    journal = [sent(1, 1, 900, None), SentCommit(1, 2, 101, 1_100, 1_110)]
    present = {(1, 2): 101}
    seen = losses_of(journal, present, {101: "committed"}, crashed_ns=CRASHED_NS)
    assert (seen.in_doubt, seen.in_doubt_wrong) == (1, 0)


def test_commits_after_a_failover_make_no_hole() -> None:
    journal = [sent(1, 1, 100, 110), sent(1, 2, 1_100, 1_110)]
    seen = losses_of(journal, {(1, 2): 102}, {}, crashed_ns=CRASHED_NS)
    assert (seen.lost, seen.is_suffix) == (1, True)


def test_a_row_that_no_client_sent_is_counted() -> None:
    assert after((1, 1), (2, 1), (1, 2), (2, 2), (3, 1)).unsent == 1
