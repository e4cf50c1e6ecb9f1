"""Templates that a build compiled: read where they are right, of no harm where they are not."""

from __future__ import annotations

from pathlib import Path

import jinja2
import pytest

from pgdyno.report import page_templates
from pgdyno.report.page_templates import (
    TemplateBytecode,
    compile_templates,
    page_environment,
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(page_templates, "FOLDER", tmp_path / "compiled")
    return tmp_path / "compiled"


def rendered(text: str, *, is_building: bool = False) -> str:
    loader = jinja2.DictLoader({"a.j2": text})
    cache = TemplateBytecode(is_building=is_building)
    return jinja2.Environment(loader=loader, bytecode_cache=cache, autoescape=True).from_string(
        "{% include 'a.j2' %}"
    ).render()  # fmt: skip


def test_only_a_build_keeps_what_it_compiled(folder: Path) -> None:
    assert rendered("x") == "x"
    assert not folder.exists()
    assert rendered("x", is_building=True) == "x"
    assert [path.suffix for path in folder.iterdir()] == [".template"]


def test_a_template_that_was_changed_or_damaged_since_is_compiled_anew(folder: Path) -> None:
    rendered("before", is_building=True)
    assert rendered("before") == "before"
    assert rendered("after") == "after"
    [path] = folder.iterdir()
    whole = path.read_bytes()
    for kept in (0, 10, 40, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:kept])
        assert rendered("before") == "before", kept


def test_a_build_compiles_every_template(folder: Path) -> None:
    page_environment.cache_clear()
    try:
        compile_templates()
        templates = page_environment().list_templates(extensions=["j2"])
        assert len(list(folder.iterdir())) == len(templates) > 0
    finally:
        page_environment.cache_clear()
