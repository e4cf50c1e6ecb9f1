"""What the text of a statement says: uses of parameters, reasons against it, no constants."""

from __future__ import annotations

import re

import pytest

from pgdyno.features.capture.observed import REASONS
from pgdyno.features.capture.reading.arbiters import arbiters_of
from pgdyno.features.capture.reading.names import Names
from pgdyno.features.capture.reading.parameter_uses import Parameter
from pgdyno.features.capture.reading.parsed import parse
from pgdyno.features.capture.schema import SchemaObject

NAMES = Names(
    {"public.orders": ["id", "customer", "at"], 'shop."Item"': ["id", "order_id"]}, ["public"]
)


def test_parameters_know_their_column_and_use() -> None:
    parsed = parse(
        'SELECT o.id FROM orders o JOIN shop."Item" i ON i.order_id = o.id'
        " WHERE o.customer = $1 AND o.at BETWEEN $2 AND $3 AND i.id = ANY($4) LIMIT $5",
        NAMES,
    )
    orders, item = "public.orders", 'shop."Item"'
    assert parsed.parameters == {
        1: Parameter("equal", orders, "customer", "="),
        2: Parameter("range", orders, "at", "BETWEEN"),
        3: Parameter("range", orders, "at", "BETWEEN"),
        4: Parameter("list", item, "id", "="),
        5: Parameter("limit"),
    }
    assert parsed.tables == (orders, item)
    assert parsed.outputs == ((orders, "id"),)
    assert parsed.reads_only


def test_writes_know_what_they_set_and_return() -> None:
    insert = parse("INSERT INTO orders (customer, at) VALUES ($1, $2) RETURNING *", NAMES)
    assert insert.parameters[1] == Parameter("insert", "public.orders", "customer")
    assert [column for _, column in insert.outputs] == ["id", "customer", "at"]
    update = parse("UPDATE orders SET customer = customer + $1, at = $2 WHERE id = $3", NAMES)
    assert [update.parameters[n].use for n in (1, 2, 3)] == ["change", "set", "equal"]
    assert not update.reads_only
    assert not parse("SELECT id FROM orders WHERE id = $1 FOR UPDATE", NAMES).reads_only


def test_a_list_that_postgresql_18_shortened_becomes_an_array() -> None:
    shortened = "SELECT 1 FROM orders WHERE id IN ($1 /*, ... */) AND at NOT IN ($2 /*, ... */)"
    parsed = parse(shortened, NAMES)
    assert parsed.text == "SELECT 1 FROM orders WHERE id = ANY ($1) AND at <> ALL ($2)"
    assert [p.use for p in parsed.parameters.values()] == ["list", "list"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "text_missing"),
        ("SELECT FROM WHERE", "unreadable"),
        ("SELECT 1 FROM orders WHERE customer = 'a value'", "constants"),
        ("SELECT 1 FROM gone WHERE id = $1", "object_missing"),
        ("SELECT relname FROM pg_class", "catalog"),
        ("COPY orders FROM STDIN (FORMAT binary)", "copy"),
        ("PREPARE TRANSACTION 'a value'", "two_phase"),
        ("CREATE TABLE a (b int DEFAULT 1)", "ddl"),
        ("TRUNCATE orders", "ddl"),
        ("SELECT id INTO copy FROM orders", "ddl"),
        ("SELECT id INTO copy FROM orders UNION SELECT 1", "ddl"),
        ("VACUUM orders", "maintenance"),
        ("SET my.name = 'a value'", "session"),
        ("EXECUTE p('a value')", "prepared_by_sql"),
        ("CALL p('a value')", "function_missing"),
        ("ALTER ROLE r PASSWORD 'a value'", "secret"),
        ("SAVEPOINT s; SELECT 1", "several"),
        ("SELECT 1 FROM orders WHERE id = " + " + ".join(["$1"] * 3000), "deep"),
    ],
)
def test_each_reason_is_known_and_keeps_no_constant(text: str | None, reason: str) -> None:
    parsed = parse(text, NAMES)
    assert parsed.reason == reason
    assert reason in REASONS
    assert "a value" not in parsed.text


def test_comments_are_removed_and_names_with_quotes_stay() -> None:
    parsed = parse('/* a */ SELECT id FROM "shop"."Item" -- b\n WHERE id = $1', NAMES)
    assert " ".join(parsed.text.split()) == 'SELECT id FROM "shop"."Item" WHERE id = $1'
    assert not parsed.reason


def test_a_change_inside_of_a_query_knows_its_columns() -> None:
    gone = "UPDATE orders SET at = $2 WHERE id = $1 RETURNING id"
    query = parse(f"WITH gone AS ({gone}) SELECT count(*) FROM gone", NAMES)
    assert query.parameters == {
        1: Parameter("equal", "public.orders", "id", "="),
        2: Parameter("set", "public.orders", "at"),
    }


def test_a_parameter_subtracted_from_a_bound_is_a_distance() -> None:
    parsed = parse("SELECT id FROM orders WHERE id < $1 AND id >= $1::int - $2", NAMES)
    assert parsed.parameters[1] == Parameter("range", "public.orders", "id", "<")
    assert parsed.parameters[2] == Parameter("distance", "public.orders", "id", ">=")


@pytest.mark.parametrize(
    ("counted", "sent"),
    [
        ("SELECT now() - interval $1", "SELECT now() - $1::interval"),
        ("SELECT now() - INTERVAL $1 DAY", "SELECT now() - $1::INTERVAL DAY"),
        ("SELECT timestamp(3) with time zone $1", "SELECT $1::timestamp(3) with time zone"),
        ("SELECT extract($1 FROM now())", "SELECT pg_catalog.date_part($1, now())"),
    ],
)
def test_a_constant_that_the_grammar_wants_becomes_a_cast(counted: str, sent: str) -> None:
    assert parse(counted, Names({}, [])).text == sent


def test_a_word_of_the_grammar_is_no_constant() -> None:
    text = "SELECT extract(year FROM x), interval(3) $1, normalize($2, NFC) FROM page x"
    assert parse(text, Names({"public.page": []}, ["public"])).reason == ""
    assert parse("SELECT extract('ssn' FROM now())", Names({}, [])).reason == "constants"


INDEXES = [
    f"CREATE UNIQUE INDEX i{n} ON public.page USING btree ({sql})"
    for n, sql in enumerate(
        (
            "slug) WHERE ((gone IS NULL) AND (kind = 'x'::text)",
            "slug) WHERE ((gone IS NULL) AND (kind = 'y'::text)",
            "site, ((attrs ->> 'k'::text)) DESC) WHERE (state = ANY (ARRAY['a'::text, 'b'::text])",
        )
    )
]


@pytest.mark.parametrize(
    ("sent", "kept", "reason"),
    [
        ("(slug) WHERE gone IS NULL AND kind = 'y'", "(kind = 'y'::text)", ""),
        # A constant of no index is a value, and $3 fits two indexes.
        ("(slug) WHERE gone IS NULL AND kind = 'mine'", "kind = $", "constants"),
        ("(slug) WHERE gone IS NULL AND kind = $2", "kind = $2 DO UPDATE SET n = $3", ""),
        (
            "(site, (attrs->>$2)) WHERE state IN ($3, $4)",
            "ARRAY['a'::text, 'b'::text])) DO UPDATE SET n = $2",
            "",
        ),
    ],
)
def test_on_conflict_has_the_constants_of_the_index_that_it_names(
    sent: str, kept: str, reason: str
) -> None:
    objects = [
        SchemaObject(kind="index", name=sql[21:23], sql=sql, table="public.page") for sql in INDEXES
    ]
    names = Names({"public.page": ["slug", "n"]}, ["public"], arbiters=arbiters_of(objects))
    last = 1 + max((int(n) for n in re.findall(r"\$(\d)", sent)), default=1)
    text = f"INSERT INTO page (slug) VALUES ($1) ON CONFLICT {sent} DO UPDATE SET n = ${last}"
    parsed = parse(text, names)
    assert (kept in parsed.text, parsed.reason) == (True, reason), parsed.text


def test_each_column_of_a_compared_row_has_its_parameter() -> None:
    names = Names({"public.event": ["at", "id"]}, ["public"])
    parsed = parse("SELECT at FROM event WHERE (at, id) < ($1, $2)", names)
    uses = {number: (use.use, use.column) for number, use in parsed.parameters.items()}
    assert uses == {1: ("range", "at"), 2: ("range", "id")}
