"""Makes an experiment (spec objects) from the options of a verb."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, cast

import click
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from pgdyno.cli import output
from pgdyno.cli.dataset_options import given_of, read_options
from pgdyno.cli.kind_help import kind_help, option_fields
from pgdyno.cli.script_options import pairs_of, protocol_of, scripts_of
from pgdyno.cli.unused_options import refuse_without_effect
from pgdyno.engine.engine_facts import BuiltinFacts, engine_facts
from pgdyno.errors import SpecError
from pgdyno.measure.host_access import command_to_host, way_unused
from pgdyno.programs.registry import program_of
from pgdyno.quantities import is_whole
from pgdyno.server.conninfo import Resolved, refuse_silent_target, resolve
from pgdyno.server.dataset.kinds import KINDS
from pgdyno.server.dataset.pgbench_tables import PGBENCH
from pgdyno.server.scratch.conf import SPARE_CONNECTIONS
from pgdyno.settings.objection import object_to
from pgdyno.spec.base import NAME_LENGTH_MAX
from pgdyno.spec.experiment import (
    Dataset,
    Design,
    ExistingDataset,
    Experiment,
    Permissions,
    Scratch,
    Script,
    Server,
    Variant,
    Workload,
)
from pgdyno.spec.file import is_other_form
from pgdyno.spec.rate import rate_from
from pgdyno.spec.workload import is_recorded, with_recorded_rate

# Fields of the spec whose options have another name.
_OPTION_OF = {"levels": "clients", "run": "duration", "knee": "knee_duration"}
_SCRATCH_ONLY = ("pg_version", "pg_bin", "data_dir", "wal_dir", "allow_tmpfs", "keep", "settings")


@dataclass(frozen=True, slots=True)
class AskedExperiment:
    """An experiment, with its resolved server and permissions, which its file does not contain."""

    experiment: Experiment
    resolved: Resolved | None
    permissions: Permissions


def experiment_of(
    verb: str, options: dict[str, Any], design: Design, variants: tuple[Variant, ...] = ()
) -> AskedExperiment:
    """Return the experiment that a verb's options describe.

    Raises: SpecError with the option, the value and the rule. Nothing has started then.
    """
    _refuse_empty(options)
    resolved = server_named(options)
    scripts = scripts_of(options, is_scratch=resolved is None)
    scripts = _with_rate(options, scripts)
    _refuse_think_times(options, scripts)
    dsn = resolved.conninfo if resolved else None
    dataset = dataset_of(options, scripts) if resolved is None else ExistingDataset()
    try:
        experiment = Experiment(
            name=options.get("name") or _default_name(verb, scripts),
            reset=options.get("reset") or "vacuum",
            cache=options.get("cache") or "warm",
            check=not options.get("no_check"),
            price_of_loss=options.get("price_of_loss") or 0,
            server=Server(
                scratch=_scratch(options) if resolved is None else None,
                dsn=dsn,
                admin=options.get("admin"),
                apply_command=options.get("apply_command"),
                restart_command=options.get("restart_command"),
                recover_command=options.get("recover_command"),
                command_timeout=options.get("command_timeout"),
                **_watched(options, is_scratch=resolved is None),
                settings=settings_of(options.get("settings", ()), options.get("pg_version")),
            ),
            dataset=dataset,
            workload=Workload(
                scripts=scripts,
                clients=options.get("clients") or _clients(options, scripts, dataset),
                rate=options.get("rate"),
                threads=options.get("threads"),
                hosts=options.get("hosts"),
                protocol=options.get("protocol") or protocol_of(scripts),
                think_ratio=options.get("think_ratio") or 0.0,
                latency_limit=_limit_of(options.get("latency_limit")),
                duration=_duration_of(options, "5s" if verb == "compare" else "60s"),
                transactions_per_client=options.get("transactions"),
                warmup=None if options["warmup"] == "auto" else options["warmup"],
                variables=pairs_of(options["define"], "-D"),
                **({} if options["seed"] is None else {"seed": options["seed"]}),
                allow_shell=options["allow_shell"],
                idle=options.get("idle") or 0,
                active=options.get("active"),
                connect_rate=options.get("connect_rate"),
                connect_each_transaction=bool(options.get("connect")),
                servers_in_turns=bool(options.get("servers_in_turns")),
            ),
            variant=variants,
            design=design,
        )
    except ValidationError as error:
        refuse(error)
    _refuse_unused(options, experiment)
    _refuse_too_few_connections(experiment)
    usual = options.get("pg_version")
    for variant in variants:
        version = variant.version or usual
        _refuse_settings(f"--variant {variant.name!r}:", variant.settings, version)
    return AskedExperiment(
        experiment,
        resolved,
        permissions_of(options),
    )


def _with_rate(options: dict[str, Any], scripts: tuple[Script, ...]) -> tuple[Script, ...]:
    """Replace a rate such as 2x by the recorded arrivals of the load's capture."""
    if not is_recorded(options.get("rate")):
        return scripts
    options["rate"], scripts = with_recorded_rate(options["rate"], scripts, options.get("duration"))
    return scripts


def _refuse_unused(options: dict[str, Any], experiment: Experiment) -> None:
    """Raise SpecError for an option that changes nothing for this server and this load."""
    if experiment.server.scratch is not None:
        refuse_without_effect(
            options,
            OWN_SERVER_ONLY,
            "it is for your own server, but the command names no server",
            "leave it out, or name the server with -h, -d or a conninfo",
        )
    else:
        refuse_without_effect(
            options,
            [name for kind in KINDS for name in option_fields(kind) if name != "seed"],
            "pgdyno makes tables only on a scratch server; on your own server it uses the "
            "existing tables",
            "leave it out, or load the tables with pgdyno init",
        )
    scripts = experiment.all_scripts()
    builtins = _builtins_of(scripts)
    # On your own server, a script in a file may write to tables with conditions.
    is_known = experiment.server.scratch is not None or len(builtins) == len(scripts)
    kinds = [KINDS[builtin.dataset] for builtin in builtins if builtin.dataset in KINDS]
    if is_known and not any(kind.conditions for kind in kinds):
        because = "no program of this load has data with conditions to check"
        refuse_without_effect(options, ["no_check"], because, "leave it out")
    _refuse_unused_variables(options, experiment)


def _builtins_of(scripts: Sequence[Script]) -> list[BuiltinFacts]:
    named = [script.builtin for script in scripts if script.builtin]
    known = [engine_facts().builtin(name) for name in named] if named else []
    return [builtin for builtin in known if builtin is not None]


def _refuse_think_times(options: dict[str, Any], scripts: Sequence[Script]) -> None:
    """Raise SpecError for --think-factor if no script has times to think."""
    types = [kind for builtin in _builtins_of(scripts) for kind in builtin.types]
    if options.get("think_ratio") and not any(kind.think_ns_mean for kind in types):
        refuse_without_effect(
            options,
            ["think_ratio"],
            "no script of this load has keying or think times",
            "leave it out, or choose a program whose clients think: -b list",
        )


def _refuse_unused_variables(options: dict[str, Any], experiment: Experiment) -> None:
    """Raise SpecError for a -D that no script reads, or that pgdyno sets for each client."""
    texts = [script.text or "" for script in experiment.all_scripts()]
    read = {word for text in texts for word in _WORD.findall(text)}
    if any(script.builtin for script in experiment.all_scripts()):
        read |= {"scale"}
    if read & {"hash", "hash_fnv1a", "hash_murmur2", "permute"}:
        read |= {"default_seed"}
    for name in pairs_of(options.get("define", ()), "-D"):
        if name in _RESERVED:
            raise SpecError(f"-D {name}: pgdyno sets this variable itself.", hint=_RESERVED[name])
        if name not in read:
            raise SpecError(
                f"-D {name} has no effect: no script of this load reads :{name}.",
                hint="check the spelling, or leave it out",
            )


_WORD = re.compile(r"\w+")
_RESERVED = {
    "client_id": "choose another name; each client has its own number",
    "random_seed": "use --seed N",
}
OWN_SERVER_ONLY = (
    *("allow_write", "confirm", "admin", "apply_command", "restart_command", "recover_command"),
    *("command_timeout", "allow_risk"),
)


def _watched(options: dict[str, Any], *, is_scratch: bool) -> dict[str, Any]:
    """Return the fields of the spec for observing the server and its host.

    Raises: SpecError if a scratch server has a way to its host, which is always this host.
    """
    given = {name: options.get(name) for name in ("observe", "pooler", "ssh", "host_shell")}
    named = [name for name, value in given.items() if value]
    if is_scratch and named:
        raise SpecError(
            f"--{named[0].replace('_', '-')} needs a server of your own, but the command names "
            "no server.",
            hint="name the server with -h, -d or a conninfo",
        )
    return given


def _duration_of(options: dict[str, Any], usual: str) -> str | None:
    """Return the duration of a run; None if the phases of the rate define it."""
    if options.get("duration") or options.get("rate") is None:
        return options.get("duration") or usual
    return None if rate_from(options["rate"]).length_ns else usual


def _limit_of(text: str | None) -> str | None:
    """Return a latency limit with its unit; the default unit is milliseconds, as in pgbench."""
    is_bare = text is not None and is_whole(text.strip().replace(".", "", 1))
    return f"{text}ms" if is_bare else text


def host_command_of(options: dict[str, Any]) -> tuple[str, ...] | None:
    """Return the command of --ssh or --host-shell. Raises: SpecError for a bad one."""
    return command_to_host(ssh=options["ssh"], host_shell=options["host_shell"])


def say_unused_ways(
    options: Mapping[str, Any], names: Sequence[str] = ("ssh", "host_shell")
) -> None:
    """Note which options for the server's host are unused, because the server is on this host."""
    for name in names:
        if options[name]:
            output.note(f"warning: {way_unused('--' + name.replace('_', '-'))}")


def permissions_of(options: dict[str, Any]) -> Permissions:
    """Return the permissions on the user's own server."""
    return Permissions(
        allow_write=options["allow_write"],
        confirm=tuple(options["confirm"]),
        confirm_memory=options.get("confirm_memory", False),
        allow_durability_risk="durability" in options.get("allow_risk", ()),
        abort_if=tuple(options.get("abort_if", ())),
    )


def _refuse_empty(options: dict[str, Any]) -> None:
    """Raise SpecError for an option with an empty value, which would count as not given."""
    for name, value in options.items():
        if name not in _CONNECTION and (value == "" or (isinstance(value, tuple) and "" in value)):
            option = {"settings": "set"}.get(name, name).replace("_", "-")
            raise SpecError(f"--{option} is empty.", hint="leave it out, or give a value")


_CONNECTION = ("conninfo", "host", "port", "user", "database", "password_command")


def server_named(options: dict[str, Any]) -> Resolved | None:
    """Return the user's own server that the options name, None for a scratch server."""
    # As in psql, an empty value means the default, not that no server is named.
    is_given = any(options.get(name) is not None for name in _CONNECTION)
    refuse_silent_target(
        server_given=is_given,
        scratch_given=bool(options.get("scratch")),
        offers_scratch="scratch" in options,
    )
    if not is_given:
        return None
    foreign = [name for name in ("scratch", *_SCRATCH_ONLY) if options.get(name)]
    if foreign:
        option = {"settings": "--set"}.get(foreign[0], "--" + foreign[0].replace("_", "-"))
        if foreign[0] == "scratch":
            message = "--scratch asks for a scratch server, but the command names a server."
        else:
            message = f"{option} needs a scratch server, but the command names a server."
        raise SpecError(
            message,
            hint="remove one of the two",
        )
    return resolve(**{name: options.get(name) for name in _CONNECTION})


def refuse(error: ValidationError) -> NoReturn:
    """Raise a SpecError that lists all errors of pydantic, with the names of the options."""
    items = error.errors()
    # A value may be "auto" or a list. For a wrong list, the error "not auto" is left out.
    mistakes = [_mistake(item).rstrip(".") for item in items if not is_other_form(item, items)]
    context = click.get_current_context(silent=True)
    hint = f"{context.command_path} --help" if context else "see --help"
    raise SpecError("; ".join(mistakes) + ".", hint=hint) from None


def _mistake(item: ErrorDetails) -> str:
    """Return "--duration 0: must be greater than 0": the option, the value, the rule."""
    rule = item["msg"].removeprefix("Value error, ").replace("Input should be ", "must be ")
    if not item["loc"]:
        return rule
    name, seen = str(item["loc"][0]), item["input"]
    option = "--" + _OPTION_OF.get(name, name).replace("_", "-")
    if not isinstance(seen, str | int | float):
        return f"{option}: {rule}"
    rule = rule.removeprefix(f"{name} ").rstrip(".").removesuffix(f", got {seen!r}")
    shown = seen if str(seen).isprintable() and seen != "" else repr(seen)
    return f"{option} {shown}: {rule}"


def settings_of(texts: tuple[str, ...], version: str | None) -> dict[str, str]:
    """Return the settings of --set. Raises: SpecError for a setting that PostgreSQL refuses."""
    settings = pairs_of(texts, "--set")
    _refuse_settings("--set", settings, version)
    return settings


def _refuse_settings(place: str, settings: Mapping[str, str], version: str | None) -> None:
    """Raise a SpecError for a setting that no PostgreSQL, or not this version, accepts."""
    major = int(version) if version and is_whole(version) else None
    for name, value in settings.items():
        objection = object_to(name, value, major)
        if objection is not None and objection.verdict == "error":
            if not value.strip():
                raise SpecError(
                    f"{place} {name}= has no value; {name} {objection.rule}.",
                    hint=f"give {name}=VALUE, or leave {name} out for the server's own value",
                )
            end = "" if objection.rule.endswith("?") else "."
            raise SpecError(
                f"{place} {name}={value}: {objection.rule}{end}",
                hint="SELECT name FROM pg_catalog.pg_settings lists the names"
                if "no setting of that name" in objection.rule
                else f"SELECT * FROM pg_catalog.pg_settings WHERE name = '{name}' shows unit and"
                " limits",
            )


def _refuse_too_few_connections(experiment: Experiment) -> None:
    asked = experiment.server.settings.get("max_connections", "")
    needed = experiment.connections_max() + SPARE_CONNECTIONS
    if is_whole(asked) and int(asked) < needed:
        raise SpecError(
            f"--set max_connections={asked} is too small: {experiment.connections_in_words()} "
            f"and pgdyno's own sessions need {needed}.",
            hint=f"remove the option, or set at least {needed}",
        )


def _scratch(options: dict[str, Any]) -> Scratch:
    return Scratch(
        version=options["pg_version"],
        bin_dir=options["pg_bin"],
        data_dir=options["data_dir"],
        wal_dir=options["wal_dir"],
        allow_tmpfs=options["allow_tmpfs"],
        keep=options["keep"],
    )


def dataset_of(options: dict[str, Any], scripts: Sequence[Script] = ()) -> Dataset:
    """Return the dataset of a scratch server from the options; the scripts decide its kind.

    Raises: SpecError for an option that this kind of dataset does not have.
    """
    builtins = [script.builtin for script in scripts if script.builtin]
    known = engine_facts() if builtins else None
    kinds = {builtin.dataset for name in builtins if known and (builtin := known.builtin(name))}
    if len(kinds) > 1:
        raise SpecError(
            f"These built-ins need different tables: {', '.join(sorted(kinds))}.",
            hint="measure them one after the other",
        )
    kind = KINDS[next(iter(kinds), PGBENCH.name)]
    own = {**options, "seed": None}
    files = [str(script.capture) for script in scripts if script.capture is not None]
    more = {"file": files[0]} if files else {}
    fields = dict.fromkeys(field for other in KINDS for field in option_fields(other))
    for name in fields:
        if own.get(name) not in (None, False) and name not in kind.options.model_fields:
            sizes = [f"--{sized.size_option} for {sized.name} tables" for sized in KINDS.values()]
            raise SpecError(
                f"--{name.replace('_', '-')} {own[name]} is not an option of the {kind.name}"
                " tables.",
                hint=f"use {', '.join(sizes)}",
            )
    table = kind_help(kind.name).options
    usual = {**kind.scratch_options, **given_of(table, own)}
    return cast(Dataset, read_options(kind.options, table, usual, **more))


def _clients(options: dict[str, Any], scripts: Sequence[Script], dataset: Dataset) -> int:
    """Return the default number of clients: with full think times it follows from the data's size.

    Raises: SpecError on the user's own server, whose size is not known yet.
    """
    if not options.get("think_ratio"):
        return 1
    program = program_of([script.builtin for script in scripts if script.weight > 0])
    if program.clients_per_size is not None and dataset.kind in KINDS:
        return KINDS[dataset.kind].size_of(dataset) * program.clients_per_size
    rule = ""
    if program.clients_per_size is not None:
        rule = f"; {program.clients_per_size} per {program.size_word} are specified"
    word = f"{program.client_word}s"
    raise SpecError(
        f"--think-factor needs the number of {word}.",
        hint=f"give --{word} N{rule}",
    )


def _default_name(verb: str, scripts: tuple[Script, ...]) -> str:
    """Return a name for the result; a file may have a name that no result may have."""
    stems = [Path(script.name).name.removesuffix(".sql") for script in scripts]
    name = f"{verb} {' + '.join(stems)}"
    return "".join(sign if sign.isprintable() else "?" for sign in name)[:NAME_LENGTH_MAX]
