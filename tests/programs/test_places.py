"""How many files name a program outside its folder, as ARCHITECTURE.md says."""

from __future__ import annotations

import re

from tests.tidy.python_rules import PROGRAM_NAMES
from tests.tidy.source import ROOT, tree

SAYS = re.compile(r"(\d+) files of the\sengine and (\d+) of the lab name the TPC-C-like program")


def test_the_files_that_name_the_tpcc_like_program_are_as_many_as_architecture_says() -> None:
    named = [source for source in tree() if PROGRAM_NAMES["tpcc"].search(source.text)]
    outside = [source.path for source in named if "/tpcc/" not in source.path]
    of_engine = [path for path in outside if re.match(r"crates/engine/src/.*\.rs$", path)]
    of_lab = [path for path in outside if re.match(r"python/.*\.py$", path)]
    said = SAYS.search((ROOT / "ARCHITECTURE.md").read_text())
    assert said is not None
    assert (len(of_engine), len(of_lab)) == (int(said[1]), int(said[2])), (of_engine, of_lab)
