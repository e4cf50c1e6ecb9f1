"""Counts by group of processes that come and go, on processes made of numbers."""

from __future__ import annotations

from pgdyno.observe.processes.usage import (
    AT_A_TIME,
    Accounts,
    Counts,
    GroupTotal,
    Process,
    UsageCollector,
)


class Numbers:
    """A host whose processes are a dict."""

    def __init__(self) -> None:
        self.living: dict[int, Counts] = {}
        self.forgotten: list[int] = []

    def read(self, pid: int) -> Counts | None:
        return self.living.get(pid)

    def forget(self, pid: int) -> None:
        self.forgotten.append(pid)


def test_a_group_is_the_living_and_the_ended_as_they_were_last_seen() -> None:
    host = Numbers()
    accounts = Accounts(host, width=2)
    host.living = {1: (10, 1), 2: (20, 2)}
    for pid in accounts.unknown([1, 2]):
        accounts.assign(pid, "load")
    assert accounts.update([1, 2]) == {"load": GroupTotal(2, (30, 3))}
    host.living = {2: (25, 2)}
    assert accounts.update([2]) == {"load": GroupTotal(1, (35, 3))}
    # It was listed, and had gone when it was to be read.
    host.living = {}
    assert accounts.update([2]) == {"load": GroupTotal(0, (35, 3))}
    assert host.forgotten == [1, 2]


def test_a_number_that_was_given_anew_is_another_process() -> None:
    host = Numbers()
    accounts = Accounts(host, width=1)
    host.living = {1: (10,)}
    accounts.assign(1, "load")
    accounts.update([1])
    host.living = {1: (3,)}
    # Its counts fall: it is asked for its group before it counts.
    assert accounts.update([1]) == {"load": GroupTotal(0, (10,))}
    assert accounts.unknown([1]) == [1]
    accounts.assign(1, "walsender")
    assert accounts.update([1]) == {"load": GroupTotal(0, (10,)), "walsender": GroupTotal(1, (3,))}
    # A process that moves to another group has ended in the first.
    accounts.assign(1, "load")
    assert accounts.update([1]) == {"load": GroupTotal(1, (13,)), "walsender": GroupTotal(0, (3,))}


def test_a_process_that_ended_before_it_was_read_counts_nothing() -> None:
    accounts = Accounts(Numbers(), width=3)
    accounts.assign(7, "other")
    assert accounts.update([7]) == {"other": GroupTotal(0, (0, 0, 0))}


def test_of_many_processes_some_are_read_at_a_time_and_each_in_its_turn() -> None:
    host = Numbers()
    host.living = {1_000_000: (10**9, 1, 2, 0, 0)}
    processes = {1_000_000: Process("load", (1, 0, 1))}
    collector = UsageCollector(lambda: processes, host)
    collector.sample(0)
    del processes[1_000_000]
    host.living |= {pid: (10, 1, 2, 0, 0) for pid in range(3 * AT_A_TIME)}
    processes |= {pid: Process("load", (1, 0, 1)) for pid in range(3 * AT_A_TIME)}

    def added() -> int:
        total = collector.sample(0)[0]["cpu_user_ns"]
        assert isinstance(total, int)
        return total - 10**9

    seen = [added() for _ in range(4)]
    assert seen == [10 * AT_A_TIME, 20 * AT_A_TIME, 30 * AT_A_TIME, 30 * AT_A_TIME]
    # Only what ran since is read again.
    host.living = dict.fromkeys(host.living, (25, 1, 2, 0, 0))
    processes[7] = Process("load", (2, 0, 2))
    assert added() == 30 * AT_A_TIME + 15
    # A process that ended keeps what was seen of it.
    del processes[7]
    assert added() == 30 * AT_A_TIME + 15


def test_earlier_work_of_old_sessions_is_not_in_the_first_seconds() -> None:
    host = Numbers()
    host.living = {pid: (10**12, 1, 2, 0, 0) for pid in range(10 * AT_A_TIME)}
    processes = {pid: Process("load", (1, 0, 1)) for pid in host.living}
    collector = UsageCollector(lambda: processes, host)
    first = collector.sample(0)
    assert first[0]["cpu_user_ns"] == 10**12 * len(processes)
    assert collector.sample(0) == collector.sample(0) == first
