"""The catalogue against PostgreSQL: its snapshots of 14 to 18, and real servers."""

from __future__ import annotations

import re

import pytest
from tests.fixtures.clusters import connection

from pgdyno.errors import SpecError
from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.settings.formula import FactMissing, Machine, evaluate, number
from pgdyno.settings.objection import object_to
from pgdyno.settings.rule import MAJORS, rule_of, snapshot
from pgdyno.settings.table import EVIDENCE, RISKS, Entry, catalogue
from pgdyno.settings.value import amount, text_of, written

GB, MB = 1 << 30, 1 << 20
# Machines from a small virtual one to a large server; memory, cores.
SIZES = ((2 * GB, 2), (28 * GB, 16), (512 * GB, 64))
NAMES = {"shared_buffers": 128 * MB, "max_worker_processes": 8}


def machine(major: int, ram_bytes: int = 28 * GB, cores: int = 16) -> Machine:
    return Machine(major, 100, ram_bytes=ram_bytes, cores=cores, disk="nvme")


@pytest.mark.parametrize("entry", catalogue().values(), ids=lambda entry: entry.name)
def test_an_entry_holds_on_every_version_that_has_the_setting(entry: Entry) -> None:
    known = [major for major in MAJORS if rule_of(entry.name, major) is not None]
    assert known, "no version has it"
    assert entry.risk in RISKS
    assert set(entry.evidence) <= EVIDENCE.keys()
    assert re.fullmatch(r"[A-Z].*[^.]\.", entry.meaning)
    assert entry.scale in (None, "choice") or (entry.low and entry.high)
    for major in known:
        rule = snapshot(major)[entry.name]
        for value in (*entry.choices(machine(major)), *entry.special):
            # What decides how a cluster is made is an option of initdb.
            if rule.context != "internal":
                assert object_to(entry.name, value, major) is None, value
        for ram_bytes, cores in SIZES:
            span = entry.span(machine(major, ram_bytes, cores), NAMES)
            if span is not None:
                for value in span:
                    assert object_to(entry.name, text_of(rule, value), major) is None, value


def test_every_choice_is_known_to_some_version() -> None:
    for entry in catalogue().values():
        choices = {choice for major in MAJORS for choice in entry.choices(machine(major))}
        assert set(entry.values) <= choices, entry.name


def test_whatever_weakens_durability_has_that_class() -> None:
    risky = {name for name, entry in catalogue().items() if entry.risk == "durability"}
    assert {
        "fsync",
        "full_page_writes",
        "synchronous_commit",
        "wal_level",
        "wal_sync_method",
    } <= risky
    assert all(catalogue()[name].price for name in risky - {"synchronous_standby_names"})


def test_the_server_accepts_both_ends_and_every_choice(any_server: ScratchCluster) -> None:
    """A session sets what it may; the server checks the value before it refuses the place."""
    refused = []
    with connection(any_server.target) as session:
        major = session.info.server_version // 10000
        for entry in catalogue().values():
            rule = rule_of(entry.name, major)
            if rule is None or rule.context == "internal":
                continue
            span = entry.span(machine(major, 2 * GB, 2), NAMES)
            values = [*entry.choices(machine(major)), *(text_of(rule, end) for end in span or ())]
            [row] = session.execute(
                "SELECT vartype, coalesce(unit, ''), context, enumvals FROM pg_settings"
                " WHERE name = %s",
                [entry.name],
            ).fetchall()
            assert row[:3] == (rule.vartype, rule.unit, rule.context), entry.name
            for value in values:
                if rule.vartype == "enum" and value not in row[3]:
                    continue  # Built without it.
                try:
                    session.execute("SELECT set_config(%s, %s, false)", [entry.name, value])
                except Exception as error:
                    if "cannot be changed" not in str(error):
                        refused.append(f"{entry.name} = {value}: {error}")
    assert refused == []


def test_amounts_and_texts_are_inverse() -> None:
    rules = snapshot(15)
    assert amount(rules["shared_buffers"], "4GB") == 4 * GB
    assert amount(rules["shared_buffers"], "16384") == 128 * MB
    assert amount(rules["checkpoint_timeout"], "5min") == 300_000
    assert amount(rules["wal_compression"], "lz4") is None
    assert text_of(rules["shared_buffers"], 28 * GB / 4) == "7GB"
    assert text_of(rules["work_mem"], 4.0686 * MB) == "4166kB"
    assert text_of(rules["work_mem"], 1.0) == "64kB"
    assert text_of(rules["checkpoint_timeout"], 900_000.0) == "15min"
    assert text_of(rules["random_page_cost"], 1.1) == "1.1"
    assert written(rules["max_wal_size"], "1024") == "1GB"
    assert written(rules["wal_buffers"], "-1") == "-1"


@pytest.mark.parametrize(
    ("formula", "value"),
    [
        ("ram / 4", 7.0 * GB),
        ("min(ram / 16, 8 * GB)", 1.75 * GB),
        ("by(disk, hdd=2, nvme=1000)", 1000),
        ("by(load, dw=500, other=100)", 100),
        ("4 if disk == 'hdd' else 1.1", 1.1),
        ("-1", -1),
        ("ceil(cores / 3)", 6),
    ],
)
def test_a_formula_has_its_value(formula: str, value: float) -> None:
    assert evaluate(formula, machine(15).names()) == value


@pytest.mark.parametrize(
    "text", ["__import__('os')", "ram.real", "ram[0]", "lambda: 1", "open('x')", "ram +", "nothing"]
)
def test_a_formula_is_arithmetic_alone(text: str) -> None:
    with pytest.raises(SpecError, match="is not a formula"):
        evaluate(text, {"ram": 1})


def test_a_fact_that_is_missing_is_named() -> None:
    with pytest.raises(FactMissing, match="ram"):
        number("ram / 4", Machine(15, 100).names())


@pytest.mark.parametrize(
    ("name", "old", "new", "price"),
    [
        ("max_wal_size", "1GB", "4GB", "Recovery after a crash takes longer"),
        ("max_wal_size", "1GB", "480MB", "Checkpoints may be more frequent"),
        ("work_mem", "4MB", "512kB", "More sorts and hashes"),
        ("random_page_cost", "4", "1.1", "Plans of all statements may change"),
        ("wal_compression", "off", "pglz", "Sessions need CPU"),
    ],
)
def test_a_lower_value_has_another_price_than_a_higher_one(
    name: str, old: str, new: str, price: str
) -> None:
    assert catalogue()[name].price_of(old, new, rule_of(name, 15)).startswith(price)


def test_only_numbers_have_a_price_of_less() -> None:
    for entry in catalogue().values():
        assert entry.price_of_less is None or entry.scale in ("linear", "log"), entry.name
