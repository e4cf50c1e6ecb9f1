"""`pgdyno tune`: which settings are better, proved with fresh runs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import fill
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
from pgdyno.doctor import examine
from pgdyno.errors import RefusedError, ServerError, SpecError
from pgdyno.loop.drive import carry_out
from pgdyno.quantities import duration_text
from pgdyno.server.connect import connect
from pgdyno.server.conninfo import resolve
from pgdyno.server.find import find
from pgdyno.server.placement import LAST_PLACE
from pgdyno.server.system_settings import not_alterable
from pgdyno.spec.condition import condition_from, memory_limit_from
from pgdyno.spec.designs import METRICS, BenchDesign, TuneDesign
from pgdyno.spec.experiment import EqualServer, Experiment, Server
from pgdyno.spec.setting_rules import snapshot
from pgdyno.spec.units import duration_ns
from pgdyno.spec.variant import Variant
from pgdyno.store.experiment import Store
from pgdyno.tune.budget import runs_of_proof
from pgdyno.tune.catalogue import RISKS, catalogue, needs_of
from pgdyno.tune.evidence import choosable, choose
from pgdyno.tune.machine import Machine, machine_of
from pgdyno.tune.memory import ALLOWING_SETTINGS
from pgdyno.tune.rules import recommend, rule_set
from pgdyno.tune.seen import defaults_of, read_live
from pgdyno.tune.space import SETTINGS_MAX, Dimension, check_risks, dimensions
from pgdyno.tune.storage import choices_now, refuse_on_own_server

_option, _search = under(LOAD), under("Search")
_OVERHEAD_NS = 2_000_000_000
_WARM_NS = 2_000_000_000
_EVIDENCE_NS = 10_000_000_000
_WIDTH = 100


@dataclass(frozen=True, slots=True)
class _Known:
    """The server before the search: its machine, its settings, and its build options."""

    machine: Machine
    now: dict[str, str]
    enum_values: dict[str, tuple[str, ...]]


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
    known = _known(asked, given)
    if asked.resolved is not None:
        refuse_on_own_server(tuple(text.partition("=")[0].strip() for text in given["searched"]))
    # Refused before anything runs. The number of settings may not be known yet; 2 is assumed.
    _refuse_short_budget(asked.experiment, given["budget"], len(given["searched"]) or 2)
    if given["searched"]:
        dimensions(given["searched"], known.machine, known.now, risks)
    if not given["searched"] and given["print_spec"]:
        raise SpecError(
            "A measured run chooses the settings, and --print-spec measures nothing.",
            hint="name the settings with --setting, or see which there are with --dry-run",
        )
    if not given["searched"] and given["dry_run"]:
        output.data("\n".join(_plan_of_choice(asked, known, risks)))
        return 0
    names = given["searched"] or _chosen(asked, known, given, risks)
    space = dimensions(names, known.machine, known.now, risks)
    servers: list[Server | EqualServer] = [asked.experiment.server, *equal]
    refuse_without_rights(servers, space, is_applied=given["apply"])
    rules = _rules(asked, known, risks)
    # The spec has the server's value of each setting that a candidate changes or the memory needs.
    changed = [*(dimension.name for dimension in space), *rules.settings]
    design = TuneDesign(
        settings=tuple(_written(dimension) for dimension in space),
        now={name: known.now[name] for name in dict.fromkeys((*changed, *ALLOWING_SETTINGS))},
        classes=given["classes"],
        keep=given["limits"],
        slo=given["slo"],
        ram_bytes=known.machine.ram_bytes,
        major=known.machine.major,
        metric=given["goal"],
        at_once=given["at_once"],
        budget=given["budget"],
    )
    server = asked.experiment.server.model_copy(update={"equal": equal})
    experiment = asked.experiment.model_copy(
        update={"design": design, "variants": (rules,), "server": server}
    )
    asked = replace(asked, experiment=_validated(experiment))
    if order := order_of(asked.experiment):
        output.note(order)
    if given["dry_run"] and not given["print_spec"]:
        output.data("\n".join(_searched_line(dimension, known) for dimension in space))
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


def _known(asked: Asked, given: dict[str, Any]) -> _Known:
    """Return the machine and the present values; a scratch server is not started for this."""
    if asked.resolved is None:
        binaries = find(bin_dir=given["pg_bin"], version=given["pg_version"])
        machine = Machine(
            binaries.major,
            connections=100,
            ram_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            cores=len(os.sched_getaffinity(0)),
            disk="ssd",
        )
        values = {
            name: tuple(value for value in rule.values if _is_built(value, binaries.configure))
            for name, rule in snapshot(binaries.major).items()
        }
        now = defaults_of(binaries.major) | dict(asked.experiment.server.settings)
        now |= choices_now(asked.experiment, binaries.major)
        return _Known(machine, now, values)
    reviewed = read_live(
        examine.Asked(
            target=asked.resolved.target,
            folder=Path(os.environ.get("PGDYNO_DATA") or LAST_PLACE),
            verb="tune",
        )
    )
    if asked.experiment.server.admin is None and asked.experiment.server.apply_command is None:
        raise RefusedError(
            "tune changes settings of your own server, and no way to change them was named.",
            hint="add --admin CONNINFO (and --restart-command for settings that need a restart)",
        )
    now = {name: setting.value for name, setting in reviewed.seen.items()}
    values = {name: setting.rule.values for name, setting in reviewed.seen.items()}
    return _Known(machine_of(reviewed.facts, {}), now, values)


def _validated(experiment: Experiment) -> Experiment:
    try:
        return Experiment.model_validate(experiment.model_dump(by_alias=True))
    except ValidationError as error:
        refuse(error)


def _is_built(value: str, configure: str) -> bool:
    """Return whether the server was built with the library of a value; True if it needs none."""
    libraries = {"lz4": "--with-lz4", "zstd": "--with-zstd", "io_uring": "--with-liburing"}
    return value not in libraries or libraries[value] in configure


def _chosen(
    asked: Asked, known: _Known, given: dict[str, Any], risks: tuple[Any, ...]
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
        store=Store.default(given["store"]),
        progress=Live(),
    )
    if outcome.error is not None:
        raise outcome.error
    assert outcome.folder is not None, "a run that ended has a folder"
    runs = outcome.folder.runs()
    if not runs:
        raise ServerError("The first run could not be kept.", hint="see the messages above")
    chosen = choose(evidence_of(runs[-1]), known.machine, risks)
    left_out = _unchangeable(asked, known, [choice.setting for choice in chosen])
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
    return tuple(choice.setting for choice in chosen if choice.setting not in left_out)


def _plan_of_choice(asked: Asked, known: _Known, risks: tuple[Any, ...]) -> Iterator[str]:
    """Yield what would be searched if evidence chose the settings: each with its range."""
    yield (
        f"first       a run of the load chooses at most {SETTINGS_MAX} of these settings, by its"
        " evidence"
    )
    possible = choosable(known.machine, risks)
    left_out = _unchangeable(asked, known, [choice.setting for choice in possible])
    for choice in possible:
        if why := left_out.get(choice.setting):
            yield f"not         {choice.setting}: {why}"
            continue
        [dimension] = dimensions([choice.setting], known.machine, known.now, risks)
        yield _searched_line(dimension, known)
        why = f"if {choice.why}"
        yield fill(why, _WIDTH, initial_indent=" " * 12, subsequent_indent=" " * 12)


def _searched_line(dimension: Dimension, known: _Known) -> str:
    """Return "search      work_mem: 64kB..1GB, now 4MB"."""
    name, _, values = _written(dimension).partition("=")
    return f"{'search':12}{name}: {values}, now {known.now[name]}"


def _written(dimension: Dimension) -> str:
    """Return a dimension as text for the spec, with its range, which may depend on the machine."""
    if dimension.scale == "choice":
        return f"{dimension.name}={','.join(dimension.values)}"
    return f"{dimension.name}={dimension.values[0]}..{dimension.values[-1]}"


def _rules(asked: Asked, known: _Known, risks: tuple[Any, ...]) -> Variant:
    """Return the values of the published rules as a variant, for settings that can be changed."""
    settings = {}
    for name, advice in recommend(rule_set("pgtune"), known.machine).items():
        entry, rule = catalogue().get(name), snapshot(known.machine.major).get(name)
        if entry is None or rule is None or advice.text is None or name == "max_connections":
            continue
        allowed = known.enum_values.get(name, rule.values)
        if rule.vartype == "enum" and advice.text not in allowed:
            continue
        if (
            entry.risk in risks
            and needs_of(rule) != "new cluster"
            and advice.text != known.now[name]
        ):
            settings[name] = advice.text
    for name, why in _unchangeable(asked, known, settings).items():
        output.note(f"the rules are measured without {name}: {why}")
        del settings[name]
    return Variant(name="pgtune", settings=settings)


def _unchangeable(asked: Asked, known: _Known, names: Iterable[str]) -> dict[str, str]:
    """Return the settings that cannot be changed on the user's own server, each with the reason."""
    server, rules = asked.experiment.server, snapshot(known.machine.major)
    if asked.resolved is None or server.apply_command is not None:
        return {}
    needs = {name: needs_of(rules[name]) for name in names}
    reasons = {}
    if server.restart_command is None:
        restarts = [name for name, need in needs.items() if need == "restart"]
        reasons = dict.fromkeys(restarts, "it needs a restart, and --restart-command is missing")
    if server.admin is not None:
        admin = resolve(conninfo=server.admin).target
        asked_of = [
            name for name, need in needs.items() if need != "session" and name not in reasons
        ]
        with connect(admin, verb="tune") as connection:
            missing = not_alterable(connection, asked_of)
        reasons |= dict.fromkeys(missing, f"{admin.user} may not change it")
    return reasons


def _refuse_short_budget(experiment: Experiment, budget: str, count: int) -> None:
    """Raise SpecError with the needed budget if the budget leaves no time for a proof."""
    workload = experiment.workload
    warm_ns = _WARM_NS if workload.warmup_ns is None else workload.warmup_ns
    each_ns = workload.duration_ns + warm_ns + _OVERHEAD_NS
    # As many runs for the search as for the proof of a winner with two settings.
    needed_ns = 2 * runs_of_proof(min(2, count)) * each_ns
    if duration_ns(budget, what="--budget") < needed_ns:
        minutes = -(-needed_ns // 60_000_000_000)
        raise SpecError(
            f"--budget {budget} is too short for a proof with runs of"
            f" {duration_text(workload.duration_ns)}.",
            hint=f"--budget {minutes}min, or shorter runs with -T",
        )
