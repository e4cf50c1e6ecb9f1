"""Looking for what killed commands left, where others come and go."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from pgdyno.server.cluster_record import FOLDER_PREFIX
from pgdyno.server.leftovers import _cluster_folders


def test_a_folder_that_somebody_removes_meanwhile_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "mine" / f"{FOLDER_PREFIX}1"
    gone = tmp_path / "theirs"
    kept.mkdir(parents=True)
    gone.mkdir()
    scandir = os.scandir

    def looked_at(path: Any = ".") -> AbstractContextManager[Iterator[os.DirEntry[str]]]:
        if str(path).rstrip("/").endswith("theirs"):
            raise FileNotFoundError(path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", looked_at)
    assert _cluster_folders([tmp_path]) == [kept]
