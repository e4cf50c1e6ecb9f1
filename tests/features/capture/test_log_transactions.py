"""Logs written by hand: transactions that are cut, fail, branch, loop; clocks that step."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.fixtures.captures import tpcb_capture

from pgdyno.errors import SpecError
from pgdyno.features.capture.model import (
    Between,
    Capture,
    Constant,
    Drawn,
    Linear,
    Now,
    OfColumn,
    Template,
)
from pgdyno.features.capture.reading import log
from pgdyno.features.capture.reading.column_statistics import RawColumn
from pgdyno.features.capture.reading.means import MeansOfStatements
from pgdyno.features.capture.reading.names import Names

Line = tuple[str, float, str, Sequence[str | None]]


def entry(session: str, second: float, text: str, values: Sequence[str | None] = ()) -> str:
    """Return the lines of a prepared statement that took 1 ms and ended at this second."""
    minute, rest = divmod(second, 60)
    prefix = f"2026-11-24 10:{int(minute):02}:{rest:06.3f} UTC [7] me@core {session} "
    said = f"{prefix}LOG:  duration: 1.000 ms  execute p: {text}\n"
    if values:
        shown = (f"${n} = " + ("NULL" if v is None else f"'{v}'") for n, v in enumerate(values, 1))
        said += f"{prefix}DETAIL:  parameters: {', '.join(shown)}\n"
    return said


def capture_of(
    folder: Path, text: str, raw: log.Raw | None = None, *, types: Sequence[str] = ()
) -> Capture:
    """Args: types, of the parameters of all statements."""
    path = folder / "a.log"
    path.write_text(text)
    known = tpcb_capture(1)
    columns: dict[str, list[str]] = {}
    for column in known.columns:
        columns.setdefault(column.table, []).append(column.column)
    request = log.LogRequest([path], "core", prefix="%m [%p] %u@%d %c ")
    logged = log.Logged(request, Names(columns, ["public"]))
    return logged.joined(
        known, lambda texts: dict.fromkeys(texts, types), raw or {}, MeansOfStatements(())
    )


def texts(capture: Capture, template: Template) -> list[str]:
    by_id = {statement.id: statement.text for statement in capture.statements}
    return [by_id[step.statement] for step in template.steps]


READ = "SELECT abalance FROM pgbench_accounts WHERE aid = $1"
WRITE = "UPDATE pgbench_accounts SET abalance = $1 WHERE aid = $2"


def test_a_transaction_without_its_beginning_or_its_end_is_left_out(tmp_path: Path) -> None:
    said = entry("1.a", 0, READ, ["1"]) + entry("1.a", 1, "COMMIT")
    said += (
        entry("1.a", 2, "BEGIN") + entry("1.a", 3, WRITE, ["1", "2"]) + entry("1.a", 4, "COMMIT")
    )
    said += entry("1.a", 5, "BEGIN") + entry("1.a", 6, READ, ["1"])
    said += entry("2.b", 7, READ, ["1"]) + entry("2.b", 8, "BEGIN")
    capture = capture_of(tmp_path, said)
    steps = sorted(texts(capture, template) for template in capture.templates)
    assert steps == [["BEGIN", WRITE, "COMMIT"], [READ]]
    assert "transactions began before the logs or ended after them: 3" in capture.notes


def test_a_transaction_that_failed_is_counted_and_left_out(tmp_path: Path) -> None:
    said = entry("1.a", 0, READ, ["1"]) + entry("1.a", 1, "BEGIN")
    prefix = "2026-11-24 10:00:02.000 UTC [7] me@core 1.a "
    said += f"{prefix}ERROR:  deadlock detected\n{prefix}STATEMENT:  {WRITE}\n"
    said += entry("1.a", 3, "ROLLBACK") + entry("1.a", 4, "BEGIN") + entry("1.a", 5, READ, ["1"])
    said += entry("1.a", 6, "ROLLBACK")
    capture = capture_of(tmp_path, said)
    steps = sorted(texts(capture, template) for template in capture.templates)
    # A rollback that the application wants is a transaction like others.
    assert steps == [["BEGIN", READ, "ROLLBACK"], [READ]]
    assert "transactions of the logs failed; they are not reproduced: 1" in capture.notes


def test_a_clock_that_is_set_back_makes_no_think_time(tmp_path: Path) -> None:
    seconds = [0.0, 1.0, 2.0, 600.0, 601.0, 3.0, 4.0]
    said = "".join(entry("1.a", second, READ, ["1"]) for second in seconds)
    capture = capture_of(tmp_path, said)
    [template] = capture.templates
    # 5 of 6 gaps are known: four of a second, and one of 598 s.
    assert template.think_ms == pytest.approx((4 * 999 + 597_999) / 5, rel=0.01)
    assert any("the clock was set" in note for note in capture.notes)


def test_a_repeated_sequence_of_statements_is_a_loop(tmp_path: Path) -> None:
    said = ""
    for number in range(60):
        turns = 1 + number % 3
        body = [(READ, ["5"]), (WRITE, ["1", "5"])] * turns
        for place, (text, values) in enumerate([("BEGIN", []), *body, ("COMMIT", [])]):
            said += entry("1.a", number + place / 100, text, values)
    capture = capture_of(tmp_path, said)
    [template] = capture.templates
    assert texts(capture, template) == ["BEGIN", READ, WRITE, "COMMIT"]
    repeat = template.steps[1].repeat
    assert (repeat.least, repeat.mean, repeat.most) == (1, 2, 3)
    assert template.steps[2].repeat == repeat


def test_parameters_that_depend_on_earlier_ones_are_found(tmp_path: Path) -> None:
    text = "SELECT $1::int, $2::int, $3::int, $4::timestamptz, $5::text, $6::int, $7::text"
    said, rng = "", random.Random(2)
    for number in range(200):
        key = rng.randrange(1, 100_000)
        values = [
            str(key),
            str(3 * key + 7),
            str(key + rng.randrange(5, 20)),
            f"2026-11-24 10:{number // 60:02}:{number % 60:02}.5+00",
            rng.choice(["common"] * 9 + [f"rare{number}"]),
            "20",
            None,
        ]
        said += entry("1.a", number + 1, text, values)
    capture = capture_of(tmp_path, said)
    [template] = capture.templates
    free, linear, near, now, word, constant, null = template.steps[0].parameters
    assert isinstance(free, Drawn)
    assert free.distribution.kind == "integer"
    assert linear == Linear(step=0, parameter=0, slope=3, offset=7)
    assert isinstance(near, Between)
    assert (near.least, near.most) == (pytest.approx(5, abs=1), pytest.approx(19, abs=1))
    assert isinstance(now, Now)
    assert now.minus_s == pytest.approx(0.5, abs=0.01)
    assert isinstance(word, Drawn)
    assert word.distribution.hot[0].fraction == pytest.approx(0.9, abs=0.08)
    assert len(word.distribution.hot[0].value) == len("common")
    assert constant == Constant(value="20")
    assert null == Constant(value=None)


def test_keys_that_are_used_more_than_others_are_hot_at_stand_ins(tmp_path: Path) -> None:
    said, rng = "", random.Random(3)
    for number in range(600):
        key = 77_701 if number % 3 == 0 else rng.randrange(1, 100_001)
        said += entry("1.a", number, READ, [str(key)])
    place = ("public.pgbench_accounts", "aid")
    capture = capture_of(tmp_path, said, {place: RawColumn(range=("1", "100000"))})
    [source] = capture.templates[0].steps[0].parameters
    assert isinstance(source, OfColumn)
    assert source.distribution is not None
    [hot] = source.distribution.hot
    assert hot.fraction == pytest.approx(1 / 3, abs=0.01)
    assert hot.value != "77701"
    assert int(hot.value) == pytest.approx(77_701, abs=1000)
    evenly = "".join(entry("1.a", n, READ, [str(rng.randrange(1, 100_001))]) for n in range(600))
    capture = capture_of(tmp_path, evenly, {place: RawColumn(range=("1", "100000"))})
    assert capture.templates[0].steps[0].parameters == (OfColumn(table=place[0], column=place[1]),)


def test_a_text_is_used_by_how_common_it_is(tmp_path: Path) -> None:
    read = "SELECT aid FROM pgbench_accounts WHERE filler = $1"
    place = ("public.pgbench_accounts", "filler")
    raw = RawColumn(common=(("COMMON", 0.6), ("LESS COMMON", 0.2)))
    said = "".join(
        entry("1.a", n, read, ["LESS COMMON" if n % 3 else f"RARE {n}"]) for n in range(300)
    )
    [source] = capture_of(tmp_path, said, {place: raw}).templates[0].steps[0].parameters
    assert isinstance(source, OfColumn)
    assert source.by_frequency
    assert source.distribution is not None
    # Its rows are those after 60 % of the rows, until 80 %.
    [hot] = source.distribution.hot
    assert float(hot.value) == pytest.approx(0.7)
    assert hot.fraction == pytest.approx(2 / 3, abs=0.01)
    assert all(0.8 <= float(bound) <= 1 for bound in source.distribution.bounds)
    as_rows = "".join(
        entry("1.a", n, read, [["COMMON", "COMMON", "COMMON", "LESS COMMON", f"RARE {n}"][n % 5]])
        for n in range(300)
    )
    [source] = capture_of(tmp_path, as_rows, {place: raw}).templates[0].steps[0].parameters
    assert isinstance(source, OfColumn)
    assert source.distribution is not None
    assert {round(float(hot.value), 1) for hot in source.distribution.hot} == {0.3, 0.7}


def test_sessions_keep_values(tmp_path: Path) -> None:
    rng = random.Random(5)
    said = ""
    for number in range(200):
        session, kept = f"{number % 4}.a", (number % 4) * 20_000 + 77
        usual = kept if rng.random() < 0.8 else rng.randrange(1, 100_000)
        said += entry(session, number / 2, WRITE, [str(rng.randrange(100)), str(kept)])
        said += entry(session, number / 2, READ, [str(usual)])
    capture = capture_of(tmp_path, said)
    by_text = {texts(capture, t)[0]: t.steps[0].parameters[-1] for t in capture.templates}
    kept, mostly = by_text[WRITE], by_text[READ]
    assert isinstance(kept, OfColumn)
    assert isinstance(mostly, OfColumn)
    assert kept.kept == 1
    assert mostly.kept == pytest.approx(0.8, abs=0.07)
    assert kept.distribution is not None
    values = [int(hot.value) for hot in kept.distribution.hot]
    assert values == pytest.approx([12_500, 37_500, 62_500, 87_500], abs=1_500)
    assert not {str(n * 20_000 + 77) for n in range(4)} & set(map(str, values))


def test_sessions_that_use_every_value_keep_none(tmp_path: Path) -> None:
    rng = random.Random(5)
    said = "".join(
        entry(f"{number % 4}.a", number, READ, [str(rng.randrange(1, 5))]) for number in range(200)
    )
    [source] = capture_of(tmp_path, said).templates[0].steps[0].parameters
    assert isinstance(source, OfColumn)
    assert not source.kept


def test_constants_of_a_text_become_parameters_and_places_of_columns_stay(tmp_path: Path) -> None:
    head = "2026-11-24 10:00:01.000 UTC [7] me@core 1.a LOG:  duration: 1.000 ms  statement: "
    said = (
        f"{head}SELECT aid, 2.5 FROM pgbench_accounts WHERE aid IN (1, 2) AND filler = 'it''s'"
        f" AND now() > timestamp '2026-01-01' ORDER BY 2 LIMIT 10\n"
        f"{head}SELECT aid FROM pgbench_accounts WHERE abalance::numeric(10,2) = 3\n"
    )
    capture = capture_of(tmp_path, said)
    assert {statement.text for statement in capture.statements} == {
        "SELECT aid, $1::numeric FROM pgbench_accounts WHERE aid = ANY ($2) AND filler = $3"
        " AND now() > $4::timestamp ORDER BY 2 LIMIT $5",
        "SELECT aid FROM pgbench_accounts WHERE abalance::numeric(10,2) = $1",
    }


def test_parameters_that_the_log_does_not_show_are_noted(tmp_path: Path) -> None:
    said = entry("1.a", 1, WRITE) + entry("1.a", 2, READ, ["1..."])
    capture = capture_of(tmp_path, said)
    assert "calls have parameters that the log does not show whole: 2" in capture.notes
    assert "parameters are missing: log_parameter_max_length = -1 logs them whole" in capture.notes
    write = next(t for t in capture.templates if len(t.steps[0].parameters) == 2)
    assert write.steps[0].parameters[1] == OfColumn(table="public.pgbench_accounts", column="aid")


@pytest.mark.parametrize(
    ("prefix", "begin", "hint"),
    [
        ("%m ", "2026-11-24 10:00:00.000 UTC LOG:", "add %c"),
        ("[%p] ", "[7] LOG:", "add %m"),
        # The guess may be wrong.
        (None, "2026-11-24 10:00:00.000 UTC here LOG:", "--log-line-prefix"),
        (None, "at ten:", "--log-line-prefix"),
    ],
)
def test_a_log_that_cannot_be_read_is_refused_with_the_way_out(
    prefix: str | None, begin: str, hint: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.log"
    path.write_text(f"{begin}  statement: SELECT 1\n" * 20)
    with pytest.raises(SpecError) as refused:
        log.Logged(log.LogRequest([path], "core", prefix=prefix), Names({}, []))
    assert hint in (refused.value.hint or "")


def test_the_advice_names_the_price_and_how_to_end_it() -> None:
    said = log.advice(0.01)
    assert "ALTER SYSTEM SET log_transaction_sample_rate = 0.01;" in said
    assert "ALTER SYSTEM RESET log_transaction_sample_rate;" in said
    assert "MB/s" in said


def test_logs_without_a_statement_are_refused_with_what_they_have(tmp_path: Path) -> None:
    path = tmp_path / "postgresql.log"
    line = "2026-01-01 10:00:00.000 UTC [7] LOG:  checkpoint starting: time\n"
    path.write_bytes(line.encode() * 5 + b"\0\n")
    with pytest.raises(SpecError, match="they have 5 messages; NUL bytes in the logs: 1"):
        log.Logged(log.LogRequest([path], "core", prefix="%m [%p] "), Names({}, []))


def test_a_text_that_is_always_a_value_of_a_column_is_drawn_from_it(tmp_path: Path) -> None:
    named = "SELECT lower($1) AS name"
    text = f"SELECT t.aid FROM ({named}) j JOIN pgbench_accounts t ON t.filler = j.name"
    lines = [entry("1.a", n, text, (("mail", "sums")[n % 2],)) for n in range(20)]
    place = ("public.pgbench_accounts", "filler")
    for known, is_column in ((("mail", "sums", "news"), True), (("mail",), False)):
        raw = {place: RawColumn(known=frozenset(known))}
        [template] = capture_of(tmp_path, "".join(lines), raw).templates
        [source] = template.steps[0].parameters
        is_found = isinstance(source, OfColumn) and (source.table, source.column) == place
        assert is_found == is_column, source


def test_a_text_has_one_stand_in_wherever_the_load_writes_or_asks_for_it(tmp_path: Path) -> None:
    take = "UPDATE pgbench_accounts SET filler = $1 WHERE aid = $2"
    done = "SELECT aid FROM pgbench_accounts WHERE filler = $1"
    lines = [
        entry("1.a", n, text, values)
        for n in range(20)
        for text, values in ((take, ("worker 77", str(n))), (done, ("worker 77",)))
    ]
    place = ("public.pgbench_accounts", "filler")
    capture = capture_of(tmp_path, "".join(lines), {place: RawColumn(known=frozenset({"idle"}))})
    given = [template.steps[0].parameters[0] for template in capture.templates]
    shapes = [source.distribution for source in given if isinstance(source, Drawn)]
    assert len(shapes) == 2
    [[first], [other]] = [shape.hot for shape in shapes]
    assert first == other
    assert first.value != "worker 77"


def test_a_key_that_is_mostly_missing_in_the_log_is_mostly_missing_in_the_mirror(
    tmp_path: Path,
) -> None:
    text = "UPDATE pgbench_accounts SET bid = $1 WHERE aid = $2"
    lines = [
        entry("1.a", n, text, (None if n % 5 else str(n % 3), str(n * 17 % 1000)))
        for n in range(60)
    ]
    [template] = capture_of(tmp_path, "".join(lines)).templates
    source = template.steps[0].parameters[0]
    assert isinstance(source, OfColumn)
    assert source.by_frequency
    assert source.distribution is not None
    assert source.distribution.null_fraction == pytest.approx(0.8)
