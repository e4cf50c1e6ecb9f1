"""Results of every format version that was ever written stay readable.

A fixture is a small experiment as the pgdyno of its time wrote it; it is never made again.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.store.contents import check_contents

from pgdyno.store import Store

FORMATS = Path(__file__).parent / "fixtures"


@pytest.mark.parametrize("version", [1])
def test_a_result_of_this_format_reads_as_it_was_written(version: int, tmp_path: Path) -> None:
    (source,) = (FORMATS / f"format-{version}").iterdir()
    shutil.copytree(source, tmp_path / source.name)
    experiment = Store(tmp_path).find("1")
    assert (experiment.verb, experiment.name) == ("bench", "fixture")
    assert experiment.verify() == []
    (run,) = experiment.runs()
    check_contents(run)
    assert experiment.decisions() == [{"run": 7, "why": "the only one"}]
    assert experiment.facts() == {"server_version": "15.0"}
