"""Pages of the documentation in a narrow terminal."""

from __future__ import annotations

import re

from pgdyno.cli.help import answer_to, for_terminal
from pgdyno.cli.page_search import pages

PAGE = """A first line that is about as long as the lines of the pages are, in their sources.
It **goes on**.

| setting | default | meaning |
|---|---|---|
| `work_mem` | 4MB | memory of one sort \\| hash |

- An item with `pgdyno bench -s 10` that is long enough to need a second line
  and goes on.
```
$ a command that stays as it is, because somebody copies it whole from here
```
"""


def test_sentences_items_and_rows_fit_and_commands_stay() -> None:
    assert for_terminal(PAGE, 50).splitlines() == [
        "A first line that is about as long as the lines of",
        "the pages are, in their sources. It goes on.",
        "",
        "`work_mem`: default: 4MB; meaning: memory of one",
        "    sort | hash",
        "",
        "- An item with `pgdyno bench -s 10` that is long",
        "  enough to need a second line and goes on.",
        "$ a command that stays as it is, because somebody copies it whole from here",
    ]


def test_every_page_fits_a_terminal_of_80_columns() -> None:
    for name in pages():
        prose = re.sub(r"^```.*?^```$", "", answer_to(name), flags=re.M | re.S)
        for line in for_terminal(prose, 80).splitlines():
            is_one_span = re.search(r"`[^`]{40,}`", line)
            assert len(line) <= 80 or line.startswith(" ") or is_one_span, f"{name}: {line}"
            assert not line.startswith(("|", "```")), f"{name}: {line}"
