"""Every benchmark can be started: what it measures is still there."""

from __future__ import annotations

from importlib import import_module

import pytest
from tests.tidy.source import ROOT

NAMES = sorted(path.stem for path in (ROOT / "bench").glob("*.py") if path.stem != "__main__")


@pytest.mark.parametrize("name", NAMES)
def test_a_module_of_the_benchmarks_can_be_imported(name: str) -> None:
    import_module(f"bench.{name}")
