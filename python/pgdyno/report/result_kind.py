"""Results that are no experiments, such as a watch: how the core lists and shows them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pgdyno.feature import FeatureTable
from pgdyno.store.folder import ExperimentFolder

if TYPE_CHECKING:
    from pgdyno.report.blocks import BlockAnswer


@dataclass(frozen=True, slots=True)
class ResultKind:
    """How the result of one verb is shown: every form is drawn from its blocks.

    `document`: its JSON document, made anew if the lab was killed. `blocks`: the answer from the
    document; it gets the folder if the form shows more than the document has, such as charts.
    `part_words`: one and many of its parts, such as ("crash", "crashes"). `samples`: the table of
    its samples that `export` writes; "" for none. `comparing`: the command that compares two, with
    places for {before} and {after}; "" for none.
    """

    document: Callable[[ExperimentFolder], dict[str, Any]]
    blocks: Callable[[dict[str, Any], ExperimentFolder | None], BlockAnswer]
    part_words: tuple[str, str]
    samples: str = ""
    comparing: str = ""

    def answer(self, folder: ExperimentFolder) -> BlockAnswer:
        """Return the whole answer of a stored result."""
        return self.blocks(self.document(folder), folder)


RESULTS: FeatureTable[ResultKind] = FeatureTable("results", {})
