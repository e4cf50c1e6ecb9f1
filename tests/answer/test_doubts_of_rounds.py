"""A doubt of an experiment says which of its runs it is about."""

from __future__ import annotations

from dataclasses import replace

from tests.outputs.rendered import BUILT

from pgdyno.analysis.verdicts import Doubt
from pgdyno.answer.judging import doubts_of_rounds, of_others
from pgdyno.report.tiles import doubts_of
from pgdyno.spec.planned import Cell

SHORT = Doubt("too_short", "not_valid", "The measured time was 2 s.", "-T 30")
SET_UP = Doubt("same_host", "doubt", "One host.", "use another")


def used(share: str) -> Doubt:
    return Doubt("other_programs", "doubt", f"Other programs used {share} of the CPU.", "stop them")


def cells(*clients: int, rate_tps: float | None = None) -> list[Cell]:
    return [Cell((0,), count, rate_tps) for count in clients]


def messages(
    by_run: list[tuple[Cell, tuple[Doubt, ...]]], word: str = "client", run_count: int = 0
) -> list[str]:
    shown = doubts_of_rounds(
        by_run, run_count=run_count or len(by_run), of_variants=False, client_word=word
    )
    return [doubt.message for doubt in shown]


def test_a_doubt_of_some_runs_names_their_loads() -> None:
    of_runs = [(SHORT,), (SHORT,), (), ()]
    by_run = list(zip(cells(8, 16, 8, 16), of_runs, strict=True))
    assert messages(by_run) == ["2 of 4 runs (8 clients, 16 clients): The measured time was 2 s."]
    assert messages(by_run[1:], "terminal") == [
        "1 of 3 runs (16 terminals): The measured time was 2 s."
    ]


def test_the_count_is_that_of_all_runs_of_the_answer() -> None:
    by_run = list(zip(cells(8, 16), [(SHORT,), ()], strict=True))
    # A sweep measures its knee once more.
    assert messages(by_run, run_count=3)[0].startswith("1 of 3 runs (8 clients): ")


def test_at_most_three_loads_are_named() -> None:
    by_run = list(zip(cells(1, 2, 3, 4, 5, 6), [(SHORT,)] * 5 + [()], strict=True))
    assert messages(by_run)[0].startswith("5 of 6 runs (1 client, 2 clients, 3 clients and 2 more)")


def test_a_rate_is_the_load_of_an_open_loop() -> None:
    by_run = list(zip(cells(8, 8, rate_tps=1500.0), [(SHORT,), ()], strict=True))
    assert messages(by_run)[0].startswith("1 of 2 runs (1,500 tps): ")


def test_a_doubt_of_all_runs_and_the_doubt_of_an_only_run_name_none() -> None:
    by_run = list(zip(cells(8, 16), [(SHORT,)] * 2, strict=True))
    assert messages(by_run) == ["All 2 runs: The measured time was 2 s."]
    assert messages(by_run[:1]) == ["The measured time was 2 s."]


def test_a_doubt_about_the_set_up_is_shown_once_without_runs() -> None:
    by_run = list(zip(cells(8, 16), [(SET_UP,), ()], strict=True))
    shown = doubts_of_rounds(by_run, run_count=2, of_variants=True, client_word="client")
    assert [doubt.message for doubt in shown] == ["One host."]


def test_what_others_did_is_said_with_the_worst_run() -> None:
    of_runs = [(used("9.1 %"),), (used("82 %"),), (used("64 %"),), ()]
    by_run = list(zip(cells(8, 16, 8, 16), of_runs, strict=True))
    assert messages(by_run) == [
        "3 of 4 runs (8 clients, 16 clients): Other programs used up to 82 % of the CPU."
    ]


def test_what_others_did_in_the_run_that_is_shown_whole_is_named_once() -> None:
    findings = BUILT["sweep"]()
    assert findings.run is not None
    of_run = replace(findings.run, doubts=(used("77 %"), SHORT, SET_UP))
    findings = replace(findings, run=of_run, doubts=(used("up to 95 %"),))
    assert of_others(of_run.doubts) == (used("77 %"),)
    assert doubts_of(findings) == (SHORT, used("up to 95 %"), SET_UP)
