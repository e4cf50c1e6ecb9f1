"""`pgdyno settings` finds bad values of nearly every setting, and calls no good one bad."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from tests.fixtures.clusters import run_sql
from tests.fixtures.command import Command
from tests.fixtures.prove import Proved

from pgdyno.features.doctor.check_facts import CheckFacts
from pgdyno.features.tune.review import Review, review
from pgdyno.features.tune.server_settings import read_file
from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.settings.formula import Machine
from pgdyno.settings.objection import object_to
from pgdyno.settings.rule import MAJORS, snapshot
from pgdyno.settings.table import accepted_values

GB = 1 << 30
HERE = Path(__file__).parent
PLANTED = (HERE / "bad_values.conf").read_text().splitlines()[1:]
PUBLISHED = tomllib.loads((HERE / "published_configurations.toml").read_text())
# What the doctor asks for before a measurement, whatever the values are: no alarm about a value.
WISHES = {"track_io_timing", "track_wal_io_timing", "log_checkpoints"}


def reviewed(folder: Path, text: str, *, major: int, ram_gb: int = 0, cores: int = 8) -> Review:
    """Review a file. Args: ram_gb, 0 for a machine that is not known."""
    path = folder / "postgresql.conf"
    path.write_text(text)
    ram_bytes = ram_gb * GB or None
    facts = CheckFacts(ram_bytes=ram_bytes, known_cores=cores)
    given = read_file(path, major, facts)
    connections = int(given.facts.on_server().number("max_connections"))
    machine = Machine(major, connections, ram_bytes=ram_bytes, cores=cores)
    return review(given, machine, is_file=True)


def named(review: Review) -> set[str]:
    return {reason.setting for reason in review.attention}


def test_bad_values_of_nearly_all_settings_are_found(tmp_path: Path, proved: Proved) -> None:
    missed, tried = [], 0
    for line in PLANTED:
        name, _, value = line.partition("=")
        major = next(known for known in reversed(MAJORS) if name in snapshot(known))
        assert object_to(name, value, major) is None, f"{line} is refused, so it proves nothing"
        tried += 1
        if name not in named(reviewed(tmp_path, line, major=major)):
            missed.append(line)
    assert tried >= 120
    assert len(missed) <= tried * 0.05, missed
    proved(
        f"settings: bad values of {tried} settings",
        required="at least 95 % found",
        seen=f"{tried - len(missed)} found",
    )


@pytest.mark.parametrize("major", MAJORS)
def test_defaults_of_no_version_raise_an_alarm(tmp_path: Path, major: int) -> None:
    assert named(reviewed(tmp_path, "", major=major)) <= WISHES


@pytest.mark.parametrize("major", MAJORS)
def test_every_default_that_is_written_out_is_accepted(tmp_path: Path, major: int) -> None:
    written = [
        f"{rule.name} = '{rule.built_in}'"
        for rule in snapshot(major).values()
        if rule.built_in
        and rule.context != "internal"
        and rule.name != "shared_buffers"
        # The server raises it by the host's limit.
        and rule.name != "max_stack_depth"
    ]
    assert named(reviewed(tmp_path, "\n".join(written), major=major)) <= WISHES


@pytest.mark.parametrize("kind", PUBLISHED)
@pytest.mark.parametrize("major", [15, 18])
def test_a_good_published_configuration_raises_no_alarm(
    tmp_path: Path, kind: str, major: int
) -> None:
    published = PUBLISHED[kind]
    machine = {key: published[key] for key in ("ram_gb", "cores")}
    checked = reviewed(tmp_path, published["settings"], major=major, **machine)
    assert named(checked) <= WISHES, checked.attention


@pytest.mark.parametrize("major", MAJORS)
def test_every_core_setting_has_a_class_and_none_is_called_an_extension(
    tmp_path: Path, major: int
) -> None:
    core = {name for name, rule in snapshot(major).items() if rule.context != "internal"}
    assert core <= accepted_values().keys()
    written = "DateStyle = 'iso, dmy'\nlog_rotation_age = 2d\nxmloption = document\nauto.x = 1"
    checked = reviewed(tmp_path, written, major=major)
    meanings = {setting.name: setting.meaning for setting in checked.changed}
    extension = "A setting of an extension."
    assert {name for name, meaning in meanings.items() if meaning == extension} == {"auto.x"}


@pytest.mark.parametrize("word", ["true", "yes", "1", "ON"])
def test_another_spelling_of_on_is_accepted_like_on(tmp_path: Path, word: str) -> None:
    text = f"synchronous_commit = {word}\ncompute_query_id = {word}\nfsync = {word}"
    assert named(reviewed(tmp_path, text, major=18)) <= WISHES


def test_every_setting_with_a_class_exists_in_a_version() -> None:
    core = {name for major in MAJORS for name in snapshot(major)}
    assert accepted_values().keys() <= core


def test_a_real_server_has_bad_values_of_others_and_none_of_our_session(
    any_server: ScratchCluster, pgdyno: Command
) -> None:
    target = any_server.target
    where = ("-h", target.host, "-p", target.ports, "-U", target.user, "-d", "postgres")
    planted = {"statement_timeout": "5ms", "enable_hashjoin": "off", "random_page_cost": "80"}
    # Our session has limits and is read-only, and other sessions are not.
    before = attention(pgdyno, where)
    limits = {
        "statement_timeout",
        "lock_timeout",
        "default_transaction_read_only",
        "max_stack_depth",
    }
    assert not before & (limits | planted.keys()), before
    try:
        for name, value in planted.items():
            run_sql(target, f"ALTER DATABASE postgres SET {name} = '{value}'")
        assert attention(pgdyno, where) >= planted.keys()
    finally:
        run_sql(target, "SET statement_timeout = 0; ALTER DATABASE postgres RESET ALL")


def attention(pgdyno: Command, where: tuple[str, ...]) -> set[str]:
    done = pgdyno("settings", *where, "--json")
    assert done.code == 0, done.err
    return {reason["setting"] for reason in done.document["attention"]}


# As operators and clouds write them: every value is one that the server takes.
WRITTEN_BY_TOOLS = """
include_if_exists 'postgresql.base.conf'
archive_command = 'envdir "/run/wal-e.d/env" wal-g wal-push "%p"'
archive_mode = 'on'
autovacuum_vacuum_scale_factor = '0.05'
extwlist.extensions = 'btree_gin,uuid-ossp'
log_file_mode = '0644'
log_line_prefix = '%t [%p]: [%l-1] %c %x %d %u %a %h '
log_rotation_age = '1d'
max_wal_size = 2048
shared_buffers = '3979264kB'
idle_in_transaction_session_timeout = 86400000
lc_messages = 'en_US.UTF-8'			# locale for system error message
datestyle = 'iso, mdy'
wal_level = hot_standby
"""


@pytest.mark.parametrize("major", [15, 18])
def test_a_file_that_a_tool_wrote_raises_no_alarm(tmp_path: Path, major: int) -> None:
    checked = reviewed(tmp_path, WRITTEN_BY_TOOLS, major=major, ram_gb=16, cores=4)
    assert named(checked) <= WISHES, checked.attention
