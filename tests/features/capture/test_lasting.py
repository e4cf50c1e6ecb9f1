"""Rows that last: which rows a load may delete, and to which ones its rows refer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.features.capture.test_key_sources import BY_PLACE, COLUMNS, NAMES, of

from pgdyno.engine.distribution import Spread
from pgdyno.features.capture.model import (
    Constant,
    Equal,
    ListOf,
    Returned,
    Source,
    Step,
    Taken,
    Template,
)
from pgdyno.features.capture.reading.key_sources import KeySources, givers_of
from pgdyno.features.capture.reading.lasting import LastingRows, TransactionKind
from pgdyno.features.capture.reading.parsed import parse
from pgdyno.features.capture.schema import SchemaObject

NEW_ARTICLE = "INSERT INTO article (id) VALUES (1) RETURNING id"
NEW_PAGE = "INSERT INTO page (article) VALUES ($1) RETURNING id"
DELETE_ARTICLE = "DELETE FROM article WHERE id = $1"
DELETE_PAGES = "DELETE FROM page WHERE article = $1"
ARTICLE_OF_PAGE = "SELECT article FROM page WHERE id = $1"
NO_ARTICLE, NEW = Constant(value="-1"), Taken(statement=NEW_ARTICLE, column=0)

Transaction = Mapping[str, Sequence[Source]]


def changed(
    *transactions: Transaction, rows: float = 9.0, objects: Sequence[SchemaObject] = ()
) -> list[list[Source]]:
    """Return the sources of all steps of transactions, given as statements with sources."""
    parsed = {text: parse(text, NAMES) for given in transactions for text in given}
    kinds = [
        TransactionKind(
            Template(
                name="t",
                rate_tps=1,
                steps=tuple(Step(statement=t, parameters=tuple(s)) for t, s in given.items()),
            ),
            parsed,
        )
        for given in transactions
    ]
    givers = givers_of(((text, known, 10.0) for text, known in parsed.items()), BY_PLACE)
    keys = KeySources(BY_PLACE, {}, givers, {})
    lasting = LastingRows(BY_PLACE, objects, {"public.page": rows}, kinds)
    for kind in kinds:
        lasting.change(kind, keys, 10.0)
    return [[s for step in kind.changed().steps for s in step.parameters] for kind in kinds]


REFERS: Transaction = {NEW_PAGE: [of("article.id")]}
MAKES: Transaction = {NEW_ARTICLE: []}


def test_a_row_to_which_new_rows_refer_is_not_deleted() -> None:
    _, _, [deleted] = changed(REFERS, MAKES, {DELETE_ARTICLE: [of("article.id")]})
    assert deleted == NEW
    _, [deleted] = changed(REFERS, {DELETE_ARTICLE: [of("article.id")]})
    assert deleted == NO_ARTICLE
    # Without such rows any row may go.
    _, [deleted] = changed(MAKES, {DELETE_ARTICLE: [of("article.id")]})
    assert deleted == of("article.id")


def test_a_new_row_with_children_is_deleted_after_its_children() -> None:
    both: Transaction = {NEW_ARTICLE: [], NEW_PAGE: [Returned(step=0, column=0)]}
    deleted = changed(REFERS, both, {DELETE_ARTICLE: [of("article.id")]})[2]
    assert deleted == [NO_ARTICLE]
    pages: Transaction = {DELETE_PAGES: [NEW], DELETE_ARTICLE: [Equal(step=0, parameter=0)]}
    assert changed(REFERS, both, pages)[2] == [NEW, Equal(step=0, parameter=0)]
    # Pages of other articles.
    others: Transaction = {DELETE_PAGES: [of("article.id")], DELETE_ARTICLE: [NEW]}
    assert changed(REFERS, both, others)[2] == [of("article.id"), NO_ARTICLE]


def test_a_row_that_is_found_by_a_new_row_is_new_if_both_are_made_together() -> None:
    both: Transaction = {NEW_ARTICLE: [], NEW_PAGE: [Returned(step=0, column=0)]}
    page = Taken(statement=NEW_PAGE, column=0)
    seeks: Transaction = {
        ARTICLE_OF_PAGE: [page],
        DELETE_PAGES: [Returned(step=0, column=0)],
        DELETE_ARTICLE: [Returned(step=0, column=0)],
    }
    [*_, article] = changed(both, {"UPDATE page SET parent = $1": [of("page.id")]}, seeks)[2]
    assert article == Returned(step=0, column=0)
    [*_, article] = changed(both, REFERS, seeks)[2]
    assert article == NO_ARTICLE


def test_a_row_refers_to_one_that_lasts_if_other_rows_are_deleted() -> None:
    reads: Transaction = {ARTICLE_OF_PAGE: [of("page.id")], NEW_PAGE: [Returned(step=0, column=0)]}
    assert changed(reads)[0][1] == Returned(step=0, column=0)
    assert changed(reads, {DELETE_ARTICLE: [NO_ARTICLE]})[0][1] == of("article.id")


def test_rows_that_go_with_their_parent_last_if_it_lasts() -> None:
    follows = SchemaObject(
        kind="foreign_key",
        name="f",
        table="public.page",
        sql="ALTER TABLE page ADD FOREIGN KEY (article) REFERENCES article ON DELETE CASCADE",
    )
    child: Transaction = {"INSERT INTO page (parent) VALUES ($1)": [of("page.id")]}
    delete: Transaction = {DELETE_ARTICLE: [of("article.id")]}
    assert changed(child, delete)[1] == [of("article.id")]
    assert changed(child, delete, objects=[follows])[1] == [NO_ARTICLE]


def test_a_condition_without_a_key_finds_no_row_that_lasts() -> None:
    child: Transaction = {"INSERT INTO page (parent) VALUES ($1)": [of("page.id")]}
    assert changed(child, {DELETE_PAGES: [of("article.id")]})[1] == [Constant(value=None)]
    assert changed({DELETE_PAGES: [of("article.id")]})[0] == [of("article.id")]


def test_each_key_of_a_list_is_that_of_a_row_that_may_go() -> None:
    two: Transaction = {"DELETE FROM article WHERE id IN ($1, $2)": [NEW, of("article.id")]}
    assert changed(REFERS, two)[1] == [NEW, NO_ARTICLE]
    listed = ListOf(of=of("article.id"), length=Spread())
    some: Transaction = {"DELETE FROM article WHERE id = ANY ($1)": [listed]}
    assert changed(REFERS, some)[1] == [listed.model_copy(update={"of": NO_ARTICLE})]


def test_only_columns_of_foreign_keys_refer_to_rows() -> None:
    assert [shape.column for shape in COLUMNS if shape.references] == ["article", "parent"]
