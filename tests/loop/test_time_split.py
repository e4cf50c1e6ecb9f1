"""What brings the server's counters to one transaction of a script."""

from __future__ import annotations

import pytest

from pgdyno.loop.time_split import server_transactions_each


def test_what_the_server_reports_after_a_short_window_is_not_lost() -> None:
    # Of 2 s the second half is reported when the sessions end: 330 of 665 were seen.
    each = server_transactions_each(seen=330, ended=665, reported=668, committed=667)
    assert each == 1


def test_autocommitted_statements_are_a_whole_number_of_transactions() -> None:
    assert server_transactions_each(seen=2_950, ended=1_000, reported=None, committed=1_000) == 3


def test_a_mix_of_scripts_may_have_a_broken_number_of_transactions() -> None:
    each = server_transactions_each(seen=1_500, ended=1_000, reported=3_000, committed=2_000)
    assert each == pytest.approx(1.5)
