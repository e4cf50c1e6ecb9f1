"""What `make build`, `make test` and `make demo` print, and how they end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from pathlib import Path

import pytest
from tests.fixtures.command import eventually

ROOT = Path(__file__).parents[2]
SKIPS = """\
....s.ss                                                                 [100%]
SKIPPED [2] tests/fixtures/poolers.py:92: no pgbouncer here; Debian package pgbouncer
SKIPPED [1] tests/fixtures/poolers.py:102: no pgbouncer here; Debian package pgbouncer
SKIPPED [1] tests/browser/conftest.py:47: no Chromium at /x; Debian package chromium
SKIPPED [4] tests/server/test_scratch.py:171: no /dev/shm here
5 passed, 8 skipped in 2.00s
"""
RESULT = """\
tps         700 (200 to 1,210)
valid       NO; 3 doubts
  doubt     The run covers no checkpoint.
            -> measure longer
  NOT VALID The hypervisor took 2.3 % of the CPU from
            this machine.
            -> measure again
  NOT VALID The engine was 95 % busy.
            -> use more threads
saved       #1   pgdyno report 1
"""


def bash(script: str, place: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", script],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "TMPDIR": str(place), **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_the_last_lines_name_what_was_skipped_and_the_command_that_installs_it(
    tmp_path: Path,
) -> None:
    log = tmp_path / "said"
    log.write_text(SKIPS)
    said = bash(f". scripts/steps.sh\nstep first true\nstep second cat {log}\nfinish", tmp_path)
    assert said.returncode == 0, said.stderr
    lines = said.stdout.splitlines()
    assert lines[0].split() == ["first", *lines[0].split()[1:]]
    assert lines[1].startswith("second ")
    assert lines[1].endswith(" s   5 passed")
    assert lines[-3:] == [
        "5 passed, 0 failed",
        "tests skipped: 1 without chromium (apt-get install chromium)",
        "tests skipped: 3 without pgbouncer (apt-get install pgbouncer)",
    ]
    assert not list(tmp_path.glob("pgdyno-steps-*"))


def test_without_missing_programs_no_line_names_them(tmp_path: Path) -> None:
    said = bash(". scripts/steps.sh\nstep first echo 5 passed in 1.0s\nfinish", tmp_path)
    assert said.stdout.splitlines()[-1] == "5 passed, 0 failed"


def test_steps_run_side_by_side_and_the_first_that_fails_ends_all(tmp_path: Path) -> None:
    begin = f". scripts/steps.sh\naside writes touch {tmp_path}/written"
    waits = f"sh -c 'until [ -e {tmp_path}/written ]; do sleep 0.01; done'"
    done = bash(f"{begin}\naside reads {waits}\nstep third true\ntogether\nfinish", tmp_path)
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()[:3]] == [
        "third",
        "writes",
        "reads",
    ]
    failed = bash(f"{begin}\naside bad sh -c 'echo no luck; exit 3'\ntogether", tmp_path)
    assert failed.returncode == 1
    assert "no luck" in failed.stdout
    assert "bad                                failed after" in failed.stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_step_aside_and_everything_that_it_started(
    number: signal.Signals, tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    nested = f"sh -c 'echo $$ >> {pids}; sleep 600' & echo $$ >> {pids}; wait"
    (tmp_path / "nested.sh").write_text(nested)
    script = f". scripts/steps.sh\naside nested sh {tmp_path}/nested.sh\nstep first sleep 600"
    running = subprocess.Popen(
        ["bash", "-c", script],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        # In the background of a shell it would be ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    eventually(lambda: (pids.exists() and len(pids.read_text().split()) == 2) or None)
    # As a terminal does, to everything in the foreground.
    os.killpg(running.pid, number)
    running.wait(20)
    begun = pids.read_text().split()
    try:
        eventually(lambda: not any(Path("/proc", pid).exists() for pid in begun) or None)
    finally:
        for pid in begun:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)


def test_a_rust_test_is_known_by_its_file_and_not_by_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "load-tests"
    folder.mkdir()
    for name, said in (("wire-1f", "2 passed"), ("load-1f", "")):
        program = folder / name
        program.write_text("#!/bin/sh\necho 2 passed\n")
        program.chmod(0o755)
        assert bash(f"scripts/rust-test {program}", tmp_path).stdout.strip() == said


def test_a_step_is_named_when_it_begins_and_its_output_is_shown_when_it_fails(
    tmp_path: Path,
) -> None:
    out = tmp_path / "out"
    script = f". scripts/steps.sh\nstep slow grep -q '^slow ' {out} >{out}"
    assert bash(script, tmp_path).returncode == 0
    said = bash(". scripts/steps.sh\nstep bad sh -c 'echo out of luck; exit 3'\nfinish", tmp_path)
    assert said.returncode == 1
    assert "out of luck" in said.stdout
    assert "exit code 3" in said.stdout


@pytest.mark.parametrize(("code", "expected"), [(0, 0), (3, 0), (2, 2), (1, 1)])
def test_the_demo_fails_only_when_nothing_could_be_measured(
    code: int, expected: int, tmp_path: Path
) -> None:
    program = tmp_path / "pgdyno"
    (tmp_path / "result").write_text(RESULT)
    program.write_text(f"#!/bin/sh\ncat {tmp_path}/result\nexit {code}\n")
    program.chmod(0o755)
    said = bash("scripts/demo", tmp_path, PGDYNO=str(program))
    assert said.returncode == expected, said.stderr
    assert "scratch PostgreSQL server" in said.stderr
    reason = (
        "NOT VALID, because: The hypervisor took 2.3 % of the CPU from this machine."
        " The engine was 95 % busy."
    )
    assert (reason in said.stdout.splitlines()) == (code == 3)
    assert said.stdout.startswith(RESULT)


def test_a_step_of_the_build_is_one_line_with_its_time(tmp_path: Path) -> None:
    said = bash(
        "scripts/timed 'build: engine' sleep 0.2; scripts/timed bad sh -c 'exit 4'", tmp_path
    )
    first, second = said.stdout.splitlines()
    assert first.split()[:2] == ["build:", "engine"]
    assert 0.2 <= float(first.split()[2]) < 30
    assert second.split()[1:] == ["failed,", "exit", "code", "4"]
    assert said.returncode == 4
