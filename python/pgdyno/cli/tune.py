"""`pgdyno tune`: which settings are better, proved with fresh runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click
from pydantic import ValidationError

from pgdyno.answer.evidence import evidence_of
from pgdyno.cli import load_options, options, output
from pgdyno.cli.from_options import Asked, experiment_of, refuse
from pgdyno.cli.headings import LOAD, under
from pgdyno.cli.load_options import LoadVerb
from pgdyno.cli.measure import measured
from pgdyno.cli.output import Live
from pgdyno.cli.program_help import own_defaults, type_targets
from pgdyno.cli.tune_servers import (
    also,
    apply_proved,
    equal_servers,
    order_of,
    refuse_without_rights,
)
from pgdyno.designs import design_of
from pgdyno.errors import RefusedError, ServerError, SpecError
from pgdyno.loop.drive import carry_out
from pgdyno.server.find import find
from pgdyno.spec.condition import condition_from, memory_limit_from
from pgdyno.spec.designs import METRICS, BenchDesign, TuneDesign
from pgdyno.store.experiment import Store
from pgdyno.tune import planning
from pgdyno.tune.catalogue import RISKS, Risk
from pgdyno.tune.evidence import choose
from pgdyno.tune.space import check_risks, dimensions
from pgdyno.tune.storage import refuse_on_own_server

_option, _search = under(LOAD), under("Search")
_EVIDENCE_NS = 10_000_000_000


@click.command("tune", cls=LoadVerb, short_help="Find better settings, and prove them.")
@options.connection
@_search(
    "--goal",
    type=click.Choice(METRICS),
    help=f"Metric to improve (default tps; {own_defaults()}; p99 with -R).",
)
@_search(
    "--setting",
    "searched",
    multiple=True,
    metavar="NAME[=LOW..HIGH]",
    help="Setting to search, with a range or choices (A,B,C); at most 6. Also fillfactor,"
    " partitions, wal-segment, checksums, wal-dir, data-dir. Default: chosen by evidence.",
)
@_search(
    "--class",
    "classes",
    multiple=True,
    type=click.Choice(RISKS),
    help="Class of settings to search in addition to safe, memory and planner.",
)
@_search(
    "--keep",
    "limits",
    multiple=True,
    metavar="COND",
    help="Condition on candidates, such as p99<20ms or memory<70%.",
)
@_search(
    "--slo",
    metavar="NAME=TIME",
    help="Latency target, such as p99=20ms: the goal with -R, else a limit; "
    f"{type_targets()}, always a limit.",
)
@_search("--budget", default="30min", metavar="TIME", help="Time for everything (default 30min).")
@_search(
    "--apply", is_flag=True, help="Apply proved settings to your own server; undo RESULT restores."
)
@also
@_option(
    "-c",
    "--clients",
    "--client",
    type=click.IntRange(1, 100_000),
    help="Number of clients (default 1).",
)
@_option("-T", "--duration", "--time", metavar="TIME", help="Duration of each run (default 5s).")
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
def command(**given: Any) -> int:
    """Search settings that make this load better, and prove the best of them with fresh runs.

    A first run shows which settings are worth a search. Then each candidate runs in pairs against
    the best settings so far. At the end, tune measures the winner, the published rules and your
    settings again, and the winner without each of its settings. Only this proof is reported.
    """
    _refuse_bad_limits(given)
    given = {**given, "keep": False, "duration": given["duration"] or "5s"}
    risks = check_risks(given["classes"])
    asked = experiment_of("tune", given, BenchDesign())
    equal = equal_servers(asked, given)
    if given["apply"] and asked.resolved is None:
        raise SpecError(
            "--apply changes a server of your own, but the command names no server.",
            hint="name the server with -h, -d or a conninfo",
        )
    if asked.resolved is not None:
        refuse_on_own_server(tuple(text.partition("=")[0].strip() for text in given["searched"]))
    # Refused before anything runs. The number of settings may not be known yet; 2 is assumed.
    count = len(given["searched"]) or 2
    planning.refuse_short_budget(asked.experiment.workload, given["budget"], count)
    known = _known(asked, given)
    if not given["searched"]:
        if given["print_spec"]:
            raise SpecError(
                "A measured run chooses the settings, and --print-spec measures nothing.",
                hint="name the settings with --setting, or see which there are with --dry-run",
            )
        if given["dry_run"]:
            output.data("\n".join(planning.lines_of_choice(asked.experiment, known, risks)))
            return 0
        given["searched"] = _chosen(asked, known, given["store"], risks)
    space = dimensions(given["searched"], known.machine, known.now, risks)
    refuse_without_rights([asked.experiment.server, *equal], space, is_applied=given["apply"])
    rules, left_out = planning.rules_of(asked.experiment, known, risks)
    for name, why in left_out.items():
        output.note(f"the rules are measured without {name}: {why}")
    design = {name: given[name] for name in ("classes", "slo", "at_once", "budget")}
    design |= {"keep": given["limits"], "metric": given["goal"]}
    try:
        experiment = planning.planned(
            asked.experiment, known, space, rules=rules, equal=equal, fields=design
        )
    except ValidationError as error:
        refuse(error)
    if order := order_of(experiment):
        output.note(order)
    if given["dry_run"] and not given["print_spec"]:
        output.data("\n".join(planning.searched_line(dimension, known) for dimension in space))
    asked = replace(asked, experiment=experiment)
    done = measured("tune", asked, given)
    if given["apply"]:
        apply_proved(asked, done)
    return done.exit_code


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


def _known(asked: Asked, given: dict[str, Any]) -> planning.Known:
    if asked.resolved is not None:
        return planning.known_of_own(asked.experiment, asked.resolved.target)
    binaries = find(bin_dir=given["pg_bin"], version=given["pg_version"])
    return planning.known_of_scratch(asked.experiment, binaries)


def _chosen(
    asked: Asked, known: planning.Known, store: str | None, risks: tuple[Risk, ...]
) -> tuple[str, ...]:
    """Return the settings to search, from the evidence of one measured run; print each reason."""
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
    )
    if outcome.error is not None:
        raise outcome.error
    assert outcome.folder is not None, "a run that ended has a folder"
    runs = outcome.folder.runs()
    if not runs:
        raise ServerError("The first run could not be kept.", hint="see the messages above")
    chosen = choose(evidence_of(runs[-1]), known.machine, risks)
    names = [choice.setting for choice in chosen]
    left_out = planning.unchangeable(asked.experiment, known, names)
    for choice in chosen:
        why = left_out.get(choice.setting)
        output.note(
            f"search  {choice.setting}: {choice.why}"
            if why is None
            else f"not searched  {choice.setting}: {why}"
        )
    if len(left_out) == len(chosen):
        raise RefusedError(
            "No setting that the evidence names can be changed on this server.",
            hint="see the reasons above, or name settings with --setting",
        )
    return tuple(name for name in names if name not in left_out)
