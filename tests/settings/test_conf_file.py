"""A postgresql.conf is read as the server reads it; `postgres -C` of 15 and 18 is the judge."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.fixtures.prove import Figure

from pgdyno.errors import SpecError
from pgdyno.features.doctor.check_facts import CheckFacts
from pgdyno.features.tune.server_settings import read_file
from pgdyno.server.find import find
from pgdyno.settings.conf_file import read_conf
from pgdyno.settings.rule import SettingRule, snapshot

SEED, LINES = 20261128, 300
# The server's own functions check or change these values further, or the build or host decides.
HOOKED = (
    "autovacuum_work_mem bonjour client_connection_check_interval default_toast_compression"
    " dynamic_shared_memory_type effective_io_concurrency file_copy_method huge_page_size"
    " io_method jit log_executor_stats log_parser_stats log_planner_stats log_statement_stats"
    " maintenance_io_concurrency max_stack_depth recovery_target_action shared_memory_type ssl"
    " stats_fetch_consistency synchronize_seqscans transaction_deferrable transaction_isolation"
    " tcp_keepalives_count tcp_keepalives_idle tcp_keepalives_interval tcp_user_timeout"
    " temp_buffers transaction_read_only update_process_title vacuum_buffer_usage_limit"
    " wal_compression wal_sync_method default_with_oids seed"
)
TEXTS = ("archive_command", "restore_command", "log_line_prefix", "log_filename", "bonjour_name")
FORMS = (
    *("0x1538", "0x1000", "010000", "1e2", "'1e2'", "0.5GB", "'0.5GB'", "1.5", "'1.5 MB'", "08"),
    *("'08MB'", "-1", "+4", ".5", "'-.5'", "0x10kB", "0x1000B", "4 MB", "' 64 kB '", "64mb", "1d"),
    *("'0.2s'", "100us", "1min", "30 ms", "2h", "99999999999", "1e400", "inf", "nan", "'1.1e0'"),
    *("0", "1", "on", "off", "of", "o", "t", "TRUE", "Fals", "yes", "n", "'on '", "debug", "info"),
    *("hot_standby", "archive", "safe_encoding", "'Repeatable Read'", "regress", "auto", "'", "''"),
    *("'a''b'", r"'a\'b'", r"'a\\b'", r"'\061\62\0611'", r"'tab\tx'", "'x' # y", "x#y", "a b"),
    *("a-b_c.d:/e", "a.b", "%m", "", "=", "= 4", "'open", "8MB extra", "1_000", "0x", "1kBB", "ü"),
)
STANDBYS = (
    *("a, b", "*", "", " ", "a b", 'FIRST 2 (a, "b c")', "any 1(ü)", "2 (a,1)", "FIRST 0 (a)"),
    *("first", "ANY 1 (first)", "(a)", "a-b", "a.b", '""', "FIRST 1 ()", "1a", "firsts, anyway"),
)
BETWEEN = (*(" = ", "=", " ", "\t=\t", "  ", "= \r") * 2, " == ")


def lines_of(major: int) -> list[tuple[str, str]]:
    """Return (name of the setting, line): mostly values that might be right."""
    draw = random.Random(SEED + major)
    rules = [
        rule
        for rule in snapshot(major).values()
        if rule.name not in HOOKED.split()
        and rule.context != "internal"
        and (rule.vartype != "string" or rule.name in TEXTS)
    ]
    kinds = ("bool", "enum", "integer", "integer", "integer", "real", "real", "string")
    lines = []
    for number in range(LINES):
        kind = kinds[number % len(kinds)]
        rule = draw.choice([rule for rule in rules if rule.vartype == kind])
        value = near(rule, draw) if draw.random() < 0.6 else draw.choice(FORMS)
        name = draw.choice([rule.name, rule.name, rule.name.upper()])
        lines.append((rule.name, f"{name}{draw.choice(BETWEEN)}{value}"))
    return lines


def near(rule: SettingRule, draw: random.Random) -> str:
    """Return a value near what the setting takes: a limit, one beyond, a number with a unit."""
    if rule.vartype == "enum":
        return f"'{draw.choice([*rule.values, 'true', 'no', '1', rule.values[0].upper()])}'"
    if rule.vartype == "string":
        return "'" + "".join(draw.choice(r"ab01 \\'#%") for _ in range(draw.randint(0, 6))) + "'"
    if rule.vartype == "bool":
        return draw.choice(["True", "fA", "'YES'", "0", "2", "on1"])
    number = draw.choice(
        [float(rule.low), float(rule.low) - 1, *(draw.uniform(0, 3000) for _ in "abc")]
    )
    units = ["kB", "MB", " GB", "B"] if rule.unit.endswith("B") else ["ms", "s", " min", "us"]
    unit = draw.choice([*units, "", ""] if rule.unit else ["", "", "", "h"])
    return f"'{number:.{draw.choice([0, 1, 4])}f}{unit}'"


@pytest.fixture
def judged(tmp_path: Path) -> Callable[[int, str, str], str | None]:
    """Return the value of a setting as the server of a version reads a file, None if it refuses."""

    def judge(major: int, name: str, text: str) -> str | None:
        place = tmp_path / f"{abs(hash((major, text)))}"
        place.mkdir(exist_ok=True)
        place.chmod(0o700)
        (place / "postgresql.conf").write_text(text, encoding="utf-8", newline="")
        # `-C` prints a value as pg_settings has it, and starts nothing, so root may call it.
        postgres = find(version=str(major)).bin_dir / "postgres"
        done = subprocess.run(
            [postgres, "-C", name, "-D", place], capture_output=True, text=True, check=False
        )
        return None if done.returncode else done.stdout.removesuffix("\n")

    return judge


def read(path: Path, name: str, text: str, major: int) -> str | None:
    path.write_text(text, encoding="utf-8", newline="")
    try:
        setting = read_file(path, major, CheckFacts()).settings[name.lower()]
    except SpecError:
        return None
    return None if setting.objection else setting.text


@pytest.mark.pg
@pytest.mark.parametrize("major", [15, 18])
def test_random_lines_are_read_as_the_server_reads_them(
    major: int, judged: Callable[[int, str, str], str | None], tmp_path: Path, figure: Figure
) -> None:
    lines = lines_of(major)
    with ThreadPoolExecutor(2) as pool:
        servers = list(pool.map(lambda line: judged(major, *line), lines))
    wrong = []
    for (name, line), server in zip(lines, servers, strict=True):
        ours = read(tmp_path / "ours.conf", name, line, major)
        if ours != server and not (
            ours is not None and server is not None and is_same_real(ours, server)
        ):
            wrong.append(f"{line!r}: the server {server!r}, we {ours!r}")
    figure(
        "random lines of postgresql.conf, read as postgres -C reads them",
        truth=f"all {LINES}",
        seen=f"{LINES - len(wrong)} of {LINES}",
    )
    assert wrong == [], f"seed {SEED}: {len(wrong)} of {LINES}"
    assert LINES / 4 < servers.count(None) < LINES * 3 / 4


def is_same_real(ours: str, server: str) -> bool:
    try:
        return abs(float(ours) - float(server)) <= 1e-5 * abs(float(server))
    except ValueError:
        return False


@pytest.mark.pg
@pytest.mark.parametrize("major", [15, 18])
@pytest.mark.parametrize(
    "line",
    [
        *("port = 0x1538", "unix_socket_permissions = 0777", "max_connections = 1e2"),
        *("shared_buffers = 0.5GB", "wal_writer_delay = '0.2s'", "statement_timeout = 1.5"),
        *("work_mem = 4MB extra", "work_mem =", "= 4MB", "\ufeffwork_mem = 8MB", "\ufeff# x\n"),
        *("wal_level = hot_standby", "log_min_messages = DEBUG", "synchronous_commit = true"),
        *("checkpoint_segments = 32", "io_method = worker", "force_parallel_mode = off"),
        *("lc_ctype = 'C'", "default_with_oids = off", "default_with_oids = on", "sort_mem = 5MB"),
        *("ssl_renegotiation_limit = 0", "ssl_ecdh_curve = x", "a.b = 1", "a.b.c = 1", "a.b$ = 1"),
        *("WORK_MEM = 1MB\nwork_mem = 2MB\nWORK_MEM = 3MB", "subtransaction_buffers = 24"),
        *("log_destination = ' stderr , \"csvlog\"'", "log_destination = 'stderr, foo'"),
        *("log_destination = 'stderr,'", "log_connections = 'all'", "log_connections = On"),
        *("log_connections = 'receipt, on'", "recovery_target = now", "DateStyle = 'iso, dmyy'"),
        *(f"synchronous_standby_names = '{text}'" for text in STANDBYS),
        *("icu_validation_level = debug", "restrict_nonsystem_relation_kind = 'table'"),
        *("work_mem = x\nwork_mem = 2MB", "Work_Mem = 1MB\nwork_mem = x\nWork_Mem = 2MB"),
        *(
            "include ''",
            "include_dir 'none'",
            "include_if_exists 'none'",
            "include postgresql.conf",
        ),
        *("work_mem = 2MB\x0bjit = off", "work_mem = 2MB\x85", "work_mem = 2MB\r\njit = off\r"),
        *(
            "default_text_search_config = pg_catalog.english",
            "# \xe4\nwork_mem = 1MB",
            "jit = 'of'",
        ),
    ],
)
def test_a_file_is_refused_where_the_server_refuses_it(
    line: str, major: int, judged: Callable[[int, str, str], str | None], tmp_path: Path
) -> None:
    (tmp_path / "ours").mkdir()
    ours = read_or_none(tmp_path / "ours/postgresql.conf", line, major)
    assert ours == judged(major, "work_mem", line)


def read_or_none(path: Path, text: str, major: int) -> str | None:
    """Return work_mem as a file sets it, None if any line of the file is refused."""
    path.write_text(text, encoding="utf-8", newline="")
    try:
        settings = read_file(path, major, CheckFacts()).settings
    except SpecError:
        return None
    refused = any(setting.objection for setting in settings.values())
    return None if refused else settings["work_mem"].text


def test_a_byte_that_is_not_utf_8_is_read_as_the_server_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "latin1.conf"
    path.write_bytes("# gr\xf6\xdfer\nwork_mem = 8MB\n".encode("latin-1"))
    assert read_conf(path) == {"work_mem": "8MB"}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("io_method = worker", "PostgreSQL 18 has it"),
        ("summarize_wal = on", "PostgreSQL 17 to 18 have it"),
        ("transaction_timeout = 5s", "PostgreSQL 17 to 18 have it"),
        ("checkpoint_segments = 32", "removed after PostgreSQL 9.4"),
        ("stats_temp_directory = 'x'", "PostgreSQL 14 has it"),
        ("work_mme = 4MB", "did you mean work_mem?"),
    ],
)
def test_a_setting_of_another_version_is_named_with_the_versions_that_have_it(
    line: str, words: str, tmp_path: Path
) -> None:
    path = tmp_path / "x.conf"
    path.write_text(f"jit = off\n{line}\n")
    reviewed = read_file(path, 15, CheckFacts())
    objection = reviewed.settings[line.partition(" ")[0]].objection
    assert objection.startswith(f"{path}:2: ")
    assert words in objection
