"""What the measuring verbs share: carry out, show the answer, choose the exit code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pgdyno.analysis.findings import ExperimentFindings
from pgdyno.cli import speak
from pgdyno.cli.asked import Asked
from pgdyno.cli.documents import document_of
from pgdyno.cli.live import Live
from pgdyno.loop.drive import Outcome, carry_out
from pgdyno.report.text import text_of
from pgdyno.store.experiment import Store

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
        store=Store.at(options["store"]),
        progress=progress,
    )
    progress.ended()
    if outcome.findings is not None:
        show(outcome.findings, options["json_to"], outcome.report)
    if outcome.error is not None:
        speak.problem(outcome.error.message, outcome.error.hint, sqlstate=outcome.error.sqlstate)
    return exit_code(outcome)


def show(findings: ExperimentFindings, json_to: str | None, report: Path | None) -> None:
    """Print an answer as text, or as JSON, or as both to different places."""
    document = json.dumps(document_of(findings), indent=2, ensure_ascii=False)
    if json_to == "-":
        speak.data(document)
    else:
        speak.data(text_of(findings))
        if report is not None:
            speak.data(f"report {report}")
    if json_to not in (None, "-"):
        Path(str(json_to)).write_text(document + "\n")


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
