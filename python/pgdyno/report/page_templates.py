"""The templates of the pages with the functions that they call, compiled by the build.

`python -m pgdyno.report.page_templates` compiles the templates. To compile them for each page would
take a twentieth of a second.
"""

from __future__ import annotations

import contextlib
import pickle
import sys
from functools import lru_cache
from pathlib import Path

import jinja2
from jinja2.bccache import Bucket, BytecodeCache
from markupsafe import Markup

from pgdyno.redaction import printable, redacted
from pgdyno.report import figures, filters, forest, gauge, svg, words
from pgdyno.report.compare_blocks import TONES

FOLDER = Path(__file__).parent / "templates/__pycache__"


@lru_cache(maxsize=1)
def page_environment() -> jinja2.Environment:
    """Return the environment of the templates with the functions that they call."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("pgdyno.report", "templates"),
        autoescape=True,
        bytecode_cache=TemplateBytecode(),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    environment.filters.update(filters.FILTERS)
    environment.filters["kind"] = lambda block: type(block).__name__
    environment.filters["shown"] = lambda text: getattr(text, "page", text)
    environment.filters["draw"] = lambda chart, width: Markup(
        printable(svg.draw(chart, width=width))
    )
    environment.globals.update(
        # The tone of a line or a cell -> its class on the page.
        tones={"plain": "", "good": "green", "bad": "red", "doubt": "amber"},
        ruler=gauge.ruler,
        no_ruler=gauge.NO_RULER,
        time_bar=gauge.time_bar,
        part_swatch=gauge.part_swatch,
        line_swatch=gauge.line_swatch,
        share_bar=gauge.share_bar,
        level_whisker=filters.level_whisker,
        percentile_names=filters.percentile_names,
        script_words=words.script_words,
        curve_words=words.curve_words,
        loss_words=words.loss_words,
        forest_axis=forest.axis,
        forest_whisker=forest.whisker,
        verdict_tone=lambda verdict: TONES.get(verdict, "plain"),
        marks_shown=words.marks_shown,
        sections_of=figures.sections_of,
    )
    return environment


def _shown(value: object) -> object:
    """Return a value of a page without secrets and signs of control; parts of the page stay."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return printable(redacted(value))
    return value


class TemplateBytecode(BytecodeCache):
    """Reads compiled templates. If the text or Python's version differs, jinja2 compiles again."""

    def __init__(self, *, is_building: bool = False) -> None:
        """Keep the folder. Args: is_building, whether newly compiled templates are stored."""
        self._is_building = is_building

    def load_bytecode(self, bucket: Bucket) -> None:
        """Fill the bucket with the compiled template of the build if there is a current one."""
        # A truncated file is treated as missing.
        with contextlib.suppress(OSError, EOFError, pickle.UnpicklingError):
            bucket.bytecode_from_string(_file(bucket).read_bytes())

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Store the compiled template atomically, because other processes may read it."""
        if self._is_building:
            FOLDER.mkdir(exist_ok=True)
            partial = _file(bucket).with_suffix(".partial")
            partial.write_bytes(bucket.bytecode_to_string())
            partial.replace(_file(bucket))


def compile_templates() -> None:
    """Compile every template whose compiled form is missing or old."""
    environment = page_environment()
    environment.bytecode_cache = TemplateBytecode(is_building=True)
    for name in environment.list_templates(extensions=["j2"]):
        environment.get_template(name)


def _file(bucket: Bucket) -> Path:
    return FOLDER / f"{bucket.key}.{sys.implementation.cache_tag}.template"


if __name__ == "__main__":
    compile_templates()
