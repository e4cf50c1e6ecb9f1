"""Carries out one planned run, from the reset to the stored result.

The order of the steps is: reset, totals, begin of observing, engine (connect, prepare, warm up,
measure, drain), totals, end of observing, store.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pgdyno.engine.stream import EngineOutcome
from pgdyno.measure.after_load import write_after
from pgdyno.measure.before_load import prepare_run
from pgdyno.measure.last_words import quoting_the_log, words_of_log
from pgdyno.measure.observed_load import load_observed, observer_of
from pgdyno.measure.run_progress import Brake, Moment, RunWatch
from pgdyno.measure.stage import Stage
from pgdyno.measure.under_test import UnderTest
from pgdyno.programs.registry import part_of
from pgdyno.server.server_facts import ServerFacts
from pgdyno.server.system_settings import is_there
from pgdyno.spec.planned import PlannedRun
from pgdyno.store.stored_run import StoredRun


@dataclass(frozen=True, slots=True)
class Executed:
    """A finished run. `stored` is None if the engine ended without a summary.

    `braked`: the condition of `--abort-if` that ended the run, "" if none did. `is_server_lost`:
    the server answered before the run and not after it. `words_of_log`: the last lines in the log
    of a scratch server that no longer answers. `spent_ns`: the time by `measure.servers.Part`.
    """

    stored: StoredRun | None
    outcome: EngineOutcome
    facts: ServerFacts
    braked: str
    is_server_lost: bool = False
    words_of_log: str = ""
    spent_ns: Mapping[str, int] = field(default_factory=dict)


def execute(planned: PlannedRun, stage: Stage, *, position: str) -> Executed:
    """Carry out one run and store it.

    An interrupt ends the load cleanly and is in the outcome. If an error ends the run, everything
    measured until then is in the store.
    Args: position, for the progress, such as "run 4 of 20".
    Raises: ServerError if the server cannot be prepared; StoreError if a write fails.
    """
    label = planned.label([script.name for script in stage.experiment.all_scripts()])
    stage.progress.moved(Moment(label, "preparing", position=position))
    spent = stage.servers.begin_run()
    under_test = stage.servers.ready(planned.cell.variant, planned.round, restarts=planned.restarts)
    with quoting_the_log(under_test):
        done = _execute(planned, stage, under_test, label=label, position=position)
    return replace(done, spent_ns=dict(spent.by_part_ns))


def _execute(
    planned: PlannedRun, stage: Stage, under_test: UnderTest, *, label: str, position: str
) -> Executed:
    part = part_of(stage.experiment.program, "probe")
    if part is not None:
        with stage.servers.spent.on("reset"):
            stage = part.probed(stage, planned, under_test)
    ready = prepare_run(planned, stage, under_test, label)
    shapes = stage.shapes_of(planned)
    watch = RunWatch(planned, label, stage.progress, position=position, shapes=shapes)
    brake = Brake(stage.abort_if)
    with stage.folder.begin_run(planned.number, label, ready.job.without_secrets()) as writer:
        observer = observer_of(ready, writer)
        outcome, after = load_observed(ready, writer, observer, watch, brake)
        with stage.progress.doing("reading and storing what the run left"):
            write_after(ready, writer, observer, outcome, after)
            stored = writer.finish() if outcome.summary is not None else None
    return Executed(
        stored=stored,
        outcome=outcome,
        facts=ready.under_test.facts,
        braked=brake.why,
        is_server_lost=ready.before is not None
        and after is None
        and not is_there(under_test.observe, under_test.verb),
        words_of_log=words_of_log(ready.under_test) if after is None else "",
    )
