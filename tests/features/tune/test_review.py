"""What `pgdyno settings` says of files and of real servers."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest
from tests.fixtures.clusters import Make, run_sql, scalar
from tests.fixtures.command import Command
from tests.fixtures.prove import Figure

from pgdyno.errors import SpecError
from pgdyno.features.doctor.check_facts import CheckFacts
from pgdyno.features.doctor.examine import checks
from pgdyno.features.doctor.storage_facts import StoragePlace
from pgdyno.features.tune.memory import memory_sum
from pgdyno.features.tune.review import SETTING_OF_CHECK, Review, review
from pgdyno.features.tune.review_conf import conf_of, proposals
from pgdyno.features.tune.review_text import rules_text, text_of
from pgdyno.features.tune.server_settings import read_file
from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.settings.formula import Machine
from pgdyno.settings.rule import snapshot

GB, MB = 1 << 30, 1 << 20
# The settings that the two-machine test of 2017 published.
PUBLISHED = """
max_connections = 2000
shared_buffers = 7GB
work_mem = 512MB
temp_buffers = 2GB
synchronous_commit = off
"""


def reviewed(
    folder: Path, text: str, *, major: int = 15, ram_gb: int = 28, data_bytes: int | None = None
) -> Review:
    path = folder / "postgresql.conf"
    path.write_text(text)
    facts = CheckFacts(ram_bytes=ram_gb * GB, known_cores=16, known_bytes=data_bytes)
    given = read_file(path, major, facts)
    server = given.facts.on_server()
    connections = int(server.number("max_connections"))
    machine = Machine(major, connections, ram_bytes=ram_gb * GB, cores=16)
    return review(given, machine, is_file=True)


def said(review: Review) -> dict[str, str]:
    return {
        reason.setting: f"{reason.verdict}: {reason.seen}" for reason in reversed(review.attention)
    }


def test_the_published_work_mem_breaks_its_own_rule(tmp_path: Path) -> None:
    text = said(reviewed(tmp_path, PUBLISHED))
    assert text["work_mem"].startswith("bad: 2000 connections x 512 MB")
    assert text["temp_buffers"].startswith("bad: 2000 connections x 2 GB")
    assert "last 600 ms; nothing becomes inconsistent" in text["synchronous_commit"]


def test_defaults_need_no_attention_but_for_timing(tmp_path: Path) -> None:
    checked = reviewed(tmp_path, "", ram_gb=2)
    assert checked.changed == ()
    assert {reason.verdict for reason in checked.attention} == {"warn"}
    assert set(said(checked)) == {"track_io_timing", "track_wal_io_timing", "effective_cache_size"}


@pytest.mark.parametrize(
    ("text", "setting", "words"),
    [
        ("wal_level = minimal", "max_wal_senders", "the server does not start"),
        ("wal_level = minimal\narchive_mode = on", "archive_mode", "the server does not start"),
        ("archive_mode = on", "archive_mode", "archive_command is empty"),
        ("min_wal_size = 2GB", "min_wal_size", "above max_wal_size"),
        ("max_wal_size = 64MB", "max_wal_size", "min_wal_size (80 MB) is above"),
        ("synchronous_standby_names = 'a'\nmax_wal_senders = 0", "max_wal_senders", "no commit"),
        ("wal_level = logical\nmax_replication_slots = 0", "max_replication_slots", "decoded"),
        ("max_connections = 3", "superuser_reserved_connections", "does not start"),
        ("track_counts = off", "track_counts", "dead rows stay"),
        ("fsync = off", "synchronous_commit", "promises nothing"),
        ("commit_delay = 10\ncommit_siblings = 500", "commit_siblings", "no effect"),
        ("autovacuum_max_workers = 40", "autovacuum_max_workers", "no effect"),
        ("io_combine_limit = 256kB", "io_combine_limit", "no effect"),
        ("transaction_timeout = 1s\nstatement_timeout = 2s", "statement_timeout", "no effect"),
        ("random_page_cost = 0.9", "random_page_cost", "is below seq_page_cost"),
        (
            "autovacuum_vacuum_scale_factor = 0",
            "autovacuum_vacuum_scale_factor",
            "after nearly every change",
        ),
        (
            "autovacuum_vacuum_cost_delay = 20ms\nautovacuum_naptime = 10min",
            "autovacuum_naptime",
            "write 3.9 MB a second",
        ),
        ("checkpoint_timeout = 2h", "checkpoint_timeout", "recovery after a crash is long"),
        ("maintenance_work_mem = 1MB", "maintenance_work_mem", "spill"),
        ("max_connections = 2000", "max_connections", "16 cores keep about 33"),
        ("maintenance_work_mem = 17GB", "maintenance_work_mem", "17 GB by hand + 3"),
        ("huge_pages = on", "huge_pages", "the server does not start unless"),
        ("max_connections = 5000", "max_connections", "16 cores keep about 33"),
        ("wal_sync_method = open_sync", "wal_sync_method", "open_sync"),
        ("vacuum_freeze_min_age = 0", "vacuum_freeze_min_age", "0"),
        ("constraint_exclusion = on", "constraint_exclusion", "planning takes longer"),
        ("geqo = off", "geqo", "planning takes longer"),
        ("synchronize_seqscans = off", "synchronize_seqscans", "reads all of it"),
        ("max_stack_depth = 100kB", "max_stack_depth", "ulimit -s"),
        ("max_stack_depth = 50MB", "max_stack_depth", "ulimit -s"),
        ("restart_after_crash = off", "restart_after_crash", "stays down"),
        ("effective_io_concurrency = 0", "effective_io_concurrency", "waits for the one"),
        ("summarize_wal = on\nwal_level = minimal", "summarize_wal", "does not start"),
        ("jit = maybe", "jit", "must be on or off"),
        ("work_memm = 4MB", "work_memm", "did you mean work_mem?"),
        ("work_mem = 1kB", "work_mem", "must be from 64"),
    ],
)
def test_a_contradiction_is_found(
    tmp_path: Path, text: str, setting: str, words: str, figure: Figure
) -> None:
    reasons = [
        reason
        for reason in reviewed(tmp_path, text, major=18).attention
        if reason.setting == setting
    ]
    what = "; ".join(reason.seen for reason in reasons) or "nothing"
    asked = text.replace("\n", "; ")
    figure(f"settings: {asked}", truth=f"{setting}: ... {words} ...", seen=what)
    assert any(words in reason.seen for reason in reasons), reasons


def test_every_file_of_lowest_and_highest_values_is_reviewed(tmp_path: Path) -> None:
    draw = random.Random(41)
    for major in (14, 18, 18, 18) * 10:
        bounds = {
            rule.name: draw.choice((rule.low, rule.high))
            for rule in snapshot(major).values()
            if rule.vartype in ("integer", "real")
        }
        chosen = draw.sample(sorted(bounds), draw.choice((3, 30, len(bounds))))
        text = "".join(f"{name} = '{bounds[name]}'\n" for name in chosen)
        assert said(reviewed(tmp_path, text, major=major)), text


def test_a_vacuum_to_which_written_pages_cost_nothing_is_not_called_slow(tmp_path: Path) -> None:
    text = "vacuum_cost_page_dirty = 0\nautovacuum_naptime = 10min\n"
    assert "autovacuum_naptime" not in said(reviewed(tmp_path, text))


def test_a_wrong_line_is_refused_with_its_number(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"postgresql.conf:2: .*is not name = value"):
        reviewed(tmp_path, "jit = off\nwork_mem")


def test_the_sum_of_memory_is_a_range(tmp_path: Path) -> None:
    path = tmp_path / "p.conf"
    path.write_text("shared_buffers = 1GB\nwork_mem = 4MB\nmax_connections = 100\n")
    memory = memory_sum(read_file(path, 15, CheckFacts(ram_bytes=2 * GB)).facts)
    work = next(part for part in memory.parts if part.name == "work_mem")
    # 100 connections and 8 parallel workers, hash_mem_multiplier 2.
    assert work.high_bytes == 108 * 2 * 4 * MB
    assert memory.low_bytes == 1 * GB + 16 * MB
    assert memory.high_bytes == memory.low_bytes + work.high_bytes + 100 * 8 * MB + 4 * 64 * MB


def test_every_check_that_names_a_setting_exists() -> None:
    assert SETTING_OF_CHECK.keys() <= {check.id for check in checks()}


def test_shared_buffers_are_proposed_for_the_data_that_the_server_has(tmp_path: Path) -> None:
    checked = reviewed(tmp_path, "shared_buffers = 16MB", data_bytes=115 * MB)
    attention = next(own for own in checked.attention if own.setting == "shared_buffers")
    assert "'256MB'" in attention.mend
    assert checked.every["shared_buffers"].rules["pgtune"].text == "256MB"
    assert "shared_buffers" not in said(reviewed(tmp_path, "", data_bytes=115 * MB))
    assert (
        reviewed(tmp_path, "", data_bytes=400 * GB).every["shared_buffers"].rules["pgtune"].text
        == "7GB"
    )


def test_the_setting_that_was_changed_is_blamed_and_gets_one_value(tmp_path: Path) -> None:
    for text, mend, values in (
        ("max_wal_size = 64MB", "", {"max_wal_size": "8GB", "min_wal_size": "2GB"}),
        ("min_wal_size = 6GB", "min_wal_size = 512MB", {"min_wal_size": "512MB"}),
        ("max_wal_size = 32MB\nmin_wal_size = 64MB", "min_wal_size = 32MB", {}),
    ):
        checked = reviewed(tmp_path, text)
        name = mend.partition(" ")[0] or "max_wal_size"
        reason = next(own for own in checked.attention if own.setting.endswith("_wal_size"))
        assert (reason.setting, reason.mend) == (name, mend)
        proposed = {own.name: own.value for own in proposals(checked)}
        assert values.items() <= proposed.items()


@pytest.mark.parametrize(
    ("free_gb", "largest", "least"),
    [(62, "31GB", "14GB"), (6, "3GB", "1536MB"), (0, "128MB", "64MB")],
)
def test_the_proposed_wal_fits_the_free_space_of_its_disk(
    tmp_path: Path, free_gb: int, largest: str, least: str
) -> None:
    (tmp_path / "postgresql.conf").write_text("")
    disk = StoragePlace("WAL", "/d", "/", "ext4", "/dev/vda", (), 252 * GB, free_gb * GB)
    facts = CheckFacts(ram_bytes=28 * GB, known_cores=16, wal=disk)
    given = read_file(tmp_path / "postgresql.conf", 15, facts)
    machine = Machine(15, 100, ram_bytes=28 * GB, cores=16, wal_disk_bytes=252 * GB)
    every = review(given, machine).every
    for rules in ("pgtune", "timescaledb_tune"):
        said = every["max_wal_size"].rules[rules]
        is_lowered = rules == "timescaledb_tune" or free_gb < 16
        assert said.text == (largest if is_lowered else "8GB")
        assert ("free" in said.formula) == is_lowered
    assert every["min_wal_size"].rules["timescaledb_tune"].text == least


def test_many_connections_are_blamed_on_max_connections_alone(tmp_path: Path) -> None:
    named = said(reviewed(tmp_path, "max_connections = 5000"))
    assert named.keys() & {"temp_buffers", "work_mem", "max_connections"} == {"max_connections"}


@pytest.mark.parametrize(
    ("text", "setting"),
    [
        ("log_min_duration_statement = 0", "log_min_duration_statement"),
        ("log_statement = all", "log_statement"),
        ("maintenance_work_mem = 64GB", "maintenance_work_mem"),
    ],
)
def test_one_cause_has_one_row(tmp_path: Path, text: str, setting: str) -> None:
    before = {reason.setting for reason in reviewed(tmp_path, "").attention}
    rows = [reason.setting for reason in reviewed(tmp_path, text).attention]
    assert [row for row in rows if row not in before] == [setting]


def test_a_finding_does_not_repeat_the_setting_that_it_is_about(tmp_path: Path) -> None:
    text = text_of(reviewed(tmp_path, "track_counts = off\nautovacuum = off"), show_all=False)
    assert all(line.count("track_counts = off") < 2 for line in text.splitlines())
    assert all(line.count("autovacuum = off") < 2 for line in text.splitlines())


@pytest.mark.parametrize("width", [80, 100])
def test_the_answer_comes_first_and_everything_fits_on_a_screen(tmp_path: Path, width: int) -> None:
    harmful = "\n".join(f"enable_{name} = off" for name in ("hashjoin", "mergejoin", "sort"))
    text = text_of(reviewed(tmp_path, PUBLISHED + harmful), show_all=False, width=width)
    lines = text.splitlines()
    assert lines[0].startswith("answer  ")
    assert "settings need attention, " in lines[0]
    assert "work_mem" in lines[0]
    assert len(lines) <= 25
    more = text.partition("\nmore")[2].partition("\nmemory")[0]
    assert "enable_sort" in more, "what has no room is named"


def test_a_file_of_risks_leaves_the_decision_to_a_person(tmp_path: Path) -> None:
    conf = conf_of(reviewed(tmp_path, "synchronous_commit = off\nfsync = off"), "a machine")
    assert "\n# synchronous_commit = 'on'" in conf
    assert "\nfsync = 'on'" in conf, "what is certainly wrong is mended"
    text = reviewed_conf(tmp_path, 18)
    assert "\n# wal_compression" in text, "the server may lack a library"
    assert "wal_buffers" not in text, "-1 gives the same"
    assert re.search(r"Memory that one sort [^=]*\nwork_mem = '\d{1,3}MB'", text), "no reason"


def reviewed_conf(folder: Path, major: int) -> str:
    return conf_of(reviewed(folder, "", major=major, ram_gb=64), "a machine")


def test_a_proposed_file_replaces_only_one_that_was_proposed(
    pgdyno: Command, tmp_path: Path
) -> None:
    theirs, ours = tmp_path / "postgresql.conf", tmp_path / "new.conf"
    theirs.write_text("work_mem = 512MB\n")
    given = ("settings", "--file", theirs, "--ram", "2GB", "--conf")
    refused = pgdyno(*given, theirs)
    assert refused.code == 1
    assert "--conf did not make it" in " ".join(refused.error.split())
    assert theirs.read_text() == "work_mem = 512MB\n"
    for _ in range(2):
        assert pgdyno(*given, ours).code == 0
    assert "work_mem" in ours.read_text()


@pytest.mark.parametrize("major", ["15", "18"])
def test_a_server_takes_the_proposed_file_and_its_removal_restores_all(
    major: str, new_cluster: Make, pgdyno: Command, tmp_path: Path
) -> None:
    cluster = new_cluster(major)
    target, proposed = cluster.target, tmp_path / "proposed.conf"
    where = ("-h", target.host, "-p", target.ports, "-U", target.user, "-d", "postgres")
    done = pgdyno("settings", *where, "--ram", "2GB", "--cores", "2", "--conf", proposed)
    assert done.code == 0, done.err
    text = proposed.read_text()
    known = "SELECT 'lz4' = ANY(enumvals) FROM pg_settings WHERE name = 'wal_compression'"
    sign = "" if scalar(target, known) else "# "
    assert f"\n{sign}wal_compression = 'lz4'" in text, "the server says which values it has"
    assert "shared_buffers stays " in text or "\nshared_buffers = " in text
    assert all(
        int(size) < 1000 or int(size) % 256 == 0 for size in re.findall(r"'(\d+)[kMG]B'", text)
    )
    values = dict(re.findall(r"^(\w+) = '(.*)'$", text, re.MULTILINE))
    assert len(values) > 3
    assert "# Undo: remove that line" in text
    names = list(values)
    query = "SELECT name, current_setting(name) FROM pg_settings WHERE name = ANY(%s)"
    before = dict(run_sql(target, query, [names]))
    settings = dict(cluster.settings)
    cluster.restart({**settings, **values})
    wanted = "SELECT count(*) FROM pg_settings WHERE name = ANY(%s) AND source <> 'default'"
    assert run_sql(target, wanted, [names]) == [(len(names),)]
    cluster.restart(settings)
    assert dict(run_sql(target, query, [names])) == before
    assert pgdyno("settings", *where, "--conf", "--ram", "2GB").out.startswith("# pgdyno settings")


@pytest.mark.parametrize("width", [72, 100])
def test_no_line_is_wider_than_asked(tmp_path: Path, width: int) -> None:
    checked = reviewed(tmp_path, PUBLISHED)
    for text in (text_of(checked, show_all=True, width=width), rules_text(checked, width)):
        assert max(map(len, text.splitlines())) <= width


def test_a_real_server_is_reviewed(any_server: ScratchCluster, pgdyno: Command) -> None:
    target = any_server.target
    run_sql(target, "CREATE ROLE judged LOGIN")
    try:
        for user in (target.user, "judged"):
            where = ("-h", target.host, "-p", target.ports, "-U", user, "-d", "postgres")
            done = pgdyno("settings", *where, "--json")
            assert done.code == 0, done.err
            document = done.document
            assert document["format"] == "pgdyno.settings/1"
            settings = {setting["name"]: setting for setting in document["settings"]}
            # The fixtures' servers do not flush, and have 32 MB of shared_buffers.
            assert settings["shared_buffers"]["value"] == "32MB"
            assert settings["shared_buffers"]["needs"] == "restart"
            # Of other sessions, not of the one that looks.
            assert settings["max_parallel_workers_per_gather"]["value"] == "2"
            assert settings["jit"]["is_changed"] is False
            worst = {
                reason["setting"] for reason in document["attention"] if reason["verdict"] == "bad"
            }
            assert {"fsync", "full_page_writes"} <= worst
        shown = pgdyno("settings", *where, "--all", "--check", "warn")
        assert shown.code == 4
        assert "fsync (bad)" in shown.err.partition("CHECK FAILED warn: ")[2]
        assert shown.out.count("BAD     fsync = off: ") == 2, "above, and in the list of all"
        assert "ok      fsync = off" not in shown.out
        rules = pgdyno("settings", *where, "--rules", "--load", "dw")
        assert "shared_buffers" in rules.out
    finally:
        run_sql(target, "DROP ROLE judged")


def test_a_file_is_judged_without_a_server(pgdyno: Command, tmp_path: Path) -> None:
    path = tmp_path / "proposed.conf"
    path.write_text(PUBLISHED)
    done = pgdyno("settings", "--file", str(path), "--ram", "28GB", "--pg-version", "15", "--json")
    document = json.loads(done.out)
    assert document["verdict"] == "bad"
    assert document["memory"]["high_bytes"] > 1000 * GB
    explained = pgdyno(
        "settings", "--file", str(path), "--explain", "work_mem", "--ram", "28GB", "--cores", "8"
    )
    assert explained.out.startswith("work_mem Memory that one sort")
    assert "PGTune  4MB" in explained.out
    assert (
        "did you mean work_mem?"
        in pgdyno("settings", "--file", str(path), "--explain", "wrk_mem").error
    )
    # A reader needs no server to learn what a setting means.
    assert pgdyno("settings", "--explain", "jit").out.startswith("jit     Whether expensive")


def test_a_file_and_a_server_are_refused_together(pgdyno: Command, tmp_path: Path) -> None:
    path = tmp_path / "proposed.conf"
    path.write_text(PUBLISHED)
    done = pgdyno("settings", "--file", str(path), "-h", "nowhere.invalid")
    assert (done.code, "a server was named as well" in done.error) == (1, True)


def test_without_a_server_there_are_settings_for_this_host(pgdyno: Command) -> None:
    done = pgdyno("settings", "--conf")
    assert done.code == 0, done.err
    assert done.out.startswith("# pgdyno settings of a new PostgreSQL 18 on this host: RAM ")
    assert "\nshared_buffers = '" in done.out
    older = pgdyno("settings", "--pg-version", "15", "--ram", "16GB", "--json").document
    shared = next(own for own in older["settings"] if own["name"] == "shared_buffers")
    assert (older["target"], shared["rules"]["pgtune"]["value"]) == (
        "a new PostgreSQL 15 on this host",
        "4GB",
    )
    assert pgdyno("settings", "--ssh", "db1").code == 1


def test_every_statement_can_be_printed(pgdyno: Command) -> None:
    assert "pg_catalog.pg_settings" in pgdyno("settings", "--print-sql").out
