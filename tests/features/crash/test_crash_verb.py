"""`pgdyno crash` on real servers: its controls, its answer, and what it does with bad input."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fixtures import needs
from tests.fixtures.command import Command, Said
from tests.fixtures.programs import FILE_SYSTEMS
from tests.fixtures.prove import Proved

from pgdyno.clock import monotonic_ns
from pgdyno.errors import SpecError
from pgdyno.features.crash.moments import planned_crashes
from pgdyno.features.crash.power_disk import why_not_here
from pgdyno.features.crash.verbs.crash import command

pytestmark = pytest.mark.pg
KINDS = ("kill", "power", "failover")
# More than a crash may take on a busy machine, so that only a hang fails.
PATIENCE_S = 900.0
REACHED_S = {"kill": 8 * 60, "power": 15 * 60}


def within(folder: Path) -> tuple[str, ...]:
    """Return the options that put the servers into a folder, which may be in memory."""
    return "--data-dir", str(folder), "--allow-tmpfs"


def require(kind: str, version: str) -> None:
    needs.postgresql(version)
    if kind == "power":
        needs.offered(not why_not_here(), f"no disk that loses power: {why_not_here()}")


@pytest.mark.parametrize("version", ["15", "18"])
@pytest.mark.parametrize("kind", KINDS)
def test_durable_settings_lose_nothing_and_every_control_holds(
    kind: str, version: str, pgdyno: Command, crash_dir: Path
) -> None:
    require(kind, version)
    given = (
        "--kind",
        kind,
        "--crashes",
        "3",
        "--pg-version",
        version,
        *within(crash_dir),
        "--json",
    )
    said = pgdyno("crash", "--scratch", *given, timeout_s=PATIENCE_S)
    document = said.document
    assert [control["name"] for control in document["controls"] if not control["holds"]] == []
    assert (said.code, document["verdict"]) == (0, "nothing lost"), said.err
    assert document["acknowledged"] > 0
    assert (document["crashes"], document["lost"], document["corrupt"]) == (3, 0, 0)
    assert document["recovery_seconds"]["n"] == 3
    assert (document["gap_seconds"] is None) == (kind != "failover")
    assert "3 crashes" in pgdyno("list").out
    shown = pgdyno("show", "-v", "1")
    assert document["sentence"] in " ".join(shown.out.split())
    assert pgdyno("show", "1", "--json").document == document
    page = Path(pgdyno("report", "1").out.strip()).read_text()
    assert "as expected" not in page
    assert page.count('<circle class="marker"') == 3


# In crash 6, of the phase "load", no statement flushes the WAL; and from version 17 on the WAL
# writer sleeps until this much is there. Before, it writes each full page, which survives a kill.
SLEEPING_WAL_WRITER = ("--set", "wal_writer_delay=10s", "--set", "wal_writer_flush_after=1GB")


@pytest.mark.parametrize(
    ("kind", "version", "given"),
    [
        ("kill", "18", ("--crash", "6", *SLEEPING_WAL_WRITER)),
        pytest.param("power", "15", ("--crashes", "8"), marks=pytest.mark.slow),
    ],
    ids=["kill", "power"],
)
def test_asynchronous_commits_lose_the_last_ones_and_that_is_an_answer(
    kind: str, version: str, given: tuple[str, ...], pgdyno: Command
) -> None:
    require(kind, version)
    asked = ("--kind", kind, "--set", "synchronous_commit=off", *given, "--no-controls", "--json")
    said = pgdyno("crash", "--scratch", "--pg-version", version, *asked, timeout_s=PATIENCE_S)
    document = said.document
    assert (said.code, document["verdict"]) == (0, "lost"), said.err
    assert document["is_suffix"]
    assert document["loss_seconds"]["value"] > 0
    assert document["controls"] == []


@pytest.mark.parametrize("version", ["15", "18"])
@pytest.mark.parametrize("on", FILE_SYSTEMS)
@pytest.mark.parametrize("crashes", [1, pytest.param(9, marks=pytest.mark.slow)])
def test_nothing_is_lost_on_a_real_file_system_whose_disk_loses_power(
    crashes: int, on: str, version: str, pgdyno: Command, crash_dir: Path
) -> None:
    require("power", version)
    given = ("--kind", "power", "--on", on, "--crashes", str(crashes), "--pg-version", version)
    # One crash on each version and file system; the controls of one of these show what they must.
    has_controls = crashes > 1 or (on, version) == ("ext4", "18")
    quickly = () if has_controls else ("--no-controls",)
    asked = (*given, *quickly, *within(crash_dir), "--json")
    said = pgdyno("crash", "--scratch", *asked, timeout_s=PATIENCE_S)
    document = said.document
    assert [control["name"] for control in document["controls"] if not control["holds"]] == []
    names = {control["name"] for control in document["controls"]}
    assert ("fsync = off" in names) == has_controls
    assert "full_page_writes = off" not in names
    assert (said.code, document["verdict"]) == (0, "nothing lost"), said.err


def test_a_failing_disk_loses_nothing_and_is_a_row(pgdyno: Command, crash_dir: Path) -> None:
    require("power", "15")
    faults = [word for fault in ("fsync-eio", "full", "stall") for word in ("--fault", fault)]
    given = (
        "--kind",
        "power",
        "--crashes",
        "1",
        "--no-controls",
        *faults,
        *within(crash_dir),
        "--json",
    )
    said = pgdyno("crash", "--scratch", "--pg-version", "15", *given, timeout_s=PATIENCE_S)
    rows = {fault["name"]: fault for fault in said.document["faults"]}
    assert list(rows) == ["fsync fails once", "disk full", "disk stalls for 5 s"]
    assert all(row["holds"] for row in rows.values()), rows
    [seen] = [
        check["seen"]
        for record in said.document["records"]
        for check in record["checks"]
        if record["arm"] == "fsync fails once" and check["name"] == "what the server did"
    ]
    assert "1 PANIC; first: PANIC:  could not f" in seen
    assert "faults      fsync fails once: nothing lost; 1 PANIC" in pgdyno("show", "-v").out


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("--kind", "kill", "--fault", "full"), "--fault full needs the disk of --kind power"),
        (
            ("-h", "db1", "-d", "bank"),
            "crashes your own server only with the command that you name",
        ),
        (("-h", "db1", "--kind", "command"), "only with the command that you name"),
        (("--kind", "command", "--crash-command", "true"), "needs a server of your own"),
        (("--kind", "kill", "--on", "ext4"), "--on ext4 needs the disk of --kind power"),
        (("--crashes", "0"), "0"),
        (("--recovery-timeout", "soon"), "--recovery-timeout"),
        (("--set", "no_such=1"), "no_such"),
        (("--check-sql", "nowhere.sql"), "nowhere.sql"),
    ],
)
def test_an_impossible_crash_is_refused_before_anything_starts(
    given: tuple[str, ...], words: str, pgdyno: Command
) -> None:
    said = pgdyno("crash", *given)
    assert said.code == 1
    assert words in " ".join(said.error.split())
    assert not pgdyno.store.exists() or not list(pgdyno.store.glob("crash*"))


def test_without_fuse_the_other_kinds_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pgdyno.features.crash.verbs.crash.why_not_here", lambda: "it needs root")
    with pytest.raises(SpecError, match="--kind power is not possible here: it needs root") as seen:
        command.main(["--kind", "power"], standalone_mode=False)
    assert "--kind kill and --kind failover" in seen.value.hint


def test_a_recovery_that_does_not_end_is_shown_and_its_data_are_kept(pgdyno: Command) -> None:
    needs.postgresql("15")
    given = ("--crashes", "1", "--no-controls", "--recovery-timeout", "1ms")
    said = pgdyno("crash", "--scratch", "--pg-version", "15", *given, timeout_s=PATIENCE_S)
    assert said.code == 2
    assert "did not become ready within 0.001 s; last messages:" in " ".join(said.out.split())
    [kept] = pgdyno.store.glob("crash*/crash-0001")
    assert (kept / "PG_VERSION").exists()
    assert (kept / "server.log").exists()


@pytest.fixture(scope="module")
def one_crash(
    tmp_path_factory: pytest.TempPathFactory, crash_dir: Path
) -> Iterator[tuple[Command, Said]]:
    """The second crash of seed 5, with a statement of the user's that returns a row."""
    needs.postgresql("15")
    folder = tmp_path_factory.mktemp("one-crash")
    rules = folder / "rules.sql"
    rules.write_text("SELECT 1 WHERE false;\nSELECT 42 AS wrong;\n")
    given = (
        "--crash",
        "2",
        "--seed",
        "5",
        "--no-controls",
        "--check-sql",
        rules,
        *within(crash_dir),
    )
    pgdyno = Command(folder / "store")
    said = pgdyno("crash", "--scratch", "--pg-version", "15", *given, timeout_s=PATIENCE_S)
    yield pgdyno, said
    pgdyno.close()


def test_a_crash_is_repeated_by_its_number_and_seed(one_crash: tuple[Command, Said]) -> None:
    pgdyno, _ = one_crash
    [record] = pgdyno("show", "1", "--json").document["records"]
    planned = planned_crashes(2, 5)[1]
    assert (record["number"], record["phase"]) == (2, planned.phase)
    assert record["seed"] == planned.seed


def test_statements_that_return_rows_after_a_crash_are_damage(
    one_crash: tuple[Command, Said],
) -> None:
    _, said = one_crash
    assert said.code == 2
    assert "--check-sql, statement 2: it returned (42,)" in " ".join(said.out.split())


def test_crashes_have_no_runs_to_compare_or_export(one_crash: tuple[Command, Said]) -> None:
    pgdyno, _ = one_crash
    for verb in (("export", "1"), ("run", "--resume", "1"), ("diff", "1", "1")):
        assert "#1 (crash kill) is a crash" in pgdyno(*verb).error.replace("\n", " ")


def test_the_report_of_crashes_is_markdown_too_and_the_whole_text_has_its_tables(
    one_crash: tuple[Command, Said],
) -> None:
    pgdyno, _ = one_crash
    written = Path(pgdyno("report", "1", "--md").out.strip()).read_text()
    assert "\n| check | good | bad |" in written
    assert "\nfull_page_writes" in pgdyno("show", "1", "-v").out


@pytest.mark.slow
@pytest.mark.parametrize("version", ["15", "18"])
@pytest.mark.parametrize("kind", KINDS)
def test_sixty_crashes(kind: str, version: str, pgdyno: Command, proved: Proved) -> None:
    require(kind, version)
    began_ns = monotonic_ns()
    given = ("--kind", kind, "--pg-version", version, "--crashes", "60", "--json")
    said = pgdyno("crash", "--scratch", *given, timeout_s=3600)
    lasted_s = (monotonic_ns() - began_ns) / 1e9
    assert (said.code, said.document["verdict"]) == (0, "nothing lost"), said.document["sentence"]
    required = f"nothing lost, {REACHED_S[kind]} s" if kind in REACHED_S else "nothing lost"
    seen = f"{said.document['lost']} lost, {lasted_s:.0f} s"
    proved(f"60 crashes of kind {kind}, PostgreSQL {version}", required=required, seen=seen)
