"""What fails among others is run once more alone, and said; what fails again is a failure."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = """\
import pathlib, pytest
HERE = pathlib.Path(__file__).parent

@pytest.mark.parametrize("n", ["a - b", "other"])
def test_unsteady(n):
    mark = HERE / n
    if not mark.exists() and {unsteady}:
        mark.touch()
        assert False, "busy - now"

@pytest.mark.parametrize("n", range({broken}))
def test_broken(n):
    assert False

def test_right():
    pass
"""


def again_alone(place: Path, *, unsteady: bool, broken: int) -> subprocess.CompletedProcess[str]:
    (place / "test_odd.py").write_text(TESTS.format(unsteady=unsteady, broken=broken))
    (place / "pytest.ini").write_text("[pytest]\n")
    pytest_command = [sys.executable, "-m", "pytest", "-q", "-ra"]
    return subprocess.run(
        [ROOT / "scripts" / "again-alone", *pytest_command, "--rootdir", place, place],
        cwd=place,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_a_test_that_passes_alone_is_not_a_failure_but_named(tmp_path: Path) -> None:
    said = again_alone(tmp_path, unsteady=True, broken=0)
    assert said.returncode == 0, said.stdout
    assert "once more, alone" in said.stdout
    marks = [line for line in said.stdout.splitlines() if line.startswith("UNSTEADY ")]
    assert len(marks) == 2
    assert "UNSTEADY test_odd.py::test_unsteady[other]" in marks


@pytest.mark.parametrize(("broken", "is_run_again"), [(1, True), (16, False)])
def test_a_test_that_fails_alone_or_with_many_is_a_failure(
    tmp_path: Path, broken: int, is_run_again: bool
) -> None:
    said = again_alone(tmp_path, unsteady=False, broken=broken)
    assert said.returncode == 1, said.stdout
    assert ("once more, alone" in said.stdout) is is_run_again
    assert "UNSTEADY" not in said.stdout


def test_the_closing_lines_name_the_unsteady_tests_and_what_was_wrong(tmp_path: Path) -> None:
    log = tmp_path / "said"
    log.write_text("E   assert 2 == 1\nUNSTEADY tests/test_x.py::test_y\n1 passed in 1.0s\n")
    script = f". scripts/steps.sh\nstep some cat {log}\nfinish"
    said = subprocess.run(
        ["bash", "-c", script],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert said.stdout.splitlines()[-3:] == [
        "failed among others, passed alone (mend these tests):",
        "  tests/test_x.py::test_y",
        "E   assert 2 == 1",
    ]
