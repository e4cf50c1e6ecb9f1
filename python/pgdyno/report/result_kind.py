"""Results that are no experiments, such as a watch: how the core lists and shows them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pgdyno.feature import FeatureTable
from pgdyno.store.folder import ExperimentFolder

if TYPE_CHECKING:
    from pgdyno.report.blocks import BlockAnswer, Level

ReadDocument = Callable[[ExperimentFolder], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class ResultKind:
    """How the result of one verb is shown.

    `document`: its JSON document, made anew if the lab was killed. `text`: the document in lines of
    at most a width; the short or the full text. `page`: the offline page. `part_words`: one and
    many of its parts, such as ("crash", "crashes"). `samples`: the table of its samples that
    `export` writes; "" for none. `markdown`: None if it has none.
    """

    document: ReadDocument
    text: Callable[[dict[str, Any], int, Level], str]
    page: Callable[[ExperimentFolder], str]
    part_words: tuple[str, str]
    samples: str = ""
    markdown: Callable[[ExperimentFolder], str] | None = None


def of_blocks(
    document: ReadDocument,
    blocks: Callable[[dict[str, Any], ExperimentFolder | None], BlockAnswer],
    part_words: tuple[str, str],
    samples: str = "",
) -> ResultKind:
    """Return a kind whose every form is drawn from the blocks of its document.

    Args: blocks, gets the folder if the form shows more than the document has, such as charts.
    """

    def text(shown: dict[str, Any], width: int, level: Level) -> str:
        from pgdyno.report.block_text import answer_text

        return answer_text(blocks(shown, None), width, level)

    def page(folder: ExperimentFolder) -> str:
        from pgdyno.report.html import answer_page

        return answer_page(blocks(document(folder), folder), folder.remarks())

    def markdown(folder: ExperimentFolder) -> str:
        from pgdyno.report.markdown import answer_markdown

        return answer_markdown(blocks(document(folder), folder), folder.remarks())

    return ResultKind(document, text, page, part_words, samples, markdown)


RESULTS: FeatureTable[ResultKind] = FeatureTable("results", {})
