"""What the measuring verbs share: carry out, show the answer, choose the exit code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pgdyno.analysis.findings import ExperimentFindings
from pgdyno.cli import options as options_of_output
from pgdyno.cli import speak
from pgdyno.cli.asked import Asked
from pgdyno.cli.documents import document_of
from pgdyno.cli.live import Live
from pgdyno.loop.drive import Outcome, carry_out
from pgdyno.report.html import render
from pgdyno.report.text import text_of
from pgdyno.store.experiment import Store
from pgdyno.store.folder import ExperimentFolder

EXIT_FAILURES = 2
EXIT_NOT_VALID = 3


def measure(verb: str, asked: Asked, options: dict[str, Any]) -> int:
    """Carry the experiment out, print the answer, and return the exit code."""
    if options["quiet"]:
        speak.be_quiet()
    for warning in asked.resolved.notes if asked.resolved else ():
        speak.note(f"warning: {warning.message} {warning.hint}")
    every_s = options.get("progress")
    progress = Live(plain_every_ns=int(every_s * 1e9)) if every_s else Live()
    outcome = carry_out(
        asked.experiment,
        verb=verb,
        resolved=asked.resolved,
        permissions=asked.permissions,
        store=Store.default(options["store"]),
        progress=progress,
    )
    progress.ended()
    if outcome.findings is not None and outcome.folder is not None:
        report = keep(outcome.folder, outcome.findings)
        show(outcome.findings, options["json_to"], report)
    if outcome.error is not None:
        error = outcome.error
        speak.problem(error.message, error.hint, sqlstate=error.sqlstate)
    return exit_code(outcome)


def keep(folder: ExperimentFolder, findings: ExperimentFindings) -> Path:
    """Write the answer and the report beside what was measured; return the report's path."""
    folder.write_analysis(document_of(findings))
    path = folder.write_report(render(findings))
    folder.seal()
    return path


def show(findings: ExperimentFindings, json_to: str | None, report: Path | None) -> None:
    """Print an answer as text, or as JSON, or as both to different places."""
    document = json.dumps(document_of(findings), indent=2, ensure_ascii=False)
    text = text_of(findings).rstrip()
    if report is not None:
        text += f"\n{'report':12}{report}"
    options_of_output.write(text, document, json_to)


def exit_code(outcome: Outcome) -> int:
    """Return the highest code that applies."""
    codes = [0]
    if outcome.error is not None:
        codes.append(outcome.error.exit_code)
    if (findings := outcome.findings) is not None:
        if findings.run is not None and findings.run.failures:
            codes.append(EXIT_FAILURES)
        if (findings.run is not None and not findings.run.is_valid) or (
            findings.runs_valid < findings.runs_total
        ):
            codes.append(EXIT_NOT_VALID)
    return max(codes)
