"""`pgdyno report`: a result again, as one offline HTML page."""

from __future__ import annotations

from pathlib import Path

import click

from pgdyno.cli import options, speak
from pgdyno.cli.measure import page_of
from pgdyno.loop.answer import answer_of
from pgdyno.loop.watch_panels import watch_findings
from pgdyno.report.watch_page import watch_page
from pgdyno.store.experiment import Store


@click.command("report", short_help="A result again, as an HTML page.")
@click.argument("result", default="last")
@options.store_option
@click.option("-o", "--output", type=click.Path(path_type=Path), help="File to write.")
def command(result: str, store: Path | None, output: Path | None) -> int:
    """Write the report and print its path. RESULT is a number, a name, a folder, or `last`."""
    folder = Store.default(store).find(result)
    if folder.verb == "watch":
        page = watch_page(watch_findings(folder))
    else:
        page = page_of(answer_of(folder))
    if output is None:
        path = folder.write_report(page)
        folder.seal()
    else:
        path = output
        options.write_file(path, page)
    speak.data(str(path.absolute()))
    return 0
