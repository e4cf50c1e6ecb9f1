"""The search step by step: what it asks for, and what it makes of failures and of evidence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from pgdyno.errors import RefusedError, SpecError
from pgdyno.features.tune.blocks import conf_of
from pgdyno.features.tune.budget import time_spent
from pgdyno.features.tune.evidence import Evidence, choose
from pgdyno.features.tune.findings import TuneFindings
from pgdyno.features.tune.question import Question
from pgdyno.features.tune.space import Dimension, dimensions, values_to_try
from pgdyno.features.tune.statements import alter_system
from pgdyno.features.tune.trial import Candidate, TrialResult, TrialStep
from pgdyno.features.tune.tuning import Tuning
from pgdyno.features.tune.verdict import findings_of
from pgdyno.settings.formula import Machine
from pgdyno.settings.table import Risk

MACHINE = Machine(15, 100, ram_bytes=8 << 30, cores=4, disk="nvme")
NOW = {"max_wal_size": "32MB", "work_mem": "4MB", "jit": "on"}
SETTINGS = ("max_wal_size=32MB..8GB", "work_mem=1MB..64MB", "jit")
S_NS = 10**9


def space() -> tuple[Dimension, ...]:
    return dimensions(SETTINGS, MACHINE, NOW)


def tuning(
    *,
    settings: tuple[str, ...] = SETTINGS,
    now: dict[str, str] = NOW,
    budget_s: int = 1800,
    rules: dict[str, str] | None = None,
    refusal: Callable[[Candidate], str] = lambda _candidate: "",
) -> Tuning:
    dims = dimensions(settings, MACHINE, now)
    asked = Question(dims, now, budget_s * S_NS, 1, rules or {}, {}, refusal=refusal)
    return Tuning(asked)


def gain_of(candidate: Candidate) -> float:
    """A larger max_wal_size helps up to 2 GB, and nothing else does."""
    index = space()[0].position(candidate.settings.get("max_wal_size", "32MB"))
    return 0.03 * min(index, 15)


def carried_out(
    course: Tuning, *, fails: str = "", goal_of: Callable[[Candidate], float] = gain_of
) -> list[TrialStep]:
    steps = []
    while (step := course.next()) is not None:
        steps.append(step)
        failed = fails != "" and step.candidate.settings.get("jit") == fails
        # Noise that a hand can follow: three values in turn.
        noise = (0.0, 0.01, -0.01)[len(steps) % 3]
        goal = None if failed else goal_of(step.candidate) + noise
        course.take(TrialResult(step, goal, 6 * S_NS, "does not start" if failed else ""))
    return steps


def findings(course: Tuning, *, is_more_better: bool = True, metric: str = "tps") -> TuneFindings:
    return findings_of(course, NOW, 15, metric=metric, is_more_better=is_more_better)


def failures(course: Tuning) -> dict[str, str]:
    return {trial.name: trial.failure for trial in course.trials if trial.failure}


def test_the_setting_that_matters_is_found_and_proved_without_riders() -> None:
    course = tuning(rules={"max_wal_size": "4GB", "work_mem": "64MB"})
    steps = carried_out(course)
    answer = findings(course)
    assert answer.verdict == "better"
    assert [setting.name for setting in answer.settings] == ["max_wal_size"]
    assert answer.gain is not None
    assert answer.gain.low is not None
    assert answer.gain.low > 1.2
    assert answer.sentence().startswith("proved better: tps +")
    assert len(steps) * 6 <= 1800 + 6
    assert "max_wal_size = '" in conf_of(answer)
    assert "ALTER SYSTEM SET max_wal_size" in alter_system(answer.to_apply())
    assert "needs a reload" in conf_of(answer)
    sentence = [line for line in conf_of(answer).splitlines() if "pgdyno tune" in line]
    assert len(sentence[0]) <= 100
    document = answer.as_document()
    assert document["settings"][0]["needs"] == "reload"
    assert document["tried"][0]["decision"] == "better"


def test_each_candidate_changes_one_setting_of_the_best_until_each_was_tried() -> None:
    course = tuning()
    alone: set[str] = set()
    while (step := course.next()) is not None:
        if step.candidate is not course.base and step.candidate.settings != course.best.settings:
            candidate = NOW | dict(step.candidate.settings)
            best = NOW | dict(course.best.settings)
            changed = {name for name in NOW if candidate[name] != best[name]}
            assert len(changed) == 1 or alone == set(NOW)
            alone |= changed
        course.take(TrialResult(step, gain_of(step.candidate), 6 * S_NS))


def test_a_value_that_the_server_refuses_has_a_row_and_the_others_go_on() -> None:
    course = tuning(settings=("work_mem=4MB,64MB,256MB",), budget_s=240)
    while (step := course.next()) is not None:
        size = step.candidate.settings.get("work_mem", "")
        goal = None if size == "256MB" else 0.3 * (size == "64MB") + 0.01 * (step.round % 3)
        course.take(TrialResult(step, goal, 8 * S_NS, "it does not start" if goal is None else ""))
    answer = findings(course)
    assert [(trial.name, trial.decision) for trial in answer.tried] == [
        ("work_mem=64MB", "better"),
        ("work_mem=256MB", "failed"),
    ]
    assert answer.tried[1].verdict_words == "it does not start"


def test_a_search_in_which_every_candidate_fails_ends_early() -> None:
    course = tuning(settings=("max_wal_size=64MB,1GB,2GB,4GB,8GB,16GB,32GB",))
    steps = 0
    while (step := course.next()) is not None:
        steps += 1
        failed = step.candidate is not course.base
        course.take(TrialResult(step, None if failed else 0.0, 6 * S_NS, "permission denied"))
    assert steps < 20
    assert findings(course).sentence() == "not known: each of the first 6 candidates failed"


def test_a_candidate_that_must_not_run_is_a_failure_without_a_run() -> None:
    def refusal(candidate: Candidate) -> str:
        return "too large" if candidate.settings.get("max_wal_size", "").endswith("GB") else ""

    course = tuning(rules={"max_wal_size": "4GB"}, refusal=refusal)
    ran = carried_out(course)
    assert not [step for step in ran if refusal(step.candidate)]
    assert failures(course)["max_wal_size=4GB"] == "too large"


def test_a_run_without_its_metric_costs_a_pair_and_not_the_candidate() -> None:
    course = tuning()
    number = 0
    while (step := course.next()) is not None:
        number += 1
        goal = None if number % 7 == 0 else gain_of(step.candidate)
        course.take(TrialResult(step, goal, 6 * S_NS))
    assert findings(course, metric="cpu_per_tx").verdict == "better"
    assert not failures(course)


def test_a_candidate_whose_metric_is_always_missing_is_a_failure() -> None:
    course = tuning(settings=("jit=on,off",))
    while (step := course.next()) is not None:
        course.take(TrialResult(step, 0.0 if step.candidate is course.base else None, 6 * S_NS))
    assert failures(course) == {"jit=off": "the metric could not be measured"}


def test_without_a_gain_the_settings_stay() -> None:
    course = tuning()
    steps = carried_out(course, goal_of=lambda candidate: -0.2 * len(candidate.settings))
    answer = findings(course)
    assert (answer.verdict, answer.settings) == ("no better", ())
    assert answer.sentence().startswith("no better value: each of ")
    assert all(trial.decision == "worse" for trial in answer.tried)
    assert len(steps) * 6 < 1800, "when all is decided, no more time is used"


def test_an_interrupted_tuning_shows_every_value_with_what_is_known() -> None:
    course = tuning(settings=("work_mem=4MB,8MB,16MB,32MB,64MB",))
    for _ in range(9):
        step = course.next()
        assert step is not None
        course.take(TrialResult(step, 0.01 * (step.round % 3), 6 * S_NS))
    answer = findings(course)
    assert answer.verdict == "not known"
    assert "interrupted" in answer.sentence()
    assert len(answer.tried) == 4
    assert sum(trial.pair_count for trial in answer.tried) > 3


def test_values_that_were_never_run_are_named_as_missing() -> None:
    course = tuning(settings=("work_mem=4MB,8MB,16MB,32MB,64MB",), budget_s=24)
    carried_out(course)
    answer = findings(course)
    assert answer.verdict == "not known"
    assert "work_mem=16MB, work_mem=32MB, work_mem=64MB were not tried" in answer.sentence()
    # A round of three, of three values and yours.
    assert answer.untried_ns == 3 * 4 * 6 * S_NS
    assert "were not tried (72 s for a first interval)" in answer.sentence()
    assert answer.missing_ns is not None
    assert answer.missing_ns > 0


def test_a_short_tuning_tries_few_values_and_each_of_them_has_an_interval() -> None:
    named = ("max_wal_size=32MB,1GB,4GB", "work_mem=4MB,16MB,64MB", "jit=on,off")
    course = tuning(settings=named, budget_s=100)
    assert (len(course.trials), course.postponed_count) == (5, 2)
    carried_out(course, goal_of=lambda _: 0.0)
    answer = findings(course)
    compared = [trial for trial in answer.tried if trial.ratio is not None]
    assert {trial.name for trial in compared} == {"max_wal_size=1GB", "work_mem=16MB", "jit=off"}
    assert all(trial.ratio.low is not None for trial in compared if trial.ratio)
    assert [trial.decision for trial in answer.tried if trial.ratio is None] == ["not tried"] * 2


def test_how_much_time_is_missing_is_known_when_some_values_were_not_tried() -> None:
    now = {**NOW, "random_page_cost": "4"}
    named = ("max_wal_size=32MB,1GB", "work_mem=4MB,64MB", "jit=on,off", "random_page_cost=4,1.1")
    course = tuning(settings=named, now=now, budget_s=6 * 6)
    while (step := course.next()) is not None:
        goal = (0.1 + 0.4 * (step.round % 2)) * (step.candidate.name != "yours")
        course.take(TrialResult(step, goal, 6 * S_NS))
    answer = findings_of(course, now, 15, metric="tps", is_more_better=True)
    assert [trial.pair_count for trial in answer.tried] == [3, 0, 0, 0]
    assert answer.missing_ns is not None
    assert " more would " in answer.sentence()


def test_settings_that_need_a_restart_come_first() -> None:
    now = {"max_wal_size": "32MB", "shared_buffers": "1MB"}
    course = tuning(settings=("max_wal_size=32MB,8GB", "shared_buffers=1MB,512MB"), now=now)
    while (step := course.next()) is not None:
        noise = 0.01 * (step.round % 3)
        course.take(TrialResult(step, 0.2 * len(step.candidate.settings) + noise, 6 * S_NS))
    answer = findings_of(course, now, 15, metric="tps", is_more_better=True)
    assert [setting.name for setting in answer.settings] == ["shared_buffers", "max_wal_size"]
    assert alter_system(answer.to_apply()).startswith(
        "-- needs a restart: shared_buffers\n-- was 1MB; "
    )


def test_less_latency_is_better() -> None:
    course = tuning()
    carried_out(course)
    answer = findings(course, metric="p99", is_more_better=False)
    assert answer.gain is not None
    assert answer.gain.high is not None
    assert answer.gain.high < 1
    assert answer.verdict == "better"


def test_of_settings_that_can_replace_each_other_one_is_proposed() -> None:
    course = tuning(settings=("max_wal_size=32MB,4GB", "work_mem=4MB,64MB", "jit=on,off"))

    def helps(candidate: Candidate) -> float:
        values = candidate.settings.values()
        return 0.2 * ("4GB" in values or "64MB" in values)

    carried_out(course, goal_of=helps)
    [setting] = findings(course).settings
    assert setting.name in ("max_wal_size", "work_mem")


def test_values_of_published_rules_are_tried_first_and_by_themselves() -> None:
    course = tuning(rules={"max_wal_size": "4GB", "work_mem": "64MB"})
    first = [trial.name for trial in course.trials][:2]
    assert first == ["max_wal_size=4GB", "work_mem=64MB"]
    steps = carried_out(course)
    several = [place for place, step in enumerate(steps) if len(step.candidate.settings) > 1]
    alone = {name for step in steps[: min(several)] for name in step.candidate.settings}
    assert alone == set(NOW), "each is tried by itself before all are tried together"


def alternating(*, settings: tuple[str, ...], budget_s: int = 300) -> Tuning:
    """Return a tuning whose settings take turns in a load, but for max_wal_size."""
    at_once = frozenset(("work_mem", "jit"))
    dims = dimensions(settings, MACHINE, NOW)
    return Tuning(Question(dims, NOW, budget_s * S_NS, 1, {}, {}, at_once=at_once))


def test_settings_that_act_at_once_take_turns_and_others_have_runs_of_their_own() -> None:
    course = alternating(settings=("work_mem=4MB,8MB,64MB", "jit=on,off", "max_wal_size=32MB,1GB"))
    load = course.due()
    names = {step.candidate.name for step in load}
    assert names == {"yours", "work_mem=8MB", "work_mem=64MB", "jit=off"}
    assert all(step.in_turns for step in load)
    rounds = [{s.candidate.name for s in load if s.round == number} for number in (1, 2, 3, 4, 5)]
    assert rounds == [names] * 5, "each round of a load has each of them"
    steps = carried_out(course)
    own = [step.candidate for step in steps if not step.in_turns]
    alone = {candidate.name for candidate in own if len(candidate.settings) < 2}
    assert alone == {"yours", "max_wal_size=1GB"}
    assert all("max_wal_size" in candidate.settings for candidate in own if candidate.settings)


def test_after_turns_whole_runs_of_the_result_follow() -> None:
    course = alternating(settings=("work_mem=4MB,64MB",))
    steps = carried_out(course, goal_of=lambda candidate: 0.5 * bool(candidate.settings))
    last = [step for step in steps if not step.in_turns]
    assert {step.candidate.name for step in last} == {"yours", "work_mem=64MB"}
    assert course.rounds_with(course.best) == (last[0].round,)


def test_a_range_is_refined_near_a_value_that_pays() -> None:
    [dimension] = dimensions(("max_wal_size=32MB..8GB",), MACHINE, NOW)
    first = values_to_try(dimension, "32MB", (), ("4GB",))
    assert first == ("4GB", "1536MB")
    near = values_to_try(dimension, "1536MB", ("32MB", "4GB"), ())
    places = [dimension.position(value) for value in near]
    assert dimension.position("32MB") < places[1] < dimension.position("1536MB") < places[0]


def test_the_same_runs_lead_to_the_same_tuning() -> None:
    assert carried_out(tuning()) == carried_out(tuning())


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("work_memm", SpecError, "no setting of that name"),
        ("work_mem=1kB..1GB", SpecError, "must be from 64"),
        ("work_mem=", SpecError, "names no values to search"),
        ("work_mem,jit", SpecError, "names several settings"),
        ("work_mem=1GB..1MB", SpecError, "must be below the second"),
        ("fsync", RefusedError, "class durability, which is not allowed"),
        ("wal_segment_size", SpecError, "when a cluster is made"),
        ("datestyle", SpecError, "not in the catalogue"),
        ("max_connections", RefusedError, "class availability"),
    ],
)
def test_a_setting_that_cannot_be_searched_is_refused(
    text: str, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        dimensions([text], MACHINE, NOW)


def test_the_hint_for_several_settings_is_to_repeat_the_option() -> None:
    with pytest.raises(SpecError) as caught:
        dimensions(["work_mem,jit=on"], MACHINE, NOW)
    assert caught.value.hint == "--setting work_mem --setting jit=on"


def test_the_hint_for_a_range_of_memory_is_to_give_the_ram() -> None:
    unknown = replace(MACHINE, ram_bytes=None)
    with pytest.raises(SpecError) as caught:
        dimensions(["shared_buffers"], unknown, NOW)
    assert "--ram" in caught.value.hint


def test_choices_may_be_named() -> None:
    [course] = dimensions(["wal_compression=off,lz4"], MACHINE, NOW)
    assert (course.scale, course.values) == ("choice", ("off", "lz4"))


def test_the_value_of_a_rule_is_the_first_of_a_list() -> None:
    [course] = dimensions(["wal_compression=off,pglz,lz4"], MACHINE, NOW)
    assert values_to_try(course, "off", (), ("lz4", "zstd")) == ("lz4", "pglz")


@pytest.mark.parametrize(
    ("evidence", "first"),
    [
        ("forced_checkpoints", "max_wal_size"),
        ("temporary_bytes", "work_mem"),
        ("sequential_scans", "random_page_cost"),
        ("buffer_misses", "shared_buffers"),
    ],
)
def test_evidence_names_the_setting_to_search(evidence: str, first: str) -> None:
    chosen = choose([Evidence(evidence, 0.8, "much")], MACHINE)
    assert chosen[0].setting == first
    assert chosen[0].why.endswith(": much")
    assert len(chosen) <= 6
    assert all(choice.why.endswith(": much") for choice in chosen)


def test_without_evidence_no_setting_is_searched() -> None:
    assert choose([], MACHINE) == ()
    assert choose([Evidence("full_page_images", 0.05, "little")], MACHINE) == ()


def test_a_class_that_is_not_allowed_is_never_chosen() -> None:
    only: tuple[Risk, ...] = ("safe",)
    chosen = choose([Evidence("temporary_bytes", 1.0, "much")], MACHINE, only)
    assert "work_mem" not in {setting.setting for setting in chosen}


def test_without_a_proof_the_answer_says_what_to_do() -> None:
    for gain, budget_s, more in ((0.3, 60, "16 s"), (0.3, 40, "16 s"), (-0.3, 60, "7 min")):
        course = tuning(settings=("work_mem=4MB,64MB",), budget_s=budget_s)
        while (step := course.next()) is not None:
            noise = 0.4 * (step.round % 2)
            goal = (gain + noise) * (step.candidate is not course.base)
            course.take(TrialResult(step, goal, 8 * S_NS))
        answer = findings(course)
        assert answer.verdict == "not known"
        assert answer.next_step().startswith("keep your settings")
        command = f"pgdyno run --resume last --budget {more.replace(' ', '')}"
        advice = f"to know more, about {more}: {command}"
        assert answer.next_step().endswith(advice)
        assert ("work_mem=64MB" in answer.sentence()) == (budget_s == 60)
        unseen = replace(answer.tried[0], doubt="no run had a checkpoint")
        hidden = replace(answer, tried=(unseen,))
        assert "work_mem" not in hidden.sentence()
        assert "work_mem=64MB: no run had a checkpoint" in hidden.next_step()


def test_the_time_of_the_runs_is_split_by_purpose() -> None:
    quick = {"load": 6 * S_NS, "reset": S_NS, "reload": S_NS // 10, "start": 2 * S_NS}
    restarted = {"load": 6 * S_NS, "reset": S_NS, "restart": 2 * S_NS, "start": 5 * S_NS}
    budget = time_spent([8 * S_NS, 12 * S_NS], [quick, restarted], [4 * S_NS, 5 * S_NS])
    assert budget is not None
    assert budget.sentence() == (
        "20 s: measured 45 %, warm-up 15 %, reset 10 %, restarts 10 %, overhead 20 %"
    )
    slowed = time_spent([8 * S_NS, 12 * S_NS], [quick, restarted], [0, 0], failed_ns=5 * S_NS)
    assert slowed is not None
    assert slowed.total_s == 25
    assert "failed or repeated runs 20 %" in slowed.sentence()
    assert time_spent([8 * S_NS, 8 * S_NS], [quick, {}], [0, 0]) is None, (
        "a result of an earlier version"
    )


TOGETHER = {"max_wal_size": "4GB", "work_mem": "64MB", "jit": "off"}


def with_formulas(*, budget_s: int = 1800) -> Tuning:
    dims = dimensions(SETTINGS, MACHINE, NOW)
    return Tuning(Question(dims, NOW, budget_s * S_NS, 1, {}, {}, together=TOGETHER))


def test_the_values_of_formulas_run_together_before_any_of_them_alone() -> None:
    course = with_formulas(budget_s=240)
    steps = carried_out(course, goal_of=lambda _: 0.0)
    in_order = list(dict.fromkeys(step.candidate.name for step in steps))
    assert set(in_order[:2]) == {"yours", "the set"}
    [whole] = [trial for trial in findings(course).tried if trial.role == "set"]
    assert whole.name == "the set (3 settings)"
    assert whole.pair_count >= 3
    assert len(in_order) > 2, "the rest of the time is for single values"


def test_a_set_that_is_better_is_proposed_whole_and_each_setting_is_set_back() -> None:
    course = with_formulas()
    carried_out(course)
    answer = findings(course)
    assert answer.verdict == "better"
    assert {setting.name for setting in answer.settings} >= {"work_mem", "jit"}
    reasons = {value.name: value.why for value in answer.to_apply()}
    assert reasons["jit"].startswith("measured together: tps +")
    doubts = {"work_mem": "no run had a checkpoint"}
    told = findings_of(course, NOW, 15, metric="tps", is_more_better=True, doubts=doubts)
    assert ", but no run had a checkpoint" in conf_of(told)
    back = {trial.name: trial.decision for trial in answer.tried if trial.role == "back"}
    assert back.keys() == {"max_wal_size=32MB as now", "work_mem=4MB as now", "jit=on as now"}
    assert back["max_wal_size=32MB as now"] == "worse"
    [credited] = [setting for setting in answer.settings if setting.ratio is not None]
    assert credited.name == "max_wal_size"
    assert credited.ratio is not None
    assert credited.ratio.low is not None
    assert credited.ratio.low > 1.2


def test_a_setting_that_harms_the_set_is_left_out_of_it() -> None:
    def goal(candidate: Candidate) -> float:
        settings = candidate.settings
        return 0.5 * ("max_wal_size" in settings) - 0.2 * ("jit" in settings)

    course = with_formulas()
    carried_out(course, goal_of=goal)
    answer = findings(course)
    assert answer.verdict == "better"
    assert "jit" not in {setting.name for setting in answer.settings}
    assert course.best.name.startswith("the set, jit=on")


def test_a_set_that_shows_nothing_says_how_large_a_difference_can_be() -> None:
    course = with_formulas(budget_s=120)
    while (step := course.next()) is not None:
        noise = 0.1 * (step.round % 2) * (step.candidate is not course.base)
        course.take(TrialResult(step, noise, 6 * S_NS))
    answer = findings(course)
    assert answer.verdict == "not known"
    assert "the set (3 settings) of PGTune against yours: tps +" in answer.sentence()
    assert ", so a gain of more than " in answer.sentence()
