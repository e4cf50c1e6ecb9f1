"""What `make release` makes runs where there is no Rust, no compiler and no network."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import sys
from pathlib import Path

import pytest
from tests.fixtures import needs
from tests.fixtures.debian_root import VISITOR, debian_root, depends, inside
from tests.fixtures.networks import without_network
from tests.release.offline import ROOT, offline, ran, three_commands

from pgdyno.server.target import Target


@pytest.fixture(params=["pip", "uv"])
def installed(request: pytest.FixtureRequest, wheels: Path, house: Path) -> Path:
    """Install pgdyno from a folder of wheels without network; return its program."""
    place = house / f"machine-{request.param}"
    if request.param == "uv":
        places = {"UV_TOOL_DIR": str(place / "tools"), "UV_TOOL_BIN_DIR": str(place / "bin")}
        words = ("tool", "install", "-q", "--no-index", "--no-cache", "--python", sys.executable)
        offline(ROOT / ".tools/bin/uv", *words, "--find-links", wheels, "pgdyno", **places)
        return place / "bin/pgdyno"
    ran(sys.executable, "-m", "venv", place)
    pip = ("-m", "pip", "install", "-q", "--no-index")
    offline(place / "bin/python", *pip, "--find-links", wheels, "pgdyno")
    return place / "bin/pgdyno"


@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_the_three_commands_of_the_readme_run_from_wheels_without_network_and_compiler(
    installed: Path, either_database: Target, tmp_path: Path
) -> None:
    needs.offered(os.geteuid() == 0, "only root may take the network away")
    for words in three_commands(either_database.as_conninfo()):
        typed = (installed, *words, "--store", tmp_path / "results")
        # Runs of seconds are too short to be valid (3), or to decide (5).
        said = ran(*without_network(), *typed, right=(0, 3, 5), LC_ALL="C.UTF-8")
        assert json.loads(said)["format"] == f"pgdyno.{words[0]}/1"


@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_the_debian_package_measures_in_an_empty_root_without_network(
    released: Path, either_database: Target, tmp_path: Path
) -> None:
    package = next(released.glob("*.deb"))
    root = tmp_path / "root"
    root.mkdir(mode=0o755)
    debian_root(root, depends(package))
    shutil.copy(package, root / "tmp/pgdyno.deb")
    places = {"PATH": "/usr/sbin:/usr/bin", "LC_ALL": "C.UTF-8", "HOME": "/home/visitor"}
    ran(*inside(root, "dpkg", "-i", "/tmp/pgdyno.deb"), **places)
    assert "engine 0" in ran(*inside(root, "pgdyno", "--version", user=VISITOR), **places)
    for path in (
        *("man/man1/pgdyno-bench.1.gz", "bash-completion/completions/pgdyno"),
        *("zsh/vendor-completions/_pgdyno", "fish/vendor_completions.d/pgdyno.fish"),
    ):
        assert (root / "usr/share" / path).stat().st_size > 1000, path
    tab = ". /usr/share/bash-completion/completions/pgdyno; _pgdyno_candidates swe"
    assert ran(*inside(root, "bash", "-c", tab, user=VISITOR), **places).startswith("sweep\t")
    # A scratch server lets nobody else in; the visitor is somebody else.
    folder = Path(either_database.host)
    closed = (folder, folder / f".s.PGSQL.{either_database.ports}")
    try:
        for path in closed:
            path.chmod(0o777)
        for words in three_commands(either_database.as_conninfo()):
            typed = f"cd; exec pgdyno {shlex.join(words)}"
            command = inside(root, "sh", "-c", typed, user=VISITOR, also=(either_database.host,))
            said = ran(*command, right=(0, 3, 5), **places)
            assert json.loads(said)["format"] == f"pgdyno.{words[0]}/1"
    finally:
        for path in closed:
            path.chmod(0o700)
    ran(*inside(root, "dpkg", "-r", "pgdyno"), **places)
    assert not (root / "usr/lib/pgdyno").exists()


@pytest.mark.slow
@pytest.mark.timeout(2400)
@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("lintian", ("--fail-on", "error,warning", "--allow-root", "PACKAGE")),
        ("mandoc", ("-Tlint", "-W", "warning", "PAGES")),
    ],
)
def test_a_linter_finds_nothing_in_the_debian_package(
    program: str, words: tuple[str, ...], released: Path, tmp_path: Path
) -> None:
    needs.offered(shutil.which(program) is not None, f"no {program} here")
    package = next(released.glob("*.deb"))
    ran("dpkg-deb", "-x", package, tmp_path / "there")
    folder = tmp_path / "there/usr/share/man/man1"
    (folder / "pgdyno-engine.1.gz").unlink()  # A link to the first page.
    ran("gunzip", *folder.glob("*.gz"))
    pages = sorted(folder.iterdir())
    assert len(pages) > 25
    given: dict[str, list[Path]] = {"PACKAGE": [package], "PAGES": pages}
    said = ran(program, *(part for word in words for part in given.get(word, [word])))
    assert said == ""


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_released_engine_is_small_and_the_drop_in_is_one_file(
    released: Path, tmp_path: Path
) -> None:
    program = tmp_path / "pgdyno-pgbench"
    program.write_bytes((released / "pgdyno-pgbench").read_bytes())
    program.chmod(0o755)
    assert program.stat().st_size <= 8 * 1024 * 1024
    assert "--scale" in ran(program, "--help")
    as_pgbench = tmp_path / "pgbench"
    as_pgbench.symlink_to(program)
    assert "pgbench" in ran(as_pgbench, "--version")


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
