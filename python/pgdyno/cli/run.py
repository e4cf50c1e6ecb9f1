"""`pgdyno run`: runs an experiment from a file, or continues an interrupted one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pgdyno.cli import options, output, wanted
from pgdyno.cli.headings import Verb
from pgdyno.cli.option_table import table
from pgdyno.cli.unused_options import refuse_without_effect
from pgdyno.errors import RefusedError, SpecError
from pgdyno.user_file import read_text

if wanted.body(__name__):
    from pydantic import ValidationError

    from pgdyno.cli.from_options import OWN_SERVER_ONLY, AskedExperiment, permissions_of, refuse
    from pgdyno.cli.measure import measure
    from pgdyno.cli.show import read_kept, require_runs
    from pgdyno.loop.history import history_of
    from pgdyno.loop.journal import excluded
    from pgdyno.plan.designs.compare import EXTENDED, Compare
    from pgdyno.server.conninfo import resolve
    from pgdyno.spec.base import SECOND_NS
    from pgdyno.spec.experiment import Experiment
    from pgdyno.spec.file import read_spec, to_toml
    from pgdyno.spec.planned import Stop
    from pgdyno.store.experiment import Store
    from pgdyno.store.folder import ExperimentFolder

# What --confirm names for the result of somebody else on a scratch server.
_ON_SCRATCH = "scratch"


@click.command("run", cls=Verb, short_help="Run an experiment from a file.")
@click.argument("spec", required=False, type=click.Path(path_type=Path))
@table("""
    Options
    --resume RESULT *  Continue an interrupted experiment: its number, or last.
    --more *  With --resume: a finished comparison that cannot tell gets as many rounds again.
    --budget TIME *  Longest duration of a comparison; overrides the file.
    --dsn CONNINFO *  With --resume: server to use (default: that of the experiment).
""")
@options.allow_write
@options.confirm
@options.confirm_memory
@options.changing
@options.gates
@options.progress
@options.results
@options.verbose
def command(**given: Any) -> int:
    """Run the experiment of a spec file. All mistakes in the file are reported at once.

    --resume RESULT continues an interrupted experiment: complete runs count, the interrupted run is
    repeated.
    """
    if given["more"] and given["resume"] is None:
        raise SpecError("--more needs --resume RESULT.", hint="pgdyno run --resume last --more")
    if (given["spec"] is None) == (given["resume"] is None):
        raise SpecError(
            "run needs either a spec file or --resume RESULT.", hint="pgdyno run spec.toml"
        )
    folder, is_own = None, True
    if given["resume"] is not None:
        folder = Store.default(given["store"]).find(given["resume"])
        require_runs(folder)
        experiment = read_kept(folder, lambda: _stored(folder))
        is_own = folder.is_spec_ours
        given["confirm"] = _confirmed(folder, experiment, given)
    else:
        spec = read_spec(given["spec"])
        for doubt in spec.doubts:
            output.note(f"warning: {doubt}")
        experiment = spec.experiment
    if experiment.server.scratch is not None:
        refuse_without_effect(
            given,
            ("dsn", *(name for name in OWN_SERVER_ONLY if is_own or name != "confirm")),
            "the experiment runs on a scratch server",
            "leave it out, or set dsn in the file",
        )
    experiment = _changed(experiment, given)
    if folder is not None and given["budget"] is not None:
        experiment = _extended(experiment, folder)
    if folder is not None and given["more"]:
        experiment = _with_more(experiment, folder)
    dsn = given["dsn"] or experiment.server.dsn
    resolved = resolve(conninfo=dsn) if experiment.server.scratch is None else None
    verb = folder.verb if folder is not None else experiment.design.kind
    return measure(
        verb, AskedExperiment(experiment, resolved, permissions_of(given)), given, folder
    )


def _confirmed(
    folder: ExperimentFolder, experiment: Experiment, given: dict[str, Any]
) -> tuple[str, ...]:
    """Return what --confirm names of servers of the user.

    Raises: RefusedError for a result of somebody else: its specification may name any command.
    """
    confirmed: tuple[str, ...] = given["confirm"]
    if folder.is_spec_ours:
        return confirmed
    server = experiment.server
    if server.scratch is not None:
        confirmation, place = _ON_SCRATCH, "a scratch server"
    else:
        target = resolve(conninfo=given["dsn"] or server.dsn).target
        confirmation, place = f"{target.database}@{target.host}", target.place
    if confirmation in confirmed:
        return tuple(text for text in confirmed if text != _ON_SCRATCH)
    names = (
        *("apply_command", "restart_command", "recover_command"),
        *("admin", "observe", "ssh", "host_shell"),
    )
    named = {name.replace("_", " "): getattr(server, name) for name in names}
    used = [f"{name}: {value}" for name, value in named.items() if value]
    raise RefusedError(
        f"Another user or another host wrote {folder.folder / 'spec.toml'}, or somebody changed "
        f"it. --resume would send its load to {place}{' and use ' if used else ''}"
        f"{'; '.join(used)}.",
        hint=f"read the file; if all of it is right, add --confirm {confirmation}",
    )


def _extended(experiment: Experiment, folder: ExperimentFolder) -> Experiment:
    """Return an experiment whose budget was changed, and keep this: no planned look holds now."""
    if "extended" not in experiment.design.model_dump(by_alias=True):
        return experiment
    output.note(f"note: {EXTENDED}")
    design = experiment.design.model_copy(update={"is_extended": True})
    experiment = experiment.model_copy(update={"design": design})
    folder.unseal()
    folder.write_spec(to_toml(experiment))
    return experiment


def _with_more(experiment: Experiment, folder: ExperimentFolder) -> Experiment:
    """Return a comparison with twice its rounds, and keep this.

    Raises: SpecError if it is not a comparison that is finished and cannot tell.
    """
    design, history = experiment.design, history_of(folder)
    plan = Compare(experiment) if "looked" in design.model_dump(by_alias=True) else None
    left_out = frozenset(excluded(folder))
    still = [s for s in (plan.standings(history, left_out) if plan else ()) if not s.is_settled]
    if plan is None or not still or plan.asked.is_extended:
        raise SpecError(
            "--more is for a comparison that cannot tell, and this result is another one.",
            hint="pgdyno list shows the results and their answers",
        )
    if not isinstance(plan.next_run(history, left_out), Stop):
        raise SpecError(
            "This comparison is not finished.", hint="leave out --more: then it goes on"
        )
    looked = (*plan.asked.looked_count, int(max(standing.ratios.size for standing in still)))
    more = plan.asked.model_copy(update={"looked_count": looked})
    experiment = experiment.model_copy(update={"design": more})
    folder.unseal()
    folder.write_spec(to_toml(experiment))
    return experiment


def _stored(folder: ExperimentFolder) -> Experiment:
    document = folder.asked()
    for script in _scripts_in(document):
        script["text"] = read_text(Path(script["file"]))
    return Experiment.model_validate(document)


def _scripts_in(document: dict[str, Any]) -> list[dict[str, Any]]:
    lists = [document["workload"]["scripts"]]
    lists += [variant.get("scripts", []) for variant in document.get("variant", [])]
    return [script for scripts in lists for script in scripts if "file" in script]


def _changed(experiment: Experiment, given: dict[str, Any]) -> Experiment:
    """Return the experiment with the changes of the command line."""
    named = ("admin", "apply_command", "restart_command", "recover_command")
    commands = {name: given[name] for name in named if given[name] is not None}
    if given["command_timeout"] is not None:
        commands["command_timeout_ns"] = int(given["command_timeout"] * SECOND_NS)
    if commands:
        server = experiment.server.model_copy(update=commands)
        experiment = experiment.model_copy(update={"server": server})
    if given["name"]:
        experiment = experiment.model_copy(update={"name": given["name"]})
    if given["budget"] is None:
        return experiment
    fields = experiment.design.model_dump(by_alias=True)
    if "budget" not in fields:
        raise SpecError(
            f"--budget needs a comparison, but this is a {experiment.design.kind}.",
            hint="remove the option, or set rounds in the file",
        )
    if fields.get("rounds") is not None:
        raise SpecError(
            f"--budget changes nothing: this comparison has a fixed number of rounds,"
            f" {fields['rounds']}.",
            hint="for more rounds, start a new comparison with --rounds",
        )
    try:
        design = type(experiment.design).model_validate(fields | {"budget": given["budget"]})
    except ValidationError as error:
        refuse(error)
    return experiment.model_copy(update={"design": design})
