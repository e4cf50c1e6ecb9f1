"""The planner against a server whose throughput at every level is known."""

from __future__ import annotations

from collections.abc import Callable

from pgdyno.plan.designs.sweep import Sweep
from pgdyno.plan.history import Measured
from pgdyno.spec.experiment import (
    Experiment,
    PgbenchDataset,
    Scratch,
    Script,
    Server,
    SweepDesign,
    Variant,
    Workload,
)
from pgdyno.spec.planned import PlannedRun, Stop


def sweep(levels: tuple[int, ...] | str = "auto", scripts: int = 1, rounds: int = 3) -> Experiment:
    builtins = ("tpcb-like", "select-only")[:scripts]
    return Experiment(
        name="curve",
        server=Server(scratch=Scratch()),
        dataset=PgbenchDataset(),
        workload=Workload(scripts=tuple(Script(builtin=name) for name in builtins), seed=7),
        design=SweepDesign(levels=levels, rounds=rounds),
    )


def carry_out(experiment: Experiment, tps_at: Callable[[int], float]) -> list[PlannedRun]:
    history: tuple[Measured, ...] = ()
    while isinstance(run := Sweep(experiment).next_run(history), PlannedRun):
        history = (*history, Measured(run, tps_at(run.cell.clients), settled_after_ns=3 * 10**9))
        assert len(history) < 200
    assert isinstance(run, Stop)
    return [measured.run for measured in history]


def saturating(peak_level: int) -> Callable[[int], float]:
    return lambda n: 1000.0 * min(n, peak_level) - 150.0 * max(0, n - peak_level)


def test_every_level_is_visited_once_a_round() -> None:
    runs = carry_out(sweep((1, 2, 4, 8)), saturating(4))
    for number in (1, 2, 3):
        assert sorted(r.cell.clients for r in runs if r.round == number) == [1, 2, 4, 8]


def test_a_budget_ends_the_rounds_and_leaves_time_for_the_knee() -> None:
    design = SweepDesign(levels=(1, 2), rounds=9, budget="100s")
    asked = sweep().model_copy(update={"design": design})
    history: tuple[Measured, ...] = ()
    while isinstance(run := Sweep(asked).next_run(history), PlannedRun):
        took_ns = run.measure_ns + 3 * 10**9
        history = (*history, Measured(run, 100.0, settled_after_ns=2 * 10**9, took_ns=took_ns))
    assert isinstance(run, Stop)
    assert run.reason == "every level was measured 3 times"
    assert [m.run.purpose for m in history][-1] == "detail"
    assert sum(m.took_ns for m in history) <= 100 * 10**9


def test_rounds_do_not_climb_in_the_same_order() -> None:
    runs = carry_out(sweep((1, 2, 4, 8, 16)), saturating(4))
    orders = {tuple(r.cell.clients for r in runs if r.round == n) for n in (1, 2, 3)}
    assert len(orders) > 1


def test_the_same_seed_gives_the_same_plan() -> None:
    assert carry_out(sweep(), saturating(8)) == carry_out(sweep(), saturating(8))


def test_auto_climbs_past_the_peak_and_refines_around_it() -> None:
    runs = carry_out(sweep(), saturating(8))
    first = [r.cell.clients for r in runs if r.round == 1]
    assert first[:5] == [1, 2, 4, 8, 16]
    assert {6, 12} <= set(first)
    assert max(first) < 64


def test_auto_stops_at_the_largest_level_where_throughput_never_falls() -> None:
    runs = carry_out(sweep(), lambda n: 100.0 * n)
    assert max(r.cell.clients for r in runs) == 64


def test_the_detailed_run_is_at_the_smallest_level_within_3_percent_of_the_peak() -> None:
    tps = {1: 500.0, 2: 900.0, 4: 980.0, 8: 1000.0, 16: 700.0}
    runs = carry_out(sweep((1, 2, 4, 8, 16)), tps.__getitem__)
    assert (runs[-1].purpose, runs[-1].cell.clients) == ("detail", 4)


def test_the_longest_warm_up_any_pilot_needed_is_given_to_all_runs() -> None:
    runs = carry_out(sweep((1, 2), scripts=2), saturating(2))
    assert [r.purpose for r in runs[:2]] == ["pilot", "pilot"]
    assert {r.warm_ns for r in runs[2:]} == {3 * 10**9}


def test_each_script_is_swept_over_its_own_levels() -> None:
    runs = carry_out(sweep((1, 2), scripts=2), saturating(2))
    cells = {(r.cell.script_indexes, r.cell.clients) for r in runs if r.purpose == "round"}
    assert cells == {((0,), 1), ((0,), 2), ((1,), 1), ((1,), 2)}


def variant_id(run: PlannedRun) -> str:
    assert run.cell.variant is not None
    return run.cell.variant.id


def with_variants(levels: tuple[int, ...] | str, **design: object) -> Experiment:
    return Experiment(
        name="curves",
        server=Server(scratch=Scratch()),
        dataset=PgbenchDataset(),
        workload=Workload(scripts=(Script(builtin="tpcb-like"),), seed=7),
        variant=(Variant(name="before"), Variant(name="after")),
        design=SweepDesign(levels=levels, **design),
    )


def test_all_variants_visit_a_level_in_neighbouring_runs() -> None:
    runs = [r for r in carry_out(with_variants((1, 2, 4)), saturating(4)) if r.purpose == "round"]
    assert len(runs) == 3 * 3 * 2
    for first, second in zip(runs[::2], runs[1::2], strict=True):
        assert first.cell.clients == second.cell.clients
        assert {variant_id(first), variant_id(second)} == {"0", "1"}
    assert {variant_id(run) for run in runs[::2]} == {"0", "1"}, "either may go first"


def test_the_first_variant_climbs_and_the_others_follow_it() -> None:
    runs = carry_out(with_variants("auto"), saturating(8))
    levels = [
        {r.cell.clients for r in runs if variant_id(r) == v and r.round == 2} for v in ("0", "1")
    ]
    assert levels[0] == levels[1]
    assert {1, 2, 4, 8, 16} <= levels[0]


def test_a_variant_that_cannot_start_leaves_the_others_their_curves() -> None:
    experiment = with_variants((1, 2))
    run = Sweep(experiment).next_run((), frozenset({"0"}))
    assert isinstance(run, PlannedRun)
    assert variant_id(run) == "1"
    assert isinstance(Sweep(experiment).next_run((), frozenset({"0", "1"})), Stop)


def test_a_latency_target_is_searched_after_the_curve_with_the_peaks_clients() -> None:
    experiment = with_variants((1, 4, 8), slo="p99=20ms")
    history: tuple[Measured, ...] = ()
    while isinstance(run := Sweep(experiment).next_run(history), PlannedRun):
        rate = run.cell.rate_tps
        tps = saturating(4)(run.cell.clients) if rate is None else rate
        held = {"p99": 5.0 if tps < 3000 else 50.0}
        history = (*history, Measured(run, tps, 2 * 10**9, latency_ms=held))
    tried = [measured.run for measured in history if measured.run.purpose == "capacity"]
    assert {variant_id(run) for run in tried} == {"0", "1"}
    assert {run.cell.clients for run in tried} == {4}
    assert history[-1].run.purpose == "detail"


LATE = "The engine's timers fired 9 ms late."


def search_of(disturbed: Callable[[int], bool], *, held_tps: float) -> tuple[Measured, ...]:
    """Return the whole sweep with a latency target. Args: which of the trials are disturbed."""
    experiment = with_variants((1, 4), slo="p99=20ms")
    history: tuple[Measured, ...] = ()
    while isinstance(run := Sweep(experiment).next_run(history), PlannedRun):
        tried = sum(measured.run.purpose == "capacity" for measured in history)
        late = LATE if run.purpose == "capacity" and disturbed(tried) else ""
        tps = run.cell.rate_tps or saturating(4)(run.cell.clients)
        latency = {"p99": 5.0 if tps < held_tps else 50.0}
        history = (*history, Measured(run, tps, 1, latency_ms=latency, disturbed_by=late))
    return history


def test_a_search_that_the_machine_disturbs_ends_after_its_first_trials_and_says_why() -> None:
    history = search_of(lambda _: True, held_tps=1)
    assert sum(measured.run.purpose == "capacity" for measured in history) == 3
    assert history[-1].run.purpose == "detail"
    plan = Sweep(with_variants((1, 4), slo="p99=20ms"))
    assert plan.outlook(history) == (
        "the search for the load under p99 ends: this machine was disturbed in 3 of 3 trials,"
        f" and each of these missed the target. {LATE}"
    )
    assert plan.runs_expected(history) == len(history)


def test_disturbed_trials_that_meet_the_target_or_are_few_do_not_end_the_search() -> None:
    plan = Sweep(with_variants((1, 4), slo="p99=20ms"))
    for history in (
        search_of(lambda _: True, held_tps=3000),
        search_of(lambda number: number % 2 == 1, held_tps=1),
    ):
        assert sum(measured.run.purpose == "capacity" for measured in history) > 6
        assert plan.outlook(history) == ""
