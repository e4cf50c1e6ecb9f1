"""What a crash test says while somebody waits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.features.crash.records import crash as record_of

from pgdyno.features.crash import crash as crash_module
from pgdyno.features.crash.moments import PHASES
from pgdyno.features.crash.request import CrashRequest
from pgdyno.features.crash.show import CrashShow
from pgdyno.measure.run_progress import RunProgress
from pgdyno.store.experiment import Store


class SaidWork(RunProgress):
    """Keeps the words of all work."""

    def __init__(self) -> None:
        self.words: list[str] = []

    @contextmanager
    def doing(self, words: str) -> Iterator[None]:
        self.words.append(words)
        yield


def test_each_crash_says_its_number_and_how_long_the_others_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moments = iter(range(0, 1_000_000_000_000, 4_000_000_000))
    crasher = SimpleNamespace(
        facts={"target_line": "scratch"},
        phases=PHASES,
        crash=lambda bench, planned, control: record_of(planned.number),
    )

    @contextmanager
    def ready(*_: object) -> Iterator[SimpleNamespace]:
        yield crasher

    monkeypatch.setattr(crash_module, "_crasher", ready)
    monkeypatch.setattr(crash_module, "monotonic_ns", lambda: next(moments))
    show = CrashShow()
    show.progress = said = SaidWork()
    request = CrashRequest(kind="kill", crashes=3, seed=1, clients=2, controls=False)
    crash_module.crash(request, Store(tmp_path), show)
    assert said.words == [
        "crash 1 of 3",
        "crash 2 of 3, about 8 s left",
        "crash 3 of 3, about 4 s left",
    ]
