"""The transactions of a recording as a part of the job: which file, and what its numbers mean.

A *recording* is a file with every transaction of a log, in order and with its values. It is next to
the capture, and only the engine reads it. In the file, statements and types of transactions are
numbers. The capture says which statement and which type each number is, and the job says which of
its own statements and templates these are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pgdyno.errors import SpecError
from pgdyno.features.capture.model import Capture, Step, Template
from pgdyno.features.capture.observed import Recording


def templates_in(capture: Capture) -> tuple[Template, ...]:
    """Return the templates of a load: those of the capture, or of the types of its recording."""
    recording = capture.recording
    return capture.templates if recording is None else recorded_templates(capture, recording)


def recorded_templates(capture: Capture, recording: Recording) -> tuple[Template, ...]:
    """Return a template for each type of a recording, whose steps have no parameters.

    Statements that the capture lacks, because they could do harm, are left out. Types of one name,
    which differ in their protocol, get a number: "pay" and "pay (2)".
    """
    counts: dict[str, int] = {}
    known = {statement.id for statement in capture.statements}
    made = []
    for kind in recording.types:
        count = counts[kind.name] = counts.get(kind.name, 0) + 1
        made.append(
            Template(
                name=kind.name if count == 1 else f"{kind.name} ({count})",
                rate_tps=kind.count / max(capture.header.seconds, 1e-3),
                protocol=kind.protocol,
                steps=tuple(
                    Step(statement=recording.statements[place])
                    for place in kind.statements
                    if recording.statements[place] in known
                ),
                origin="log",
            )
        )
    return tuple(made)


def recording_document(
    path: Path, capture: Capture, templates: Sequence[Template], place: Mapping[str, int]
) -> dict[str, Any]:
    """Return the recording of a job.

    `statements` and `types`: for each number of the file, the place among the statements and the
    templates of the job; None if the job lacks it.
    Args: path, the file of the capture; templates, those of the job; place, id of a statement that
    is not left out -> its place in the job.
    Raises: SpecError if the file of the recording is missing.
    """
    recording = capture.recording
    assert recording is not None, f"{path} has no recording"
    file = path.absolute().with_name(Path(recording.file).name)
    if not file.is_file():
        raise SpecError(
            f"{path} has recorded transactions, but their file {file} is missing.",
            hint="put the .recording file into the folder of the .capture file",
        )
    place_of = {template.name: number for number, template in enumerate(templates)}
    return {
        "path": str(file),
        "statements": [place.get(name) for name in recording.statements],
        "types": [place_of.get(own.name) for own in recorded_templates(capture, recording)],
    }
