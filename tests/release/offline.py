"""Commands of a machine without compiler and without network, and the files that they install."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import zipfile
from pathlib import Path

from tests.fixtures.networks import without_network

ROOT = Path(__file__).parents[2]
# Without cargo, rustc and cc.
PATH = "/usr/bin:/bin"


def ran(*argv: str | Path, right: tuple[int, ...] = (0,), **environment: str) -> str:
    """Run a command and return its output; its exit code must be one of `right`."""
    done = tried(*argv, **environment)
    assert done.returncode in right, done.stdout + done.stderr
    return done.stdout


def tried(*argv: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command, however it ends."""
    return subprocess.run(
        [str(word) for word in argv],
        env={"PATH": PATH, "HOME": "/", "PIP_NO_CACHE_DIR": "1", **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )


def offline(*argv: str | Path, **environment: str) -> str:
    """Run a command without network; it must end well."""
    return ran(*without_network(), *argv, **environment)


def is_of_this_commit(folder: Path) -> bool:
    """Return whether `make release` has filled the folder since the last commit."""
    lab = next(folder.glob("pgdyno-*.whl"), None)
    if lab is None or not (folder / "SHA256SUMS").exists():
        return False
    with zipfile.ZipFile(lab) as wheel:
        built = json.loads(wheel.read("pgdyno/build.json"))["commit"]
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return bool(built == head.stdout.strip())


# README's commands, with less load and less time.
SHORTER = {
    "sweep": ("-s", "1", "--clients", "1,2", "-T", "2s", "--rounds", "2"),
    "compare": ("-s", "1", "-T", "1s", "--rounds", "3"),
    "watch": ("--duration", "3s"),
}


def three_commands(server: str) -> list[list[str]]:
    """Return the words of the commands under README's first heading, made short.

    Args: server, the words that name the server that watch observes.
    """
    part = (ROOT / "README.md").read_text().partition("## Three commands")[2].partition("## ")[0]
    commands = [shlex.split(line) for line in re.findall(r"^\$ pgdyno (.*)$", part, re.M)]
    assert [words[0] for words in commands] == list(SHORTER)
    shorter = [
        [verb, *(("-d", server) if verb == "watch" else words), *SHORTER[verb], "--json"]
        for verb, *words in commands
    ]
    assert len(shorter) == 3
    return shorter
