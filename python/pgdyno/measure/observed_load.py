"""The load of one run, and the observer of the server while it runs."""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any

from pgdyno.engine.records import Record, raw_record
from pgdyno.engine.stream import EngineOutcome, EngineRun
from pgdyno.measure.before_after import totals_after
from pgdyno.measure.before_load import PreparedRun
from pgdyno.measure.host_access import observed_pooler
from pgdyno.measure.run_progress import Brake, RunWatch
from pgdyno.measure.turns import TURNS, Turns
from pgdyno.observe.nodes import observed_nodes
from pgdyno.observe.observer import ObservedServer, Observer
from pgdyno.observe.totals import Totals
from pgdyno.server.connect import connect
from pgdyno.store.run_writer import RunWriter


def observer_of(ready: PreparedRun, writer: RunWriter) -> Observer:
    """Return the observer of a run: what is sampled while the load runs, and where it is stored."""
    setup, under_test, name = ready.setup, ready.under_test, ready.name
    facts = under_test.facts
    workload = setup.experiment.workload_of(ready.planned.cell.variant)
    within = under_test.observe_within
    folders: dict[str, Path] = {}
    if facts.data_storage is not None:
        folders["data"] = Path(facts.data_storage.path)
    return Observer(
        clock=setup.clock,
        sink=writer,
        run=name,
        server=ObservedServer(
            connect=lambda: connect(under_test.observe, verb="observe", run=name),
            database=under_test.database,
            load_application_name=under_test.application_name(name),
            is_local=facts.is_local,
            is_scratch=under_test.is_scratch,
            postmaster_pid=facts.postmaster_pid,
            load_sessions=workload.connections_of(ready.planned.cell.clients),
            connect_within=None
            if within is None
            else lambda: connect(within, verb="observe", run=name),
            nodes=observed_nodes(
                facts.nodes, within or under_test.observe, run=name, is_local=facts.is_local
            ),
            kinds=facts.kinds,
        ),
        pooler=observed_pooler(under_test.pooler, name) if under_test.pooler else None,
        host=under_test.host_command,
        folders=folders,
        seed=setup.experiment.workload.seed,
    )


def load_observed(
    ready: PreparedRun, writer: RunWriter, observer: Observer, watch: RunWatch, brake: Brake
) -> tuple[EngineOutcome, Totals | None]:
    """Run the load while the server is observed; return its outcome and the totals after it."""
    observer.start()
    try:
        outcome = _drive(ready, writer, observer, watch, brake)
        if not ready.totals:
            return outcome, None
        # This waits for the end of the load's sessions, so the observer's last samples have all of
        # their work.
        after = totals_after(ready.under_test, ready.job, ready.name)
        return outcome, after
    finally:
        observer.stop()
        ready.setup.progress.ended()


def _drive(
    ready: PreparedRun, writer: RunWriter, observer: Observer, watch: RunWatch, brake: Brake
) -> EngineOutcome:
    servers, clock = ready.servers, ready.setup.clock
    turns = Turns(ready.planned, servers, ready.under_test, clock=clock, name=ready.name)
    # The file is in the folder of the run, so that it is found if the lab is killed.
    said = writer.folder / "engine.stderr"
    try:
        with (
            turns,
            servers.spent.on_load(),
            said.open("wb") as log,
            _engine_of(ready, log) as engine,
        ):
            if engine.pid is not None:
                observer.watch_engine(engine.pid)

            def keep(line: bytes, record: Record) -> None:
                writer.add_record(raw_record(line))
                watch.see(record)
                turns.see(record)
                ready.before_after.look_at_clock()
                if brake.see(record):
                    engine.stop()

            outcome: EngineOutcome = engine.run(keep)
            if ready.planned.turns:
                writer.write_json(TURNS, turns.document())
            if engine.hosts:
                document = [host.model_dump(mode="json") for host in engine.hosts]
                writer.write_json("hosts.json", {"hosts": document})
            return outcome
    finally:
        writer.add_engine_log(said.read_text(errors="replace"))
        said.unlink()


def _engine_of(ready: PreparedRun, log: IO[bytes]) -> Any:
    """Return the engine that makes the load: one here, or one on each load host."""
    fleet = ready.servers.fleet
    if fleet is None:
        return EngineRun(ready.job, log=log)
    return fleet.load(ready.job, ready.setup.clock, log=log)
