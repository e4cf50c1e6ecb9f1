"""The smallest work_mem without temporary files: simulated statements, plans, real servers."""

from __future__ import annotations

import gzip
import json
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from tests.fixtures import needs
from tests.fixtures.clusters import run_sql
from tests.fixtures.command import Command

from pgdyno.errors import ServerError, SpecError
from pgdyno.features.tune.spill import Need, Probe, SpillTrial, advise, search, trial_of
from pgdyno.features.tune.spill_text import exact_setting_text, setting_text
from pgdyno.features.tune.spilling import needs_of, read_log, statements_in
from pgdyno.server.connect import connect
from pgdyno.server.grammar import SyntaxNode
from pgdyno.server.target import Target

KB, MB, GB = 1 << 10, 1 << 20, 1 << 30


def statement(needs_bytes: int) -> Probe:
    """A statement that spills below a need, and tells how often it was executed."""

    def probe(work_mem_bytes: int) -> SpillTrial:
        spilled = needs_bytes // 3 if work_mem_bytes < needs_bytes else 0
        used = min(work_mem_bytes, needs_bytes)
        return SpillTrial(work_mem_bytes, spilled, used, 20.0 if spilled else 10.0, ("Sort",))

    return probe


def found(needs_bytes: int, *, max_bytes: int = GB) -> Need:
    return search("s", "s.sql", statement(needs_bytes), now_bytes=4 * MB, max_bytes=max_bytes)


@pytest.mark.parametrize("needs_mb", [5, 9, 33, 70, 500, 999])
def test_the_smallest_value_is_found_to_within_a_tenth(needs_mb: int) -> None:
    need = found(needs_mb * MB)
    assert need.enough is not None
    assert needs_mb * MB <= need.enough.work_mem_bytes <= 1.1 * needs_mb * MB
    assert need.tried_count <= 16
    assert need.gain_ratio == 2.0


def test_a_statement_that_fits_is_executed_twice() -> None:
    need = found(1 * MB)
    assert (need.now.spills, need.enough, need.tried_count) == (False, need.now, 2)


def test_a_statement_that_never_fits_has_a_reason_and_no_value() -> None:
    need = found(2 * GB, max_bytes=64 * MB)
    assert (need.enough, need.gain_ratio) == (None, 1.0)
    advice = advise((need,), now_bytes=4 * MB, active_count=1, budget_bytes=GB)
    assert (advice.server_bytes, advice.why) == (None, "no value tried is enough")


def test_a_value_that_all_cannot_have_is_set_apart() -> None:
    small, large = found(10 * MB), found(400 * MB)
    advice = advise((small, large), now_bytes=4 * MB, active_count=20, budget_bytes=2 * GB)
    # 20 x 10 MB fit into 2 GB, 20 x 400 MB do not: 5 may run at one time.
    assert advice.server_bytes is not None
    assert advice.server_bytes < 12 * MB
    assert [(statement.need.place, statement.at_one_time_count) for statement in advice.apart] == [
        ("s.sql", 5)
    ]


def test_without_memory_nothing_is_set_for_all() -> None:
    advice = advise((found(10 * MB),), now_bytes=4 * MB, active_count=1, budget_bytes=None)
    assert advice.server_bytes is None
    assert "--ram" in advice.why


def test_values_are_rounded_up() -> None:
    assert setting_text(9 * MB + 1) == "10MB"
    assert setting_text(900 * KB) == "960kB"
    assert [exact_setting_text(size) for size in (4 * MB, 4100 * KB)] == ["4MB", "4100kB"]


def test_a_plan_that_spills_is_known_from_sorts_hashes_and_workers() -> None:
    in_memory = {
        "Node Type": "Sort",
        "Sort Method": "quicksort",
        "Sort Space Used": 100,
        "Sort Space Type": "Memory",
        "Workers": [{"Sort Space Used": 50, "Sort Space Type": "Memory"}],
    }
    fine = trial_of(4 * MB, {"Plan": in_memory, "Execution Time": 7.5})
    assert (fine.spills, fine.memory_bytes, fine.duration_ms) == (False, 150 * KB, 7.5)
    assert (fine.process_count, fine.is_hash_alone) == (2, False)
    on_disk = {**in_memory, "Sort Method": "external merge", "Sort Space Type": "Disk"}
    spilled = trial_of(4 * MB, {"Plan": {**on_disk, "Temp Written Blocks": 3}})
    assert spilled.temp_bytes == 3 * 8192
    hashed = {"Node Type": "Hash", "Hash Batches": 4, "Peak Memory Usage": 64}
    joined = {"Node Type": "Hash Join", "Plans": [hashed], "Temp Written Blocks": 9}
    trial = trial_of(MB, {"Plan": joined})
    assert (trial.is_hash_alone, trial.nodes) == (True, ("Hash 4 batches",))
    grouped = {"Node Type": "Aggregate", "HashAgg Batches": 5, "Disk Usage": 80}
    assert trial_of(MB, {"Plan": grouped}).spills


def test_variables_of_a_script_need_values(tmp_path: Path) -> None:
    path = tmp_path / "a.sql"
    path.write_text("\\set aid 1\nSELECT ':x', 1::int FROM t WHERE a = :aid; SELECT 2")
    assert [statement.text for statement in statements_in(path, {"aid": "7"})] == [
        "SELECT ':x', 1::int FROM t WHERE a = 7",
        "SELECT 2",
    ]
    with pytest.raises(SpecError, match="variable :aid has no value"):
        statements_in(path, {})
    path.write_text("-- nothing")
    with pytest.raises(SpecError, match="has no statement"):
        statements_in(path, {})


def test_meta_commands_of_a_script_are_not_statements(tmp_path: Path) -> None:
    path = tmp_path / "a.sql"
    path.write_text(
        "\\set aid random(1, \\\n  1000)\nSELECT 1 AS x \\gset p_\nSELECT 2;\n\\if 1\n\\endif\n"
    )
    texts = [statement.text for statement in statements_in(path, {})]
    assert [text.strip() for text in texts] == ["SELECT 1 AS x", "SELECT 2"]
    path.write_text("SELECT '\\gset' -- \\gset\n, $$\n\\set x 1\n$$; SELECT 2")
    [quoted, _] = statements_in(path, {})
    assert quoted.text == "SELECT '\\gset' -- \\gset\n, $$\n\\set x 1\n$$"


STAMP = "2026-11-24 18:39:05.195 UTC"
PATH = "base/pgsql_tmp/pgsql_tmp12.7"
CSV = f'{STAMP},,,7,,7.1,1,,,,0,%s,%s,,,,,,,,,"","client backend",,0\n'
TEMPORARY_FILES = {
    "stderr": f'LOG:  temporary file: path "{PATH}", size 42\n',
    "csvlog": CSV % ("LOG,00000", f'"temporary file: path ""{PATH}"", size 42"'),
    "jsonlog": f'{{"timestamp":"{STAMP}","pid":7,"error_severity":"LOG",'
    f'"message":"temporary file: path \\"{PATH}\\", size 42"}}\n',
    "syslog": "Nov 24 18:39:05 db1 postgres[7]: [3-1] 7 LOG:  temporary file: path"
    f' "{PATH}", size 42\n',
    "German": f"LOG:  temporäre Datei: Pfad »{PATH}«, Größe 42\n",
    "French": f"LOG:  fichier temporaire : chemin « {PATH} », taille 42\n",
    "Japanese": f'LOG:  一時ファイル: パス"{PATH}"、サイズ42\n',
    "set": 'LOG:  temporary file: path "base/pgsql_tmp/pgsql_tmp1.7.fileset/i1of8.p0.0", size 42\n',
}
NO_TEMPORARY_FILE = f'could not write to file "{PATH}": No space left on device 99'


def without_a_file(form: str) -> str:
    """An error of the same form, which names a temporary file and a number."""
    if form == "csvlog":
        quoted = NO_TEMPORARY_FILE.replace('"', '""')
        return CSV % ("ERROR,53100", f'"{quoted}"')
    if form == "jsonlog":
        return json.dumps(
            {"timestamp": STAMP, "pid": 7, "error_severity": "ERROR", "message": NO_TEMPORARY_FILE}
        )
    return f"{STAMP} [7] ERROR:  {NO_TEMPORARY_FILE}"


@pytest.mark.parametrize("form", TEMPORARY_FILES)
@pytest.mark.parametrize("is_compressed", [False, True])
def test_sizes_of_temporary_files_are_read_from_every_form_of_log(
    form: str, is_compressed: bool, tmp_path: Path
) -> None:
    path = tmp_path / "log"
    content = f"{without_a_file(form)}\n{TEMPORARY_FILES[form]}".encode()
    path.write_bytes(gzip.compress(content) if is_compressed else content)
    logged = read_log(path)
    assert logged is not None
    assert (logged.count, logged.max_bytes) == (1, 42)


COMPRESSED = gzip.compress(TEMPORARY_FILES["stderr"].encode())


@pytest.mark.parametrize(
    "content",
    [COMPRESSED[:-12], COMPRESSED[:12] + b"\xff" + COMPRESSED[13:], COMPRESSED + b"more"],
    ids=["cut off", "changed", "longer"],
)
def test_a_compressed_log_that_is_damaged_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "log.gz"
    path.write_bytes(content)
    with pytest.raises(SpecError, match="damaged or cut off"):
        read_log(path)


def test_sizes_of_temporary_files_come_from_the_log(tmp_path: Path) -> None:
    path = tmp_path / "postgresql.log"
    lines = [
        f'LOG:  temporary file: path "base/pgsql_tmp/pgsql_tmp1.{n}", size {n * MB}'
        for n in (1, 2, 30)
    ]
    path.write_text("\n".join([*lines, "LOG:  checkpoint complete"]))
    logged = read_log(path)
    assert logged is not None
    assert (logged.count, logged.median_bytes, logged.max_bytes) == (3, 2 * MB, 30 * MB)
    path.write_text("")
    assert read_log(path) is None


def way(target: Target) -> tuple[str, ...]:
    return ("-h", target.host, "-p", target.ports, "-U", target.user, "-d", target.database)


def test_statements_are_tried_on_a_server_of_ones_own_only_when_allowed(
    database: Target, pgdyno: Command, tmp_path: Path
) -> None:
    run_sql(database, "CREATE TABLE t AS SELECT md5(i::text) m FROM generate_series(1, 60000) i")
    path = tmp_path / "sort.sql"
    path.write_text("SELECT m FROM t ORDER BY m OFFSET 59999; SELECT count(*) FROM t;")
    asked = ("work-mem", *way(database), "-f", str(path), "--ram", "8GB", "--active", "4")
    refused = pgdyno(*asked)
    assert (refused.code, "--allow-explain-analyze" in refused.error) == (1, True)
    run_sql(database, f"ALTER DATABASE {database.database} SET work_mem = '1MB'")
    done = pgdyno(*asked, "--allow-explain-analyze", "--json")
    assert done.code == 0, done.err
    document = done.document
    assert (document["format"], document["work_mem_bytes"]) == ("pgdyno.work-mem/1", MB)
    sorting, counting = document["statements"]
    assert sorting["now"]["temp_bytes"] > MB
    # 60,000 rows of 33 bytes, and what a sort keeps of each, in one process or three.
    assert MB < sorting["enough"]["work_mem_bytes"] < 12 * MB
    assert counting["now"]["temp_bytes"] == 0
    assert document["server_work_mem_bytes"] == sorting["enough"]["work_mem_bytes"]
    (tmp_path / "empty.log").write_text("")
    text = pgdyno("work-mem", *way(database), "--ram", "8GB", "--log", tmp_path / "empty.log")
    assert "temporary files" in text.out
    assert "no temporary file in it; with log_temp_files = 0 the server logs each" in text.out
    assert "give the statements that spill" in text.out


DELETE_ALL = "LANGUAGE sql AS 'DELETE FROM kept'"
VALUES_THAT_ADD_STATEMENTS = (
    "1; COMMIT; DELETE FROM kept; --",
    "1); COMMIT; DELETE FROM kept; --",
    "1'; COMMIT; DELETE FROM kept; --",
    "1\\'; COMMIT; DELETE FROM kept; --",
    "'1'; COMMIT; DELETE FROM kept; --'",
    "'1\\'; COMMIT; DELETE FROM kept; --'",
    "*/ 1; COMMIT; DELETE FROM kept; /*",
    "$$; COMMIT; DELETE FROM kept; --",
    "1\n; COMMIT; DELETE FROM kept; --",
    "-1; COMMIT; DELETE FROM kept; --",
    "1;COMMIT;BEGIN READ WRITE;DELETE FROM kept;COMMIT",
    "1 /* */; ROLLBACK; DELETE FROM kept",
)


@pytest.mark.parametrize("backslashes", ["on", "off"])
def test_a_value_of_a_variable_never_becomes_a_statement(
    either_database: Target, pgdyno: Command, tmp_path: Path, backslashes: str
) -> None:
    run_sql(either_database, "CREATE TABLE kept AS SELECT i AS a FROM generate_series(1, 10) i")
    set_it = f"ALTER DATABASE {either_database.database} SET standard_conforming_strings"
    run_sql(either_database, f"{set_it} = {backslashes}")
    for number, text in enumerate(
        ("SELECT a FROM kept WHERE a = :x", "SELECT a /* :x */ FROM kept WHERE a > 0 -:x")
    ):
        path = tmp_path / f"{number}.sql"
        path.write_text(text)
        for value in VALUES_THAT_ADD_STATEMENTS:
            said = pgdyno(
                *("work-mem", *way(either_database), "-f", str(path), "--allow-explain-analyze"),
                *("-D", f"x={value}"),
            )
            assert (said.code, "invalid input syntax" in said.error) == (1, True), said.err
    assert run_sql(either_database, "SELECT count(*) FROM kept") == [(10,)]


def test_two_statements_in_one_message_are_refused_by_the_server(database: Target) -> None:
    run_sql(database, "CREATE TABLE kept AS SELECT 1 AS a")
    both = SyntaxNode("SELECT 1; COMMIT; DELETE FROM kept", "SelectStmt", {})
    with (
        connect(database, verb="test") as connection,
        pytest.raises(ServerError, match="multiple commands"),
    ):
        needs_of(
            connection,
            {"q.sql": [both]},
            **{"now_bytes": MB, "max_bytes": GB, "is_scratch": True, "timeout_ms": 1000},
        )
    assert run_sql(database, "SELECT count(*) FROM kept") == [(1,)]


def test_only_what_reads_is_executed_on_a_server_of_ones_own(
    database15: Target, pgdyno: Command, tmp_path: Path
) -> None:
    run_sql(database15, "CREATE TABLE kept (a int)")
    run_sql(database15, f"CREATE FUNCTION delete_all() RETURNS void {DELETE_ALL}")
    path = tmp_path / "w.sql"
    asked = ("work-mem", *way(database15), "-f", str(path), "--allow-explain-analyze")
    for text, words in (
        ("DELETE FROM kept", "does more than read"),
        ("WITH d AS (DELETE FROM kept RETURNING a) SELECT * FROM d", "statement 1 writes"),
        ("SELECT 1 AS a INTO kept_too", "creates a table"),
        ("EXPLAIN ANALYZE DELETE FROM kept", "does more than read"),
        ("SELECT pg_terminate_backend(1)", "calls pg_terminate_backend()"),
        ("SELECT delete_all()", "read-only transaction"),
        ("SELECT pg_sleep(5)", "statement timeout"),
        ("SELECT nothing", "does not exist"),
    ):
        path.write_text(text)
        said = pgdyno(*asked, "--timeout", "300ms")
        assert said.code == 1  # Nothing was measured.
        assert words in " ".join(said.error.split())


def test_a_scratch_server_needs_statements(pgdyno: Command) -> None:
    assert "-f FILE" in pgdyno("work-mem", "--scratch").error
    assert "No server was named" in pgdyno("work-mem").error
    assert "temp_blks_written" in pgdyno("work-mem", "--print-sql").out


def compared(pgdyno: Command, text: str) -> tuple[int, str]:
    """Run the command that `work-mem` printed, for a short time; return exit code and messages."""
    printed = re.search(r"pgdyno (compare .*?)(\s+\(or --prove|\n\S|$)", text, re.DOTALL)
    assert printed, text
    short = ("-T", "500ms", "--warmup", "0s", "--rounds", "3")
    done = pgdyno(*shlex.split(printed[1]), *short)
    return done.code, done.err


def test_the_printed_comparison_runs_on_the_server_that_was_asked_about(
    database15: Target, pgdyno: Command, tmp_path: Path
) -> None:
    run_sql(database15, "CREATE TABLE t AS SELECT md5(i::text) m FROM generate_series(1, 60000) i")
    run_sql(database15, f"ALTER DATABASE {database15.database} SET work_mem = '1MB'")
    path = tmp_path / "sort.sql"
    path.write_text("SELECT m FROM t ORDER BY m OFFSET :skipped")
    done = pgdyno(
        *("work-mem", *way(database15), "-f", str(path), "--ram", "8GB", "-D", "skipped=59999"),
        "--allow-explain-analyze",
    )
    assert done.code == 0, done.err
    code, err = compared(pgdyno, done.out)
    assert code in (0, 3, 5), err
    assert f"@{database15.host}:{database15.ports}" in err or database15.database in err, err


@pytest.mark.pg
@needs.POSTGRESQL_15
def test_a_scratch_copy_is_made_from_sql(pgdyno: Command, tmp_path: Path) -> None:
    made, path = tmp_path / "make.sql", tmp_path / "sort.sql"
    made.write_text("CREATE TABLE t AS SELECT md5(i::text) m FROM generate_series(1, 100000) i;")
    path.write_text("SELECT m FROM t ORDER BY m OFFSET 99999")
    done = pgdyno(
        "work-mem", "--scratch", "--sql", str(made), "-f", str(path), "--pg-version", "15"
    )
    assert done.code == 0, done.err
    assert "external merge" in done.out
    assert "ALTER SYSTEM SET work_mem" in done.out
    # One form of a size, and a command that can be pasted.
    assert "work_mem = 4MB, 1 statement at work" in done.out
    code, err = compared(pgdyno, done.out)
    assert code in (0, 3, 5), err


def test_the_ratio_is_1_where_nothing_spills() -> None:
    need = found(1 * MB)
    assert replace(need, enough=None).gain_ratio == 1.0


def test_a_proof_with_own_tables_is_refused_before_anything_is_measured(
    pgdyno: Command, tmp_path: Path
) -> None:
    query, tables = tmp_path / "q.sql", tmp_path / "tables.sql"
    query.write_text("SELECT 1")
    tables.write_text("CREATE TABLE t (a int)")
    said = pgdyno(
        "work-mem", "--scratch", "-f", str(query), "--sql", str(tables), "--prove", "1min"
    )
    assert said.code == 1
    assert "cannot be used with --sql" in " ".join(said.error.split())
    assert not said.out


@needs.POSTGRESQL_15
@pytest.mark.slow
def test_both_values_are_compared_under_load_on_demand(pgdyno: Command, tmp_path: Path) -> None:
    path = tmp_path / "sort.sql"
    path.write_text("SELECT aid FROM pgbench_accounts ORDER BY filler, aid OFFSET 99999;")
    said = pgdyno(
        *("work-mem", "--scratch", "-s", "1", "--pg-version", "15", "-f", str(path)),
        *("--prove", "1min"),
        timeout_s=170,
    )
    # 5: three pairs on a busy machine may not tell.
    assert said.code in (0, 3, 5), said.err
    assert "against 4MB" in said.err
    assert "ALTER SYSTEM SET work_mem" in said.out
    assert "enough against now" in said.out, "the comparison follows the advice"
    assert pgdyno("show", "-v", "last").out.count("work_mem = ") >= 2
