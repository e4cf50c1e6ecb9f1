"""Stand-ins of UUIDs, bytes, addresses and documents: the order stays, no value does."""

from __future__ import annotations

from decimal import Decimal
from ipaddress import ip_interface
from random import Random
from uuid import UUID

import pytest

from pgdyno.features.capture.reading import documents
from pgdyno.features.capture.reading.codes import Codes, addresses
from pgdyno.features.capture.reading.columns import _array_of, _step
from pgdyno.features.capture.reading.stand_ins import StandIns


def fraction(*words: object) -> float:
    return Random(repr(words)).random()


@pytest.mark.parametrize(
    "values",
    [
        [str(UUID(int=Random(n).getrandbits(128))) for n in range(500)],
        [str(UUID(int=n)) for n in range(500)],
        [f"\\x{n:02x}" for n in range(256)],
        ["\\x", *(f"\\x{n:04x}{'00' * (n % 5)}" for n in range(0, 60_000, 97))],
    ],
)
def test_codes_keep_their_order_and_length_and_are_different(values: list[str]) -> None:
    ordered = sorted(values)
    codes = Codes(values, fraction)
    made = [codes.of(value) for value in ordered]
    assert made == sorted(set(made))
    assert [len(value) for value in made] == [len(value) for value in ordered]
    assert not {value for value in made if len(value) > 9} & set(values)
    assert codes.of("\\xCAFE00112233") == codes.of("\\xcafe00112233")


def test_addresses_are_private_ones_in_the_same_order() -> None:
    values = ["10.0.0.1", "10.0.0.2", "203.0.113.9/24", "2001:db8::1", "2001:db8::2/64"]
    made = addresses(values, fraction)
    assert [value.partition("/")[2] for value in made.values()] == ["", "", "24", "", "64"]
    numbers = [int(ip_interface(made[value]).ip) for value in values]
    assert numbers[:3] == sorted(numbers[:3])
    assert numbers[3] < numbers[4]
    assert all(ip_interface(value).is_private for value in made.values())
    assert not set(made.values()) & set(values)


def test_documents_keep_their_structure_and_common_keys() -> None:
    known = ['{"name": "secret person", "n": 1234567, "list": [true, null]}'] * 2
    keys = documents.kept_keys(known)
    assert keys == {"name", "n", "list"}
    assert documents.texts_of(known) == {"secret person"}
    [number] = documents.numbers_of(known)
    replaced = documents.replaced(known[0], keys, lambda _: "other", {number: Decimal(1234999)})
    assert replaced == '{"name": "other", "n": 1234999, "list": [true, null]}'


def test_a_key_that_is_a_name_of_the_schema_stays_in_a_single_document() -> None:
    jobs = ['[{"identifier": "mail", "secret": 1}]']
    assert documents.kept_keys(jobs) == frozenset()
    assert documents.kept_keys(jobs, {"identifier", "payload"}) == {"identifier"}


def test_documents_are_ordered_as_jsonb_orders_them() -> None:
    ascending = ['{"a": 2}', '{"a": 10}', '{"aa": 0}', '{"b": 1}', '{"a": 1, "b": 1}']
    assert sorted(reversed(ascending), key=documents.place_of) == ascending
    nested = "[" * 400 + "]" * 400
    assert documents.texts_of([nested]) == {nested}


def test_arrays_get_the_stand_ins_of_their_elements() -> None:
    stand_ins = {"a b": "x y", "c": "z", 'q"': 'r"', "1": "7"}
    assert _array_of('{"a b",c,NULL}', stand_ins) == '{"x y",z,NULL}'
    assert _array_of('{"q\\""}', stand_ins) == '{"r\\""}'
    assert _array_of("{1,c}", stand_ins) == "{7,z}"
    assert _array_of("{unknown}", stand_ins) is None
    assert _array_of("{{1},{1}}", stand_ins) is None
    assert _array_of("{}", stand_ins) == "{}"


@pytest.mark.parametrize("texts", [["1e-300", "2.5", "1e300"], ["3e-25", "17.12345678901234"]])
def test_numbers_of_all_sizes_together_are_moved(texts: list[str]) -> None:
    numbers = {text: Decimal(text) for text in texts}
    ordered = sorted(numbers.values())
    moved = StandIns((), texts).numbers(ordered, _step("real", ordered, numbers))
    assert moved == sorted(moved)


def test_a_range_in_which_every_short_number_occurs_stays() -> None:
    numbers = [Decimal(number) for number in range(1, 102)]
    # Only the ends have a free neighbour.
    assert StandIns((), ()).numbers(numbers, Decimal(1))[1:-1] == numbers[1:-1]
