"""An answer as text and as a page, of whatever design; without what measures, which takes longer
to import than a page takes to make. What makes a page is imported where one is made.
"""

from __future__ import annotations

from pgdyno.analysis.findings import ExperimentFindings
from pgdyno.report.compare_text import compare_text
from pgdyno.report.text import text_of


def words_of(findings: ExperimentFindings, width: int) -> str:
    """Return an answer as text of that many columns, of whatever design."""
    text = text_of if findings.compare is None else compare_text
    return text(findings, width)


def page_of(findings: ExperimentFindings) -> str:
    """Return an answer as one offline page, of whatever design."""
    if findings.compare is None:
        from pgdyno.report.html import render

        return render(findings)
    from pgdyno.report.compare_page import compare_page

    return compare_page(findings)
