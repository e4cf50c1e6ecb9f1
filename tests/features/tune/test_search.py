"""The search step by step: what it asks for, and what it makes of failures and of evidence."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from pgdyno.errors import RefusedError, SpecError
from pgdyno.features.tune.budget import time_spent
from pgdyno.features.tune.catalogue import Risk
from pgdyno.features.tune.evidence import Evidence, choose
from pgdyno.features.tune.machine import Machine
from pgdyno.features.tune.space import Dimension, Sampler, dimensions
from pgdyno.features.tune.statements import alter_system, conf_fragment
from pgdyno.features.tune.trial import BASE, Candidate, Measured, Step
from pgdyno.features.tune.tuning import Tuning
from pgdyno.features.tune.verdict import findings_of

MACHINE = Machine(15, 100, ram_bytes=8 << 30, cores=4, disk="nvme")
NOW = {"max_wal_size": "32MB", "work_mem": "4MB", "jit": "on"}
SETTINGS = ("max_wal_size=32MB..8GB", "work_mem=1MB..64MB", "jit")
S_NS = 10**9
RULES = (("max_wal_size", "4GB"), ("work_mem", "64MB"))


def space() -> tuple[Dimension, ...]:
    return dimensions(SETTINGS, MACHINE, NOW)


def tuning(*, budget_s: int = 1800, rules: dict[str, str] | None = None) -> Tuning:
    baselines = [Candidate("pgtune", rules)] if rules else []
    return Tuning(space(), NOW, baselines, budget_ns=budget_s * S_NS, seed=1)


def gain_of(candidate: Candidate) -> float:
    """A larger max_wal_size helps up to 2 GB, and nothing else does."""
    index = space()[0].position(candidate.settings.get("max_wal_size", "32MB"))
    return 0.03 * min(index, 15)


def carried_out(course: Tuning, *, fails: str = "") -> list[Step]:
    steps = []
    while (step := course.next()) is not None:
        steps.append(step)
        failed = fails != "" and step.candidate.settings.get("jit") == fails
        # Noise that a hand can follow: three values in turn.
        noise = (0.0, 0.01, -0.01)[len(steps) % 3]
        goal = None if failed else gain_of(step.candidate) + noise
        course.take(Measured(step, goal, 6 * S_NS, "does not start" if failed else ""))
    return steps


def test_the_setting_that_matters_is_found_attributed_and_proved() -> None:
    course = tuning()
    steps = carried_out(course)
    findings = findings_of(course, NOW, 15, metric="tps", is_more_better=True)
    assert findings.verdict == "better"
    assert [setting.name for setting in findings.settings] == ["max_wal_size"]
    assert findings.proved is not None
    assert findings.proved.low is not None
    assert findings.proved.low > 1.2
    assert findings.sentence().startswith("proved: tps +")
    assert {step.stage for step in steps} >= {"search", "proof"}
    assert "max_wal_size = '" in conf_fragment(findings)
    assert "ALTER SYSTEM SET max_wal_size" in alter_system(findings)
    assert "needs a reload" in conf_fragment(findings)
    sentence = [line for line in conf_fragment(findings).splitlines() if "pgdyno tune" in line]
    assert len(sentence[0]) <= 100
    document = findings.as_document()
    assert document["settings"][0]["needs"] == "reload"
    assert document["tried"][0]["candidate"] == "trial 1"
    # The winner's curse in numbers: what was promised minus what was proved.
    assert findings.promised is not None
    points = (findings.promised.value - findings.proved.value) * 100
    assert document["promised_minus_proved_points"] == pytest.approx(points)


def test_a_proof_has_at_least_six_rounds_of_every_candidate() -> None:
    course = tuning(rules={"max_wal_size": "4GB"})
    steps = [step for step in carried_out(course) if step.stage == "proof"]
    by_name: dict[str, set[int]] = {}
    for step in steps:
        by_name.setdefault(step.candidate.name, set()).add(step.round)
    assert BASE in by_name
    assert "pgtune" in by_name
    assert all(len(rounds) >= 6 for rounds in by_name.values())
    assert course.against_rules() is not None


def test_candidates_that_fail_are_results_and_the_search_goes_on() -> None:
    course = tuning()
    carried_out(course, fails="off")
    findings = findings_of(course, NOW, 15, metric="tps", is_more_better=True)
    assert findings.failures
    assert {why for _, why in findings.failures} == {"does not start"}
    assert "jit" not in {setting.name for setting in findings.settings}
    assert findings.verdict == "better"


def test_a_winner_that_does_not_start_for_the_proof_is_not_proved() -> None:
    course = tuning(rules={"max_wal_size": "4GB"})
    while (step := course.next()) is not None:
        failed = step.stage == "proof" and step.candidate == course.best
        goal = None if failed else gain_of(step.candidate)
        course.take(Measured(step, goal, 6 * S_NS, "it does not start" if failed else ""))
    findings = findings_of(course, NOW, 15, metric="tps", is_more_better=True)
    assert findings.verdict == "unproved"
    assert "the winner failed in the proof: it does not start" in findings.sentence()
    assert findings.settings, "the candidate is shown, marked as not proved"


def test_a_search_in_which_every_candidate_fails_ends_early() -> None:
    course = tuning()
    steps = 0
    while (step := course.next()) is not None:
        steps += 1
        failed = step.candidate is not course.base
        course.take(Measured(step, None if failed else 0.0, 6 * S_NS, "permission denied"))
    assert steps < 20
    findings = findings_of(course, NOW, 15, metric="tps", is_more_better=True)
    assert findings.sentence() == "nothing was compared: each of the first 6 candidates failed"


def test_a_candidate_that_must_not_run_is_a_failure_without_a_run() -> None:
    def refusal(candidate: Candidate) -> str:
        return "too large" if candidate.settings.get("max_wal_size", "").endswith("GB") else ""

    rules = Candidate("pgtune", {"max_wal_size": "4GB"})
    course = Tuning(space(), NOW, [rules], budget_ns=1800 * S_NS, seed=1, refusal=refusal)
    ran = carried_out(course)
    assert not [step for step in ran if refusal(step.candidate)]
    failures = dict((candidate.name, why) for candidate, why in course.failures)
    assert failures["pgtune"] == "too large"
    assert course.against_rules() is None, "what must not run is not a baseline in the proof"


def test_a_run_without_its_metric_costs_a_pair_and_not_the_candidate() -> None:
    course = tuning()
    number = 0
    while (step := course.next()) is not None:
        number += 1
        goal = None if number % 7 == 0 else gain_of(step.candidate)
        course.take(Measured(step, goal, 6 * S_NS))
    findings = findings_of(course, NOW, 15, metric="cpu_per_tx", is_more_better=True)
    assert findings.verdict == "better"
    assert not findings.failures


def test_a_candidate_whose_metric_is_always_missing_is_a_failure() -> None:
    course = tuning(rules={"jit": "off"})
    while (step := course.next()) is not None and not course.failures:
        goal = 0.0 if step.candidate is course.base else None
        course.take(Measured(step, goal, 6 * S_NS))
    assert [why for _, why in course.failures] == ["the metric could not be measured"]


def test_without_a_gain_the_settings_stay() -> None:
    course = tuning()
    number = 0
    while (step := course.next()) is not None:
        number += 1
        course.take(Measured(step, -0.05 * len(step.candidate.settings), 6 * S_NS))
    findings = findings_of(course, NOW, 15, metric="tps", is_more_better=True)
    assert (findings.verdict, findings.settings) == ("nothing better", ())
    assert findings.sentence().startswith("nothing better than your settings, beyond 2 %")


def test_an_interrupted_proof_is_marked_unproved() -> None:
    course = tuning()
    while (step := course.next()) is not None and step.stage == "search":
        course.take(Measured(step, gain_of(step.candidate), 6 * S_NS))
    findings = findings_of(course, NOW, 15, metric="tps", is_more_better=True)
    assert findings.verdict == "unproved"
    assert "the proof did not finish" in findings.sentence()


def test_settings_that_need_a_restart_come_first() -> None:
    sizes = ("max_wal_size=32MB..8GB", "shared_buffers=1MB..1GB")
    course = Tuning(
        dimensions(sizes, MACHINE, NOW | {"shared_buffers": "1MB"}),
        {"max_wal_size": "32MB", "shared_buffers": "1MB"},
        [Candidate("pgtune", {"max_wal_size": "8GB", "shared_buffers": "512MB"})],
        budget_ns=1800 * S_NS,
        seed=1,
    )
    while (step := course.next()) is not None:
        course.take(Measured(step, 0.2 * len(step.candidate.settings), 6 * S_NS))
    now = {"max_wal_size": "32MB", "shared_buffers": "1MB"}
    findings = findings_of(course, now, 15, metric="tps", is_more_better=True)
    assert [setting.name for setting in findings.settings] == ["shared_buffers", "max_wal_size"]
    assert alter_system(findings).startswith("-- needs a restart: shared_buffers\n-- was 1MB; ")


def test_less_latency_is_better() -> None:
    course = tuning()
    carried_out(course)
    findings = findings_of(course, NOW, 15, metric="p99", is_more_better=False)
    assert findings.proved is not None
    assert findings.proved.high is not None
    assert findings.proved.high < 1
    assert findings.verdict == "better"


def test_the_same_runs_lead_to_the_same_tuning() -> None:
    assert carried_out(tuning()) == carried_out(tuning())


def test_the_sampler_never_repeats_a_point() -> None:
    sampler = Sampler(space(), NOW, seed=3)
    points = []
    for _ in range(20):
        point = sampler.propose(points[3] if len(points) > 3 else NOW)
        assert point is not None
        points.append(point)
    assert len({tuple(point.items()) for point in points}) == len(points)


def test_each_setting_is_tried_alone_first() -> None:
    sampler = Sampler(space(), NOW, seed=3)
    first = [sampler.propose(NOW) for _ in range(3)]
    assert first == [
        NOW | {"max_wal_size": "1536MB"},
        NOW | {"work_mem": "26MB"},
        NOW | {"jit": "off"},
    ]


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("work_memm", SpecError, "no setting of that name"),
        ("work_mem=1kB..1GB", SpecError, "must be from 64"),
        ("work_mem=", SpecError, "names no values to search"),
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


def test_the_hint_for_a_range_of_memory_is_to_give_the_ram() -> None:
    unknown = replace(MACHINE, ram_bytes=None)
    with pytest.raises(SpecError) as caught:
        dimensions(["shared_buffers"], unknown, NOW)
    assert "--ram" in caught.value.hint


def test_choices_may_be_named() -> None:
    [course] = dimensions(["wal_compression=off,lz4"], MACHINE, NOW)
    assert (course.scale, course.values) == ("choice", ("off", "lz4"))


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


def test_the_time_of_the_runs_is_split_by_purpose() -> None:
    quick = {"load": 6 * S_NS, "reset": S_NS, "reload": S_NS // 10, "start": 2 * S_NS}
    restarted = {"load": 6 * S_NS, "reset": S_NS, "restart": 2 * S_NS, "start": 5 * S_NS}
    budget = time_spent([8 * S_NS, 12 * S_NS], [quick, restarted])
    assert budget is not None
    assert budget.sentence() == (
        "20 s: load 60 %, reset 10 %, restarts 10 %, loading data 0 %, overhead 20 %; without a"
        " restart, a run started after 2.0 s (median), 2.0 s (longest)"
    )
    slowed = time_spent([8 * S_NS, 12 * S_NS], [quick, restarted], failed_ns=5 * S_NS)
    assert slowed is not None
    assert slowed.total_s == 25
    assert "failed runs 20 %" in slowed.sentence()
    assert time_spent([8 * S_NS, 8 * S_NS], [quick, {}]) is None, "a result of an earlier version"


def test_a_refuted_winner_gives_the_runner_up_a_second_proof() -> None:
    course = tuning(rules={"max_wal_size": "256MB"})
    # The search saw a winner that fresh runs do not confirm; the published rules do help.
    first = None
    while (step := course.next()) is not None:
        first = course.best if step.stage == "proof" else first
        is_lucky = step.stage != "search" and step.candidate == first
        goal = 0.0 if is_lucky else gain_of(step.candidate)
        course.take(Measured(step, goal + 0.001 * (step.round % 3), 6 * S_NS))
    assert first is not None
    assert course.reason.startswith(f"proved; the first proof refuted {first.name}")
    assert course.best != first
    findings = findings_of(course, NOW, 15, metric="tps", is_more_better=True)
    assert findings.verdict == "better"
    assert findings.proved is not None
    assert findings.proved.value == pytest.approx(math.exp(gain_of(course.best)), rel=0.01)


def test_a_second_proof_that_refutes_too_reports_the_winner_of_the_search() -> None:
    course = tuning(rules={"max_wal_size": "4GB"})
    number = 0
    while (step := course.next()) is not None:
        number += 1
        noise = 0.02 * (-1) ** step.round if step.candidate is course.base else 0.0
        in_proof = 0.001 if step.candidate.name == "pgtune" else -0.001
        goal = gain_of(step.candidate) if step.stage == "search" else in_proof
        course.take(Measured(step, goal + noise, 6 * S_NS))
    findings = findings_of(course, NOW, 15, metric="tps", is_more_better=True)
    assert findings.verdict == "not confirmed"
    assert "a second proof did not confirm" in course.reason
    assert course.proof is not None
    assert course.proof.name == "proof"


def test_a_proof_that_refutes_everything_says_why_the_rest_of_the_time_is_not_used() -> None:
    course = tuning(rules={"max_wal_size": "4GB"})
    while (step := course.next()) is not None:
        is_worse = step.stage != "search" and step.candidate is not course.base
        goal = gain_of(step.candidate) if step.stage == "search" else -0.1 * is_worse
        course.take(Measured(step, goal + 0.001 * (step.round % 3), 6 * S_NS))
    assert course.reason == (
        "the proof did not confirm what the search had promised; no other candidate of the proof"
        " was better than your settings"
    )


def test_of_settings_that_can_replace_each_other_one_is_proposed() -> None:
    course = tuning(rules={"max_wal_size": "4GB", "work_mem": "64MB", "jit": "off"})
    number = 0
    while (step := course.next()) is not None:
        number += 1
        settings = step.candidate.settings
        # Either of two settings is enough, so neither of them is missed alone.
        helps = settings.get("max_wal_size") == "4GB" or settings.get("work_mem") == "64MB"
        goal = 0.2 * helps + 0.001 * (number % 3)
        if step.stage == "search" and step.candidate.name not in (BASE, "pgtune"):
            goal = -0.1
        course.take(Measured(step, goal, 6 * S_NS))
    findings = findings_of(course, NOW, 15, metric="tps", is_more_better=True)
    assert findings.verdict == "better"
    [setting] = findings.settings
    assert setting.name in ("max_wal_size", "work_mem")
    assert setting.ratio is not None
    assert setting.ratio.low is not None
    assert setting.ratio.low > 1.1, "its effect without the other one"
    assert set(findings.idle) == {"max_wal_size", "work_mem", "jit"} - {setting.name}


def test_a_gain_of_which_no_setting_has_a_certain_effect_proposes_nothing() -> None:
    course = tuning(rules={"max_wal_size": "4GB", "work_mem": "64MB", "jit": "off"})
    while (step := course.next()) is not None:
        # The order within a round is random, so the noise depends on the round alone.
        noise = 0.01 * (-1) ** step.round * (step.candidate.name != BASE)
        if step.stage in ("attribution", "alone"):
            goal = noise
        elif step.stage == "search" and step.candidate.name not in (BASE, "pgtune"):
            goal = -0.1
        else:
            goal = 0.2 * (step.candidate.name == "pgtune") + noise
        course.take(Measured(step, goal, 6 * S_NS))
    findings = findings_of(course, NOW, 15, metric="tps", is_more_better=True)
    assert findings.verdict == "not attributed"
    assert findings.settings == ()
    assert findings.sentence().startswith(
        "not attributed: tps +22.1 % (20.4 to 23.9) against your settings, but none of the settings"
        " of pgtune has a certain effect, so none is proposed; the search had promised +21.7 %"
    )


def test_a_setting_without_effect_is_put_back_and_the_rest_is_proved() -> None:
    course = tuning(rules={"max_wal_size": "4GB", "jit": "off"})
    stages = []
    number = 0
    while (step := course.next()) is not None:
        number += 1
        stages.append(step.stage)
        helps = step.candidate.settings.get("max_wal_size") == "4GB"
        goal = 0.2 * helps + 0.001 * (number % 3)
        if step.stage == "search" and step.candidate.name not in (BASE, "pgtune"):
            goal = -0.1
        course.take(Measured(step, goal, 6 * S_NS))
    findings = findings_of(course, NOW, 15, metric="tps", is_more_better=True)
    assert list(dict.fromkeys(stages)) == ["search", "proof", "attribution", "final"]
    assert [setting.name for setting in findings.settings] == ["max_wal_size"]
    assert findings.idle == ("jit",)


def test_a_candidate_of_the_search_changes_at_most_two_settings_of_the_best() -> None:
    course = tuning()
    before = course.best
    while (step := course.next()) is not None and step.stage == "search":
        if step.candidate not in (before, course.best):
            candidate = NOW | dict(step.candidate.settings)
            best = NOW | dict(course.best.settings)
            assert sum(candidate[name] != best[name] for name in NOW) <= 2
        course.take(Measured(step, gain_of(step.candidate), 6 * S_NS))


def test_a_candidate_that_changes_more_than_can_be_attributed_is_halved() -> None:
    names = ("max_wal_size", "work_mem", "jit", "wal_buffers", "checkpoint_timeout")
    values = ("4GB", "64MB", "off", "8MB", "20min")
    course = tuning(budget_s=1100, rules=dict(zip(names, values, strict=True)))
    steps = carried_out(course)
    tried = {trial.candidate.name: set(trial.candidate.settings) for trial in course.trials}
    assert tried["pgtune part 1"] == set(names[:3])
    assert set(names[3:]) <= tried["pgtune part 2"]
    attributed = {step.candidate.name for step in steps if step.stage == "attribution"}
    assert len(attributed) <= 1 + 3


def test_the_budget_keeps_the_time_for_the_attribution() -> None:
    for budget_s in (940, 1200, 2400):
        course = tuning(budget_s=budget_s, rules={"max_wal_size": "4GB", "work_mem": "64MB"})
        stages = []
        while (step := course.next()) is not None:
            stages.append(step.stage)
            larger = sum(step.candidate.settings.get(name) == value for name, value in RULES)
            course.take(Measured(step, 0.1 * larger + 0.001 * (len(stages) % 3), 6 * S_NS))
        assert "attribution" in stages
        assert len(course.best.settings) == 2
        assert len(stages) * 6 <= budget_s


def test_ratios_of_an_effect_are_of_pairs_of_one_round() -> None:
    course = tuning()
    carried_out(course)
    proved = course.proved()
    assert proved is not None
    assert all(math.isfinite(ratio) for ratio in proved[1].log_ratios)
