"""The program mirror on real servers: every source of a parameter, protocols, and refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.captures import tpcb_capture
from tests.fixtures.clusters import run_sql, scalar
from tests.fixtures.engine_process import Engine, EngineEnd, init_job, load_job

from pgdyno.features.capture.file import encoded
from pgdyno.features.capture.mirror.job import mirror_load
from pgdyno.server.target import Target
from pgdyno.spec.workload import Script

pytestmark = pytest.mark.pg
PROTOCOLS = ("simple", "extended", "prepared")


def mirrored(
    engine: Engine, target: Target, load: dict[str, Any], *, clients: int = 3, turns: int = 40
) -> EngineEnd:
    """Run a mirror until each client has made `turns` transactions."""
    source = {"builtin": "mirror"}
    script = {"name": "mirror", "weight": 1, "source": source, "mirror": load}
    job = load_job(target, clients=clients, transactions=turns, scripts=[script], threads=2)
    return engine(job)


def template(*steps: dict[str, Any], name: str = "own", **more: Any) -> dict[str, Any]:
    return {"name": name, "weight": 1, "reads_only": False, "steps": list(steps), **more}


def load_of(*texts: str, templates: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {"statements": [{"text": text} for text in texts], "templates": templates, **more}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_mirrored_tpcb_keeps_the_balances_of_the_original(
    engine: Engine, database: Target, tmp_path: Path, protocol: str
) -> None:
    engine(init_job(database))
    capture = tpcb_capture()
    capture = capture.model_copy(
        update={
            "templates": tuple(
                kind.model_copy(update={"protocol": protocol}) for kind in capture.templates
            )
        }
    )
    path = tmp_path / "core.capture"
    path.write_bytes(encoded(capture))
    load = mirror_load(Script(builtin="mirror", capture=path))
    end = mirrored(engine, database, load)
    assert (end.summary.counts.completed, end.summary.failures) == (120, {})
    sums = [
        scalar(database, f"SELECT sum({column}) FROM pgbench_{table}")
        for table, column in (
            ("accounts", "abalance"),
            ("tellers", "tbalance"),
            ("branches", "bbalance"),
            ("history", "delta"),
        )
    ]
    assert len(set(sums)) == 1
    assert scalar(database, "SELECT count(*) FROM pgbench_history") == 120
    known = "SELECT count(*) FROM pgbench_history h JOIN pgbench_accounts a USING (aid)"
    assert scalar(database, known) == 120
    assert scalar(database, "SELECT count(DISTINCT aid) FROM pgbench_history") > 100
    assert scalar(database, "SELECT count(DISTINCT tid) FROM pgbench_history") == 10


ITEMS = (
    "CREATE TABLE item (id int PRIMARY KEY, owner int, name text)",
    "INSERT INTO item SELECT n, n % 7, 'it''s ' || n FROM generate_series(1, 500) n",
    "CREATE TABLE seen (id bigint PRIMARY KEY, item int, owner int, name text, low int, high int,"
    " twice int, ids int[], at timestamptz, back text)",
    "INSERT INTO seen (id) VALUES (41)",
    "ANALYZE",
)
LOOK = "SELECT name, id FROM item WHERE owner = $1 AND name = $2"
PUT = (
    "INSERT INTO seen (id, item, owner, name, low, high, twice, ids, at, back)"
    " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"
)


def of_item(column: str, **more: Any) -> dict[str, Any]:
    return {"from": "column", "table": "public.item", "column": column, **more}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_source_of_a_parameter_gives_what_it_names(
    engine: Engine, database: Target, protocol: str
) -> None:
    for statement in ITEMS:
        run_sql(database, statement)
    look = {
        "statement": 0,
        "parameters": [of_item("owner", group=1), of_item("name", group=1)],
    }
    put = {
        "statement": 1,
        "parameters": [
            {"from": "fresh", "table": "public.seen", "column": "id"},
            {"from": "returned", "step": 0, "column": 1},
            {"from": "equal", "step": 0, "parameter": 0},
            {"from": "equal", "step": 0, "parameter": 1},
            of_item("id"),
            {"from": "between", "step": 1, "parameter": 4, "least": 0, "most": 20},
            {"from": "linear", "step": 1, "parameter": 4, "slope": 2, "offset": 1},
            {
                "from": "list",
                "of": of_item("id"),
                "length": {"least": 2, "mean": 3, "most": 4},
            },
            {"from": "now", "minus_s": 3600},
            {"from": "returned", "step": 0, "column": 0},
        ],
    }
    load = load_of(LOOK, PUT, templates=[template(look, put, protocol=protocol)])
    for _ in range(2):  # The keys of the second load are above those of the first.
        end = mirrored(engine, database, load)
        assert (end.summary.counts.completed, end.summary.failures) == (120, {})
    own = "FROM seen WHERE id > 41"
    assert scalar(database, f"SELECT count(*) {own}") == 240
    right = (
        "SELECT count(*) FROM seen s JOIN item i ON i.id = s.item AND i.owner = s.owner"
        " AND i.name = s.name AND s.back = s.name WHERE high - low BETWEEN 0 AND 20"
        " AND twice = 2 * low + 1 AND cardinality(ids) BETWEEN 2 AND 4"
        " AND at BETWEEN now() - interval '2 hours' AND now() - interval '50 minutes'"
    )
    assert scalar(database, right) == 240
    assert scalar(database, f"SELECT count(DISTINCT item) {own}") > 90
    assert scalar(database, f"SELECT count(DISTINCT high - low) {own}") > 10
    assert scalar(database, "SELECT count(*) FROM seen s, unnest(ids) e"
                            " WHERE NOT EXISTS (SELECT FROM item WHERE id = e)") == 0  # fmt: skip


def test_a_client_keeps_a_value_and_a_text_is_used_by_how_common_it_is(
    engine: Engine, database15: Target
) -> None:
    run_sql(
        database15,
        "CREATE TABLE item AS SELECT n AS id, n % 3 AS shop,"
        " CASE WHEN n <= 600 THEN 'common' ELSE 'rare ' || n END AS name"
        " FROM generate_series(1, 1000) n",
    )
    run_sql(database15, "ANALYZE item")
    run_sql(database15, "CREATE TABLE seen (pid int DEFAULT pg_backend_pid(), shop int, name text)")
    few = [{"value": str(n), "fraction": 1 / 3} for n in (1, 2, 3)]
    shops = {"kind": "integer", "distinct": 3, "hot": few}
    rare = {"kind": "real", "distinct": 100, "bounds": ["0.610001", "0.990001"]}
    put = {
        "statement": 0,
        "parameters": [
            of_item("shop", distribution=shops, range=[1, 3], kept=1.0),
            of_item("name", distribution=rare, by_frequency=True),
        ],
    }
    load = load_of("INSERT INTO seen (shop, name) VALUES ($1, $2)", templates=[template(put)])
    end = mirrored(engine, database15, load)
    assert (end.summary.counts.completed, end.summary.failures) == (120, {})
    shops_of = "SELECT array_agg(DISTINCT shop) AS shops FROM seen GROUP BY pid ORDER BY 1"
    assert run_sql(database15, shops_of) == [([0],), ([1],), ([2],)]
    assert scalar(database15, "SELECT count(*) FROM seen WHERE name = 'common'") == 0
    assert scalar(database15, "SELECT count(DISTINCT name) FROM seen") > 50


@pytest.mark.parametrize("kept", [-0.1, 1.5])
def test_a_share_of_kept_values_is_at_most_one(
    engine: Engine, database15: Target, kept: float
) -> None:
    load = load_of(
        "SELECT $1::int",
        templates=[template({"statement": 0, "parameters": [of_item("id", kept=kept)]})],
    )
    script = {"name": "m", "weight": 1, "source": {"builtin": "mirror"}, "mirror": load}
    said = engine.say("check-job", given=load_job(database15, scripts=[script]).to_line())
    message = json.loads(said.stdout.splitlines()[-1])["message"]
    assert "has a share of kept values that is not from 0 to 1" in message


def test_a_loop_executes_its_statements_in_turn_and_a_branch_only_sometimes(
    engine: Engine, database: Target
) -> None:
    run_sql(database, "CREATE TABLE trail (at serial, pid int DEFAULT pg_backend_pid(), what text)")
    put = "INSERT INTO trail (what) VALUES ($1)"
    what = [{"from": "constant", "value": word} for word in ("a", "b", "rare")]
    three = {"least": 3, "mean": 3, "most": 3}
    steps = [
        {"statement": 0, "parameters": [what[0]], "repeat": three},
        {"statement": 0, "parameters": [what[1]], "loops_with_before": True},
        {"statement": 0, "parameters": [what[2]], "probability": 0.25},
    ]
    end = mirrored(engine, database, load_of(put, templates=[template(*steps)]), turns=80)
    assert end.summary.failures == {}
    rows = run_sql(database, "SELECT string_agg(what, '' ORDER BY at) FROM trail GROUP BY pid")
    assert len(rows) == 3
    for (words,) in rows:
        assert words.replace("rare", "") == "ababab" * 80
    rare = scalar(database, "SELECT count(*) FROM trail WHERE what = 'rare'")
    assert 30 < int(str(rare)) < 90


def test_a_step_whose_row_is_missing_is_not_executed_and_a_rollback_is_counted(
    engine: Engine, database: Target
) -> None:
    run_sql(database, "CREATE TABLE empty_one (id int)")
    look = {"statement": 1}
    use = {"statement": 2, "parameters": [{"from": "returned", "step": 1, "column": 0}]}
    steps = ({"statement": 0}, look, use, {"statement": 3})
    texts = (
        "BEGIN",
        "SELECT id FROM empty_one",
        "INSERT INTO empty_one VALUES ($1::int)",
        "ROLLBACK",
    )
    end = mirrored(engine, database, load_of(*texts, templates=[template(*steps)]))
    assert (end.summary.counts.completed, end.summary.counts.rolled_back) == (120, 120)
    assert end.summary.failures == {}


def test_a_row_never_refers_to_a_key_that_is_missing_in_a_range(
    engine: Engine, database15: Target
) -> None:
    for statement in (
        "CREATE TABLE parent (id int PRIMARY KEY)",
        "INSERT INTO parent SELECT n FROM generate_series(1, 100) n WHERE n % 25 <> 7",
        "CREATE TABLE child (parent int REFERENCES parent)",
        "ANALYZE parent",
    ):
        run_sql(database15, statement)
    key = {"from": "column", "table": "public.parent", "column": "id"}
    load = load_of(
        "INSERT INTO child VALUES ($1::int)",
        templates=[template({"statement": 0, "parameters": [key]})],
    )
    end = mirrored(engine, database15, load)
    assert (end.summary.counts.completed, end.summary.failures) == (120, {})


def test_an_optional_value_that_does_not_exist_is_null_and_later_steps_lack_it(
    engine: Engine, database: Target
) -> None:
    for statement in ("CREATE TABLE empty_one (id int)", "CREATE TABLE seen (id int NOT NULL)"):
        run_sql(database, statement)
    run_sql(database, "CREATE TABLE looked (id int)")
    missing = [{"from": "returned", "step": 0, "column": 0}]
    look = {"statement": 1, "parameters": missing, "optional": [0]}
    put = {"statement": 2, "parameters": [{"from": "equal", "step": 1, "parameter": 0}]}
    texts = (
        "SELECT id FROM empty_one",
        # It writes a row, so that its calls can be counted here.
        "INSERT INTO looked VALUES ($1::int)",
        "INSERT INTO seen VALUES ($1::int)",
    )
    end = mirrored(
        engine, database, load_of(*texts, templates=[template({"statement": 0}, look, put)])
    )
    assert (end.summary.counts.completed, end.summary.failures) == (120, {})
    assert scalar(database, "SELECT count(*) FROM looked WHERE id IS NULL") == 120
    assert scalar(database, "SELECT count(*) FROM seen") == 0


def test_a_step_is_not_executed_with_null_for_a_column_that_is_never_null(
    engine: Engine, database: Target
) -> None:
    run_sql(database, "CREATE TABLE of_some (id int, owner int)")
    run_sql(
        database, "INSERT INTO of_some SELECT n, nullif(n % 2, 0) FROM generate_series(1, 50) n"
    )
    run_sql(database, "CREATE TABLE seen (owner int NOT NULL)")
    owner = {"from": "column", "table": "public.of_some", "column": "owner"}
    put = {"statement": 0, "parameters": [owner], "not_null": [0]}
    three = {"least": 3, "mean": 3, "most": 3}
    owners = [{"from": "list", "of": owner, "length": three}]
    more = {"statement": 1, "parameters": owners, "not_null": [0]}
    texts = ("INSERT INTO seen VALUES ($1::int)", "INSERT INTO seen SELECT unnest($1::int[])")
    load = load_of(*texts, templates=[template(put, more)])
    end = mirrored(engine, database, load)
    assert (end.summary.counts.completed, end.summary.failures) == (120, {})
    # Half of the values are NULL, and an eighth of the lists have none.
    assert 60 < int(str(scalar(database, "SELECT count(*) FROM seen"))) < 160


def test_lists_side_by_side_have_no_null_that_the_source_never_had(
    engine: Engine, database: Target
) -> None:
    run_sql(database, "CREATE TABLE pair (a int, b int, c int)")
    run_sql(database, "CREATE TABLE nothing (id int)")
    known = {"kind": "integer", "distinct": 2, "bounds": ["1", "2"]}
    two = {"from": "drawn", "distribution": known}
    five = {"least": 5, "mean": 5, "most": 5}
    first = {"from": "list", "of": {"from": "turn", "offset": 1}, "length": five}
    # Five different values of two are two.
    few = {"from": "list", "of": two, "length": five, "as_long_as": 0, "is_distinct": True}
    empty = {"from": "column", "table": "public.nothing", "column": "id"}
    none = {"from": "list", "of": empty, "length": five}
    rows = {"statement": 0, "parameters": [first, few]}
    nobody = {"statement": 1, "parameters": [none]}
    texts = (
        "INSERT INTO pair (a, b) SELECT * FROM unnest($1::int[], $2::int[])",
        "INSERT INTO pair (c) SELECT unnest($1::int[])",
    )
    end = mirrored(engine, database, load_of(*texts, templates=[template(rows, nobody)]))
    assert (end.summary.counts.completed, end.summary.failures) == (120, {})
    counts = "SELECT count(*), count(a), count(b), max(a), count(c) FROM pair"
    assert run_sql(database, counts) == [(240, 240, 240, 2, 0)]


def test_a_short_run_has_the_mix_of_the_capture(engine: Engine, database: Target) -> None:
    run_sql(database, "CREATE TABLE trail (what text)")
    shares = {"often": 900, "sometimes": 90, "seldom": 10}
    kinds = [
        template({"statement": 0, "parameters": [{"from": "constant", "value": name}]}, name=name)
        | {"weight": weight}
        for name, weight in shares.items()
    ]
    put = "INSERT INTO trail (what) VALUES ($1)"
    end = mirrored(engine, database, load_of(put, templates=kinds), clients=2, turns=1000)
    assert end.summary.failures == {}
    for name, share in shares.items():
        count = scalar(database, f"SELECT count(*) FROM trail WHERE what = '{name}'")
        assert abs(int(str(count)) - 2 * share) <= 8, (name, count)


def test_a_load_that_always_fails_names_the_statement(engine: Engine, database15: Target) -> None:
    steps = [{"statement": number} for number in range(3)]
    load = load_of("SELECT 1", "SELECT 2,\n  1 / 0", "SELECT 3", templates=[template(*steps)])
    end = mirrored(engine, database15, load, turns=200)
    [failure] = end.failures
    said = "100 transactions all failed in script own, statement SELECT 2, 1 / 0: ERROR: division"
    assert said in failure.message
    messages = end.summary.failure_messages or {}
    assert messages["22012"].endswith("22012), in SELECT 2, 1 / 0")


def test_a_database_without_the_tables_is_refused_with_their_names(
    engine: Engine, database: Target, tmp_path: Path
) -> None:
    path = tmp_path / "core.capture"
    path.write_bytes(encoded(tpcb_capture()))
    run_sql(database, "CREATE TABLE pgbench_accounts (aid int)")
    end = mirrored(engine, database, mirror_load(Script(builtin="mirror", capture=path)))
    [failure] = end.failures
    assert "lacks 3 of the 4 tables of the capture" in failure.message
    assert "public.pgbench_history" in failure.message


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"templates": []}, "at least one template"),
        ({"statements": []}, "step 0 of \"own\" has no statement"),
        ({"templates": [template({"statement": 0, "probability": 2.0})]}, "not possible"),
        (
            {"templates": [template({"statement": 0, "parameters": [
                {"from": "equal", "step": 3, "parameter": 0}]})]},
            "a parameter that does not exist",
        ),
    ],
)  # fmt: skip
def test_a_wrong_template_is_refused_before_the_load(
    engine: Engine, change: dict[str, Any], words: str
) -> None:
    load = {**load_of("SELECT 1", templates=[template({"statement": 0})]), **change}
    target = Target(host="/nowhere", ports="1", database="d", user="u")
    script = {"name": "m", "weight": 1, "source": {"builtin": "mirror"}, "mirror": load}
    job = load_job(target, scripts=[script])
    said = engine.say("check-job", given=job.to_line())
    assert words in json.loads(said.stdout.splitlines()[-1])["message"], said.stdout
