"""What `make release` makes runs where there is no Rust, no compiler and no network."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from tests.fixtures import needs
from tests.fixtures.debian_root import debian_root, inside
from tests.fixtures.networks import without_network

from pgdyno.server.target import Target

ROOT = Path(__file__).parents[2]
DIST = ROOT / "dist"
# Without cargo, rustc and cc.
PATH = "/usr/bin:/bin"


@pytest.fixture(scope="module")
def released() -> Path:
    """Build the files, if dist/ is not of this commit; this file looks at them and runs them."""
    if not is_of_this_commit(DIST):
        done = subprocess.run(
            [ROOT / "scripts/release"], capture_output=True, text=True, timeout=1500, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
    return DIST


def is_of_this_commit(folder: Path) -> bool:
    """Return whether `make release` has filled the folder since the last commit."""
    lab = next(folder.glob("pgdyno-*.whl"), None)
    if lab is None or not (folder / "SHA256SUMS").exists():
        return False
    with zipfile.ZipFile(lab) as wheel:
        built = json.loads(wheel.read("pgdyno/build.json"))["commit"]
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return bool(built == head.stdout.strip())


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


# README's commands, with less load and less time.
SHORTER = {
    "sweep": ("-s", "1", "--clients", "1,2", "-T", "2s", "--rounds", "2"),
    "compare": ("-s", "1", "-T", "1s", "--rounds", "3"),
    "watch": ("--duration", "3s"),
}


def three_commands() -> list[list[str]]:
    """Return the words of the commands under README's first heading."""
    part = (ROOT / "README.md").read_text().partition("## Three commands")[2].partition("## ")[0]
    return [shlex.split(line) for line in re.findall(r"^\$ pgdyno (.*)$", part, re.M)]


@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_the_three_commands_of_the_readme_run_from_wheels_without_network_and_compiler(
    installed: Path, either_database: Target, tmp_path: Path
) -> None:
    needs.offered(os.geteuid() == 0, "only root may take the network away")
    commands = three_commands()
    assert [words[0] for words in commands] == list(SHORTER)
    for verb, *words in commands:
        if verb == "watch":
            words = ["-d", either_database.as_conninfo()]
        done = subprocess.run(
            [
                *(*without_network(), str(installed / "bin/pgdyno"), verb, *words),
                *(*SHORTER[verb], "--json", "--store", str(tmp_path / "results")),
            ],
            env={"PATH": PATH, "LC_ALL": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        # Runs of seconds are too short to be valid (3), or to decide (5).
        assert done.returncode in (0, 3, 5), done.stdout + done.stderr
        assert json.loads(done.stdout)["format"] == f"pgdyno.{verb}/1"


@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_the_debian_package_measures_in_an_empty_root_without_network(
    released: Path, tmp_path: Path
) -> None:
    package = next(released.glob("*.deb"))
    root = tmp_path / "root"
    root.mkdir(mode=0o755)
    debian_root(root, package)
    shutil.copy(package, root / "tmp/pgdyno.deb")
    environment = {"PATH": "/usr/sbin:/usr/bin", "LC_ALL": "C.UTF-8", "HOME": "/home/visitor"}
    _ran(inside(root, "dpkg", "-i", "/tmp/pgdyno.deb"), **environment)
    assert "engine 0" in _ran(inside(root, "pgdyno", "--version", user=1000), **environment)
    for path in (
        *("man/man1/pgdyno-bench.1.gz", "bash-completion/completions/pgdyno"),
        *("zsh/vendor-completions/_pgdyno", "fish/vendor_completions.d/pgdyno.fish"),
    ):
        assert (root / "usr/share" / path).stat().st_size > 1000, path
    bench = "cd; pgdyno bench --scratch -S -s 1 -c 2 -T 1s --json || [ $? = 3 ]"
    said = _ran(inside(root, "sh", "-c", bench, user=1000), **environment)
    assert json.loads(said)["format"] == "pgdyno.bench/1"
    _ran(inside(root, "dpkg", "-r", "pgdyno"), **environment)
    assert not (root / "usr/lib/pgdyno").exists()


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
