"""The files of a release, made once for all tests of this folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.release.offline import ROOT, is_of_this_commit, ran

# The files of another tree, taken as they are: PGDYNO_DIST=FOLDER.
DIST = Path(os.environ.get("PGDYNO_DIST", ROOT / "dist"))


@pytest.fixture(scope="session")
def released() -> Path:
    """Build the files, if dist/ is not of this commit; the tests look at them and run them."""
    if "PGDYNO_DIST" not in os.environ and not is_of_this_commit(DIST):
        done = subprocess.run(
            [ROOT / "scripts/release"], capture_output=True, text=True, timeout=3000, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
    return DIST


@pytest.fixture(scope="session")
def wheels(released: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Download what the lab needs into a folder, and add the files of the release."""
    folder = tmp_path_factory.mktemp("wheels")
    folder.parent.chmod(0o755)
    folder.chmod(0o755)
    venv = folder.parent / "downloads"
    ran(sys.executable, "-m", "venv", venv)
    download = ("-m", "pip", "download", "-q", "--require-hashes", "--only-binary", ":all:")
    ran(venv / "bin/python", *download, "-r", released / "requirements.txt", "-d", folder)
    for path in (
        *released.glob("*.whl"),
        *released.glob("*.tar.gz"),
        released / "requirements.txt",
    ):
        (folder / path.name).symlink_to(path)
    return folder
