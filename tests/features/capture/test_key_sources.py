"""Keys of other transactions: who gives them, which rows may go, what is equal by chance."""

from __future__ import annotations

from pgdyno.engine.distribution import Distribution
from pgdyno.features.capture.model import Constant, Fresh, ListOf, OfColumn, Step, Taken
from pgdyno.features.capture.reading.functions import functions_of
from pgdyno.features.capture.reading.key_sources import KeySources, children_of, givers_of
from pgdyno.features.capture.reading.log_dependencies import Earlier
from pgdyno.features.capture.reading.log_templates import Context
from pgdyno.features.capture.reading.names import Names
from pgdyno.features.capture.reading.observed import Observed
from pgdyno.features.capture.reading.parameter_sources import Sources
from pgdyno.features.capture.reading.parameter_uses import Parameter
from pgdyno.features.capture.reading.parsed import Parsed, parse
from pgdyno.features.capture.schema import ColumnShape, KeyReference, SchemaObject

NUMBERS = Distribution(kind="integer", distinct=100, bounds=("1", "100"), is_dense=True)


def column(name: str, to: str = "", *, is_unique: bool = False) -> ColumnShape:
    table, bare = name.split(".")
    home, _, key = to.partition(".")
    return ColumnShape(
        table=f"public.{table}",
        column=bare,
        type="integer",
        is_unique=is_unique,
        references=KeyReference(table=f"public.{home}", column=key) if to else None,
        distribution=NUMBERS,
    )


COLUMNS = [
    column("article.id", is_unique=True),
    column("page.id", is_unique=True),
    column("page.article", "article.id"),
    column("page.parent", "page.id"),
    column("jobs.id", is_unique=True),
    column("jobs.state"),
]
BY_PLACE = {(shape.table, shape.column): shape for shape in COLUMNS}
CALLED = [
    ("defer_job(state int) RETURNS bigint", "INSERT INTO jobs (state) VALUES (state) RETURNING id"),
    ("fetch_job() RETURNS jobs", "UPDATE jobs SET state = 1 RETURNING *"),
    ("cancel(job int) RETURNS void", "UPDATE jobs SET state = 2 WHERE id = job"),
    ("finish(job int) RETURNS void", "UPDATE jobs SET state = 3 WHERE id = job"),
]
NAMES = Names(
    {
        table: [shape.column for shape in COLUMNS if shape.table == table]
        for table in ("public.article", "public.page", "public.jobs")
    },
    ["public"],
    functions_of(
        SchemaObject(
            kind="function",
            name=head.partition("(")[0],
            sql=f"CREATE FUNCTION {head} LANGUAGE sql AS $$ {body} $$",
        )
        for head, body in CALLED
    ),
)


def of(place: str) -> OfColumn:
    table, name = place.split(".")
    return OfColumn(table=f"public.{table}", column=name)


def changed(keys: KeySources, text: str, place: str, calls: float) -> object:
    steps, parsed = [Step(statement=text, parameters=(of(place),))], [parse(text, NAMES)]
    [step] = keys.changed(steps, parsed, calls=calls)
    return step.parameters[0]


def with_id(text: str, calls: float) -> tuple[str, Parsed, float]:
    return text, parse(text, NAMES), calls


def test_a_key_comes_from_the_rarest_statement_that_gives_enough() -> None:
    defer, fetch = "SELECT unnest(defer_job($1)) AS id", "SELECT id, state FROM fetch_job()"
    givers = givers_of([with_id(defer, 1000), with_id(fetch, 60)], BY_PLACE)
    keys = KeySources(BY_PLACE, {}, givers, {})
    cancelled = changed(keys, "SELECT cancel($1)", "jobs.id", 90)
    finished = changed(keys, "SELECT finish($1)", "jobs.id", 58)
    assert cancelled == Taken(statement=defer, column=0)
    assert finished == Taken(statement=fetch, column=0)
    # What fetch gives is used up.
    assert changed(keys, "SELECT finish($1)", "jobs.id", 30) == Taken(statement=defer, column=0)


def test_a_job_is_ended_by_its_id_from_the_function_that_fetches_it() -> None:
    defer, fetch = "SELECT unnest(defer_job($1)) AS id", "SELECT id, state FROM fetch_job()"
    known = [with_id(defer, 12), with_id(fetch, 300)]
    sources = Sources(COLUMNS, {}, ())
    # The worker also adds a few jobs itself, nearly as many as it ends in this way.
    keys = sources.key_sources(known)
    for calls in (200, 11, 90):
        assert changed(keys, "SELECT finish($1)", "jobs.id", calls) == Taken(
            statement=fetch, column=0
        )


def test_a_key_that_is_used_again_and_again_is_an_existing_one() -> None:
    keys = KeySources(
        BY_PLACE, {}, givers_of([with_id("SELECT id FROM fetch_job()", 5)], BY_PLACE), {}
    )
    assert changed(keys, "SELECT cancel($1)", "jobs.id", 50) == of("jobs.id")


def test_a_unique_column_that_refers_to_a_row_is_left_empty_in_a_new_row() -> None:
    twin = column("twin.article", "article.id", is_unique=True)
    own, key = (twin.table, twin.column), "public.article"
    names = Names({twin.table: ["article"], key: ["id"]}, ["public"])
    keys = KeySources({**BY_PLACE, own: twin}, {twin.table: [("article",)]}, {}, {})
    insert = parse("INSERT INTO twin (article) VALUES ($1)", names)
    for source in (of("article.id"), Fresh(table=twin.table, column="article")):
        [step] = keys.changed([Step(statement="i", parameters=(source,))], [insert], calls=1)
        assert step.parameters[0] == Constant(value=None)


def test_a_parent_is_deleted_only_after_its_children() -> None:
    rows = {"public.page": 100.0, "public.article": 100.0}
    children = children_of(COLUMNS, [], rows)
    assert children == {"public.article": {"public.page"}, "public.page": {"public.page"}}
    made = with_id("INSERT INTO article (id) VALUES (1) RETURNING id", 100)
    keys = KeySources(BY_PLACE, {}, givers_of([made], BY_PLACE), children)
    text = "DELETE FROM article WHERE id = $1"
    assert changed(keys, text, "article.id", 10) == Constant(value="-1")
    pages = "DELETE FROM page WHERE article = ANY ($1)"
    listed = ListOf(of=of("article.id"), length={"least": 1, "mean": 1, "most": 1})
    steps = [
        Step(statement="pages", parameters=(listed,)),
        Step(statement="article", parameters=(of("article.id"),)),
    ]
    both = keys.changed(steps, [parse(pages, NAMES), parse(text, NAMES)], calls=10)
    assert both[1].parameters[0] == Taken(statement=made[0], column=0)


def test_children_that_follow_their_parent_do_not_matter() -> None:
    follows = SchemaObject(
        kind="foreign_key",
        name="f",
        table="public.page",
        sql="ALTER TABLE page ADD FOREIGN KEY (article) REFERENCES article ON DELETE CASCADE",
    )
    assert children_of(COLUMNS, [follows], {"public.page": 9.0}) == {}
    assert children_of(COLUMNS, [], {}) == {}


def test_keys_of_two_tables_are_equal_only_by_chance() -> None:
    sources = Sources(COLUMNS, {}, [])
    context = Context(ids={}, columns=BY_PLACE, types={}, raw={}, sources=sources)

    def may_depend(name: str, other: str) -> bool:
        own, theirs = (Parameter("equal", of(p).table, of(p).column) for p in (name, other))
        given = Observed(0, 0, theirs, "", [0], ["1"], ())
        earlier = Earlier([(context.referred(theirs), given)], key=context.referred(own))
        return earlier.parameters == [given]

    assert not may_depend("article.id", "page.id")
    assert not may_depend("page.article", "page.id")
    assert may_depend("page.article", "article.id")
    assert may_depend("page.parent", "page.id")
    # No foreign key refers to it: nothing is known.
    assert may_depend("jobs.id", "page.id")
