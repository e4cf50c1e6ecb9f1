"""Bad command lines: each ends in one paragraph with the value seen; nothing was started."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.fixtures.command import Command

from pgdyno.cli.main import _run

SCRATCH = ("--scratch", "--dry-run")
TWO = ("--variant", "a", "--variant", "b: work_mem=8MB")
SECRET = "s3same-open"
# The command line, and what the error must say.
LINES: list[tuple[list[str], str]] = [
    (["bench", *SCRATCH, "--name", ""], "--name is empty"),
    (["bench", *SCRATCH, "--partition-method", "hash"], "needs --partitions"),
    (["bench", *SCRATCH, "--active", "50", "-c", "2"], "50 connections for 2 clients"),
    (["bench", *SCRATCH, "-T", "99d"], "at most 31 d"),
    (["bench", *SCRATCH, "-D", "1bad=3"], "'1bad' is not the name of a variable"),
    (["bench", *SCRATCH, "-D", "a b=3"], "'a b' is not the name of a variable"),
    (["bench", *SCRATCH, "-D", "x=1", "-D", "x=2"], "-D x is given twice"),
    (["bench", *SCRATCH, "--pg-version", "9"], "9"),
    (["bench", *SCRATCH, "--pg-version", "banana"], "banana"),
    (["bench", *SCRATCH, "--pg-bin", "/nowhere"], "/nowhere"),
    (["bench", *SCRATCH, "--set", "shared_bufers=1GB"], "did you mean shared_buffers?"),
    (["bench", *SCRATCH, "--set", "work_mem=1MB", "--set", "work_mem=2MB"], "given twice"),
    (["bench", *SCRATCH, "--set", "work_mem=banana"], "must be a number"),
    (["bench", *SCRATCH, "--set", "max_connections=3"], "too small"),
    (
        ["bench", *SCRATCH, "--pg-version", "15", "--set", "io_method=worker"],
        "PostgreSQL 15 has no",
    ),
    (["bench", *SCRATCH, "-c", "0"], "0"),
    (["bench", *SCRATCH, "-c", "two"], "two"),
    (["bench", *SCRATCH, "-T", "10s", "-t", "10"], "-T"),
    (["bench", *SCRATCH, "-R", "10-20"], "needs a time"),
    (["bench", *SCRATCH, "-R", "0"], "0"),
    (["bench", *SCRATCH, "-R", "nan"], "nan"),
    (["bench", *SCRATCH, "-L", "0"], "0"),
    (["bench", *SCRATCH, "-b", "nope"], "nope"),
    (["bench", *SCRATCH, "-b", "tpcb-like@-1"], "-1"),
    (["bench", *SCRATCH, "-f", "/nowhere.sql"], "/nowhere.sql"),
    (["bench", *SCRATCH, "-F", "3"], "3"),
    (["bench", *SCRATCH, "-c", "٣"], "'٣' is not a whole number"),
    (["bench", *SCRATCH, "-t", "1_000"], "'1_000' is not a whole number"),
    (["bench", *SCRATCH, "--think-factor", "٠"], "'٠' is not a"),
    (["bench", *SCRATCH, "--hosts", "local:²"], "local:N needs a number"),
    (["sweep", *SCRATCH, "-c", "١,٢"], "must be auto, or numbers"),
    (["init", "-h", "db1", "-s", "１０", "--dry-run"], "'１０' is not a whole number"),
    (["bench", *SCRATCH, "--seed", "-1"], "-1"),
    (["bench", *SCRATCH, "--check", "p99"], "p99"),
    (["bench", *SCRATCH, "--check", "p98<3ms"], "p98"),
    (["bench", *SCRATCH, "-b", "tpcc-like", "--check", "new-ordr.p90<5s"], "it has new-order,"),
    (["bench", *SCRATCH, "-S", "--check", "new-order.p90<5s"], "no transaction type or script"),
    (["bench", *SCRATCH, "--abort-if", "p99>2 weeks"], "p99>2 weeks"),
    (["bench", *SCRATCH, "--warmup", "soon"], "soon"),
    (["bench", *SCRATCH, "--ssh", "db1"], "--ssh"),
    (["bench", *SCRATCH, "--json", "/nowhere/x.json"], "/nowhere/x.json"),
    (["tune", *SCRATCH, "--json", "x.json"], "--dry-run prints the plan as text"),
    (["bench", "-h", "db1", "--keep", "--dry-run"], "--keep"),
    (["bench", "port=5432 port=5433 x=", "--dry-run"], "cannot be"),
    (["bench", f"host=a password='{SECRET} nosuch=1", "--dry-run"], "cannot be read"),
    (["bench", "-d", "postgres://[::1", "--dry-run"], "has a port that is not a number"),
    (["bench", "--dry-run", "service=nosuch_service"], "nosuch_service"),
    (["compare", *SCRATCH], "variant"),
    (["compare", *SCRATCH, "--variant", "a", "--variant", "b"], "add --aa"),
    (["compare", *SCRATCH, "--variant", "work_mem=1MB"], "needs at least 2 variants"),
    (["compare", *SCRATCH, "--variant", "a: work_mem=1MB", "--variant", "b: work_mem=1MB"], "--aa"),
    (["compare", *SCRATCH, *TWO, "--variant", "a: work_mem=9MB"], "two variants have the name 'a'"),
    (["compare", *SCRATCH, *TWO, "--variant", "c: work_mem=1MB; work_mem=2MB"], "given twice"),
    (["compare", *SCRATCH, *TWO, "--variant", "c: clients=0"], "clients"),
    (["compare", *SCRATCH, *TWO, "--variant", "c: nonsense"], "KEY=VALUE"),
    (["compare", *SCRATCH, *TWO, "--variant", ": work_mem=1MB"], "name"),
    (["compare", *SCRATCH, *TWO, "--variant", "c: @/nowhere.conf"], "/nowhere.conf"),
    (["compare", *SCRATCH, *TWO, "--variant", "c: pooler=a:b:c"], "MODE:SIZE"),
    (["compare", *SCRATCH, *TWO, "--variant", "c: pooler=pgbouncer"], "pooler=MODE:SIZE, such as"),
    (["compare", *SCRATCH, *TWO, "--variant", "c: wal-segmnt=1GB"], "did you mean wal-segment?"),
    (["compare", *SCRATCH, *TWO, "--variant", f"c: dsn=postgres://me:{SECRET}@h/d"], "password"),
    (["compare", *SCRATCH, *TWO, "--metric", "speed"], "speed"),
    (["compare", *SCRATCH, *TWO, "--precision", "0"], "precision"),
    (["compare", *SCRATCH, *TWO, "--margin", "200%"], "margin"),
    (["compare", *SCRATCH, *TWO, "--budget", "0"], "budget"),
    (["compare", "-h", "db1", *TWO, "--dry-run", "--admin", f"password={SECRET}"], "password"),
    (["compare", "-h", "db1", *TWO, "--restart-command", f"PGPASSWORD={SECRET} x"], "password"),
    (["sweep", *SCRATCH, "-c", "0,1"], "0"),
    (["sweep", *SCRATCH, "-c", "1,,2"], "1,,2"),
    (["sweep", *SCRATCH, "--slo", "p99"], "p99"),
    (["sweep", *SCRATCH, "--rounds", "0"], "0"),
    (["sweep", *SCRATCH, "--variant", "a: clients=3"], "clients"),
    (["run"], "spec"),
    (["run", "/nowhere.toml"], "/nowhere.toml"),
    (["run", "a.toml", "--resume", "1"], "--resume"),
    (["run", "--resume", "77"], "77"),
    (["show", "77"], "77"),
    (["report", "nothing"], "nothing"),
    (["export", "77", "--table", "nosuch"], "nosuch"),
    (["export", "--format", "parquet"], "-o"),
    (["diff", "1"], "SECOND"),
    (["sweep", *SCRATCH, "--slo", "p99=2s", "--slo", "p95=1s"], "--slo is given twice"),
    (["tune", *SCRATCH, "--setting", "jit", "--setting", "jit"], "--setting jit is named twice"),
    (["compare", *SCRATCH, *TWO, "-S", "--metric", "nopm"], "metric nopm is of tpcc-like"),
    (["bench", "-h", "db1", "-s", "10", "--dry-run"], "--scale 10 has no effect here"),
    (["bench", "-h", "db1", "-W", "3", "-b", "tpcc-like"], "--warehouses 3 has no effect here"),
    (["bench", "-h", "db1", "--partitions", "3"], "--partitions 3 has no effect here"),
    (["bench", *SCRATCH, "-D", "client_id=3"], "-D client_id: pgdyno sets this variable itself"),
    (["bench", *SCRATCH, "-D", "unknown=3"], "no script of this load reads :unknown"),
    (["work-mem", "--log", "FILE", "--prove", "1min"], "--prove 1min has no effect here"),
    (["work-mem", "--log", "FILE", "--ram", "0"], "--ram must be greater than 0"),
    (["settings", "--file", "EMPTY", "--ram", "0GB"], "--ram must be greater than 0"),
    (["doctor", "--scratch", "--ram", "0GB"], "--ram must be greater than 0"),
    (["bench", *SCRATCH, "--think-factor", "1"], "no script of this load has keying"),
    (["bench", *SCRATCH, "--allow-write"], "--allow-write has no effect here"),
    (["doctor", "--scratch", "--budget", "1min"], "only --aa runs a load"),
    (["doctor", "--aa", "--budget", "20s"], "too short for an interval"),
    (["diff", "1", "2"], "1"),
    (["note", "77", "x"], "77"),
    (["list", "--store", "/nowhere/at/all"], "/nowhere/at/all"),
    (["undo", "--store", "/nowhere/at/all"], "/nowhere/at/all"),
    (["undo", "--dismiss"], "--dismiss"),
    (["drop"], "drop"),
    (["init", "-s", "0", "-d", "x"], "0"),
    (["nosuchverb"], "nosuchverb"),
    (["nosuchverb"], "the verbs are bench, sweep"),
    (["runn"], "did you mean run?"),
    (["bench", "host=127.0.0.1 port=abc"], "the PG* variables"),
    (["bench", "--nosuch"], "--nosuch"),
    (["work-mem", "-h", "db1", "--scratch"], "the command names a server"),
    (["work-mem", "-h", "db1", "--sql", "FILE"], "--scratch is not given"),
    (
        ["work-mem", "--log", "FILE", "--pg-version", "15"],
        "--pg-version 15 has no effect here: it is for a scratch server",
    ),
    (["bench", *SCRATCH, "-T", ""], "--duration is empty"),
    (["bench", *SCRATCH, "-D", ""], "--define is empty"),
    (["bench", *SCRATCH, "-b", "tpcb-like@9999999999999999999"], "must be at most 4294967295"),
    (["bench", *SCRATCH, "-f", "EMPTY"], "empty command list"),
    (["bench", "--scratch", "--store", "LOOP"], "a symbolic link that leads nowhere"),
    (["bench", *SCRATCH, "--json", "LOOP"], "cannot be written"),
    (["list", "--json", "x" * 300], "File name too long"),
    (["show", "x" * 5000], "File name too long"),
    (["report", "x" * 5000], "File name too long"),
    (["bench", "--scratch", "--data-dir", "LOOP"], "is not a folder"),
    (["sweep", *SCRATCH, "-c", "999999999"], "999999999: must be less than or equal to 100000."),
    (["compare", *SCRATCH, "--variant", ""], "the name is empty"),
    (["watch", "-h", "db1", "--duration", "0"], "is shorter than one interval of 1s"),
    (["work-mem", "--scratch", "-f", "FILE", "--max", "-1"], "--max must be a number"),
    (["watch", "--duration", "soon", "-h", "/nowhere"], "soon"),
    (["watch", "-h", "db1", "-T", "3"], "No such option '-T'. Use --duration TIME."),
    (["compare", "--pairs", "3"], "longest time with --budget."),
    (["sweep", *SCRATCH, "-c", "4,8,4"], "names 4 twice"),
    (["sweep", "--runs=3"], "No such option '--runs'. Use --rounds N."),
]


@pytest.fixture(scope="module")
def loop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A symbolic link to itself."""
    link = tmp_path_factory.mktemp("links") / "loop"
    link.symlink_to(link)
    return link


@pytest.mark.parametrize(("line", "said"), LINES, ids=[" ".join(line)[:60] for line, _ in LINES])
def test_a_bad_command_line_ends_in_one_paragraph_and_exit_code_1(
    line: list[str],
    said: str,
    tmp_path: Path,
    loop: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    places = {"FILE": __file__, "LOOP": str(loop), "EMPTY": os.devnull}
    monkeypatch.delenv("PGDYNO_STORE", raising=False)
    monkeypatch.setenv("COLUMNS", "100")
    code = _run([places.get(word, word) for word in line])
    shown = capsys.readouterr()
    words = " ".join(shown.err.split())
    assert code == 1, words
    assert shown.out == ""
    assert said in words
    assert words.count("pgdyno: ") == 1
    assert words.count(" next: ") == 1
    assert "defect" not in words
    assert SECRET not in words
    assert list(tmp_path.iterdir()) == []


DIGITS = "9" * 5000
SPEC = "[design]\nkind = 'bench'\n[workload]\n{}\n[[workload.scripts]]\nbuiltin = 'select-only'\n"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *(
            ("a.toml", SPEC.format(f"{key} = {DIGITS}"))
            for key in ("clients", "seed", "think_ratio")
        ),
        *(
            ("a.toml", SPEC.format(f'{key} = "{DIGITS}s"'))
            for key in ("duration", "rate", "warmup")
        ),
        ("a.sql", f"\\set a {DIGITS}\nSELECT :a;\n"),
    ],
    ids=lambda text: text[:40].replace("\n", " "),
)
def test_thousands_of_digits_in_a_file_are_an_error_and_no_defect(
    name: str, text: str, pgdyno: Command, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)
    words = ("run", name, "--dry-run") if name == "a.toml" else ("bench", "-f", name, *SCRATCH)
    said = pgdyno(*words)
    assert said.code == 1
    assert said.error


@pytest.mark.parametrize("line", ["work_mem", "max_connections", "deadlock_timeout", "jit"])
def test_thousands_of_digits_in_a_setting_are_a_bad_value(
    line: str, pgdyno: Command, tmp_path: Path
) -> None:
    (tmp_path / "postgresql.conf").write_text(f"{line} = {DIGITS}\n")
    said = pgdyno("settings", "--file", "postgresql.conf")
    assert said.code == 0, said.err
    assert "the server does not start" in " ".join(said.out.split())


def test_the_name_of_a_script_adds_no_line_to_what_is_printed(
    pgdyno: Command, tmp_path: Path
) -> None:
    name = "a\nwarning: forged\x1b[2J\u202e.sql"
    (tmp_path / name).write_text("SELECT 1;\n")
    said = pgdyno("bench", "-f", name, *SCRATCH)
    assert said.code == 0, said.err
    assert not [line for line in said.out.splitlines() if line.startswith("warning")]
    assert not {"\x1b", "\u202e"} & {*said.out, *said.err}


def test_a_name_that_is_not_utf8_is_refused_and_not_shown(pgdyno: Command) -> None:
    name = os.fsdecode(b"se\xffcret.sql")
    for arguments in (("bench", "-f", name), ("note", name), ("list", "--store", name)):
        said = pgdyno(*arguments)
        assert said.code == 1, said.err
        assert f"Argument {len(arguments)} of the command has the byte 0xff" in said.err
        assert "cret" not in said.err
    drop_in = pgdyno("pgbench", "-f", name, "-h", "/nowhere")
    assert "could not open file" in drop_in.err


def test_a_folder_whose_name_is_not_utf8_holds_no_measurement(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"a\xff")
    folder.mkdir()
    pgdyno = Command(folder / "store")
    try:
        said = pgdyno("bench", "-S", "--scratch")
    finally:
        pgdyno.close()
    assert said.code == 1, said.err
    assert "The name of the current folder has the byte 0xff" in " ".join(said.err.split())
