"""Who changes the settings while a load runs: the order of the turns, and when each counts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from pgdyno.clock import ClockPair
from pgdyno.engine.records import Counts, Interval, Phase
from pgdyno.errors import ServerError
from pgdyno.measure.servers import Servers
from pgdyno.measure.turns import Turns
from pgdyno.measure.under_test import UnderTest
from pgdyno.spec.planned import Cell, PlannedRun, PlannedVariant
from pgdyno.spec.variant import Variant

S_NS = 10**9
YOURS, FAST = (PlannedVariant(name, Variant(name=name)) for name in ("yours", "fast"))


class _Servers:
    """Keeps the variants that it switched to, and refuses one."""

    def __init__(self, refused: str = "", takes_s: float = 0.0) -> None:
        self.asked: list[str] = []
        self.now_ns = 0
        self.changed_ns: list[int] = []
        self._refused = refused
        self._takes_ns = round(takes_s * S_NS)

    def switch(self, running: PlannedVariant, after: PlannedVariant) -> None:
        assert running is YOURS
        self.asked.append(after.name)
        self.now_ns += self._takes_ns
        self.changed_ns.append(self.now_ns)
        if after.name == self._refused:
            raise ServerError("unrecognized value", hint="")


def interval(ended_s: float, latency_s: float = 0.0) -> Interval:
    return Interval(
        time_ns=round(ended_s * S_NS),
        interval_ns=S_NS // 10,
        phase="measure",
        counts=Counts(completed=1),
        completed_by_script=(1,),
        latency_sum_ns=round(latency_s * S_NS),
        in_flight=0,
        backlog=0,
        connections=1,
        cpu_ns=0,
    )


def taken(servers: _Servers, *, latency_s: float = 0.0) -> list[dict[str, Any]]:
    """Return the turns of a load of 6 s; the clock shows when each of its records arrives."""
    clock = cast(ClockPair, SimpleNamespace(now_ns=lambda: servers.now_ns))
    cell, order = Cell((0,), 1, variant=YOURS), (FAST, YOURS, FAST)
    planned = PlannedRun(1, "turns", 1, cell, 0, 6 * S_NS, 1, turns=order, turn_ns=2 * S_NS)
    load = Turns(planned, cast(Servers, servers), cast(UnderTest, None), clock=clock, name="1.1")
    load.see(Phase(time_ns=0, phase="measure", event="begin"))
    for tenth in range(1, 61):
        # Records wait while the settings change.
        servers.now_ns = max(servers.now_ns, tenth * S_NS // 10)
        load.see(interval(tenth / 10, latency_s))
    load.see(Phase(time_ns=6 * S_NS, phase="measure", event="end"))
    turns: list[dict[str, Any]] = load.document()["turns"]
    return turns


def test_each_turn_begins_on_time_and_counts_when_sessions_have_its_settings() -> None:
    servers = _Servers()
    turns = taken(servers)
    assert servers.asked == ["fast", "yours", "fast"]
    assert [turn["variant"] for turn in turns] == ["fast", "yours", "fast"]
    assert [turn["to_ns"] / S_NS for turn in turns] == [2, 4, 6]
    for place, turn in enumerate(turns):
        assert 0.2 <= turn["from_ns"] / S_NS - 2 * place < 0.5


def test_after_slow_statements_a_turn_counts_later_but_at_least_half_of_it() -> None:
    turns = taken(_Servers(), latency_s=5.0)
    assert [round(turn["from_ns"] / S_NS, 1) for turn in turns[1:]] == [3.0, 5.0]


def test_settings_that_the_server_refuses_spoil_their_turns_alone() -> None:
    turns = taken(_Servers(refused="fast"))
    assert [turn["refused"] for turn in turns] == ["unrecognized value", "", "unrecognized value"]


def test_a_turn_never_counts_before_its_settings_are_there() -> None:
    servers = _Servers(takes_s=1.6)
    turns = taken(servers)
    begun = [turn for turn in turns if turn["from_ns"]]
    assert len(begun) >= 2
    for turn, changed_ns in zip(begun, servers.changed_ns, strict=False):
        assert turn["from_ns"] >= changed_ns
        assert turn["to_ns"] - turn["from_ns"] >= S_NS or turn is begun[-1], "half of its length"
