"""Redo in a server's log."""

from __future__ import annotations

from pgdyno.features.crash.checks import log_check
from pgdyno.features.crash.scratch_crash import Redo, redo_in

LOG = """\
2026-11-24 14:40:01.000 UTC [10] LOG:  starting PostgreSQL 15.18 on x86_64-pc-linux-gnu
2026-11-24 14:40:01.020 UTC [13] LOG:  database system was interrupted; last known up at 14:39
2026-11-24 14:40:01.250 UTC [13] LOG:  redo starts at 0/2000028
2026-11-24 14:40:01.750 UTC [13] LOG:  redo done at 0/3000028 system usage: CPU: user: 0.01 s
2026-11-24 14:40:02.000 UTC [10] LOG:  database system is ready to accept connections
"""


def test_redo_has_its_times_and_its_wal() -> None:
    assert redo_in(LOG) == Redo(250_000_000, 750_000_000, 0x1000000)


def test_wal_positions_count_over_four_gigabytes() -> None:
    log = LOG.replace("0/2000028", "0/FFFFFFF0").replace("0/3000028", "1/10")
    assert redo_in(log).wal_bytes == 0x20


def test_a_start_without_redo_has_none() -> None:
    assert redo_in("\n".join(LOG.splitlines()[:2])) == Redo()
    assert redo_in("") == Redo()


def test_a_panic_in_the_log_is_found() -> None:
    line = "2026-11-24 14:40:01.750 UTC [13] PANIC:  could not fsync file: Input/output error\n"
    seen = log_check(LOG + line)
    assert (seen.verdict, seen.seen) == ("bad", "PANIC:  could not fsync file: Input/output error")
    assert log_check(LOG).verdict == "good"


def test_a_zeroed_page_of_a_free_space_map_is_not_damage() -> None:
    at = "2026-11-24 14:40:01.750 UTC [13]"
    lines = (
        f"{at} LOG:  page verification failed, calculated checksum 1 but expected 2\n"
        f"{at} WARNING:  invalid page in block 2 of relation base/5/16384_fsm; zeroing out page\n"
    )
    assert log_check(LOG + lines).verdict == "good"
