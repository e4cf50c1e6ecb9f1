"""Tries the load of a capture before it is measured, in transactions that are rolled back.

Every statement is prepared, and the engine carries out every transaction type with values that it
draws as in the load. For a statement that the server refuses, other types or values are tried.
If they fail too, the load goes without the statement.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from pgdyno.clock import monotonic_ns
from pgdyno.engine.job import ClosedLoop, Job, LoadWork, MeasureTransactions
from pgdyno.engine.records import Record, ScriptShape, Summary
from pgdyno.engine.stream import EngineRun, check_job
from pgdyno.errors import PgdynoError
from pgdyno.features.capture.mirror.accepting import TURNS, Asked, accepted_types, other_values
from pgdyno.features.capture.mirror.adaptation import Adaptation, is_control, left_out_of
from pgdyno.features.capture.mirror.empty_tables import EmptyTables
from pgdyno.features.capture.mirror.fitting import NO_ROWS, Fitting
from pgdyno.features.capture.mirror.job import (
    capture_of,
    mirror_load,
    sent_texts,
    templates_of,
)
from pgdyno.features.capture.mirror.kept_fits import Fits, file_of_fits, keep_fits, read_fits
from pgdyno.features.capture.mirror.trying import found_values
from pgdyno.features.capture.mirror.written_rows import rows_of_the_load
from pgdyno.features.capture.model import Capture, Constant, Taken, parts_of
from pgdyno.features.capture.on_server import foreign_in_load
from pgdyno.features.capture.tables import CAPTURED
from pgdyno.measure.jobs import engine_target, load_job
from pgdyno.measure.setup import Setup
from pgdyno.measure.under_test import UnderTest
from pgdyno.redaction import redacted
from pgdyno.server.connect import Connection
from pgdyno.spec.experiment import Experiment, Script
from pgdyno.spec.planned import PlannedRun
from pgdyno.store.folder import ExperimentFolder

# Draws of each transaction type in a round of the probe, and the most rounds.
_ONE_ROW = {"least": 1.0, "mean": 1.0, "most": 1.0}
_DRAWS, _ROUNDS_MAX = 20, 8
# A round ends after this time; the statements that it did not reach stay in the load.
_ROUND_S_MAX = 15
# The statements that PREPARE takes.
_PREPARED = re.compile(r"[\s(]*(?:select|insert|update|delete|merge|with|values|table)\b", re.I)
# The time for fitting: of all statements, and for each of them.
_FIT_S_MIN, _FIT_S_MAX, _FIT_S_OF_EACH = 40.0, 120.0, 0.24
_FIND_S_MAX = 5.0
_STATEMENT_TIMEOUT = "3s"
# A statement is refused if this share of its executions fails. If fewer fail, values of other types
# are tried, and stay if this number of draws succeeds. Others stay, and are counted.
_FAILS_MIN, _STEADY_DRAWS = 0.5, 12
# States that say nothing about a statement: conflicts, limits, time, connections, and what cannot
# be done inside a transaction, such as a procedure that commits.
_ACCIDENTS = ("25", "2D", "40", "53", "55", "57", "08", "58", "XX001", "XX002")
_STATE_LENGTH = 5
_NO_RIGHT = "42501"
# The forms in which a capture takes a role.
_ROLE = re.compile(
    r"SET LOCAL (?:ROLE|SESSION AUTHORIZATION) \"(.+)\"|SELECT set_config\('role', '(.+)', true\)"
)
_RIGHTS_SQL = (
    "SELECT bool_and(pg_catalog.has_table_privilege(r.oid, pg_catalog.to_regclass(own),"
    " 'SELECT, INSERT, UPDATE, DELETE')) FROM pg_catalog.pg_roles r, unnest(%s::text[]) own"
    " WHERE r.rolname = %s"
)

_KNOWN: dict[str, dict[str, dict[str, Any]]] = {}
_LOCK = threading.Lock()


def probed(
    setup: Setup, planned: PlannedRun, under_test: UnderTest, folder: ExperimentFolder
) -> Setup:
    """Return the setup with loads that fit the database; the first run of an experiment probes.

    All variants have the same load, so that they can be compared. Before each run, the statements
    are left out that would run code of others in the database of a copy.
    """
    scripts = [own for own in setup.experiment.workload.scripts if own.capture is not None]
    if not scripts:
        return setup
    with _LOCK:
        known = _KNOWN.setdefault(str(folder.folder), {})
        for script in scripts:
            name = str(script.capture)
            if name not in known:
                known[name] = _Probe(setup, planned, under_test, script).adaptation()
            elif foreign := _foreign(script, under_test):
                known[name] = _with_harmful(known[name], foreign)
    if not any(known.values()):
        return setup
    experiment = with_adapted(setup.experiment, known)
    every = tuple(range(len(experiment.all_scripts())))
    whole = replace(planned, cell=replace(planned.cell, script_indexes=every))
    job = _job(experiment, whole, setup, under_test)
    return replace(setup, experiment=experiment, scripts=check_job(job))


def _foreign(script: Script, under_test: UnderTest) -> dict[str, str]:
    """Return the statements that would run code of others, by id; none without a copy's mark.

    Without the mark it is a database of the user's own: there the load needs `--allow-write`, or
    its sessions only read.
    """
    dataset = under_test.facts.dataset
    if not (dataset.is_marked and dataset.kind == CAPTURED.name):
        return {}
    with under_test.control("probe") as connection:
        return foreign_in_load(connection, capture_of(script))


def _with_harmful(document: Mapping[str, Any], foreign: Mapping[str, str]) -> dict[str, Any]:
    """Return an adaptation without these statements. `foreign`: what each would run, by its id."""
    own = Adaptation.model_validate(document)
    reasons = {
        name: f"it uses {what}, which is not of the capture" for name, what in foreign.items()
    }
    harmful = tuple(dict.fromkeys((*own.harmful, *foreign)))
    update = {"left_out": {**own.left_out, **reasons}, "harmful": harmful}
    return own.model_copy(update=update).model_dump(mode="json", by_alias=True)


def with_adapted(experiment: Experiment, known: Mapping[str, Mapping[str, Any]]) -> Experiment:
    """Return the experiment with what each capture, by its path, needs in the database."""
    workload = experiment.workload
    scripts = tuple(
        script.model_copy(update={"adapted": dict(known.get(str(script.capture), {}))})
        if script.capture is not None
        else script
        for script in workload.scripts
    )
    return experiment.model_copy(
        update={"workload": workload.model_copy(update={"scripts": scripts})}
    )


def _job(experiment: Experiment, planned: PlannedRun, setup: Setup, under_test: UnderTest) -> Job:
    return load_job(
        experiment,
        planned,
        target=engine_target(under_test.target, f"pgdyno/{under_test.verb}/probe", follows=True),
        clock=setup.clock,
        scale=under_test.facts.dataset.scale,
        read_only=setup.is_read_only and not under_test.is_pooled,
    )


@dataclass(slots=True)
class _Probe:
    """The probe of one capture."""

    setup: Setup
    planned: PlannedRun
    under_test: UnderTest
    script: Script
    left_out: dict[str, str] = field(default_factory=dict)
    types: dict[str, dict[int, str]] = field(default_factory=dict)
    sources: dict[str, dict[int, Any]] = field(default_factory=dict)
    of_empty: dict[str, dict[int, Any]] = field(default_factory=dict)
    tried: dict[str, int] = field(default_factory=dict)
    steadied: set[str] = field(default_factory=set)
    fitted: tuple[str, ...] = ()
    foreign: dict[str, str] = field(default_factory=dict)

    def adaptation(self) -> dict[str, Any]:
        """Return what the load needs here, as a document; empty if it needs nothing."""
        self.setup.progress.said("probing the statements of the capture")
        # Before anything else: planning a statement may call its functions.
        self.foreign = _foreign(self.script, self.under_test)
        self._prepare()
        # The values of a recording are its own, so no other ones are tried.
        is_recorded = capture_of(self.script).recording is not None
        for _ in range(0 if is_recorded else _ROUNDS_MAX):
            script = self._script()
            if not templates_of(script):
                break
            try:
                shapes, summary = self._round(script)
            except PgdynoError:
                break  # The load itself meets the same error, and reports it.
            if summary is None or not self._answered(script, shapes, summary):
                break
        self._fit()
        if not is_recorded:
            self._try_takers()
        document = self._document()
        left_out = document["left_out"].values()
        for reason in dict.fromkeys(left_out):
            count = sum(other == reason for other in left_out)
            self.setup.progress.said(f"left out: {count} statements: {reason}")
        return document if any(document.values()) else {}

    def _document(self) -> dict[str, Any]:
        own = Adaptation(
            left_out=self.left_out,
            types=self.types,
            sources=self.sources,
            fitted=self.fitted,
        )
        return _with_harmful(own.model_dump(mode="json", by_alias=True), self.foreign)

    def _script(self) -> Script:
        return self.script.model_copy(update={"adapted": self._document()})

    def _prepare(self) -> None:
        """Let the server parse each statement; find types for parameters that have none."""
        capture, script = capture_of(self.script), self._script()
        omitted = left_out_of(script, capture)
        texts = sent_texts(script)
        with self._fitting(script) as fitting:
            self.of_empty = EmptyTables(fitting.connection, capture).sources()
            self.sources = dict(self.of_empty)
            for name, text in texts.items():
                statement = capture.statement(name)
                if name in omitted or is_control(statement) or not _PREPARED.match(text):
                    continue
                types, refusal = accepted_types(fitting.asked, statement, text)
                if types:
                    self.types[name] = types
                elif refusal:
                    self.left_out[name] = f"the server refuses it: {redacted(refusal)}"

    @contextmanager
    def _fitting(self, script: Script, seconds: float = _FIND_S_MAX) -> Iterator[Fitting]:
        settings = mirror_load(script)["settings"] if templates_of(script) else {}
        with self.under_test.control("probe") as connection:
            asked = Asked(connection, settings.get("search_path", ""))
            yield Fitting(connection, capture_of(script), asked, seconds=seconds)

    def _fit(self) -> None:
        """Find values with which a call does as much as in the source."""
        script = self._script()
        if not templates_of(script):
            return
        texts, capture, path = sent_texts(script), capture_of(script), script.capture
        assert path is not None, "only a script with a capture is probed"
        tables = {table for own in capture.statements for table in own.tables}
        place = self.under_test.target.place
        seconds = min(max(_FIT_S_MIN, _FIT_S_OF_EACH * len(texts)), _FIT_S_MAX)
        with self._fitting(script, seconds) as fitting:
            file = file_of_fits(fitting.connection, path, tables, place=place)
            kept = read_fits(file)
            new = {name: text for name, text in texts.items() if name not in kept.tried}
            with rows_of_the_load(fitting, texts):
                sources = kept.sources | fitting.sources(new, texts)
            keep_fits(file, Fits(sources=sources, tried=(*kept.tried, *fitting.tried)))
        for name, changed in sources.items():
            if name in texts and name not in self.left_out:
                self.sources[name] = {**self.sources.get(name, {}), **changed}
                self.fitted += (name,)
        self.setup.progress.said(
            f"fitted: {len(self.fitted)} of {len(texts)} statements"
            + (f"; {len(kept.tried)} were tried before" if kept.tried else "")
        )

    def _round(self, script: Script) -> tuple[tuple[ScriptShape, ...], Summary | None]:
        """Carry out every type several times; return the types and how they ended."""
        setup = self.setup
        workload = setup.experiment.workload.model_copy(update={"scripts": (script,)})
        experiment = setup.experiment.model_copy(update={"workload": workload})
        cell = replace(self.planned.cell, script_indexes=(0,), clients=1, rate_tps=None)
        count = _DRAWS * len(templates_of(script))
        planned = replace(
            self.planned, cell=cell, warm_ns=0, measure_ns=0, transactions_per_client=count
        )
        job = _job(experiment, planned, setup, self.under_test)
        job = _without_traces(job, count)
        shapes = check_job(job)
        began_ns = monotonic_ns()
        with EngineRun(job) as engine:

            def look(_line: bytes, _record: Record) -> None:
                if monotonic_ns() - began_ns > _ROUND_S_MAX * 1_000_000_000:
                    engine.stop()

            outcome = engine.run(look)
        if outcome.interrupted is not None:
            raise outcome.interrupted
        return shapes, outcome.summary

    def _answered(self, script: Script, shapes: tuple[ScriptShape, ...], summary: Summary) -> bool:
        """Change what failed; return whether anything was changed."""
        names = {text: name for name, text in sent_texts(script).items()}
        is_changed, powerless = False, set[str]()
        for shape, statement, failed, is_refused in _refused(script, shapes, summary):
            name = names.get(statement)
            if name is None or name in self.left_out:
                continue
            if not is_refused:
                is_changed |= self._steady(script, name, statement)
                continue
            is_changed = True
            if failed.code == _NO_RIGHT and (roles := self._powerless(shape.name, name)):
                powerless |= roles
                continue
            # The types of copied rows are those of the columns, and COPY cannot be prepared.
            if _is_copy(statement):
                self.tried[name] = TURNS
            values = self._other_values(script, name, statement)
            if values:
                self.sources[name] = self._changed(name, values)
            else:
                self.sources.pop(name, None)
                said = redacted(failed.message)
                self.left_out[name] = f"it always fails in {shape.name}: {said}"
        reason = "its role has no right on the tables here, so the load runs without the role"
        self.left_out |= dict.fromkeys(powerless, reason)
        return is_changed

    def _steady(self, script: Script, name: str, text: str) -> bool:
        """Give parameters of a statement that sometimes fails values of their types, if they help.

        Returns: whether no draw fails then.
        """
        if name in self.steadied or _is_copy(text):
            return False
        self.steadied.add(name)
        original, texts = capture_of(self.script), {**sent_texts(script), name: text}
        with self._fitting(script) as fitting, rows_of_the_load(fitting, texts):
            trial = fitting.trial_of(fitting.capture.statement(name), text)
            values = other_values(fitting.asked, original, name, text, turn=1)
            values = _as_sent(original, name, values)
            changed = self._changed(name, values)
            if not values or trial is None or trial.refusal(changed, _STEADY_DRAWS):
                return False
        self.sources[name] = changed
        return True

    def _powerless(self, template: str, name: str) -> set[str]:
        """Return the statements with which a template takes roles that lack rights here.

        A copy has no grants. In the source, the role has the rights that its statements need.
        """
        capture = capture_of(self.script)
        used = {s.statement for t in capture.templates if t.name == template for s in t.steps}
        texts = {own: capture.statement(own).text for own in used - self.left_out.keys()}
        taken = {own: _ROLE.fullmatch(text) for own, text in texts.items()}
        tables = list(capture.statement(name).tables)
        with self.under_test.control("probe") as connection:
            return {
                own
                for own, role in taken.items()
                if role and _lacks_rights(connection, tables, role[1] or role[2])
            }

    def _changed(self, name: str, values: dict[int, Any]) -> dict[int, Any]:
        """Return the sources of a statement with others; no table without rows gives a value."""
        return {**self.of_empty.get(name, {}), **values}

    def _try_takers(self) -> None:
        """Try the statements that take values of other transactions: a round gives them none."""
        script = self._script()
        if not templates_of(script):
            return
        capture, texts = capture_of(script), sent_texts(script)
        takers = {
            step.statement
            for template in capture.templates
            for step in template.steps
            if any(isinstance(part, Taken) for own in step.parameters for part in parts_of(own))
        }
        with self._fitting(script) as fitting:
            for own in (own for own in capture.statements if own.id in takers & texts.keys()):
                with rows_of_the_load(fitting, texts):
                    trial = fitting.trial_of(own, texts[own.id])
                    said = trial.refusal({}) if trial is not None else None
                if said is None or not said[0] or said[0].startswith(_ACCIDENTS):
                    continue
                values = self._other_values(script, own.id, texts[own.id])
                with rows_of_the_load(fitting, texts):
                    trial = fitting.trial_of(own, texts[own.id])
                    # A refusal may be that of the value of the other transaction, which stays.
                    if values and trial is not None and trial.refusal(values) is None:
                        self.sources[own.id] = self._changed(own.id, values)

    def _other_values(self, script: Script, name: str, text: str) -> dict[int, Any]:
        """Return values with which a refused statement may succeed; empty if none are left.

        Values with which it finds no rows, and found some in the source, come last.
        """
        original, texts = capture_of(self.script), {**sent_texts(script), name: text}
        last: dict[int, Any] = {}
        with self._fitting(script) as fitting, rows_of_the_load(fitting, texts):
            statement = fitting.capture.statement(name)
            if name not in self.tried:
                self.tried[name] = 0
                values, is_whole = found_values(fitting, statement, text)
                if is_whole and values:
                    return values
                last = values
            trial = fitting.trial_of(statement, text)
            while self.tried.get(name, 0) < TURNS:
                turn = self.tried[name] = self.tried.get(name, 0) + 1
                values = other_values(fitting.asked, original, name, text, turn=turn)
                # Without a value the statement would not be sent, and so seem to succeed.
                values = EmptyTables(fitting.connection, original).replaced(name, values)
                values = _as_sent(original, name, values)
                if not values or self._changed(name, values) == self.sources.get(name):
                    continue
                if trial is None or trial.refusal(self._changed(name, values)) != NO_ROWS:
                    return values
                last = last or values
        return last


def _lacks_rights(connection: Connection, tables: list[str], role: str) -> bool:
    row = connection.execute(_RIGHTS_SQL, [tables, role]).fetchone()
    return row is not None and row[0] is False


def _as_sent(capture: Capture, name: str, values: Mapping[int, Any]) -> dict[int, Any]:
    """Return values of a statement without NULL where a step is not sent with NULL."""
    steps = [step for template in capture.templates for step in template.steps]
    never = {place for step in steps if step.statement == name for place in step.not_null}
    null = Constant(value=None)
    return {place: own for place, own in values.items() if place not in never or own != null}


def _is_copy(text: str) -> bool:
    """Return whether a statement copies rows, which the engine makes."""
    return text.lstrip().upper().startswith("COPY")


def _without_traces(job: Job, count: int) -> Job:
    """Return the job with every transaction rolled back, no pauses, and equal weights."""
    work = job.work
    assert isinstance(work, LoadWork)
    [source] = work.scripts
    load: dict[str, Any] = dict(source.mirror or {})
    texts = [statement["text"] for statement in load["statements"]]

    def tried(step: Mapping[str, Any]) -> dict[str, Any]:
        """Return a step as it is probed: without a pause, and one row of those that it copies."""
        listed = step["parameters"]
        if not step.get("left_out") and _is_copy(texts[step["statement"]]):
            listed = [{**own, "length": _ONE_ROW} for own in listed]
        return {**step, "pause_ms": 0.0, "parameters": listed}

    templates: list[Any] = []
    for template in load["templates"]:
        steps = [tried(step) for step in template["steps"]]
        templates.append({**template, "weight": 1, "think_ms": 0.0, "steps": steps})
    settings = {**load["settings"], "statement_timeout": _STATEMENT_TIMEOUT}
    load |= {"is_probe": True, "templates": templates, "settings": settings}
    changed = {
        "scripts": (source.model_copy(update={"mirror": load}),),
        "threads": 1,
        "arrivals": ClosedLoop(clients=1),
        "warm_ns": 0,
        "measure": MeasureTransactions(transactions_per_client=count),
        "probe_application_name": None,
        "connect": work.connect.model_copy(
            update={"idle_connections": 0, "active_connections": None, "background_terminals": 0}
        ),
    }
    return job.model_copy(update={"work": work.model_copy(update=changed)})


def _refused(
    script: Script, shapes: tuple[ScriptShape, ...], summary: Summary
) -> Iterator[tuple[ScriptShape, str, Any, bool]]:
    """Yield types, texts of statements, failures, and whether most executions failed."""
    load = mirror_load(script)
    for failed in summary.failed_statements or ():
        if failed.line is None or len(failed.code) != _STATE_LENGTH:
            continue
        if failed.code.startswith(_ACCIDENTS):
            continue
        shape = shapes[failed.script]
        text = next((own.text for own in shape.statements if own.line == failed.line), "")
        counts = summary.scripts[failed.script].counts
        drawn = counts.completed + counts.failed
        chance = sum(
            step.get("probability", 1.0)
            for template in load["templates"]
            if template["name"] == shape.name
            for step in template["steps"]
            if load["statements"][step["statement"]]["text"] == text
        )
        is_refused = failed.count >= max(1.0, _FAILS_MIN * drawn * min(1.0, chance))
        yield shape, text, failed, is_refused
