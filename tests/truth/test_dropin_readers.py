"""Tools that read pgbench's output and logs find in the drop-in's what they find in pgbench's.

What each tool looks for is what its published source looks for (in the words of this file):
pgbench-tools (`benchwarmer`, `log-to-csv`), PerfKit Benchmarker (`linux_packages/pgbench.py`), the
result parser of KubeBlocks' command line (Go), and a reader of one report for each script.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tests.fixtures import needs

from pgdyno.engine.executable import engine_path
from pgdyno.server import find
from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.server.target import Target

pytestmark = pytest.mark.pg
TIMEOUT_S = 120.0
MODES = {
    "plain": ["-S", "-t", "20"],
    "time": ["-S", "-T", "2", "-P", "1"],
    "rate": ["-S", "-t", "20", "-R", "2000", "-L", "100000", "-l"],
    "log": ["-S", "-t", "20", "-c", "2", "-j", "2", "-l"],
    "per command": ["-N", "-t", "20", "-r", "-M", "prepared"],
    "scripts": ["-b", "se@3", "-b", "simple-update", "-t", "20", "--random-seed=1"],
    "failures": ["-N", "-t", "20", "--max-tries=3", "--failures-detailed", "-L", "900"],
    "reconnecting": ["-S", "-t", "5", "-C"],
}
Found = dict[str, object]
Reader = Callable[[str, str, list[str]], Found]


def pgbench_tools(said: str, heard: str, logged: list[str]) -> Found:
    """By words: the third of the line of tps, the number behind a colon; fields of the log."""
    both = (said + heard).splitlines()
    closing = ("without initial connection time", "including connections establishing")
    tps = [line.split(" ")[2] for line in both if any(words in line for words in closing)]
    processed = [line for line in both if "number of transactions actually processed:" in line]
    return {
        "tps": [float(text) > 0 for text in tps],
        "transactions": [int(re.split("[/(]", line.split(":")[1])[0]) > 0 for line in processed],
        # client, transaction, latency, script, seconds, microseconds; and the lag under a rate.
        "fields": {len([float(field) for field in line.split(" ")]) for line in logged},
    }


def perfkit(said: str, heard: str, logged: list[str]) -> Found:
    """By places in the lines of progress: the fourth word is tps, the seventh the latency."""
    lines = [line for line in heard.splitlines() if line.startswith("progress:")]
    # How many lines there are on a busy machine is chance.
    return {"numbers": all(len([float(line.split(" ")[n]) for n in (3, 6)]) == 2 for line in lines)}


def kubeblocks(said: str, heard: str, logged: list[str]) -> Found:
    """By an expression for each line of the report, the first that fits."""
    number = r"(\d+\.\d+)"
    lines = {
        "scale": r"scaling factor: (\d+)",
        "mode": r"query mode: (\w+)",
        "clients": r"number of clients: (\d+)",
        "threads": r"number of threads: (\d+)",
        "tries": r"maximum number of tries: (\d+)",
        "per client": r"number of transactions per client: (\d+)",
        "processed": r"number of transactions actually processed: (\d+)/(\d+)",
        "failed": rf"number of failed transactions: (\d+) \({number}%\)",
        "average": rf"latency average = {number} ms",
        "deviation": rf"latency stddev = {number} ms",
        "connecting": rf"initial connection time = {number} ms",
        "tps": rf"tps = {number} \(without initial connection time\)",
    }
    values = {name: re.findall(pattern, said) for name, pattern in lines.items()}
    exact = ("scale", "mode", "clients", "threads", "tries", "per client", "processed", "failed")
    return {name: amount if name in exact else len(amount) for name, amount in values.items()}


def by_script(said: str, heard: str, logged: list[str]) -> Found:
    """By the reports of the scripts, and the table of statements, one a line."""
    reports = re.split(r"^SQL script \d+: ", said, flags=re.MULTILINE)[1:]
    statement = re.compile(r"^\s+[0-9.]+\s+\d+\s+(.+)", re.MULTILINE)
    weights = [re.findall(r"weight: (\d+) \(targets ([0-9.]+)% of total\)", r) for r in reports]
    return {
        "names": [report.splitlines()[0] for report in reports],
        "weights": weights,
        "with latency": [bool(re.search(r"latency average = [\d.]+ ms", r)) for r in reports],
        "statements": statement.findall(said),
        "deadlocks": re.findall(r"number of deadlock failures: (\d+)", said),
        "serialization": re.findall(r"number of serialization failures: (\d+)", said),
    }


READERS: tuple[Reader, ...] = (
    pgbench_tools, perfkit, kubeblocks, by_script,
)  # fmt: skip


def run(
    program: list[str],
    arguments: list[str],
    target: Target,
    folder: Path,
    readers: Sequence[Reader] = READERS,
) -> list[Found]:
    """Return what each of the tools finds."""
    folder.mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    place = {"PGHOST": target.host, "PGPORT": target.ports, "PGUSER": target.user}
    process = subprocess.Popen(
        [*program, "-n", *arguments, target.database],
        env={**kept, **place, "LC_ALL": "C"}, cwd=folder, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    said, heard = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, heard
    # pgbench-tools finds the logs by the number of the process that it started.
    logs = sorted(folder.glob(f"pgbench_log.{process.pid}*"))
    logged = [line for log in logs for line in log.read_text().splitlines()]
    assert bool(logged) == ("-l" in arguments)
    return [reader(said, heard, logged) for reader in readers]


def reference(major: int) -> list[str]:
    """Return the pgbench that is held to be right."""
    servers = (*find.installed(), *find.embedded())
    offered = [binaries for binaries in servers if binaries.major == major]
    needs.offered(bool(offered), f"the reference is pgbench {major}, which is not installed")
    return [str(offered[0].program("pgbench"))]


@pytest.mark.parametrize("mode", MODES)
def test_every_reader_finds_the_same_in_both(
    mode: str, database15: Target, pg15: ScratchCluster, tmp_path: Path
) -> None:
    ours, theirs = [str(engine_path()), "pgbench"], reference(18)
    run(ours, ["-i", "-q"], database15, tmp_path / "init")
    values = run(ours, MODES[mode], database15, tmp_path / "ours")
    assert values == run(theirs, MODES[mode], database15, tmp_path / "theirs")


CLIENTS = ("number of clients: 1", "number of threads: 1")
# It is longer than the load, and fails as a deadlock does; so does every try.
FAILS_LATE = """DO $$ BEGIN PERFORM pg_sleep(1.5);
RAISE EXCEPTION 'again' USING ERRCODE = '40001'; END $$;
"""


def counts(said: str, heard: str, logged: list[str]) -> Found:
    """By every line of a number; pgbench 15 goes on with shares of no transactions."""
    return {"numbers": re.findall("^number of .*(?<!NaN%[)])$", said, re.MULTILINE)}


@pytest.mark.parametrize("major", [15, 18])
@pytest.mark.parametrize("tries", ["0", "1", "3"])
def test_a_try_that_fails_after_the_time_is_counted_nowhere(
    tries: str, major: int, database15: Target, tmp_path: Path
) -> None:
    script = tmp_path / "late.sql"
    script.write_text(FAILS_LATE)
    words = ["-f", str(script), "-T", "1", f"--max-tries={tries}", "--failures-detailed", "-r"]
    theirs = run(reference(major), words, database15, tmp_path / "theirs", [counts])
    assert theirs == [{"numbers": [*CLIENTS, "number of transactions actually processed: 0"]}]
    ours = [str(engine_path()), "pgbench"]
    assert run(ours, words, database15, tmp_path / "ours", [counts]) == theirs


MESSAGES = r"""
DO $$ BEGIN RAISE NOTICE E'a\x1b[31mred\x1b[0m\u202eb\tc\r\nsecond line' USING
  DETAIL = 'a detail', HINT = E'a\nhint'; END $$;
DO $$ BEGIN RAISE WARNING 'to be seen % %', 1.50, ''; RAISE INFO 'and this'; RAISE LOG 'no'; END $$;
CREATE TABLE IF NOT EXISTS pg_temp.twice (a int);
CREATE TABLE IF NOT EXISTS pg_temp.twice (a int);
DO $$ BEGIN RAISE EXCEPTION E'the end\nof it \x1b]0;title\x07' USING
  ERRCODE = '22012', DETAIL = E'\u200bd', HINT = 'h'; END $$;
"""


@pytest.mark.parametrize("mode", ["simple", "extended", "prepared"])
def test_messages_of_the_server_are_printed_byte_for_byte_as_pgbench_prints_them(
    mode: str, any_server: ScratchCluster, tmp_path: Path
) -> None:
    needs.postgresql("15")
    script = tmp_path / "says.sql"
    script.write_text(MESSAGES)
    place = any_server.target
    where = ("-h", place.host, "-p", place.ports, "-U", place.user, place.database)
    heard = []
    for program in ([find.find(version="15").program("pgbench")], [engine_path(), "pgbench"]):
        command = [*program, "-n", "-t", "1", "-M", mode, "-f", script, *where]
        done = subprocess.run(command, capture_output=True, check=False, timeout=TIMEOUT_S)
        heard.append((done.returncode, done.stderr))
    original, ours = heard
    assert original[0] == 2
    assert b"\x1b[31m" in original[1]
    assert ours == original
