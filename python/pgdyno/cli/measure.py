"""The common part of the measuring verbs: measure, show the answer, choose the exit code."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pgdyno.analysis import verdicts
from pgdyno.analysis.estimate import Estimate
from pgdyno.analysis.findings import ExperimentFindings
from pgdyno.analysis.gates import judge
from pgdyno.cli import options as options_of_output
from pgdyno.cli import output, wanted
from pgdyno.cli.from_options import AskedExperiment
from pgdyno.cli.live import Live
from pgdyno.cli.script_options import names_script
from pgdyno.cli.unused_options import refuse_without_effect
from pgdyno.designs import answer_so_far, design_of, document_of, page_of, words_of
from pgdyno.errors import EngineError, InterruptedByUser, PgdynoError, SpecError, StoreLostError
from pgdyno.loop.drive import Outcome, carry_out, check_first, checked_scripts
from pgdyno.loop.journal import visits
from pgdyno.loop.preview import preview, refuse_short_budget, warnings_before
from pgdyno.measure.under_test import LentCluster
from pgdyno.quantities import counted, duration_text
from pgdyno.report.numbers import interval_text, value_text
from pgdyno.report.short_text import shortened
from pgdyno.report.text_page import TextPage
from pgdyno.spec.condition import WATCHED, Condition, condition_from
from pgdyno.spec.experiment import Experiment
from pgdyno.spec.file import to_toml
from pgdyno.store.experiment import Store
from pgdyno.store.folder import ExperimentFolder
from pgdyno.user_file import require_utf8

EXIT_NOTHING_RAN = 1
EXIT_FAILURES = 2
EXIT_NOT_VALID = 3
EXIT_CHECK_FAILED = 4
EXIT_CANNOT_TELL = 5


def measure(
    verb: str,
    asked: AskedExperiment,
    options: dict[str, Any],
    resumed: ExperimentFolder | None = None,
) -> int:
    """Carry the experiment out, print the answer, and return the exit code.

    Args: resumed, the folder of an interrupted experiment to continue, else None.
    """
    return measured(verb, asked, options, resumed).exit_code


@dataclass(frozen=True, slots=True)
class VerbResult:
    """The result of a verb: its exit code, and, if it measured, folder and answer."""

    exit_code: int
    folder: ExperimentFolder | None = None
    findings: ExperimentFindings | None = None
    ended_by: PgdynoError | None = None


def refuse_short_runs(experiment: Experiment, verb: str) -> None:
    """Raise SpecError for runs that are too short to be valid, if the design needs valid runs."""
    workload, needed_s = experiment.workload, verdicts.NEEDED_S_TO_PROVE
    if workload.duration_ns < needed_s * 1e9 and workload.transactions_per_client is None:
        raise SpecError(
            f"With a duration of {duration_text(workload.duration_ns)} no run is valid: at least"
            f" {needed_s:g} s are needed, and {verb} proves nothing by runs that"
            " are not valid.",
            hint=f"-T {needed_s:g}s, and a --budget for such runs",
        )


def measured(
    verb: str,
    asked: AskedExperiment,
    options: dict[str, Any],
    resumed: ExperimentFolder | None = None,
    *,
    lent: LentCluster | None = None,
) -> VerbResult:
    """Do the same as `measure`, and also return the answer.

    Args: lent, a scratch cluster that outlives the experiment.
    """
    refuse_contradictions(options)
    if options["quiet"]:
        output.be_quiet()
    for text in options.get("abort_if", ()):
        condition_from(text, WATCHED)
    gates = [condition_from(text, takes_types=True) for text in options.get("check", ())]
    if options.get("print_spec"):
        output.data(to_toml(asked.experiment).rstrip())
        return VerbResult(0)
    _refuse_unknown_types(gates, asked.experiment)
    if resumed is None:
        _refuse_or_warn(asked.experiment, verb)
    if options.get("dry_run"):
        _preview(verb, asked, options, resumed)
        return VerbResult(0)
    for warning in asked.resolved.notes if asked.resolved else ():
        output.warning(warning.message, warning.hint)
    if asked.resolved is not None:
        _warn_of_changes_left(Store.default(options["store"]))
    _refuse_folder_without_utf8()
    _say_chosen_script(asked, options)
    every_s = options.get("progress")
    progress = Live(plain_every_ns=int(every_s * 1e9)) if every_s else Live()
    outcome = carry_out(
        asked.experiment,
        design_of(asked.experiment),
        verb=verb,
        resolved=asked.resolved,
        permissions=asked.permissions,
        store=Store.default(options["store"]),
        progress=progress,
        resumed=resumed,
        lent=lent,
        began_ns=wanted.began_ns,
    )
    progress.ended()
    with progress.doing("making the answer"):
        findings = answer_so_far(outcome.folder, outcome.error)
    if findings is not None and outcome.folder is not None:
        report = outcome.folder.report_path
        show(findings, options["json_to"], report, is_whole=options.get("verbose", True))
        with progress.doing("drawing the page of the answer"):
            keep(outcome.folder, findings)
    if outcome.error is not None:
        error = outcome.error
        say = output.problem if findings is not None else partial(output.failed, error.kind)
        say(error.message, _next_step(outcome, findings), sqlstate=error.sqlstate)
    failed = judged(gates, findings)
    code = exit_code(outcome.error, findings)
    if findings is None and not _has_begun(outcome):
        return VerbResult(min(EXIT_NOTHING_RAN, code), outcome.folder)
    code = max(code, EXIT_CHECK_FAILED if failed else 0)
    if findings is not None and is_undecided(findings):
        code = code or EXIT_CANNOT_TELL
        _say_how_to_go_on(asked.experiment, outcome)
    return VerbResult(code, outcome.folder, findings, outcome.error)


def _say_how_to_go_on(experiment: Experiment, outcome: Outcome) -> None:
    folder = outcome.folder
    can_go_on = "looked" in experiment.design.model_dump(by_alias=True)
    if can_go_on and folder is not None and outcome.error is None:
        output.note(f"next: pgdyno run --resume {folder.number} --more adds as many rounds again")


def _refuse_or_warn(experiment: Experiment, verb: str) -> None:
    if experiment.design.needs_valid_runs:
        refuse_short_runs(experiment, verb)
    refuse_short_budget(experiment, design_of(experiment))
    for note in warnings_before(experiment, design_of(experiment)):
        output.note(f"warning: {note}")


def _preview(
    verb: str,
    asked: AskedExperiment,
    options: dict[str, Any],
    resumed: ExperimentFolder | None,
) -> None:
    """Check what a run checks first, and print the plan, with the runs of it that are done."""
    check_first(
        asked.experiment,
        verb=verb,
        resolved=asked.resolved,
        permissions=asked.permissions,
        store=Store.default(options["store"]),
        progress=Live(),
    )
    plan = preview(asked.experiment, design_of(asked.experiment))
    if resumed is not None:
        done = [visit.planned for visit in visits(resumed)]
        rounds = counted(max((run.round for run in done), default=0), "round")
        plan = f"done        {counted(len(done), 'run')} in {rounds}: they count\n{plan}"
    output.data(plan)


def _refuse_folder_without_utf8() -> None:
    with suppress(FileNotFoundError):  # The folder may be gone.
        require_utf8(str(Path.cwd()), of="The name of the current folder")


def _say_chosen_script(asked: AskedExperiment, options: dict[str, Any]) -> None:
    """Say which script runs on the user's own server, and why, if the user named none."""
    if asked.resolved is None or "builtin" not in options or names_script(options):
        return
    [script] = asked.experiment.workload.scripts
    output.note(
        f"script      {script.name}, because no script was named, and this one only reads; -b, -f"
        " and pgdyno capture measure other loads"
    )


def is_undecided(findings: ExperimentFindings) -> bool:
    """Return whether the question of an experiment was not decided within its time."""
    compared = findings.compare
    if (own := getattr(findings.own, "is_undecided", None)) is not None:
        return bool(own)
    if compared is None:
        return False
    contrasts = (*compared.contrasts, *compared.steps)
    if not contrasts:
        return not any(effect.is_sure for effect in compared.effects)
    return not all(contrast.is_settled for contrast in contrasts)


def refuse_contradictions(options: dict[str, Any]) -> None:
    """Raise SpecError for options about an output that another option replaces."""
    if options.get("print_spec"):
        because = "--print-spec prints the spec file and ends"
        refuse_without_effect(options, ["dry_run", "json_to"], because, "use one of the two")
    if options.get("dry_run"):
        because = "--dry-run prints the plan as text and ends"
        refuse_without_effect(options, ["json_to"], because, "use one of the two")
    if options["quiet"]:
        refuse_without_effect(options, ["progress"], "-q prints no progress", "use one of the two")


def _refuse_unknown_types(gates: Sequence[Condition], experiment: Experiment) -> None:
    """Refuse a condition on a transaction type or script that the load does not have.

    Raises: SpecError with the names that it has.
    """
    named = [gate for gate in gates if gate.of]
    known = [script.name for script in checked_scripts(experiment)] if named else []
    for gate in named:
        if gate.of not in known:
            raise SpecError(
                f"--check {gate.text}: this load has no transaction type or script {gate.of}.",
                hint=f"it has {', '.join(known)}",
            )


def _has_begun(outcome: Outcome) -> bool:
    """Return whether a run has started; an interruption always has its separate exit code."""
    folder, error = outcome.folder, outcome.error
    if isinstance(error, InterruptedByUser | StoreLostError):
        return True
    if isinstance(error, EngineError) and not error.has_run:
        return False
    return folder is not None and bool(folder.run_folders() or folder.incomplete_folders())


def _next_step(outcome: Outcome, findings: ExperimentFindings | None) -> str:
    """Return the error's hint; after an interruption, the runs that were stored."""
    assert outcome.error is not None
    if not isinstance(outcome.error, InterruptedByUser):
        return outcome.error.hint
    folder = outcome.folder
    if folder is None or not (folder.run_folders() or folder.incomplete_folders()):
        return "no run was finished"
    if findings is None:
        return f"no run was finished; pgdyno run --resume {folder.number} measures it"
    return f"the finished runs are kept; pgdyno run --resume {folder.number} continues"


def _warn_of_changes_left(store: Store) -> None:
    """Warn about settings that a killed experiment left changed on a server."""
    for listed in store.list():
        if ExperimentFolder(listed.folder).outstanding_changes():
            output.note(
                f"warning: #{listed.number} was killed and left settings changed on its server; "
                f"pgdyno undo {listed.handle} restores them"
            )
        elif listed.is_journal_damaged:
            output.note(
                f"warning: #{listed.number} may have left settings changed on its server, but its "
                f"journal is damaged; pgdyno undo {listed.handle} explains"
            )


def judged(gates: Sequence[Condition], findings: ExperimentFindings | None) -> bool:
    """Print the conditions of --check that failed, and return whether there are any."""
    failed = False
    for gate in gates:
        for judged_gate in judge(gate, findings) if findings is not None else ():
            if judged_gate.is_kept:
                continue
            failed = True
            of = f" by {judged_gate.of}" if judged_gate.of else ""
            seen, hint = "not measured", ""
            if judged_gate.estimate is not None:
                unit = "" if judged_gate.estimate.unit == "1" else f" {judged_gate.estimate.unit}"
                interval, hint = _unfavourable(gate, judged_gate.estimate, findings)
                seen = f"{value_text(judged_gate.estimate)}{unit}, {interval}"
            output.problem(f"CHECK FAILED{of} {gate.text} ({gate.figure} {seen}).", hint)
    return failed


def _unfavourable(
    gate: Condition, seen: Estimate, findings: ExperimentFindings | None
) -> tuple[str, str]:
    """Return the interval of a failed condition in words, and the next step."""
    # There may be more than one pair, but too few for an interval.
    if not seen.has_interval and findings is not None and findings.compare is not None:
        return (
            "no interval yet",
            "an interval needs at least 3 rounds: set --rounds 3 or more, or a longer --budget",
        )
    hint = ""
    if gate.is_met(seen.value):
        hint = (
            "the value itself passes, but a check is judged on the unfavourable end of the "
            "interval; measure longer, or more rounds"
        )
    return interval_text(seen), hint


def keep(folder: ExperimentFolder, findings: ExperimentFindings) -> Path:
    """Write the answer and the report next to the measurements; return the report's path."""
    folder.write_analysis(document_of(findings))
    path = folder.write_report(page_of(findings))
    folder.seal()
    return path


def show(
    findings: ExperimentFindings, json_to: str | None, report: Path | None, *, is_whole: bool
) -> None:
    """Print an answer as text, or as JSON, or as both to different places.

    Args: report, the page of the answer; is_whole, whether the text has every line.
    """
    document = json.dumps(document_of(findings), indent=2, ensure_ascii=False)
    text = with_remarks(words_of(findings, output.width()), findings.remarks)
    if report is not None:
        text += f"\n{'report':12}{report}"
    if not is_whole:
        text = shortened(text, f"pgdyno show -v {findings.number}")
    options_of_output.write(text, document, json_to)


def with_remarks(text: str, remarks: Sequence[str]) -> str:
    """Return the text of an answer, with the notes that people keep with the result."""
    rows = (TextPage(output.width()).row("note", remark) for remark in remarks)
    return "\n".join([text.rstrip(), *(line for row in rows for line in row)])


def exit_code(error: PgdynoError | None, findings: ExperimentFindings | None) -> int:
    """Return the highest code that applies."""
    codes = [0]
    if error is not None:
        codes.append(error.exit_code)
    if findings is not None:
        if findings.run is not None and findings.run.counts.failures:
            codes.append(EXIT_FAILURES)
        if (findings.run is not None and not findings.run.is_valid) or (
            findings.runs_valid < findings.runs_total
        ):
            codes.append(EXIT_NOT_VALID)
    return max(codes)
