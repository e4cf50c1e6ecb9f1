"""The container is built without network, and measures there as a user who is not root."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.fixtures import needs
from tests.fixtures.debian_root import debian_root
from tests.fixtures.networks import without_network
from tests.release.offline import ROOT, ran, tried

Builder = Callable[..., list[str | Path]]


@pytest.fixture
def builder(house: Path) -> Builder:
    """Return what makes a command line of Buildah that uses its folders alone, and no network.

    Chroot is the only isolation that needs no runtime and no control groups.
    """
    needs.offered(shutil.which("buildah") is not None, "no builder of containers (buildah) here")
    place = house / "containers"
    own = ("--root", place / "store", "--runroot", place / "run", "--storage-driver", "vfs")
    return lambda *words: [*without_network(), "buildah", *own, *words]


@pytest.fixture
def base(builder: Builder, house: Path) -> str:
    """Make a base image of this machine's Debian with Python; return its name with the digest."""
    root = house / "base"
    root.mkdir(mode=0o755)
    debian_root(root, ("python3-venv", "passwd", "libstdc++6", "zlib1g"))
    made = ran(*builder("from", "scratch")).strip()
    ran(*builder("add", "--quiet", made, root, "/"))
    ran(*builder("commit", "--quiet", made, "localhost/base"))
    ran(*builder("rm", made))
    digest = ran(*builder("images", "--format", "{{.Digest}}", "localhost/base")).strip()
    return f"localhost/base@{digest}"


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_container_is_built_without_network_and_measures_without_root(
    builder: Builder, base: str, wheels: Path, house: Path
) -> None:
    context = house / "context"
    shutil.copytree(wheels, context)
    words = ("bud", "--isolation", "chroot", "-f", ROOT / "packaging/Containerfile")
    words += ("--build-arg", "PIP_NO_INDEX=1", "-t", "localhost/pgdyno")
    without_digest = base.partition("@")[0]
    refused = tried(*builder(*words, "--build-arg", f"BASE={without_digest}", context))
    assert refused.returncode != 0
    assert "BASE must have a digest" in refused.stderr
    ran(*builder(*words, "--build-arg", f"BASE={base}", context))

    container = ran(*builder("from", "localhost/pgdyno")).strip()
    entry = ran(*builder("inspect", "--format", "{{.OCIv1.Config.Entrypoint}}", container))
    assert entry.strip() == "[pgdyno]"

    def inside(*typed: str, right: tuple[int, ...] = (0,)) -> str:
        return ran(*builder("run", "--isolation", "chroot", container, *typed), right=right)

    assert inside("id", "-u").strip() == "1000"
    assert "engine 0" in inside("pgdyno", "--version")
    assert "no server" in inside("pgdyno", "doctor")
    bench = ("pgdyno", "bench", "-S", "-s", "1", "-c", "2", "-T", "1s", "--json")
    # A run of a second is too short to be valid.
    assert json.loads(inside(*bench, right=(3,)))["format"] == "pgdyno.bench/1"
    # The results are in the volume, which is the user's own.
    assert "bench" in inside("pgdyno", "list", "--store", "/home/pgdyno/pgdyno-runs")
