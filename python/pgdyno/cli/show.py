"""`pgdyno show`: prints a stored result as text or JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pgdyno.cli import options, output, wanted
from pgdyno.cli.headings import Verb
from pgdyno.errors import InterruptedByUser, SpecError, StoreError

if wanted.body(__name__):
    from pydantic import ValidationError

    from pgdyno.analysis.findings import ExperimentFindings
    from pgdyno.cli.measure import show, with_remarks
    from pgdyno.designs import answer_of
    from pgdyno.measure.changes import place_of
    from pgdyno.report.block_text import answer_text
    from pgdyno.report.result_kind import RESULTS, ResultKind
    from pgdyno.report.short_text import shortened
    from pgdyno.store.experiment import Store
    from pgdyno.store.folder import ExperimentFolder

if TYPE_CHECKING:
    from pgdyno.report.blocks import Level

_NAMED = 3
Read = TypeVar("Read")


@click.command("show", cls=Verb, short_help="Print a result as text.")
@click.argument("result", default="last")
@options.store_option
@options.json_option
@options.verbose
def command(result: str, store: Path | None, json_to: str | None, verbose: bool) -> int:
    """Print a result as text. RESULT is a number, a name, a folder, or `last` (default)."""
    folder = Store.default(store).find(result)
    for change in folder.outstanding_changes():
        output.note(
            f"warning: #{folder.number} left settings of {place_of(change)} changed; "
            f"pgdyno undo {folder.number} puts them back"
        )
    if (damage := folder.audit_damage()) is not None:
        output.warning(damage.message, damage.hint)
    if not folder.is_experiment:
        kind = result_kind_of(folder)

        def read() -> tuple[dict[str, Any], str]:
            document = document_again(folder)
            level: Level = "full" if verbose else "short"
            text = answer_text(kind.blocks(document, None), output.width(), level)
            return document, with_remarks(text, document.get("notes", ()))

        document, shown = read_kept(folder, read)
        text = json.dumps(document, indent=2, ensure_ascii=False)
        if not verbose:
            shown = shortened(shown, f"pgdyno show -v {folder.number}")
        options.write(shown, text, json_to)
    else:
        with output.doing("reading the measurements"):
            findings = answered(folder)
        show(findings, json_to, None, is_whole=verbose)
    return 0


def result_kind_of(folder: ExperimentFolder) -> ResultKind:
    """Return how a result without runs is shown. Raises: SpecError if its feature is missing."""
    if folder.verb not in RESULTS:
        raise SpecError(
            f"#{folder.number} ({folder.name}) is a {folder.verb}, which this pgdyno cannot show.",
            hint=f"install a pgdyno that has the verb {folder.verb}",
        )
    return RESULTS[folder.verb]


def document_again(folder: ExperimentFolder) -> dict[str, Any]:
    """Return the document of a result without runs; made anew if the lab was killed."""
    document = result_kind_of(folder).document(folder)
    # A document is as its verb printed it, until somebody notes something.
    remarks = list(folder.remarks())
    return {**document, "notes": remarks} if remarks else document


def answered(folder: ExperimentFolder) -> ExperimentFindings:
    """Return the answer of a result, as `read_kept` does. Raises: SpecError without runs."""
    require_runs(folder)
    return read_kept(folder, lambda: answer_of(folder))


def require_runs(folder: ExperimentFolder) -> None:
    """Raise SpecError if the result is a watch or crashes: neither measured runs of a load."""
    if folder.is_experiment:
        return
    table = RESULTS[folder.verb].samples if folder.verb in RESULTS else ""
    samples = f"; pgdyno export {folder.number} --table {table} writes its samples" * bool(table)
    raise SpecError(
        f"#{folder.number} ({folder.name}) is a {folder.verb}: it has no experiment and no runs.",
        hint=f"pgdyno show {folder.number} prints it{samples}",
    )


def read_kept(folder: ExperimentFolder, read: Callable[[], Read]) -> Read:
    """Return the value of `read` for a result, and warn of each file that was altered.

    Raises: StoreError with the missing or damaged files if `read` fails because of them.
    """
    altered = folder.altered()
    listed = " ".join(altered[:_NAMED]) + (" ..." if len(altered) > _NAMED else "")
    try:
        document = read()
    except Exception as error:
        is_damage = isinstance(error, ValueError | KeyError | TypeError)
        if isinstance(error, InterruptedByUser) or not (altered or is_damage):
            raise
        why = f"files changed after it was measured: {listed}" if altered else f"{_why(error)}."
        raise StoreError(
            f"#{folder.number} ({folder.name}) cannot be read: {why}",
            hint=f"restore {folder.folder} from a backup, or measure again",
        ) from error
    if altered:
        output.note(f"warning: #{folder.number} was altered after it was measured: {listed}")
    return document


def _why(error: Exception) -> str:
    """Return an error of a file in one line, because pydantic and tomllib write several."""
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        place = ".".join(str(step) for step in first["loc"])
        return f"{error.title} does not fit: {place}: {first['msg']}".rstrip(".")
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}".rstrip(".")
