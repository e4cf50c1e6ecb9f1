"""Files that the user names: special files are refused by kind, sizes are bounded."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.tidy.source import tree

from pgdyno import user_file
from pgdyno.cli.main import _run
from pgdyno.errors import SpecError
from pgdyno.server.conninfo import resolve
from pgdyno.user_file import read_text


@pytest.fixture
def special(tmp_path: Path) -> Iterator[dict[str, Path]]:
    """A special file of each kind."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "to-zero").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        yield {
            "a device": Path("/dev/zero"),
            "device behind a link": tmp_path / "to-zero",
            "a pipe": tmp_path / "pipe",
            "a folder": tmp_path / "folder",
            "a socket": tmp_path / "socket",
        }


def test_special_files_are_refused_by_kind(special: dict[str, Path]) -> None:
    for kind, path in special.items():
        with pytest.raises(SpecError) as refused:
            read_text(path)
        is_named = kind.removesuffix(" behind a link") in refused.value.message
        # A socket cannot even be opened: the system's words say so.
        assert is_named or "No such device" in refused.value.message, refused.value.message


def test_a_file_that_is_too_large_is_refused_with_its_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "big.sql"
    with path.open("wb") as stream:
        stream.truncate(user_file.TEXT_MAX_BYTES + 1)
    with pytest.raises(SpecError, match=r"big\.sql has 32 MB; pgdyno reads at most 32 MB"):
        read_text(path)
    monkeypatch.setattr(user_file, "LINES_MAX_BYTES", 1000)
    with pytest.raises(SpecError, match="reads at most"):
        user_file.require_long_file(path, of="--log")


def test_the_null_device_is_an_empty_file() -> None:
    assert read_text(Path(os.devnull)) == ""


LINES = (
    ["run", "{}"],
    ["bench", "--scratch", "--dry-run", "-f", "{}"],
    ["compare", "--scratch", "--dry-run", "--variant", "a", "--variant", "b: @{}"],
    ["compare", "--scratch", "--dry-run", "--variant", "a", "--variant", "b: @{}.conf"],
    ["compare", "--scratch", "--dry-run", "--variant", "a", "--variant", "b: script={}"],
    ["compare", "--scratch", "--dry-run", "--variant", "a", "--variant", "b: sql=@{}"],
    ["spec", "from-benchmarksql", "{}"],
    ["spec", "from-hammerdb", "{}"],
    ["settings", "--file", "{}"],
    ["settings", "--file", "{}.conf"],
    ["work-mem", "--scratch", "-f", "{}"],
    ["work-mem", "--log", "{}"],
    ["capture", "-h", "db1", "--log", "{}"],
    ["bench", "-h", "db1", "--dry-run", "sslrootcert={}"],
    ["bench", "-h", "db1", "--dry-run", "passfile={}"],
)


@pytest.mark.parametrize("line", LINES, ids=" ".join)
@pytest.mark.parametrize("kind", ["a device", "a pipe"])
def test_every_verb_refuses_a_special_file_at_once(
    line: list[str], kind: str, special: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    path = special[kind]
    if any("{}.conf" in word for word in line):
        # A file that includes it.
        conf = special["a folder"] / "own.conf"
        conf.write_text(f"include '{path}'\n")
        line = [word.replace("{}.conf", str(conf)) for word in line]
    code = _run([word.format(path) for word in line])
    words = " ".join(capsys.readouterr().err.split())
    assert code == 1, words
    assert f"{path} is {kind}, not a file" in words
    assert "defect" not in words


@pytest.mark.parametrize("path", ["/proc/kmsg", "/proc/self/status", "/sys/kernel/uevent_seqnum"])
def test_files_that_the_kernel_makes_are_refused(path: str) -> None:
    with pytest.raises(SpecError, match="is made by the kernel, not a file"):
        user_file.require_long_file(Path(path), of="--log")


def test_a_service_file_that_never_ends_is_refused(
    special: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGSERVICEFILE", str(special["a pipe"]))
    with pytest.raises(SpecError, match=r"servicefile .* is a pipe, not a file"):
        resolve(conninfo="service=bank")


def test_files_of_the_user_are_read_in_one_place() -> None:
    reading = re.compile(r"\.(read_text|read_bytes)\(|\bpath\.open\(")
    rooms = ("python/pgdyno/spec/", "python/pgdyno/cli/", "python/pgdyno/features/tune/")
    for source in tree():
        if source.path.startswith(rooms):
            lines = [line for line in source.text.splitlines() if reading.search(line)]
            # Files and pages of the package, a file that pgdyno made itself, the first bytes of a
            # capture.
            pages = "_sections(path.stem, path.read_text("
            permitted = (
                "joinpath",
                pages,
                "written.read",
                "made.read",
                'path.open("rb") as stream',
            )
            assert all(any(word in line for word in permitted) for line in lines), source.path
