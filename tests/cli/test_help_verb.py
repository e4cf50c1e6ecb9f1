"""`pgdyno help`: pages, words and questions in the terminal, from docs/."""

from __future__ import annotations

import pytest

from pgdyno.cli.help import pages
from pgdyno.cli.main import _run


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Return what the verb prints."""
    assert _run(["help", *words]) == 0
    return capsys.readouterr().out


def test_without_a_topic_every_page_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys)
    assert all(f"  {name} " in text for name in pages())


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ("valid", "When a run is not valid (method)"),
        ("likeness", "How alike was the load? (own-workload)"),
        ("noise", "noise: scatter of results"),
        ("KNEE", "smallest load within 3 % of the peak"),
        ("method", "How pgdyno computes its numbers (method)"),
        ("load curve", "The load curve (method)"),
    ],
)
def test_a_word_or_a_question_finds_its_section(
    asked: str, answer: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = said(capsys, *asked.split())
    assert answer in text
    assert "](" not in text


def test_an_unknown_topic_is_refused_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(["help", "percentle"]) == 1
    assert "percentile" in capsys.readouterr().err
