"""An option that a page of the documentation names exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Of pip, uv, pgbench, Dask and the kernel; pgbench.md lists the options of pgbench.
OTHERS = {
    "--build-arg",
    "--find-links",
    "--no-index",
    "--python",
    "--max-tries",
    "--nthreads",
    "--no-nanny",
    "--resources",
}
OTHERS |= {"--rename-dir-limit", "--version"}
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*[a-z0-9]")
PAGES = [
    page
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    if page.name not in ("cli.md", "pgbench.md")
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_names_only_options_that_exist(page: Path) -> None:
    known = set(OPTION.findall((ROOT / "docs" / "cli.md").read_text())) | OTHERS
    assert set(OPTION.findall(page.read_text())) - known == set()
