"""Texts of statements that a watch meets on its way: seldom asked for, in vain three times."""

from __future__ import annotations

from typing import Any

import pytest

from pgdyno.features.watch import statements
from pgdyno.features.watch.statements import (
    ASKED_MAX,
    KEPT_MAX,
    REST_NS_MIN,
    KnownTexts,
    NewTextsCollector,
)

SECOND_NS = 1_000_000_000


class Session:
    """A server whose pg_stat_statements has these texts; an answer takes `lasts_ns`."""

    def __init__(self, texts: dict[int, str], *, lasts_ns: int = 0) -> None:
        self.texts, self.lasts_ns = texts, lasts_ns
        self.now_ns = 1
        self.asked: list[list[int]] = []
        self.is_broken = False

    def fetch(self, sql: str, parameters: Any = ()) -> list[tuple[Any, ...]]:
        if not parameters:
            return [("public",)]
        assert sql.startswith("SELECT queryid, min(left(query, 10000)) FROM public.")
        [ids] = parameters
        self.asked.append(list(ids))
        self.now_ns += self.lasts_ns
        if self.is_broken:
            raise OSError("cancelled")
        return [(query_id, self.texts[query_id]) for query_id in ids if query_id in self.texts]


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Session:
    fake = Session({7: "SELECT $1", 8: "VACUUM t"})
    monkeypatch.setattr(statements, "monotonic_ns", lambda: fake.now_ns)
    return fake


def collector(session: Session, texts: KnownTexts) -> NewTextsCollector:
    return NewTextsCollector(session, texts)  # type: ignore[arg-type]


def test_a_text_is_asked_for_when_somebody_wants_it(session: Session) -> None:
    texts = KnownTexts({1: "COMMIT"})
    learning = collector(session, texts)
    assert learning.sample(0) == []
    assert texts.of(1) == "COMMIT"
    assert learning.sample(0) == []
    assert session.asked == []
    assert texts.of(7) is None
    assert learning.sample(0) == []
    assert session.asked == [[7]]
    assert texts.of(7) == "SELECT $1"
    assert texts.all() == {1: "COMMIT", 7: "SELECT $1"}


@pytest.mark.parametrize("is_broken", [False, True])
def test_it_takes_at_most_a_thousandth_of_a_core(session: Session, is_broken: bool) -> None:
    session.lasts_ns, session.is_broken = 2 * SECOND_NS, is_broken
    texts = KnownTexts({})
    learning = collector(session, texts)
    ended_ns = session.now_ns + 2 * SECOND_NS
    while session.now_ns < ended_ns + 1_999 * SECOND_NS:
        texts.of(9)
        try:
            learning.sample(0)
        except OSError:
            assert is_broken
        session.now_ns += SECOND_NS
    assert len(session.asked) == 1


def test_quick_answers_are_asked_for_every_30_s_and_one_of_nothing_three_times(
    session: Session,
) -> None:
    texts = KnownTexts({})
    learning = collector(session, texts)
    for _ in range(600):
        texts.of(9)
        learning.sample(0)
        session.now_ns += SECOND_NS
    assert session.asked == [[9]] * 3
    texts.of(8)
    learning.sample(0)
    assert session.asked[3:] == [[8]]
    assert session.now_ns == 600 * SECOND_NS + 1


def test_ten_are_asked_for_at_a_time_those_that_were_not_before_first(session: Session) -> None:
    texts = KnownTexts({})
    learning = collector(session, texts)
    for query_id in range(100, 115):
        texts.of(query_id)
    for _ in range(31):
        learning.sample(0)
        session.now_ns += SECOND_NS
    first, second = session.asked
    assert first == list(range(100, 110))
    assert second == [*range(110, 115), *range(100, 105)]


def test_a_watch_of_days_keeps_only_the_newest_events(session: Session) -> None:
    session.texts |= {number: f"SELECT {number}" for number in range(100, 100 + 2 * KEPT_MAX)}
    texts = KnownTexts({1: "COMMIT"})
    learning = collector(session, texts)
    for query_id in session.texts:
        texts.of(query_id)
    assert len(texts.wanted()) == ASKED_MAX
    while texts.wanted():
        session.now_ns += REST_NS_MIN
        learning.sample(0)
    # Of all that were wanted the newest were asked for; of all that were learnt they are kept.
    assert sum(map(len, session.asked)) == KEPT_MAX
    assert len(texts.all()) == KEPT_MAX
    assert texts.of(99 + 2 * KEPT_MAX) is not None
    assert texts.of(100) is None
