"""Values that nobody can know are fitted: a call on the copy finds what it found in the source."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.captures import tpcb_capture
from tests.fixtures.clusters import new_database, run_sql, scalar

from pgdyno.features.capture.mirror import fitting as module
from pgdyno.features.capture.mirror import mixtures
from pgdyno.features.capture.mirror.accepting import Asked
from pgdyno.features.capture.mirror.candidates import places_of
from pgdyno.features.capture.mirror.drawing import plan_of, work_of
from pgdyno.features.capture.mirror.fitting import Fitting
from pgdyno.features.capture.mirror.kept_fits import Fits, file_of_fits, keep_fits, read_fits
from pgdyno.features.capture.model import Capture, Constant, Drawn, Source, Step, Template
from pgdyno.features.capture.observed import Counters, Statement
from pgdyno.server.connect import connect
from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.server.target import Target

# A word of rank n is in about 3,000 / n of the documents.
SCHEMA = (
    "CREATE TABLE doc (id int PRIMARY KEY, body text, search tsvector, tags text[], attrs jsonb,"
    " at timestamptz, deleted_at timestamptz)",
    "INSERT INTO doc SELECT g, b, to_tsvector('english', b), ARRAY['t' || g % 5, 'u' || g % 50],"
    " jsonb_build_object('color', (ARRAY['red', 'blue', 'green'])[1 + g % 3], 'size', g % 40),"
    " timestamptz '2026-01-01' + g * interval '1 minute', CASE WHEN g % 10 = 0 THEN now() END"
    " FROM generate_series(1, 3000) g, LATERAL (SELECT string_agg('word' || chr(96 + n), ' ') AS b"
    " FROM generate_series(1, 20) n WHERE g % n = 0) AS words",
    "CREATE INDEX ON doc USING gin (search)",
    "CREATE TABLE stay (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, doc int,"
    " note text, during tstzrange)",
    "INSERT INTO stay (doc, note, during) SELECT n, 'n' || n,"
    " tstzrange(timestamptz '2026-01-01' + n * interval '1 hour',"
    " timestamptz '2026-01-01' + (n + 3) * interval '1 hour')"
    " FROM generate_series(1, 2000) n",
    "ANALYZE doc",
)
DRAWN = {"from": "drawn", "distribution": {"kind": "text", "distinct": 100, "width": 8}}
NONE = {"from": "constant", "value": None}
# Each with the sources of its parameters, and the rows of a call in the source.
STATEMENTS = {
    "search": (
        "SELECT id FROM doc, plainto_tsquery($2, $1) q WHERE search @@ q",
        (DRAWN, NONE),
        500.0,
    ),
    "like": ("SELECT id FROM doc WHERE body ILIKE $1", (DRAWN,), 600.0),
    "tags": ("SELECT id FROM doc WHERE tags && ARRAY[$1]::text[]", (DRAWN,), 330.0),
    "json": ("SELECT id FROM doc WHERE attrs @> $1", ({**NONE, "value": "{}"},), 300.0),
    "range": (
        "SELECT id FROM doc WHERE at > $1",
        ({"from": "constant", "value": "2020-01-01"},),
        700.0,
    ),
    "filter": (
        "SELECT id FROM doc WHERE ($1::int IS NULL OR id = $1) AND deleted_at IS NULL",
        ({"from": "constant", "value": "7"},),
        2700.0,
    ),
    # Most calls ask for what is not there.
    "lookup": ("SELECT id FROM doc WHERE id = $1", ({"from": "constant", "value": "7"},), 0.1),
    "name": ("SELECT id FROM stay WHERE note = $1", ({"from": "constant", "value": "n7"},), 0.2),
}


@pytest.fixture(scope="module")
def docs(pg15: ScratchCluster) -> Iterator[Target]:
    for target in new_database(pg15):
        for statement in SCHEMA:
            run_sql(target, statement)
        yield target


def capture_of(name: str) -> Capture:
    text, sources, rows = STATEMENTS[name]
    counters = {"calls": 10, "time_ms": 50, "rows": round(rows * 10), "hit_blocks": 1000}
    own = Statement.model_validate(
        {"id": name, "text": text, "kind": "select", "reads_only": True}
        | {"tables": ("public.doc", "public.stay"), "counters": counters}
    )
    kinds = {"drawn": Drawn, "constant": Constant}
    given: tuple[Source, ...] = tuple(
        kinds[str(source["from"])].model_validate(source) for source in sources
    )
    step = Step(statement=name, parameters=given)
    return tpcb_capture().model_copy(
        update={
            "statements": (own,),
            "templates": (Template(name=name, rate_tps=1, steps=(step,)),),
        }
    )


@pytest.mark.pg
@pytest.mark.parametrize("name", STATEMENTS)
def test_the_mixture_of_candidates_finds_as_many_rows_as_the_source(
    name: str, docs: Target
) -> None:
    text, _, wanted = STATEMENTS[name]
    with connect(docs, verb="bench", run="probe") as connection:
        fitting = Fitting(connection, capture_of(name), Asked(connection, "public"), seconds=20)
        fitted = fitting.sources({name: text})[name]
    [own] = [source for place, source in fitted.items() if place == 0]
    assert isinstance(own, Drawn | Constant)
    shares = (
        {hot.value: hot.fraction * (1 - own.distribution.null_fraction)
         for hot in own.distribution.hot}
        | {None: own.distribution.null_fraction}
        if isinstance(own, Drawn)
        else {own.value: 1.0}
    )  # fmt: skip
    config = "'english'::regconfig" if name == "search" else ""
    row_count = 0.0
    for value, share in shares.items():
        sql = text.replace("$2", config).replace("$1", "%(value)s::text::{}")
        kind = {"json": "jsonb", "range": "timestamptz", "filter": "int", "lookup": "int"}.get(
            name, "text"
        )
        sql = sql.replace("::{}", f"::{kind}").replace(
            "%(value)s", "NULL" if value is None else "'" + value.replace("'", "''") + "'"
        )
        if share:
            [(rows,)] = run_sql(docs, f"SELECT count(*) FROM ({sql}) AS matches")
            row_count += share * rows
    assert row_count == pytest.approx(wanted, rel=0.25)


COLUMN = {"from": "column", "table": "public.doc", "column": "id"}
LIST = {"from": "list", "of": COLUMN, "length": {"least": 1, "mean": 1, "most": 1}}
NOW = {"from": "now"}
DAY = ("2026-02-01 00:00+00", "2026-02-02 00:00+00")
# Each with the kind, the sources of its parameters, and the values of the source.
AMOUNTS: dict[str, tuple[str, str, tuple[object, ...], tuple[str, ...]]] = {
    "any": (
        "SELECT id FROM doc WHERE id = ANY ($1::int[])",
        "select",
        (LIST,),
        ("{" + ",".join(map(str, range(1, 3000, 75))) + "}",),
    ),
    "many": (
        "INSERT INTO stay (doc) SELECT unnest($1::int[])",
        "insert",
        (LIST,),
        ("{" + ",".join(["1"] * 30) + "}",),
    ),
    "limit": (
        "SELECT id FROM doc ORDER BY id LIMIT $1 OFFSET $2",
        "select",
        (NONE, NONE),
        ("33", "0"),
    ),
    "window": ("SELECT id FROM stay WHERE during && tstzrange($1, $2)", "select", (NOW, NOW), DAY),
    "apart": (
        "SELECT count(*), sum(id) FROM stay WHERE id < $1 AND id >= $1 - $2",
        "select",
        ({**COLUMN, "table": "public.stay"}, {**NONE, "value": "1"}),
        ("1900", "1200"),
    ),
    "between": (
        "SELECT id FROM doc WHERE id >= $1 AND id < $2",
        "select",
        (COLUMN, COLUMN),
        ("1000", "1060"),
    ),
}


@pytest.mark.pg
@pytest.mark.parametrize("name", AMOUNTS)
def test_lengths_limits_and_widths_give_the_rows_and_blocks_of_the_source(
    name: str, docs: Target
) -> None:
    text, kind, sources, known = AMOUNTS[name]
    with connect(docs, verb="bench", run="probe") as connection:
        asked = Asked(connection, "public")
        with connection.transaction(force_rollback=True):
            types = asked.parameter_types(text, {})
            connection.execute("SET LOCAL search_path TO public")
            rows, blocks = work_of(plan_of(connection, text, types, known))
        connection.execute("DEALLOCATE ALL")
        counters = Counters(calls=1, time_ms=5, rows=round(rows), hit_blocks=round(blocks))
        own = (
            capture_of("range")
            .statements[0]
            .model_copy(
                update={"id": name, "text": text, "kind": kind, "counters": counters}
                | {"tables": ("public.doc", "public.stay")}
            )
        )

        def fitted_with(given: object) -> dict[str, dict[int, Source]]:
            step = Step.model_validate({"statement": name, "parameters": given})
            template = Template(name=name, rate_tps=1, steps=(step,))
            changes = {"statements": (own,), "templates": (template,)}
            capture = tpcb_capture().model_copy(update=changes)
            return Fitting(connection, capture, asked, seconds=20).sources({name: text})

        fitted = fitted_with(sources)[name]
        assert fitted_with([fitted.get(n, source) for n, source in enumerate(sources)]) == {}
    assert scalar(docs, "SELECT count(*) FROM stay") == 2000


def bound_of(text: str, blocks: float = 30) -> Capture:
    """Return a capture of one statement that finds 700 rows; its bound is any row of the copy."""
    capture = capture_of("range")
    counters = Counters(calls=1, time_ms=5, rows=700, hit_blocks=round(blocks))
    [own], [template] = capture.statements, capture.templates
    own = own.model_copy(update={"text": text, "counters": counters})
    steps = (Step.model_validate({"statement": "range", "parameters": (COLUMN,)}),)
    changed = template.model_copy(update={"steps": steps})
    return capture.model_copy(update={"statements": (own,), "templates": (changed,)})


@pytest.mark.pg
def test_one_bound_that_is_near_enough_comes_before_far_ones_that_are_right_on_average(
    docs: Target,
) -> None:
    text = "SELECT id FROM doc WHERE id <= $1"
    for _ in range(5):  # The rows from which candidates come are random.
        with connect(docs, verb="bench", run="probe") as connection:
            asked = Asked(connection, "public")
            with connection.transaction(force_rollback=True):
                connection.execute("SET LOCAL search_path TO public")
                _, blocks = work_of(plan_of(connection, text, ["int"], ["700"]))
            connection.execute("DEALLOCATE ALL")
            fitting = Fitting(connection, bound_of(text, blocks), asked, seconds=20)
            own = fitting.sources({"range": text})["range"][0]
        assert isinstance(own, Constant | Drawn), own
        hot = own.distribution.hot if isinstance(own, Drawn) else ()
        values = [float(part.value) for part in hot] or [float(str(getattr(own, "value", "")))]
        # Candidates are about 200 apart; 1 and 3,000 would be right on average, too.
        assert all(300 < value < 1300 for value in values), own


def test_one_value_within_the_limits_comes_before_a_mixture_with_one_that_is_far() -> None:
    seen = {str(rows): (float(rows), rows / 10) for rows in (1, 850, 1400, 3000)}
    wanted = mixtures.WantedWork(700, 70)
    assert mixtures.mixture(seen, wanted) == Constant(value="850")
    # If calls find nothing or very much, both are needed.
    few = {value: seen[value] for value in ("1", "3000")}
    assert isinstance(mixtures.mixture(few, wanted), Drawn)


@pytest.mark.pg
def test_few_executions_follow_after_the_time_of_a_fit(
    docs: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    executed = []

    def counted(*given: Any) -> Mapping[str, Any]:
        executed.append(given[-1])
        return plan_of(*given)

    monkeypatch.setattr(module, "plan_of", counted)
    text = "SELECT id FROM doc, pg_sleep(0.3) WHERE id <= $1"
    with connect(docs, verb="bench", run="probe") as connection:
        asked = Asked(connection, "public")
        fitting = Fitting(connection, bound_of(text), asked, seconds=1)
        assert fitting.sources({"range": text}) == {}
    assert 0 < len(executed) <= 8


@pytest.mark.pg
def test_a_step_is_fitted_with_the_row_that_an_earlier_step_returns(docs: Target) -> None:
    first = "SELECT id FROM doc WHERE id = $1"
    text = "SELECT id FROM stay WHERE doc >= $1 AND doc < $1 + $2"
    own = (
        capture_of("range")
        .statements[0]
        .model_copy(
            update={"id": "b", "text": text, "tables": ("public.stay",)}
            | {"counters": Counters(calls=1, time_ms=5, rows=100, hit_blocks=13)}
        )
    )
    before = own.model_copy(update={"id": "a", "text": first, "counters": Counters()})
    steps = (
        {"statement": "a", "parameters": ({"from": "constant", "value": "1000"},)},
        {"statement": "b", "parameters": ({"from": "returned", "step": 0, "column": 0}, NONE)},
    )
    template = Template.model_validate({"name": "both", "rate_tps": 1, "steps": steps})
    changes = {"statements": (before, own), "templates": (template,)}
    capture = tpcb_capture().model_copy(update=changes)
    with connect(docs, verb="bench", run="probe") as connection:
        fitting = Fitting(connection, capture, Asked(connection, "public"), seconds=20)
        fitted = fitting.sources({"b": text}, {"a": first, "b": text})
    assert fitted["b"].keys() == {1}
    assert fitting.tried == ["b"]


@pytest.mark.pg
def test_what_was_fitted_is_kept_for_the_same_capture_and_tables(
    docs: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    capture, tables = tmp_path / "a.capture", ("public.doc", "public.kept")
    capture.write_bytes(b"a")
    fits = Fits(sources={"a": {0: Constant(value="1")}}, tried=("a", "b"))
    with connect(docs, verb="bench", run="probe") as connection:
        run_sql(docs, "CREATE TABLE kept (id int)")
        path = file_of_fits(connection, capture, tables, place="local:1")
        assert read_fits(path) == Fits()
        keep_fits(path, fits)
        assert read_fits(file_of_fits(connection, capture, tables, place="local:1")) == fits
        run_sql(docs, "DROP TABLE kept; CREATE TABLE kept (id int)")
        assert file_of_fits(connection, capture, tables, place="local:1") != path
    path.write_text("broken")
    assert read_fits(path) == Fits()


@pytest.mark.pg
def test_what_finds_as_much_as_the_source_stays_and_nothing_is_written(docs: Target) -> None:
    capture = capture_of("search")
    [own] = capture.statements
    text = "DELETE FROM doc WHERE id = $1"
    counters = own.counters.model_copy(update={"calls": 10, "rows": 10, "hit_blocks": 40})
    changed = own.model_copy(update={"text": text, "kind": "delete", "counters": counters})
    step = capture.templates[0].steps[0]
    key = Constant.model_validate({"from": "constant", "value": "5"})
    template = capture.templates[0].model_copy(
        update={"steps": (step.model_copy(update={"parameters": (key,)}),)}
    )
    capture = capture.model_copy(update={"statements": (changed,), "templates": (template,)})
    with connect(docs, verb="bench", run="probe") as connection:
        fitting = Fitting(connection, capture, Asked(connection, "public"), seconds=20)
        assert fitting.sources({"search": text}) == {}
    assert scalar(docs, "SELECT count(*) FROM doc") == 3000


def test_a_filter_is_known_by_its_operator_and_its_column() -> None:
    text = "SELECT 1 FROM t WHERE t.a = $1 AND b ILIKE $2 AND c @> ARRAY[$3]::text[] AND d > $4"
    seen = [(place.number, place.operator, place.column) for place in places_of(text)]
    assert sorted(seen) == [(1, "=", "a"), (2, "~~*", "b"), (3, "@>", "c"), (4, ">", "d")]


def test_fits_that_another_user_can_write_are_not_used(tmp_path: Path) -> None:
    path = tmp_path / "fits.json"
    fits = Fits(tried=("7",))
    keep_fits(path, fits)
    assert read_fits(path) == fits
    path.chmod(0o666)
    assert read_fits(path) == Fits()
    path.chmod(0o600)
    if os.geteuid() == 0:
        os.chown(path, 65534, 65534)
        assert read_fits(path) == Fits()
