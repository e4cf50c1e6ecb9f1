"""The text of an answer: its words, how it is aligned, how wide it may be."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from tests.report import examples

from pgdyno.designs import words_of
from pgdyno.report.text_page import WIDTH

BENCH = """\
target      10.3.0.5:5432/pgbench  PostgreSQL 15.14, scale 500 by pgdyno: 7.3 GB = 1.8x
            shared_buffers = 0.26x RAM, nvme0n1 ext4
answer      1,892 tps (1,861 to 1,923) with 16 clients; p99 latency 24.8 ms; 62 % of it waits for
            the WAL to reach the disk.
tps         1,892 (1,861 to 1,923), 340,623 transactions, 0 failed
latency ms    mean    p50    p90    p95    p99   p99.9   max
  value       8.46   7.90   11.8   14.2   24.8      61   212
  95 % from   8.36   7.81   11.4   13.5   23.2      55
  to          8.56   7.99   12.2   14.9   26.4      70
where the 8.46 ms go
  [####=======================================++++++::ooooooooooo~%]
  = 5.21  (5.04 to 5.38)   62 %  commit: WAL flush to disk             IO:WALSync
  o 1.50                   18 %  network
  + 0.81  (0.75 to 0.87)  9.6 %  commit: WAL flush by another session  LWLock:WALWrite
  # 0.48  (0.46 to 0.50)  5.7 %  server CPU
  : 0.31  (0.26 to 0.36)  3.7 %  row lock: another transaction         Lock:transactionid
  ~ 0.11                  1.3 %  client
  % 0.04                  0.5 %  not explained
valid       yes; 1 doubt
  doubt     The run covers one checkpoint: it hardly includes the cost of checkpoints.
            -> measure for 600 s (twice checkpoint_timeout) to include it
saved       #41   pgdyno report 41"""


@pytest.mark.parametrize("width", [WIDTH, 80, 72])
@pytest.mark.parametrize("name", examples.EXAMPLES)
def test_every_text_is_ascii_and_fits_the_width(name: str, width: int) -> None:
    text = words_of(examples.EXAMPLES[name](), width)
    assert text.isascii()
    assert [line for line in text.splitlines() if len(line) > width] == []
    assert all(line == line.rstrip() for line in text.splitlines())


def test_the_text_of_a_bench_fits_one_screen() -> None:
    assert words_of(examples.bench()) == BENCH


def test_the_bar_has_one_length_and_every_part_is_in_it() -> None:
    lines = words_of(examples.bench()).splitlines()
    bar = next(line for line in lines if line.startswith("  ["))
    signs = [line[2] for line in lines if line[:2] == "  " and line[3:4] == " " and "%" in line]
    assert len(bar) == 2 + 64 + 2
    assert set(signs) == set(bar.strip(" []"))


def test_a_sweep_says_peak_knee_and_what_limits_it() -> None:
    text = words_of(examples.quartet())
    peak = r"^select-only  peak     60,\d00 tps \(\S+ to \S+\) at 32 clients, p99 1\.\d+ ms"
    assert re.search(peak, text, re.M)
    assert "smallest load within 3 % of the peak (N_BASE)" in " ".join(text.split())
    assert re.search(r"^ {13}beyond   -62\.\d % \(\S+ to \S+\) at 256 clients$", text, re.M)
    assert "limit    server CPU 97 %" in text
    assert "109 runs, 102 min, 2 not valid" in text


def test_a_peak_at_the_largest_load_is_called_open() -> None:
    assert "the highest load tried; the true peak" in " ".join(words_of(examples.sweep()).split())


def test_an_invalid_run_shows_reason_and_next_step() -> None:
    text = words_of(examples.invalid())
    assert "valid       NO; 2 doubts" in text
    assert "  NOT VALID A thread of the load engine was 97% busy" in text
    assert "-> use more --threads" in text
    assert "15 failed (40001: 12, 40P01: 3), 15 retried" in " ".join(text.split())


def test_the_text_names_weakened_durability_and_an_early_end() -> None:
    text = words_of(examples.invalid())
    assert "durability  WEAKENED: fsync OFF" in text
    assert "#46, ended early" in text


def test_an_unfinished_percentile_is_a_lower_bound() -> None:
    assert ">= 2,210" in words_of(examples.invalid())


def test_a_single_run_says_that_it_has_no_interval() -> None:
    text = words_of(examples.tiny())
    assert "tps         8,214 (no interval: n = 1)" in text
    assert text.count("no interval: n = 1") == 2


def test_an_experiment_without_a_finished_run_still_has_a_text() -> None:
    text = words_of(replace(examples.bench(), run=None, is_complete=False))
    assert text.startswith("target")
    assert text.endswith("pgdyno report 41")


def test_several_scripts_of_one_run_are_listed() -> None:
    base = examples.bench()
    assert base.run is not None
    scripts = (examples.script("orders.sql"), examples.script("stock.sql"))
    text = words_of(replace(base, run=replace(base.run, scripts=scripts)))
    assert "  orders.sql  weight 1, 1,892 tps (1,861 to 1,923), p99 24.8 ms" in text
