"""A tuning over several equal servers as a design: pure, with simulated servers."""

from __future__ import annotations

import math

import pytest
from pydantic import ValidationError
from tests.features.tune.test_design import RUN_NS, asked, tps_of
from tests.plan.following import next_run

from pgdyno.features.tune.design import Tune
from pgdyno.features.tune.spread import level_of
from pgdyno.plan.history import History, Measured
from pgdyno.spec.designs import BenchDesign
from pgdyno.spec.experiment import Experiment, Server
from pgdyno.spec.planned import Stop, server_id

SPEED = {1: 1.0, 2: 0.7, 3: 1.2}


def on_servers(question: Experiment, count: int, *, at_once: bool | None = False) -> Experiment:
    places = [f"host=db{number}" for number in range(1, count + 1)]
    server = Server.model_validate({"dsn": places, "admin": places})
    design = question.design.model_copy(update={"at_once": at_once})
    return question.model_copy(update={"server": server, "design": design})


def carried_out(
    question: Experiment, *, lost_after: dict[int, int] | None = None
) -> tuple[History, Stop, frozenset[str]]:
    """Carry the plan out; `lost_after`: server -> number of all runs after which it is gone."""
    history: History = ()
    excluded: frozenset[str] = frozenset()
    while True:
        run = next_run(Tune, question, history, excluded)
        if isinstance(run, Stop):
            return history, run, excluded
        if len(history) >= (lost_after or {}).get(run.server_number, math.inf):
            excluded |= {server_id(run.server_number)}
            continue
        tps = tps_of(run, len(history)) * SPEED[run.server_number]
        history = (*history, Measured(run, tps, None, {"tps": tps}, RUN_NS))


def servers_by_round(history: History) -> list[list[int]]:
    """Return the servers of the runs of each round, in order."""
    numbers: list[list[int]] = []
    last = None
    for done in history:
        if done.run.round != last:
            numbers.append([])
        numbers[-1].append(done.run.server_number)
        last = done.run.round
    return numbers


@pytest.mark.parametrize("count", [2, 3])
def test_every_round_stays_on_one_server_and_the_servers_share_the_rounds(count: int) -> None:
    question = on_servers(asked(), count)
    history, stop, excluded = carried_out(question)
    assert stop == Stop("proved")
    assert all(len(set(servers)) == 1 for servers in servers_by_round(history))
    tuning = Tune(question).tuning(history, excluded)
    proof, proved = tuning.proof, tuning.proved()
    assert proof is not None
    assert proved is not None
    shares = [len(proof.gain(proof.winner.name, server=n).log_ratios) for n in (1, 2)]
    assert shares[0] == shares[1] >= 2
    # 1000 / 700 on each server, however fast it is; the noise of a run is at most 1 %.
    assert proved[1].mean == pytest.approx(math.log(1000 / 700), abs=0.02)
    assert tuning.level(2).mean == pytest.approx(math.log(SPEED[2]), abs=0.02)


def test_with_one_server_no_run_names_a_server() -> None:
    run = next_run(Tune, asked(), ())
    assert not isinstance(run, Stop)
    assert run.server_number == 0
    assert "server" not in run.label(["script"])


@pytest.mark.parametrize("after", [7, 60, 131, 132, 133, 134])
def test_a_round_that_its_server_lost_is_repeated_on_another(after: int) -> None:
    question = on_servers(asked(), 2)
    history, stop, excluded = carried_out(question, lost_after={2: after})
    assert stop == Stop("proved")
    assert excluded == {server_id(2)}
    assert all(done.run.server_number == 1 for done in history[after:])
    tuning = Tune(question).tuning(history, excluded)
    assert tuning.spread.lost == (2,)
    proved = tuning.proved()
    assert proved is not None
    assert proved[1].mean == pytest.approx(math.log(1000 / 700), abs=0.02)
    # No round of the proof has runs of two servers.
    by_round: dict[int, set[int]] = {}
    for done in history:
        if done.run.round > 100_000:
            by_round.setdefault(done.run.round, set()).add(done.run.server_number)
    assert all(len(servers) == 1 for servers in by_round.values())


def test_a_killed_tuning_continues_after_the_loss_of_a_server() -> None:
    question = on_servers(asked(), 2)
    whole, _, excluded = carried_out(question, lost_after={2: 31})
    for cut in (31, 32, 50, len(whole) - 3):
        next_run(Tune, asked(settings=("jit=on,off",)), ())  # Another tuning in between.
        again = next_run(Tune, question, whole[:cut], excluded)
        assert not isinstance(again, Stop)
        expected = whole[cut].run
        assert (again.cell, again.round, again.seed, again.server_number) == (
            *(expected.cell, expected.round, expected.seed, expected.server_number),
        )


def test_a_tuning_without_any_server_left_ends_unproved() -> None:
    question = on_servers(asked(), 2)
    history, stop, excluded = carried_out(question, lost_after={1: 9, 2: 12})
    assert stop == Stop("every server was lost")
    assert not Tune(question).tuning(history, excluded).is_decided


def test_the_level_of_a_server_compares_neighbouring_runs() -> None:
    # The drift of both is the same, so the level is exact: no spread of its pairs.
    goals = [(1, 1.0), (2, 0.5), (1, 2.0), (2, 1.5), (1, 3.0)]
    assert level_of(goals, 2, 1).log_ratios == (-0.5, -0.5)


def test_a_list_of_servers_is_the_first_one_and_its_equals() -> None:
    server = Server.model_validate({"dsn": ["host=a", "host=b"], "admin": ["host=a", "host=b"]})
    assert (server.dsn, server.admin) == ("host=a", "host=a")
    assert [(own.dsn, own.admin) for own in server.each] == [("host=a",) * 2, ("host=b",) * 2]
    assert server.numbers == (1, 2)
    assert Server(dsn="host=a").numbers == (0,)
    assert Server.model_validate(server.model_dump(by_alias=True)) == server


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({"dsn": []}, "empty list"),
        ({"dsn": ["host=a", "host=b"], "admin": "host=a"}, "admin must be a list of 2"),
        ({"dsn": ["host=a", "host=b"], "admin": ["host=a"]}, "admin must be a list of 2"),
        ({"dsn": ["host=a"], "equal": [{"dsn": "host=b"}]}, "use one of the two"),
        ({"dsn": ["host=a", "host=b"], "ssh": "db1"}, "ssh belongs to one server"),
        ({"scratch": {}, "equal": [{"dsn": "host=b"}]}, "a scratch server is one server"),
    ],
)
def test_a_list_of_servers_that_cannot_be_is_refused(fields: dict[str, object], rule: str) -> None:
    with pytest.raises(ValidationError, match=rule):
        Server.model_validate(fields)


def test_only_a_tuning_takes_several_servers() -> None:
    question = on_servers(asked(), 2)
    fields = question.model_dump(by_alias=True)
    with pytest.raises(ValidationError, match="several servers are named, but a"):
        Experiment.model_validate(
            {**fields, "design": BenchDesign(), "dataset": {"kind": "existing"}}
        )
