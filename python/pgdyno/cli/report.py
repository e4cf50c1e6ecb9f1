"""`pgdyno report`: writes a result as one offline HTML page, or as Markdown."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from pgdyno.cli import options, output, wanted
from pgdyno.cli.headings import Verb
from pgdyno.cli.option_table import table
from pgdyno.errors import SpecError
from pgdyno.process import signals

if wanted.body(__name__):
    from pgdyno.cli.show import answered, document_again, read_kept, result_kind_of
    from pgdyno.designs import blocks_of, document_of
    from pgdyno.report.html import answer_page
    from pgdyno.report.markdown import answer_markdown, answer_pictures
    from pgdyno.store.experiment import Store
    from pgdyno.store.folder import ExperimentFolder

# The end of the name of -o -> the form that is written.
_FORMS = {".html": "html", ".htm": "html", ".md": "md", ".json": "json"}


@click.command("report", cls=Verb, short_help="Write a result as HTML page or Markdown.")
@click.argument("result", default="last")
@options.store_option
@table(
    """
    Options
    -o --output (file) PATH *  File to write: .html, .md or .json (default: in the result's folder).
    --md (form) *  Write Markdown, with pictures next to it.
    """,
    form={"flag_value": "md"},
)
def command(result: str, store: Path | None, file: Path | None, form: str | None) -> int:
    """Write the report and print its path. RESULT is a number, a name, a folder, or `last`.

    The extension of the file selects the format. To get a PDF, print the page with a browser.
    """
    folder = Store.default(store).find(result)
    form = _form_of(file, form)
    path = file or folder.folder / f"report.{form}"
    with output.doing("reading the measurements and drawing their report"):
        contents = _contents(folder, path, form)
        signals.check()  # From here on, a signal does not interrupt the writing.
        _write(folder, contents, is_kept=file is None)
    output.data(str(path.absolute()))
    return 0


def _form_of(file: Path | None, asked: str | None) -> str:
    """Return the form to write. Raises: SpecError if the file's name says another, or none."""
    if file is None:
        return asked or "html"
    named = _FORMS.get(file.suffix.lower())
    if named is None:
        known = ", ".join(_FORMS)
        raise SpecError(
            f"-o {file}: report cannot write a file with this extension.",
            hint=f"use one of {known}; pgdyno export writes tables as CSV",
        )
    if asked not in (None, named):
        raise SpecError(
            f"-o {file} asks for {named.upper()}, but the command also has --{asked}.",
            hint=f"remove --{asked}, or change the extension of the file",
        )
    return named


def _as_json(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _contents(folder: ExperimentFolder, path: Path, form: str) -> dict[Path, str | bytes]:
    """Return the content of each file by its path, the report first."""
    remarks: tuple[str, ...] = ()
    if folder.is_experiment:
        findings = answered(folder)
        signals.check()
        if form == "json":
            return {path: _as_json(document_of(findings))}
        answer = blocks_of(findings)
    else:
        kind = result_kind_of(folder)
        if form == "json":
            return {path: _as_json(read_kept(folder, lambda: document_again(folder)))}
        answer, remarks = read_kept(folder, lambda: kind.answer(folder)), folder.remarks()
    if form == "html":
        return {path: answer_page(answer, remarks)}
    pictures = answer_pictures(answer, path.stem)
    return {
        path: answer_markdown(answer, remarks, path.stem),
        **{path.with_name(name): picture for name, picture in pictures.items()},
    }


def _write(folder: ExperimentFolder, contents: dict[Path, str | bytes], *, is_kept: bool) -> None:
    if not is_kept:
        for path, content in contents.items():
            options.write_file(path, content)
        return
    with folder.amending(*(path.name for path in contents)):
        for path, content in contents.items():
            folder.write_beside(path.name, content)
