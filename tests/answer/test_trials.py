"""A spoiled trial of a load is reported; a load that was not held is a result."""

from __future__ import annotations

from typing import Any

import pytest

from pgdyno.analysis.verdicts import Doubt, is_valid
from pgdyno.answer import answer


def test_a_trial_is_spoilt_by_a_busy_engine_but_not_by_a_missed_load(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    busy = Doubt("engine_busy", "not_valid", "A thread of the load engine was 97 % busy.", "more")
    late = Doubt("rate_not_held", "not_valid", "Half of what was offered was done.", "less")
    monkeypatch.setattr(answer, "_doubts_of_round", lambda *_: (late, busy))
    nothing: Any = None
    [doubt] = answer._doubts_of_trial(nothing, nothing, {})
    assert doubt.message == "During the search for the capacity: " + busy.message
    assert not is_valid((doubt,))
