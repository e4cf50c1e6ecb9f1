"""Record what real pgbench programs make of scripts, for crates/script/tests/golden.rs.

    python record.py --server-bin DIR --pgbench PATH [--pgbench PATH ...] > golden.json

Starts one scratch server of DIR on a unix socket, runs every case with every pgbench, and refuses
to write anything when two of them differ. Run as root it becomes `postgres` for the server.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import accepted
import refused

DEBUG_LINE = re.compile(r"^debug\(script=(\d+),command=(\d+)\): (.*)$", re.MULTILINE)


class Pgbench:
    """One pgbench program and the server it talks to."""

    def __init__(self, program: Path, folder: Path) -> None:
        self.program, self.folder = program.resolve(), folder

    def run(self, scripts: list[str], *options: str) -> subprocess.CompletedProcess[str]:
        """Run scripts, each `text` or `text@weight` with a weight behind a newline."""
        files: list[str] = []
        for number, script in enumerate(scripts):
            text, _, weight = script.partition("\n@")
            path = self.folder / f"script{number}.sql"
            path.write_text(text)
            files += ["-f", f"script{number}.sql@{weight or 1}"]
        return subprocess.run(
            [self.program, "-n", "-h", self.folder, *files, *options, "postgres"],
            capture_output=True,
            text=True,
            cwd=self.folder,
            env={**os.environ, "PGUSER": "postgres", "LC_ALL": "C"},
            timeout=120,
            check=False,
        )

    def run_case(self, case: dict[str, Any], *more: str) -> str:
        """Run the scripts of a case; return what it printed to standard error."""
        options = ["-c", str(case["clients"]), "-j", str(case["threads"]), "-s", "3"]
        options += ["-t", str(case["transactions"]), f"--random-seed={case['seed']}"]
        for define in case["defines"]:
            options += ["-D", define]
        result = self.run(case["scripts"], *options, *more)
        assert result.returncode == 0, result.stderr
        return result.stderr

    def choices(self, case: dict[str, Any]) -> list[str]:
        """Return for each client the numbers of the scripts it ran, in order."""
        self.run_case(case, "-l", "--log-prefix=log")
        scripts = ["" for _ in range(case["clients"])]
        for log in self.folder.glob("log.*"):
            for line in log.read_text().splitlines():
                client, _, _, script, *_ = line.split()
                scripts[int(client)] += script
            log.unlink()
        return scripts

    def values(self, case: dict[str, Any]) -> list[list[str]]:
        """Return what each transaction printed: script, then every value."""
        rows: list[list[str]] = []
        for script, command, value in DEBUG_LINE.findall(self.run_case(case)):
            if command == "1":
                rows.append([script])
            rows[-1].append(value)
        return rows

    def failure(self, script: str) -> list[str]:
        """Return the first and last message of a script that fails when it runs."""
        result = self.run([script], "-t", "1", "--random-seed=1")
        assert result.returncode == 2, (script, result.stderr)
        errors = re.findall(r"^pgbench: error: (.*)$", result.stderr, re.MULTILINE)
        return [message for message in errors if not message.startswith("Run was aborted")]

    def refusal(self, script: str, protocol: str = "simple") -> str:
        """Return the message for a script that pgbench does not accept."""
        result = self.run([script], "-t", "1", "-M", protocol)
        assert result.returncode == 1, (script, result.stderr)
        message = re.search(r"^pgbench: error: (.*)$", result.stderr, re.MULTILINE)
        assert message is not None, result.stderr
        return message[1]

    def statements(self, script: str, protocol: str) -> list[list[str]]:
        """Return text and parameters of every statement the server was sent."""
        log = self.folder / "data" / "log" / "server.json"
        start = log.stat().st_size
        self.run([script], "-t", "1", "-M", protocol, "--random-seed=1", "-D", "text=a b")
        entries: list[dict[str, str]] = []
        # One connection looks at the server, the other is the client; the log comes a bit later.
        while sum(entry["message"].startswith("disconnection") for entry in entries) < 2:
            time.sleep(0.02)
            complete, _, _ = log.read_bytes()[start:].rpartition(b"\n")
            entries = [json.loads(line) for line in complete.splitlines()]
        statements: list[list[str]] = []
        for entry in entries:
            kind, _, text = entry["message"].partition(": ")
            if kind == "statement" or kind.startswith("execute"):
                statements.append([text, entry.get("detail", "")])
            # What does not parse is only logged with its error.
            elif (
                entry["error_severity"] == "ERROR" and [[entry["statement"], ""]] != statements[-1:]
            ):
                statements.append([entry["statement"], "refused by the server"])
        return statements


@contextmanager
def server(binaries: Path) -> Iterator[Path]:
    """Run a scratch server that logs every statement; yield the folder of its socket."""
    folder = Path(tempfile.mkdtemp(prefix="pgdyno-golden-"))
    as_user: list[str] = []
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres", "postgres")
        as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
    data = folder / "data"
    initdb: list[str | Path] = [
        *as_user,
        binaries / "initdb",
        "-D",
        data,
        "-A",
        "trust",
        "-U",
        "postgres",
        "-N",
    ]
    subprocess.run(initdb, check=True, stdout=subprocess.DEVNULL, cwd=folder)
    settings = {
        "listen_addresses": "",
        "unix_socket_directories": str(folder),
        "fsync": "off",
        "logging_collector": "on",
        "log_destination": "jsonlog",
        "log_filename": "server",
        "log_statement": "all",
        "log_disconnections": "on",
    }
    options = [f"-c{name}={value}" for name, value in settings.items()]
    process = subprocess.Popen(
        [*as_user, binaries / "postgres", "-D", data, *options], cwd=folder, stderr=sys.stderr
    )
    try:
        ready: list[str | Path] = [binaries / "pg_isready", "-q", "-h", folder]
        while subprocess.run(ready, check=False).returncode != 0:
            assert process.poll() is None, "the server did not start"
            time.sleep(0.1)
        yield folder
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(timeout=60)
        shutil.rmtree(folder)


def record(pgbench: Pgbench) -> dict[str, Any]:
    """Run every case once."""
    return {
        "values": [{**case, "rows": pgbench.values(case)} for case in accepted.VALUES],
        "choices": [{**case, "rows": pgbench.choices(case)} for case in accepted.CHOICES],
        "failures": [[script, pgbench.failure(script)] for script in refused.FAILURES],
        "refusals": [[script, pgbench.refusal(script)] for script in refused.REFUSALS],
        "parameters": [
            [script := refused.with_variables(count), pgbench.refusal(script, "extended")]
            for count in [256]
        ],
        "statements": [
            {"script": script, "protocol": protocol, "sent": pgbench.statements(script, protocol)}
            for script in accepted.STATEMENTS
            for protocol in ["simple", "extended"]
        ],
        "builtins": {
            name: subprocess.run(
                [pgbench.program, f"--show-script={name}"],
                capture_output=True,
                text=True,
                check=True,
            ).stderr
            for name in ["tpcb-like", "simple-update", "select-only"]
        },
    }


def main() -> None:
    """Record with every pgbench and print what all agree on."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server-bin", type=Path, required=True)
    parser.add_argument("--pgbench", type=Path, required=True, action="append")

    arguments = parser.parse_args()
    with server(arguments.server_bin) as folder:
        recorded = [record(Pgbench(program, folder)) for program in arguments.pgbench]
    versions = [
        subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
        for program in arguments.pgbench
    ]
    for other, version in zip(recorded[1:], versions[1:], strict=True):
        for part, first in recorded[0].items():
            for expected, seen in zip(first, other[part], strict=True):
                assert expected == seen, f"{version} differs from {versions[0]}: {expected} {seen}"
    json.dump(
        {"recorded_with": [version.strip() for version in versions], **recorded[0]},
        sys.stdout,
        indent=0,
        ensure_ascii=False,
    )
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
