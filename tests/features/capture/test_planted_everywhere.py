"""Two hundred values, in every type and place: what docs/capture.md promises holds."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fixtures.captured_load import capture_statistics
from tests.fixtures.clusters import connection, run_sql
from tests.fixtures.command import Command

from pgdyno.features.capture import file
from pgdyno.server.target import Target

ROWS = 300
# Type, expression of a row, and the texts of some values. Each column has many rows, so that its
# statistics have common values and a histogram.
COLUMNS: dict[str, tuple[str, str, list[str]]] = {
    "t": ("text", "'secretname' || g", [f"secretname{n}" for n in (1, 7, 30, 299)]),
    "common": ("text", "'commonsecret' || g % 3", [f"commonsecret{n}" for n in range(3)]),
    "words": ("text", "'hidden person' || g || ' lives'", [f"hidden person{n}" for n in (3, 50)]),
    "v": ("varchar(30)", "'vsecret' || g", [f"vsecret{n}" for n in (1, 5, 200)]),
    "c": ("char(12)", "'csecret' || g", [f"csecret{n}" for n in (1, 5, 200)]),
    "ci": ("citext", "'Ssecret' || g", [f"Ssecret{n}" for n in (1, 5, 200)]),
    "n": ("name", "('nsecret' || g)::name", [f"nsecret{n}" for n in (1, 5, 200)]),
    "i": ("int", "70000000 + g * 131", [str(70000000 + n * 131) for n in range(1, 31)]),
    "l": ("bigint", "8123456789012 + g * 977", [str(8123456789012 + n * 977) for n in (1, 2, 3)]),
    "num": (
        "numeric(14,2)",
        "8675309.25 + g * 2.5",
        [f"{8675309.25 + n * 2.5:.2f}" for n in range(1, 31)],
    ),
    "fl": ("float8", "31415926.5 + g", [f"{31415926.5 + n}" for n in range(1, 11)]),
    "mo": ("money", "(4567890 + g)::money", [f"{4567890 + n:,}.00" for n in (1, 2)]),
    "d": ("date", "date '1051-02-03' + g * 971", ["1053-10-01", "1056-05-29", "1399-05-10"]),
    "ts": (
        "timestamp",
        "timestamp '2011-03-04 05:06:07.123' + g * interval '37 min'",
        ["2011-03-04 05:43:07", "2011-03-04 06:20:07"],
    ),
    "tz": (
        "timestamptz",
        "timestamptz '2012-03-04 05:06:07.123+00' + g * interval '37 min'",
        ["2012-03-04 05:43:07", "2012-03-04 06:20:07"],
    ),
    "ti": ("time", "time '01:02:03.456789' + g * interval '1 min'", ["01:03:03.456789"]),
    "u": (
        "uuid",
        "('deadbeef-0000-4000-8000-' || lpad(g::text, 12, '0'))::uuid",
        ["deadbeef-0000"],
    ),
    "b": ("bytea", "decode('cafebabe00' || lpad(to_hex(g), 6, '0'), 'hex')", ["cafebabe00"]),
    "addr": ("inet", "inet '203.0.113.0' + g % 250", [f"203.0.113.{n}" for n in range(1, 31)]),
    "net": (
        "cidr",
        "('198.51.' || g % 250 || '.0/24')::cidr",
        [f"198.51.{n}.0" for n in (100, 200)],
    ),
    "mac": (
        "macaddr",
        "('08:00:2b:aa:bb:' || lpad(to_hex(g % 256), 2, '0'))::macaddr",
        ["2b:aa:bb"],
    ),
    "j": ("json", "json_build_object('jkey', 'jsecret' || g)", ["jsecret1", "jsecret7"]),
    "jb": (
        "jsonb",
        "jsonb_build_object('kind', 'jbsecret' || g, 'rare' || g, 7654321 + g)",
        [*(f"jbsecret{n}" for n in (1, 7)), "rare17", "7654322", "7654399"],
    ),
    "arr": ("text[]", "ARRAY['arrsecret' || g % 9, 'x']", [f"arrsecret{n}" for n in range(9)]),
    "ia": ("int[]", "ARRAY[55500000 + g % 9]", [str(55500000 + n) for n in range(9)]),
    "h": ("hstore", "hstore('hkey' || g % 5, 'hsecret' || g)", ["hkey1", "hsecret1", "hsecret7"]),
    "tv": (
        "tsvector",
        "to_tsvector('simple', 'lexsecret' || g % 9)",
        [f"lexsecret{n}" for n in range(9)],
    ),
    "x": ("xml", "('<a>xsecret' || g || '</a>')::xml", ["xsecret1"]),
    "r": ("int4range", "int4range(66600000 + g, 66600009 + g)", ["66600001", "66600010"]),
    "mr": ("int4multirange", "int4multirange(int4range(66700000 + g, 66700009 + g))", ["66700001"]),
    "tr": (
        "tstzrange",
        "tstzrange('2013-01-01 07:08:09+00'::timestamptz + g * interval '1 h', NULL)",
        ["2013-01-01 08:08:09"],
    ),
    "lt": ("ltree", "('ltsecret.b' || g)::ltree", ["ltsecret"]),
    "p": ("point", "point(12.345678, g)", ["12.345678"]),
    "bits": ("bit(40)", "(g + 700000000000)::bit(40)", ["1010001011111011000001000"]),
    "comp": ("planted_pair", "(g, 'pairsecret' || g)::planted_pair", ["pairsecret1"]),
    "dom": ("planted_domain", "'domsecret' || g", ["domsecret1", "domsecret5"]),
    "iv": ("interval", "interval '123456 h 7 min' + g * interval '1 s'", ["123456:07"]),
}
# Texts that are not values of rows.
ELSEWHERE = [
    *("tablecomment", "columncomment", "functioncomment", "bodycomment", "blockcomment"),
    *("appnamesecret", "settingsecret", "channelsecret", "payloadsecret", "statementsecret"),
    *("9988776", "cursorsecret", "preparedsecret", "passwordsecret", "policysecret"),
    *("rolecomment", "securitylabel", "subscriptionsecret"),
]
PLANTED = [value for _, _, values in COLUMNS.values() for value in values] + ELSEWHERE
# The table of docs/capture.md says that these stay.
STAYS = [
    *("defaultstays", "labelstays", "checkstays", "predicatestays", "bodystays", "viewstays"),
    *("boundstays", "columnstays", "kind"),
]


def plant(target: Target) -> None:
    columns = ", ".join(f"{name} {type_}" for name, (type_, _, _) in COLUMNS.items())
    values = ", ".join(value for _, value, _ in COLUMNS.values())
    with connection(target) as session:
        for statement in (
            *(f"CREATE EXTENSION {name}" for name in ("citext", "hstore", "ltree")),
            "CREATE TYPE planted_pair AS (a int, b text)",
            "CREATE DOMAIN planted_domain AS text",
            "CREATE TYPE label AS ENUM ('labelstays')",
            f"CREATE TABLE person ({columns}, columnstays text DEFAULT 'defaultstays',"
            " labelled label, CHECK (t <> 'checkstays'))",
            "CREATE INDEX ON person (i) WHERE t <> 'predicatestays'",
            "CREATE VIEW seen AS SELECT 'viewstays'::text AS v FROM person",
            "CREATE TABLE parted (k text) PARTITION BY LIST (k)",
            "CREATE TABLE parted_1 PARTITION OF parted FOR VALUES IN ('boundstays')",
            "CREATE FUNCTION body() RETURNS text LANGUAGE plpgsql AS $$ BEGIN -- bodycomment\n"
            " /* blockcomment */ RETURN 'bodystays'; END $$",
            f"INSERT INTO person SELECT {values}, 'x', 'labelstays'"
            f" FROM generate_series(1, {ROWS}) g",
            "COMMENT ON TABLE person IS 'tablecomment'",
            "COMMENT ON COLUMN person.i IS 'columncomment'",
            "COMMENT ON FUNCTION body() IS 'functioncomment'",
            "CREATE POLICY own ON person USING (t <> 'policysecret')",
            # So the statistics have every value.
            "SET default_statistics_target = 1000",
            "ANALYZE",
        ):
            session.execute(statement)


def use(target: Target) -> None:
    with connection(target) as session:
        for statement in (
            "SET application_name = 'appnamesecret'",
            "SELECT set_config('my.setting', 'settingsecret', false)",
            "LISTEN channelsecret",
            "NOTIFY channelsecret, 'payloadsecret'",
            "SELECT count(*) FROM person WHERE t = 'statementsecret' -- statementsecret",
            "SELECT count(*) FROM person WHERE i = 9988776",
            "PREPARE preparedsecret AS SELECT 1 FROM person WHERE t = 'statementsecret'",
            "DECLARE cursorsecret CURSOR WITH HOLD FOR SELECT 'statementsecret'",
            "SELECT body()",
        ):
            session.execute(statement)


@pytest.mark.pg
def test_no_value_of_two_hundred_is_in_a_file_and_what_stays_is_what_the_table_says(
    pgdyno: Command, observed: Target, tmp_path: Path
) -> None:
    assert len(set(PLANTED)) >= 200
    plant(observed)
    path = tmp_path / "planted.capture"
    capture_statistics(pgdyno, observed, path, lambda: use(observed))
    text = file.zstd.decompress(path.read_bytes()).decode()
    assert [value for value in PLANTED if value in text] == []
    assert [value for value in STAYS if value not in text] == []


@pytest.mark.pg
def test_no_number_or_date_of_a_file_sits_next_to_a_planted_one(
    pgdyno: Command, observed: Target, tmp_path: Path
) -> None:
    run_sql(
        observed,
        "CREATE TABLE pay (amount numeric(12,2), born date); INSERT INTO pay SELECT"
        " 8675309.25 + g * 2.5, date '1951-02-03' + g * 7 FROM generate_series(1, 3000) g;"
        " ANALYZE pay",
    )
    path = tmp_path / "pay.capture"
    capture_statistics(pgdyno, observed, path, lambda: None, seconds=2)
    amounts, born = (
        next(c.distribution.bounds for c in file.read(path).columns if c.column == name)
        for name in ("amount", "born")
    )
    # A bin has thirty rows: 75.00, and 210 days. The bounds of the source are at known places.
    offsets = [(float(amount) - 8675309.25 - 2.5) % 75 for amount in amounts[1:-1]]
    spread = [offset for offset in offsets if 8 < offset < 67]
    assert len(spread) > 0.6 * len(offsets)
    assert len({day[8:] for day in born}) > 20
