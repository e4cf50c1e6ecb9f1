"""Makes the manual pages from the commands: `python -m pgdyno.cli.man FOLDER DATE`.

DATE, such as 2026-11-29, stands at the foot of each page. Their text is that of --help-all: one
page for pgdyno, and one for each verb and kind of dataset.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import click

from pgdyno.cli.headings import REST
from pgdyno.cli.main import HEADINGS, VERBS, pgdyno
from pgdyno.cli.reference import EXIT_CODES, every_context, every_parameter
from pgdyno.cli.verb_help import examples_of
from pgdyno.store.files import write_text


def write_pages(folder: Path, date: str) -> None:
    """Write every page into the folder, such as pgdyno-bench.1."""
    for name, text in man_pages(date):
        write_text(folder / f"{name}.1", text)


def man_pages(date: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each page."""
    verbs = "\n".join(
        f".SS {_safe(heading)}\n"
        + "\n".join(f".TP\n\\fB{_safe(verb)}\\fR\n{_safe(line)}" for verb, line in verbs.items())
        for heading, verbs in HEADINGS.items()
    )
    codes = "\n".join(f".TP\n{code}\n{_safe(meaning)}" for code, meaning in EXIT_CODES.items())
    others = ", ".join(f"\\fBpgdyno\\-{_safe(verb)}\\fR(1)" for verb in VERBS)
    about = "measure how fast a PostgreSQL server is, and why"
    parts = [
        _head("pgdyno", about, date),
        ".SH SYNOPSIS\n\\fBpgdyno\\fR \\fIVERB\\fR [\\fIOPTIONS\\fR] ...",
        f".SH DESCRIPTION\n{_safe(pgdyno.help or '')}",
        _examples("pgdyno"),
        f".SH VERBS\n{verbs}",
        f".SH EXIT STATUS\n{codes}",
        f".SH SEE ALSO\n{others}",
    ]
    yield "pgdyno", "\n".join(filter(None, parts)) + "\n"
    for verb, context in every_context():
        yield f"pgdyno-{verb.replace(' ', '-')}", _page(verb, context, date)


def _page(verb: str, context: click.Context, date: str) -> str:
    command = context.command
    usage = " ".join(command.collect_usage_pieces(context))
    parts = [
        _head(
            f"pgdyno-{verb.replace(' ', '-')}", command.get_short_help_str(100).rstrip("."), date
        ),
        f".SH SYNOPSIS\n\\fBpgdyno {_safe(verb)}\\fR {_safe(usage)}",
        f".SH DESCRIPTION\n{_paragraphs(command.help or '')}",
        _examples(verb if examples_of(verb) else verb.split()[-1]),
        ".SH OPTIONS",
    ]
    sections: dict[str, list[str]] = {}
    for parameter in every_parameter(command):
        record = parameter.get_help_record(context)
        if record is not None and (
            isinstance(parameter, click.Option) or hasattr(parameter, "heading")
        ):
            item = f".TP\n\\fB{_safe(record[0])}\\fR\n{_safe(record[1])}"
            sections.setdefault(getattr(parameter, "heading", REST), []).append(item)
    for heading, items in sections.items():
        parts.append("\n".join([f".SS {_safe(heading)}", *items]))
    parts.append(".SH SEE ALSO\n\\fBpgdyno\\fR(1)")
    return "\n".join(filter(None, parts)) + "\n"


def _head(name: str, about: str, date: str) -> str:
    safe = _safe(name)
    title = f'.TH {safe.upper()} 1 "{date}" "pgdyno {version("pgdyno")}" "pgdyno"'
    return f"{title}\n.SH NAME\n{safe} \\- {_safe(about[:1].lower() + about[1:])}"


def _examples(name: str) -> str:
    lines = [
        f".PP\n{_safe(meaning)}\n.PP\n.nf\n.RS\n{_safe(typed)}\n.RE\n.fi"
        for meaning, typed in examples_of(name)
    ]
    # A heading begins a paragraph.
    return "\n".join([".SH EXAMPLES", *lines]).replace("EXAMPLES\n.PP", "EXAMPLES") if lines else ""


def _paragraphs(text: str) -> str:
    paragraphs = re.split(r"\n\s*\n", text.strip())
    return "\n.PP\n".join(_safe(" ".join(paragraph.split())) for paragraph in paragraphs)


def _safe(text: str) -> str:
    """Return a text that roff prints as it is."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    return re.sub(r"^\.", r"\\&.", text, flags=re.MULTILINE)


if __name__ == "__main__":
    write_pages(Path(sys.argv[1]), sys.argv[2])
