"""Results that are no experiments, such as a watch: how the core lists and shows them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pgdyno.feature import Table
from pgdyno.store.folder import ExperimentFolder


@dataclass(frozen=True, slots=True)
class ResultKind:
    """How the result of one verb is shown.

    `document`: its JSON document, made anew if the lab was killed. `text`: the document in lines of
    at most a width. `page`: the offline page. `part_words`: one and many of its parts, such as
    ("crash", "crashes"). `samples`: the table of its samples that `export` writes; "" for none.
    """

    document: Callable[[ExperimentFolder], dict[str, Any]]
    text: Callable[[dict[str, Any], int], str]
    page: Callable[[ExperimentFolder], str]
    part_words: tuple[str, str]
    samples: str = ""


RESULTS: Table[ResultKind] = Table("results", {})
