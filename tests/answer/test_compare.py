"""Comparisons from the command line to the verdict, on a real server; interrupted, and killed."""

from __future__ import annotations

import json
import re
import signal
import tomllib
from pathlib import Path

import pytest
from tests.fixtures import needs
from tests.fixtures.clusters import QUICK
from tests.fixtures.command import Command, Said, eventually
from tests.report.quantities import page_problems
from tests.report.quantities_in_text import WIDTH, compared_problems, stored_problems

from pgdyno.designs import answer_of, document_of, page_of, words_of
from pgdyno.loop.history import history_of
from pgdyno.loop.journal import excluded
from pgdyno.plan.designs.compare import Compare
from pgdyno.spec.experiment import Experiment
from pgdyno.store.experiment import Store
from pgdyno.store.folder import ExperimentFolder

NOT_VALID = 3  # Runs of a second are too short to be believed, and pgdyno says so.
CHECK_FAILED = 4
pytestmark = [pytest.mark.pg, needs.POSTGRESQL_15]


@pytest.fixture
def scripts(tmp_path: Path) -> Path:
    (tmp_path / "fast.sql").write_text("SELECT pg_sleep(0.002);\n")
    (tmp_path / "slow.sql").write_text("SELECT pg_sleep(0.008);\n")
    return tmp_path


def options(folder: Path, *more: str) -> list[str | Path]:
    settings = [part for n, v in QUICK.items() for part in ("--set", f"{n}={v}")]
    return [
        *("-s", "1", "-c", "2", "-T", "1s", "--warmup", "0s", "--pg-version", "15", *settings),
        *("--variant", f"slow: script={folder / 'slow.sql'}"),
        *("--variant", f"fast: script={folder / 'fast.sql'}"),
        *more,
    ]


def runs_done(store: Path) -> int:
    return len(list(store.glob("*/runs/[0-9][0-9][0-9][0-9]")))


@pytest.fixture
def compared(pgdyno: Command, scripts: Path) -> Said:
    return pgdyno("compare", *options(scripts, "--json", "--check", "tps_ratio>3000"))


def test_a_script_four_times_as_fast_is_found_faster_with_its_reason(
    compared: Said, pgdyno: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert compared.code == CHECK_FAILED, compared.err
    assert "CHECK FAILED by fast tps_ratio>3000" in compared.err
    document = compared.document
    assert document["format"] == "pgdyno.compare/1"
    assert (document["reference"], document["metric"]) == ("slow", "tps")
    rounds = document["rounds"]
    assert rounds >= 5
    assert document["runs"] == 2 * rounds
    assert document["stopped_by"] == f"decided after {rounds} rounds"
    fast = document["variants"][1]
    assert (fast["name"], fast["verdict"]) == ("fast", "faster")
    # It stops as soon as it is sure of a direction: how far beyond it is, the noise decides.
    assert 1 < fast["tps_ratio"]["low"] < fast["tps_ratio"]["value"]
    # A ratio of noise is left out.
    p99_ratio = fast["latency_p99_ratio"]
    assert p99_ratio is None or p99_ratio["value"] < 1
    assert fast["ratios"]["p50"]["high"] < 1
    parts = fast["where_the_difference_lies"]
    # On a disturbed machine the parts may not explain the latency: then none is shown.
    assert (parts is None) == bool(fast["where_the_difference_lies_not_computed_because"])
    if parts is not None:
        assert "Timeout:PgSleep" in fast["because"]
        total = sum(part["ms"] for part in parts["parts"]) + parts["residual_ms"]
        assert total == pytest.approx(parts["latency_ms"])
    assert f"round {rounds}: fast tps" in compared.err
    assert stored_problems(pgdyno.store, document) == []
    shown = pgdyno("show", "last")
    assert "fast is faster than slow: tps +" in " ".join(shown.out.split())
    folder = Store(pgdyno.store).find("last")
    assert "fast against slow" in folder.report_path.read_text()
    why = "the rest exceeds the answer"
    monkeypatch.setattr("pgdyno.answer.compared.why_withheld", lambda *_: why)
    answer = answer_of(folder)
    document = document_of(answer)
    assert document["variants"][1]["where_the_difference_lies"] is None
    assert f"not split into parts: {why}" in words_of(answer, WIDTH)
    assert page_problems(page_of(answer), document) == []
    assert list(compared_problems(words_of(answer, WIDTH), document)) == []


def test_the_answer_has_the_interval_of_the_look_that_the_plan_had(
    compared: Said, pgdyno: Command
) -> None:
    """Pilots are no part of the answer, but they decide with the budget which look is the last."""
    folder = ExperimentFolder(Store(pgdyno.store).list()[-1].folder)
    plan, spec = folder.folder / "plan.jsonl", folder.folder / "spec.toml"
    decisions = [json.loads(line) for line in plan.read_text().splitlines()]
    for decision in decisions:
        if decision["decision"] == "run" and decision["round"] == 1:
            decision |= {"purpose": "pilot", "round": 0}
        elif decision["decision"] == "run":
            decision["round"] -= 1
        elif decision["decision"] == "done":
            decision["took_ns"] = 10_000_000_000
    plan.write_text("".join(json.dumps(decision) + "\n" for decision in decisions))
    rounds = compared.document["rounds"] - 1
    # The two pilots and all rounds fit, and not half a round more.
    budget = f'budget = "{10 * 2 * (rounds + 1) + 5}s"'
    text, replaced = re.subn(r'budget = "\w+"', budget, spec.read_text())
    assert replaced == 1
    spec.write_text(text)
    experiment = Experiment.model_validate(tomllib.loads(text))
    [standing] = Compare(experiment).standings(history_of(folder))
    findings = answer_of(folder).compare
    assert findings is not None
    [contrast] = findings.contrasts
    assert standing.comparison is not None
    assert contrast.deciding.ratio == standing.comparison.ratio


def test_a_comparison_has_the_devices_of_each_variant(pgdyno: Command, scripts: Path) -> None:
    (scripts / "fast.sql").write_text("SELECT pg_sleep(0.002);\nSELECT txid_current();\n")
    said = pgdyno("compare", *options(scripts, "-T", "4s", "--rounds", "3", "--json"))
    idle, writing = (variant["devices"] for variant in said.document["variants"])
    assert writing["wal_generated"]["value"] > idle["wal_generated"]["value"], said.err
    assert writing["wal_generated"]["unit"] == "MB/s"
    assert "what the devices did" in pgdyno("show", "-v", "last").out


def test_a_killed_comparison_continues_and_repeats_at_most_one_run(
    pgdyno: Command, scripts: Path
) -> None:
    running = pgdyno.start("compare", *options(scripts))
    eventually(lambda: runs_done(pgdyno.store) >= 4 or None)
    running.process.kill()
    running.wait()
    folder = Store(pgdyno.store).find("last")
    said = pgdyno("run", "--resume", "last", "--json")
    assert said.code == NOT_VALID, said.err
    document = said.document
    rounds = document["rounds"]
    assert (rounds >= 5, document["variants"][1]["verdict"]) == (True, "faster")
    runs = [decision for decision in folder.decisions() if decision["decision"] == "run"]
    assert len(runs) <= 2 * rounds + 1
    experiment = folder.spec()
    assert experiment.count("[[variant]]") == 2
    assert len(history_of(folder)) == 2 * rounds
    again = answer_of(folder)
    assert again.compare is not None
    assert again.compare.contrasts[0].deciding.pair_count == rounds
    assert any("data that was loaded again" in confound for confound in again.compare.confounds)


def test_a_script_slower_than_a_tenth_of_a_run_is_measured_by_the_execution(
    pgdyno: Command, scripts: Path
) -> None:
    (scripts / "slow.sql").write_text("SELECT pg_sleep(1.2);\n")
    (scripts / "fast.sql").write_text("SELECT pg_sleep(0.2);\n")
    said = pgdyno("compare", *options(scripts, "-c", "1", "--rounds", "3", "--json"))
    document = said.document
    assert document["metric"] == "duration", said.err
    slow, fast = document["variants"]
    assert (slow["runs"], fast["runs"]) == (3, 3)
    assert slow["metrics"]["duration"]["value"] >= 1.2
    assert fast["metrics"]["duration"]["value"] >= 0.2
    assert fast["ratios"]["duration"]["value"] < 1
    assert not any(warning["kind"] == "too_short" for warning in document["warnings"])


def test_an_interrupted_comparison_keeps_its_whole_rounds(pgdyno: Command, scripts: Path) -> None:
    # So narrow an interval is never reached: it goes on until it is interrupted.
    running = pgdyno.start("compare", *options(scripts, "--precision", "0.001%", "--json"))
    eventually(
        lambda: runs_done(pgdyno.store) >= 3, unless=lambda: running.process.poll() is not None
    )
    running.signal(signal.SIGINT)
    said = running.wait()
    assert said.code == 130, said.err
    document = json.loads(said.out)
    assert document["stopped_by"] == "interrupted"
    slow, fast = document["variants"]
    pairs = min(slow["runs"], fast["runs"])
    assert len(fast["pairs"]) == pairs >= 1
    assert fast["verdict"] == ("cannot tell" if pairs < 5 else "faster")


def test_a_variant_that_fails_while_it_is_measured_is_left_out(
    pgdyno: Command, scripts: Path
) -> None:
    (scripts / "broken.sql").write_text("SELECT * FROM nowhere;\n")
    broken = f"broken: script={scripts / 'broken.sql'}"
    said = pgdyno("compare", *options(scripts, "--variant", broken, "--rounds", "3", "--json"))
    by_name = {variant["name"]: variant for variant in said.document["variants"]}
    assert "nowhere" in by_name["broken"]["cannot_start"]
    assert by_name["fast"]["runs"] == 3, "fewer rounds have no interval"
    assert said.document["stopped_by"] == "all 3 rounds are done"
    folder = Store(pgdyno.store).find("last")
    assert set(excluded(folder)) == {"2"}


def test_a_spec_file_is_shown_as_a_plan_before_it_is_run(pgdyno: Command, scripts: Path) -> None:
    printed = pgdyno("compare", *options(scripts, "--print-spec"))
    spec = scripts / "spec.toml"
    spec.write_text(printed.out)
    plan = pgdyno("run", spec, "--dry-run")
    assert plan.code == 0
    [order] = [line for line in plan.out.splitlines() if line.startswith("order")]
    assert sorted(order.split()[1:3]) == ["fast;", "slow;"]
    assert not pgdyno.store.exists()


def test_a_spec_file_with_mistakes_starts_nothing(pgdyno: Command, tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_text("[experiment]\nnme = 1\n")
    said = pgdyno("run", tmp_path / "x.toml")
    assert said.code == 1
    assert "did you mean name?" in said.err
    assert not pgdyno.store.exists()


def test_rounds_that_cannot_tell_are_continued(pgdyno: Command, scripts: Path) -> None:
    script = scripts / "fast.sql"
    measured = pgdyno(
        *("compare", "-s", "1", "-c", "2", "-T", "1s", "--warmup", "0s", "--pg-version", "15"),
        *("-f", script, "--variant", "a: jit=on", "--variant", "b: jit=off"),
        *("--rounds", "3", "--margin", "0.01%"),
    )
    again = pgdyno("run", "--resume", "1", "--more", "--json")
    if "cannot tell whether" not in measured.out:  # 1 in 25 of such comparisons.
        assert "for a comparison that cannot tell" in again.error
        return
    assert "pgdyno run --resume 1 --more" in measured.err
    assert again.document["rounds"] == 6
    assert again.document["runs"] == 12
    assert pgdyno("run", "--more", "spec.toml").code == 1


def test_a_fixed_number_of_rounds_is_not_changed_and_the_plan_says_that_they_count(
    pgdyno: Command, scripts: Path
) -> None:
    measured = pgdyno("compare", *options(scripts, "--rounds", "3"))
    assert measured.code in (0, NOT_VALID), measured.err
    plan = pgdyno("run", "--resume", "1", "--dry-run")
    assert plan.out.startswith("done        6 runs in 3 rounds: they count\n")
    refused = pgdyno("run", "--resume", "1", "--budget", "1h")
    assert refused.code == 1
    assert "a fixed number of rounds, 3" in refused.error
