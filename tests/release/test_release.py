"""What `make release` makes runs where there is no Rust, no compiler and no network."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.fixtures import needs

ROOT = Path(__file__).parents[2]
DIST = ROOT / "dist"
# Without cargo, rustc and cc.
PATH = "/usr/bin:/bin"


@pytest.fixture(scope="module")
def released() -> Path:
    """Build the files; the rest of this file only looks at them and runs them."""
    done = subprocess.run(
        [ROOT / "scripts/release"], capture_output=True, text=True, timeout=1500, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return DIST


@pytest.fixture(scope="module")
def installed(released: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheels from a folder into an empty virtual environment, without network."""
    place = tmp_path_factory.mktemp("machine")
    place.chmod(0o755)
    wheels, venv = place / "wheels", place / "venv"
    download = ("-m", "pip", "download", "-q", "--require-hashes", "--only-binary", ":all:")
    requirements = str(released / "requirements.txt")
    _ran([sys.executable, "-m", "venv", str(venv)])
    python = str(venv / "bin/python")
    _ran([python, *download, "-r", requirements, "-d", str(wheels)])
    # The folder has engines of other processors, too: pip takes the one of this machine.
    offline = ("-m", "pip", "install", "-q", "--no-index")
    folders = ("--find-links", str(wheels), "--find-links", str(released))
    lab = str(next(released.glob("pgdyno-*.whl")))
    _ran([*without_network(), python, *offline, *folders, lab])
    return venv


def without_network() -> list[str]:
    """Return what to put before a command so that it has only a loopback device that is down."""
    return ["unshare", "--net"] if os.geteuid() == 0 else []


def _ran(argv: list[str], **environment: str) -> str:
    done = subprocess.run(
        argv,
        env={"PATH": PATH, "HOME": "/", "PIP_NO_CACHE_DIR": "1", **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_bench_runs_from_wheels_without_network_and_without_a_compiler(
    installed: Path, tmp_path: Path
) -> None:
    needs.offered(os.geteuid() == 0, "only root may take the network away")
    store = str(tmp_path / "results")
    bench = ("bench", "--scratch", "-S", "-s", "1", "-c", "2", "-T", "1s", "--json")
    done = subprocess.run(
        [*without_network(), str(installed / "bin/pgdyno"), *bench, "--store", store],
        env={"PATH": PATH, "LC_ALL": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    # A run of one second is too short to be valid: exit code 3.
    assert done.returncode == 3, done.stdout + done.stderr
    assert json.loads(done.stdout)["format"].startswith("pgdyno.bench/")


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_released_engine_is_small_and_the_drop_in_is_one_file(
    released: Path, tmp_path: Path
) -> None:
    program = tmp_path / "pgdyno-pgbench"
    program.write_bytes((released / "pgdyno-pgbench").read_bytes())
    program.chmod(0o755)
    assert program.stat().st_size <= 8 * 1024 * 1024
    assert "--scale" in _ran([str(program), "--help"])
    as_pgbench = tmp_path / "pgbench"
    as_pgbench.symlink_to(program)
    assert "pgbench" in _ran([str(as_pgbench), "--version"])


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_released_file_has_its_checksum(released: Path) -> None:
    listed = dict(
        reversed(line.split(maxsplit=1))
        for line in (released / "SHA256SUMS").read_text().splitlines()
    )
    files = [path for path in released.rglob("*") if path.is_file() and path.name != "SHA256SUMS"]
    assert {str(path.relative_to(released)) for path in files} == set(listed)
    for path in files:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        assert listed[str(path.relative_to(released))] == digest
