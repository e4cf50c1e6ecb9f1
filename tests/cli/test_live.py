"""Messages while a run lasts."""

from __future__ import annotations

import threading

import pytest

from pgdyno.cli import live as live_lines
from pgdyno.cli.live import Live, fitting, line
from pgdyno.measure.run_progress import Moment

MEASURING = Moment(
    label="tpcb-like, 16 clients",
    phase="measuring",
    elapsed_ns=12 * 10**9,
    total_ns=60 * 10**9,
    tps=1892.4,
    p99_ms=24.83,
    failed_count=3,
    position="run 4 of 20",
)


@pytest.mark.parametrize(("wait_s", "is_named"), [(0.0, True), (60.0, False)])
def test_only_work_that_lasts_is_named(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    wait_s: float,
    is_named: bool,
) -> None:
    monkeypatch.setattr(live_lines.output, "_WAIT_S", wait_s)
    named = threading.Event()
    note = live_lines.output.note

    def noted(text: str) -> None:
        note(text)
        named.set()

    monkeypatch.setattr(live_lines.output, "note", noted)
    with Live().doing("vacuum before the run"):
        assert named.wait(10) if is_named else not named.is_set()
    assert capsys.readouterr().err == "vacuum before the run ...\n" * is_named


def test_a_moment_is_one_line_with_units() -> None:
    assert line(MEASURING) == (
        "run 4 of 20  tpcb-like, 16 clients  measuring  12 of 60 s  1,892 tps  p99 24.8 ms"
        "  3 failed"
    )


def test_connecting_says_how_many_how_fast_and_how_long_it_will_take() -> None:
    connecting = Moment(
        "update-only, 8000 clients",
        "connecting",
        eta_ns=41 * 10**9,
        made_count=3120,
        wanted_count=8000,
        made_per_second=119.6,
    )
    figures = "connecting 3,120 of 8,000 (120/s, 41 s left)"
    assert line(connecting) == f"update-only, 8000 clients  {figures}"
    assert fitting(connecting, 50) == figures
    begun = Moment("", "connecting", made_count=0, wanted_count=8000)
    assert line(begun) == "connecting 0 of 8,000"


def test_on_a_narrow_terminal_the_figures_stay_and_the_names_go() -> None:
    figures = "measuring  12 of 60 s  1,892 tps  p99 24.8 ms  3 failed"
    assert fitting(MEASURING, 79) == f"run 4 of 20  {figures}"
    assert fitting(MEASURING, 60) == figures
    assert fitting(MEASURING, 120) == line(MEASURING)


def test_a_load_says_its_rate_in_rows_and_in_what_the_table_grows_by() -> None:
    loading = Moment(
        "scale 50",
        "loading 40 %",
        rows_per_second=1_234_567.8,
        mb_per_second=165.8,
        eta_ns=3 * 10**9,
    )
    assert line(loading) == "scale 50  loading 40 %  1,230,000 rows/s  166 MB/s  3 s left"


def test_rates_of_a_moment_have_few_digits_and_small_ones_are_whole() -> None:
    for tps, words in ((340_623.4, "340,600 tps"), (1892.4, "1,892 tps"), (7.34, "7 tps")):
        assert line(Moment("", "measuring", tps=tps)) == f"measuring  {words}"


def test_without_a_terminal_a_short_run_is_one_line_at_its_end(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_lines, "monotonic_ns", lambda: 5)
    live = Live()
    for _ in range(3):
        live.moved(MEASURING)
    live.ended()
    live.ended()
    assert capsys.readouterr().err.count("run 4 of 20") == 1


def test_without_a_terminal_a_long_run_says_a_line_every_ten_seconds(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = iter(second * 10**9 for second in range(0, 31))
    monkeypatch.setattr(live_lines, "monotonic_ns", lambda: next(now))
    live = Live()
    for _ in range(31):
        live.moved(MEASURING)
    assert capsys.readouterr().err.count("run 4 of 20") == 3
    live.ended()
    assert capsys.readouterr().err == ""
