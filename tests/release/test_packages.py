"""Wheel, Debian package, container and workflows, without the engine's long build."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from license_expression import get_spdx_licensing
from tests.fixtures import needs
from tests.fixtures.networks import without_network
from tests.release.offline import ROOT, ran, tried

BIN = Path(sys.executable).parent
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel of the lab."""
    folder = tmp_path_factory.mktemp("wheel")
    argv = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(argv, cwd=ROOT, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel into an empty environment that sees the installed dependencies."""
    place = tmp_path_factory.mktemp("machine") / "venv"
    venv.create(place, with_pip=True)
    pip = ("-m", "pip", "install", "-q", "--no-index", "--no-deps", "--no-compile")
    ran(place / "bin/python", *pip, wheel)
    packages = next(place.glob("lib/python*/site-packages"))
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return place


def wheel_of_engine(folder: Path, version: str, tag: str = "any") -> Path:
    """Make a wheel of the engine that has only metadata."""
    path = folder / f"pgdyno_engine-{version}-py3-none-{tag}.whl"
    place = f"pgdyno_engine-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        metadata = f"Metadata-Version: 2.1\nName: pgdyno-engine\nVersion: {version}\n"
        archive.writestr(f"{place}/METADATA", metadata)
        about = f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-{tag}\n"
        archive.writestr(f"{place}/WHEEL", about)
        archive.writestr(f"{place}/RECORD", "")
    return path


def traces_of_crates() -> set[str]:
    """Return the crates whose files the engine names, in messages and line tables."""
    engine = (BIN / "pgdyno-engine").read_bytes()
    traces = set(re.findall(rb"registry/src/[^/]+/([\w-]+-\d[\w.+-]*)/", engine))
    assert len(traces) > 30
    return {trace.decode() for trace in traces}


def test_the_wheel_has_its_pages_and_says_its_commit(installed: Path) -> None:
    engine = str(BIN / "pgdyno-engine")
    said = ran(installed / "bin/pgdyno", "--version", PGDYNO_ENGINE=engine)
    assert said.startswith(f"pgdyno, version {VERSION}\ncommit ")
    assert "(wheel)" in said
    assert f"engine {VERSION} (release" in said
    assert "N_BASE" in ran(installed / "bin/pgdyno", "help", "knee")


def test_the_wheel_is_small_and_needs_the_engine_of_its_version(wheel: Path) -> None:
    assert wheel.stat().st_size <= 3 * 1024 * 1024
    listed = ran(sys.executable, "-m", "zipfile", "-l", wheel)
    assert "shells/candidates.awk" in listed
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert f"pgdyno-engine=={VERSION} ; python_version >= '3.11'" in project["dependencies"]
    assert all("python_version >= '3.11'" in needed for needed in project["dependencies"])
    engine = tomllib.loads((ROOT / "crates/pgdyno-engine/pyproject.toml").read_text())["project"]
    assert engine["version"] == VERSION


def test_the_wheels_have_the_licences_of_all_that_they_contain(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        lab = {name.rpartition("/")[2] for name in archive.namelist()}
    assert lab >= {"LICENSE", "echarts.LICENSE", "echarts.NOTICE", "zrender.LICENSE"}
    manifest = ROOT / "crates/pgdyno-engine/Cargo.toml"
    made = ["pep517", "write-dist-info", "--metadata-directory", tmp_path, "-m", manifest]
    subprocess.run([BIN / "maturin", *made], check=True, capture_output=True)
    licences = tmp_path / f"pgdyno_engine-{VERSION}.dist-info/licenses"
    assert licences.joinpath("LICENSE").read_text() == (ROOT / "LICENSE").read_text()
    text = licences.joinpath("THIRD-PARTY.txt").read_text()
    assert {crate.rpartition("-")[0] for crate in traces_of_crates()} <= {
        line.split()[0] for line in text.splitlines() if line.endswith(")")
    }
    argv = [ROOT / "scripts/sbom", "--notices"]
    now = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    assert text == now, "make docs writes it"


def test_pip_names_both_versions_if_the_engine_is_of_another_one(
    installed: Path, tmp_path: Path
) -> None:
    other = wheel_of_engine(tmp_path, "9.9.9")
    python = installed / "bin/python"
    ran(python, "-m", "pip", "install", "-q", "--no-index", "--no-deps", other)
    checked = [python, "-m", "pip", "check"]
    done = subprocess.run(checked, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert f"pgdyno {VERSION} has requirement pgdyno-engine=={VERSION}" in done.stdout
    assert "but you have pgdyno-engine 9.9.9" in done.stdout


def test_pip_names_the_missing_wheel_and_the_next_step(installed: Path, tmp_path: Path) -> None:
    ran(ROOT / "scripts/no-engine", tmp_path)
    pip = [installed / "bin/python", "-m", "pip", "install", "--no-index", "--no-deps"]
    pip += ["--ignore-installed"]
    done = subprocess.run(
        [*without_network(), *pip, "--find-links", tmp_path, f"pgdyno-engine=={VERSION}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    said = done.stdout + done.stderr
    assert f"pgdyno-engine {VERSION} has no wheel for this machine" in said
    assert platform.machine() in said
    assert "manylinux2014" in said
    assert "upgrade pip" in said


def test_the_refusal_names_a_machine_without_glibc() -> None:
    # What Python says on musl.
    refuse = "import platform, backend; platform.libc_ver = lambda: ('', ''); backend.refuse()"
    done = subprocess.run(
        [sys.executable, "-c", refuse],
        cwd=ROOT / "packaging/no-engine",
        env={"PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "without glibc (musl?), Python" in done.stderr


def test_pip_takes_the_wheel_if_there_is_one(installed: Path, tmp_path: Path) -> None:
    ran(ROOT / "scripts/no-engine", tmp_path)
    wheel_of_engine(tmp_path, VERSION)
    pip = ("-m", "pip", "install", "-q", "--no-index", "--no-deps", "--target", tmp_path / "here")
    ran(installed / "bin/python", *pip, "--find-links", tmp_path, "pgdyno-engine")
    assert (tmp_path / f"here/pgdyno_engine-{VERSION}.dist-info").exists()


def test_pip_without_glibc_refuses_although_there_is_a_wheel_for_glibc(
    installed: Path, tmp_path: Path
) -> None:
    ran(ROOT / "scripts/no-engine", tmp_path)
    wheel_of_engine(tmp_path, VERSION, f"manylinux2014_{platform.machine()}")
    pip = [installed / "bin/python", "-m", "pip", "install", "--no-index", "--no-deps"]
    pip += ["--find-links", tmp_path, "pgdyno-engine"]
    # Python's own way to say that a machine takes no wheels for glibc.
    switch = tmp_path / "switch"
    switch.mkdir()
    (switch / "_manylinux.py").write_text("def manylinux_compatible(*_): return False\n")
    done = tried(*pip, "--target", tmp_path / "musl", PYTHONPATH=str(switch))
    assert done.returncode != 0
    assert f"pgdyno-engine {VERSION} has no wheel for this machine" in done.stdout + done.stderr
    ran(*pip, "--target", tmp_path / "glibc")


# pip in a Python that says that it is an older one.
_OLDER = """
import platform, runpy, sys
class Version(tuple):
    major, minor, micro, releaselevel, serial = 3, 10, 12, "final", 0
sys.version_info = Version((3, 10, 12, "final", 0))
platform.python_version = lambda: "3.10.12"
platform.python_version_tuple = lambda: ("3", "10", "12")
runpy.run_module("pip", run_name="__main__")
"""


def test_an_older_python_is_refused_with_the_version_that_is_needed(
    wheel: Path, installed: Path, tmp_path: Path
) -> None:
    with zipfile.ZipFile(wheel) as archive:
        metadata = archive.read(f"pgdyno-{VERSION}.dist-info/METADATA").decode()
    assert "Requires-Python: >=3.11" in metadata
    # The folder has none of the packages that the lab needs, and pip asks for them in any order.
    asked = ("install", "--no-index", "--find-links", wheel.parent, "--target", tmp_path)
    done = tried(installed / "bin/python", "-c", _OLDER, *asked, "--ignore-installed", "pgdyno")
    assert done.returncode != 0
    assert "'pgdyno' requires a different Python: 3.10.12 not in '>=3.11'" in done.stderr


def test_the_debian_package_installs_into_an_empty_root(wheel: Path, tmp_path: Path) -> None:
    needs.offered(os.geteuid() == 0, "only root may install a package")
    engine = tmp_path / "engine"
    engine.write_text("#!/bin/sh\necho 'pgdyno-engine 0.0.1 (fake)'\n")
    argv = [ROOT / "scripts/deb", engine, wheel, tmp_path]
    subprocess.run(argv, check=True, env={**os.environ, "PGDYNO_DEB_EMPTY": "1"})
    package = next(tmp_path.glob("*.deb"))
    root = tmp_path / "root"
    (root / "var/lib/dpkg/info").mkdir(parents=True)
    (root / "var/lib/dpkg/updates").mkdir()
    for name in ("status", "available"):
        (root / "var/lib/dpkg" / name).touch()
    path = "/usr/sbin:/usr/bin:/sbin:/bin"
    ran("dpkg", f"--root={root}", "--force-depends", "-i", package, PATH=path)
    status = (root / "var/lib/dpkg/status").read_text()
    assert "Status: install ok installed" in status
    for name in (
        *("bin/pgdyno", "bin/pgdyno-engine", "bin/pgdyno-pgbench", "share/man/man1/pgdyno.1.gz"),
        *("share/bash-completion/completions/pgdyno", "share/zsh/vendor-completions/_pgdyno"),
        *("share/fish/vendor_completions.d/pgdyno.fish", "lib/pgdyno/pgdyno/cli/main.py"),
    ):
        assert (root / "usr" / name).exists(), name
    assert os.access(root / "usr/bin/pgdyno", os.X_OK)
    ran("dpkg", f"--root={root}", "--purge", "pgdyno", PATH=path)
    assert not (root / "usr/bin/pgdyno").exists()


def test_the_workflows_pass_their_linter() -> None:
    ran(BIN / "actionlint", *sorted((ROOT / ".github/workflows").glob("*.yml")))


def test_the_release_is_published_without_a_token_and_with_checksums_and_notes() -> None:
    text = (ROOT / ".github/workflows/release.yml").read_text()
    assert "id-token: write" in text
    assert "pypa/gh-action-pypi-publish" in text
    assert not re.search(r"password:|PYPI|secrets\.", text)
    assert "--notes-file dist/NOTES.md" in text
    release = (ROOT / "scripts/release").read_text()
    assert all(name in release for name in ("SHA256SUMS", "sbom.json", "NOTES.md"))


def test_the_container_needs_no_root_and_a_base_with_a_digest() -> None:
    definition = ROOT / "packaging/Containerfile"
    ran(BIN / "hadolint", definition)
    text = definition.read_text()
    assert re.search(r"^USER 1000$", text, re.M)
    assert "*@sha256:*" in text


@pytest.fixture(scope="module")
def bill_of_materials() -> str:
    """Make the bill of materials."""
    said = subprocess.run([ROOT / "scripts/sbom"], capture_output=True, text=True, check=True)
    return said.stdout


def test_the_bill_of_materials_is_valid_and_its_licences_are_known(bill_of_materials: str) -> None:
    validator = JsonStrictValidator(SchemaVersion.V1_5)
    assert validator.validate_str(bill_of_materials) is None
    assert validator.validate_str(bill_of_materials.replace('"library"', '"x"')) is not None
    known = get_spdx_licensing()
    for part in json.loads(bill_of_materials)["components"]:
        for licence in part.get("licenses", ()):
            assert known.validate(licence["expression"]).errors == [], part["name"]


def test_the_bill_of_materials_names_every_package_that_is_installed_with_the_lab(
    bill_of_materials: str, wheel: Path
) -> None:
    with zipfile.ZipFile(wheel) as archive:
        metadata = archive.read(f"pgdyno-{VERSION}.dist-info/METADATA").decode()
    needed = {*re.findall(r"^Requires-Dist: ([\w-]+)(?!.*extra ==)", metadata, re.M)} - {
        "pgdyno-engine"
    }
    # pip wants a hash of each package that it installs, so none is missing there.
    pinned = {*re.findall(r"^([a-z][\w-]*)", (ROOT / "requirements/run.txt").read_text(), re.M)}
    parts = json.loads(bill_of_materials)["components"]
    listed = {part["name"] for part in parts if part["purl"].startswith("pkg:pypi")}
    assert needed <= pinned == listed
    assert len(needed) > 8


def test_the_bill_of_materials_names_every_crate_that_left_a_trace_in_the_engine(
    bill_of_materials: str,
) -> None:
    parts = json.loads(bill_of_materials)["components"]
    names = [part["purl"] for part in parts]
    assert len(names) == len(set(names))
    crates = {f"{part['name']}-{part['version']}" for part in parts if "pkg:cargo" in part["purl"]}
    assert traces_of_crates() <= crates
