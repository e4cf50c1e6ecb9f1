"""`pgdyno tune`: which settings are better, proved with fresh runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from pgdyno.cli import load_options, options, output, wanted
from pgdyno.cli.load_options import LoadVerb
from pgdyno.cli.option_table import table
from pgdyno.cli.program_help import own_defaults, type_targets
from pgdyno.errors import RefusedError, ServerError, SpecError
from pgdyno.process import signals
from pgdyno.programs.registry import metric_names
from pgdyno.settings.table import RISKS

if wanted.body(__name__):
    from pydantic import ValidationError

    from pgdyno.cli.from_options import AskedExperiment, experiment_of, refuse
    from pgdyno.cli.live import Live
    from pgdyno.cli.measure import VerbResult, measured, refuse_contradictions, refuse_short_runs
    from pgdyno.designs import design_of
    from pgdyno.features.tune import planning
    from pgdyno.features.tune.blocks import conf_of
    from pgdyno.features.tune.design import Tune, long_run_ns
    from pgdyno.features.tune.evidence import choose, not_allowed, small_cache, unusual_values
    from pgdyno.features.tune.evidence_of_run import (
        checkpoint_every_ns,
        evidence_of,
        next_checkpoint_ns,
    )
    from pgdyno.features.tune.findings import TuneFindings
    from pgdyno.features.tune.space import SETTINGS_MAX, check_risks, dimensions
    from pgdyno.features.tune.spec import TuneDesign
    from pgdyno.features.tune.storage import refuse_on_own_server
    from pgdyno.features.tune.verbs.settings import refuse_to_replace
    from pgdyno.loop.drive import carry_out
    from pgdyno.measure.changes import apply_for_good
    from pgdyno.measure.under_test import LentCluster
    from pgdyno.report.text_page import TextPage
    from pgdyno.server.conninfo import resolve
    from pgdyno.server.find import find
    from pgdyno.server.system_settings import SystemSettings
    from pgdyno.spec.condition import condition_from, memory_limit_from
    from pgdyno.spec.designs import BenchDesign
    from pgdyno.spec.units import duration_ns
    from pgdyno.store.experiment import Store
    from pgdyno.store.folder import ExperimentFolder
    from pgdyno.store.stored_run import StoredRun

_EVIDENCE_NS = 10_000_000_000


@click.command("tune", cls=LoadVerb, short_help="Find better settings, and prove them.")
@options.connection
@table(
    f"""
    Search
    --goal {"|".join(metric_names())} *
        Metric to improve (default tps; {own_defaults()}; p99 with -R).
    --setting (searched) NAME[=LOW..HIGH] ... *
        Setting to search, with a range (LOW..HIGH) or values (A,B,C). NAME is a server setting, or
        wal-segment, wal-dir, data-dir, checksums, fillfactor or partitions. At most 6 settings.
        Default: the settings for which a first run shows evidence.
    --class (classes) {"|".join(RISKS)} ...
        Also search settings of this class. safe, memory and planner are always searched.
    --keep (limits) COND ...  Condition on candidates, such as p99<20ms or memory<70%.
    --slo NAME=TIME
        Latency target, such as p99=20ms. With -R: the value to minimise. Without -R: a limit that
        every candidate must keep. A target of one transaction type, such as {type_targets()}, is
        always a limit.
    --budget TIME =30min *
        Longest time until the answer (default 30min).
    --apply  Apply proved settings to your own server; undo RESULT restores.
    """,
)
@options.price_of_loss("Search")
@table("""
    Load
    -c --clients --client N:1..100000 *  Number of clients (default 1).
    -T --duration --time TIME *  Duration of each run (default 5s).
""")
@load_options.rate
@load_options.workload
@load_options.connections
@options.dataset
@options.scratch
@options.changing
@options.watching
@options.gates
@options.progress
@options.results
@options.conf_option
@options.verbose
def command(**given: Any) -> int:
    """Search settings that make this load better, until the time is over or no candidate is left.

    A first run shows which settings are worth a search. First all values of PGTune's formulas run
    together, in pairs against your settings; then tune measures what each of them brings. Every
    other candidate changes one setting. A candidate that is certainly better becomes part of the
    best settings, and the search goes on from there. Each value that was tried has a row with its
    interval. With 95 % probability, all intervals contain the true values.
    """
    refuse_contradictions(given)
    _refuse_bad_limits(given)
    with _lent_cluster() as lent:
        return _tuned(given, lent)


@contextmanager
def _lent_cluster() -> Iterator[LentCluster]:
    """Lend a scratch cluster, and say that it is removed if this takes long."""
    lent = LentCluster()
    try:
        yield lent
    finally:
        with output.doing("removing the scratch server"):
            lent.close()


def _tuned(given: dict[str, Any], lent: LentCluster) -> int:
    """Tune with one scratch cluster, whose data is loaded once."""
    refuse_to_replace(given["conf_to"])
    given = {**given, "keep": False, "duration": given["duration"] or "5s"}
    risks = check_risks(given["classes"])
    # Nothing crashes after the first run, which only looks for evidence.
    asked = experiment_of("tune", {**given, "price_of_loss": None}, BenchDesign())
    if given["price_of_loss"] and asked.resolved is not None:
        raise SpecError(
            "--price-of-loss lets servers crash, and only scratch servers may crash.",
            hint="leave it out; pgdyno crash --kind command crashes a server of your own",
        )
    refuse_short_runs(asked.experiment, "tune")
    if given["apply"] and asked.resolved is None:
        raise SpecError(
            "--apply changes a server of your own, but the command names no server.",
            hint="name the server with -h, -d or a conninfo",
        )
    if asked.resolved is not None:
        refuse_on_own_server(tuple(text.partition("=")[0].strip() for text in given["searched"]))
    planning.refuse_short_budget(asked.experiment.workload, given["budget"])
    known = _known(asked, given)
    evidence: ExperimentFolder | None = None
    fields: dict[str, object] = {}
    if not given["searched"]:
        if given["print_spec"]:
            raise SpecError(
                "A measured run chooses the settings, and --print-spec measures nothing.",
                hint="name the settings with --setting, or see which there are with --dry-run",
            )
        if given["dry_run"]:
            listed = planning.lines_of_choice(
                *(asked.experiment, known, risks),
                budget=given["budget"],
                has_reasons=given["verbose"],
            )
            output.data("\n".join(listed))
            if given["conf_to"] is not None:
                output.note("--dry-run measures nothing, so --conf writes no file")
            return 0
        evidence = _first_run(asked, given["store"], lent)
        known = planning.with_data(known, evidence.runs()[-1])
        fields = _from_evidence(asked, known, evidence.runs()[-1], given)
    # Lists of values are complete.
    ranges = [text for text in given["searched"] if "=" not in text or ".." in text]
    named = {text.partition("=")[0].strip().lower() for text in ranges}
    space = dimensions(given["searched"], known.machine, known.now, risks)
    planning.refuse_without_rights(asked.experiment.server, space, is_applied=given["apply"])
    rules = planning.rules_of(known, named)
    fields |= {name: given[name] for name in ("classes", "slo", "budget")}
    fields |= {"keep": given["limits"], "metric": given["goal"]}
    try:
        experiment = planning.planned(asked.experiment, known, space, rules=rules, fields=fields)
    except ValidationError as error:
        refuse(error)
    experiment = experiment.with_fields(crash_count=given["price_of_loss"] or 0)
    if given["dry_run"] and not given["print_spec"]:
        output.data("\n".join(planning.searched_line(dimension, known) for dimension in space))
        if plan := Tune(experiment).plan_words():
            output.data("\n".join(TextPage().row("plan", plan)))
    asked = replace(asked, experiment=experiment)
    done = measured("tune", asked, given, lent=lent)
    if evidence is not None and done.folder is not None:
        done.folder.take_in(evidence, "evidence")
    if given["conf_to"] is not None:
        _write_conf(given["conf_to"], done)
    if given["apply"]:
        _apply_proved(asked, done)
    return done.exit_code


def _write_conf(path: str, done: VerbResult) -> None:
    """Write the values to apply as a postgresql.conf, or print it."""
    tuned = done.findings.own if done.findings is not None else None
    if not isinstance(tuned, TuneFindings) or not tuned.to_apply():
        output.note(f"--conf: nothing to apply, so {path} is not written")
    elif path == "-":
        output.data(conf_of(tuned).rstrip())
    else:
        options.write_file(Path(path), conf_of(tuned))
        output.note(f"{path} has the values to apply, and says how to undo them")


def _refuse_bad_limits(given: dict[str, Any]) -> None:
    """Raise SpecError for a wrong --keep or --slo, before anything runs."""
    for text in given["limits"]:
        if memory_limit_from(text) is None:
            condition_from(text)
    try:
        TuneDesign(settings=("any",), slo=given["slo"])
    except ValidationError as error:
        refuse(error)


# A scratch server with many variants is never kept, so --keep can mean conditions here.
command.params = [option for option in command.params if option.name != "keep"]


def _known(asked: AskedExperiment, given: dict[str, Any]) -> planning.Known:
    if asked.resolved is not None:
        return planning.known_of_own(asked.experiment, asked.resolved.target)
    binaries = find(bin_dir=given["pg_bin"], version=given["pg_version"])
    return planning.known_of_scratch(asked.experiment, binaries)


def _first_run(asked: AskedExperiment, store: str | None, lent: LentCluster) -> ExperimentFolder:
    """Return the result with one measured run of the load, which is the evidence."""
    output.note("evidence: one run of the load as it is")
    # A short run has too few checkpoints and samples for a choice.
    length_ns = max(asked.experiment.workload.duration_ns, _EVIDENCE_NS)
    workload = asked.experiment.workload.model_copy(update={"duration_ns": length_ns})
    outcome = carry_out(
        asked.experiment.model_copy(update={"workload": workload}),
        design_of(asked.experiment),
        verb="tune",
        resolved=asked.resolved,
        permissions=asked.permissions,
        store=Store.default(store),
        progress=Live(),
        lent=lent,
    )
    if outcome.error is not None:
        raise outcome.error
    assert outcome.folder is not None, "a run that ended has a folder"
    if not outcome.folder.runs():
        raise ServerError("The first run could not be kept.", hint="see the messages above")
    return outcome.folder


def _from_evidence(
    asked: AskedExperiment, known: planning.Known, run: StoredRun, given: dict[str, Any]
) -> dict[str, object]:
    """Return the fields of the design that one measured run decides; print each reason.

    The names of the settings to search go into `given`.
    """
    evidence, machine, risks = evidence_of(run), known.machine, check_risks(given["classes"])
    unusual = (
        *unusual_values(known.now, machine.major),
        *small_cache(evidence, known.now, machine),
    )
    formula = planning.formula_of(known)
    usual = [choice.setting for choice in unusual]
    together = planning.together_of(asked.experiment, known, formula, usual, risks)
    chosen = choose(evidence, machine, risks, unusual=unusual)
    left_out = planning.unsearchable(asked.experiment, known, [c.setting for c in chosen], risks)
    long_ns = long_run_ns(duration_ns(given["budget"], what="--budget"))
    long_ns = max(long_ns, asked.experiment.workload.duration_ns)
    every_ns, next_ns = checkpoint_every_ns(run), next_checkpoint_ns(run, known.now, machine.major)
    if every_ns is None:
        left_out = planning.not_shown([c.setting for c in chosen], next_ns, long_ns) | left_out
        every_ns = next_ns if next_ns is not None and next_ns <= long_ns else None
    listed = ", ".join(f"{name}={text}" for name, text in together.items())
    if len(together) > 1:
        output.note(f"{'together':12}first {listed}")
    for choice in chosen:
        why = left_out.get(choice.setting)
        label = "search" if why is None else "not alone"
        output.note(f"{label:12}{choice.setting}: {why or choice.why}")
    risky = {seen.setting: seen.why for seen in not_allowed(evidence, machine, risks)}
    for name, why in risky.items():
        output.note(f"{'left out':12}{name}: {why}")
    names = [choice.setting for choice in chosen if choice.setting not in left_out]
    cannot = planning.unsearchable(asked.experiment, known, [*together], risks)
    names = names or [name for name in together if name not in cannot][:SETTINGS_MAX]
    if not names:
        raise RefusedError(
            "The run shows no evidence that a setting limits this load, so nothing is searched.",
            hint="name settings with --setting to search them all the same",
        )
    given["searched"] = tuple(names)
    every = {} if every_ns is None else {"checkpoint_every": f"{every_ns // 1_000_000}ms"}
    reasons = planning.reasons_of(known, formula)
    said = {"reasons": reasons, "formula_of": known.facts, "left_out": risky}
    return {"formula": formula, "together": together, **said, **every}


def _apply_proved(asked: AskedExperiment, done: VerbResult) -> None:
    """Apply the proved settings permanently, with a journal, and print which need a restart."""
    tuned = done.findings.own if done.findings is not None else None
    if not isinstance(tuned, TuneFindings) or done.folder is None:
        return
    if tuned.verdict != "better":
        output.note("applied nothing: no settings were proved")
        return
    if done.ended_by is not None:
        output.note("applied nothing, because the tuning ended with an error")
        return
    assert asked.resolved is not None, "settings are applied to a server of the user's"
    wanted = {setting.name: setting.new for setting in tuned.settings}
    listed = ", ".join(f"{name} = {value}" for name, value in wanted.items())
    signals.check()
    server = asked.experiment.server
    admin = resolve(conninfo=server.admin).target if server.admin else asked.resolved.target
    commands = (server.apply_command, server.restart_command, server.recover_command)
    restarts = bool(tuned.needs_restart) and server.restart_command is not None
    system = SystemSettings(admin, "tune", *commands, command_timeout_s=server.command_timeout_s)
    apply_for_good(done.folder, system, wanted, restarts=restarts)
    output.note(f"applied {listed}; pgdyno undo {done.folder.number} restores the old values")
    if tuned.needs_restart and not restarts:
        output.note(f"a restart is needed for {', '.join(tuned.needs_restart)}")
