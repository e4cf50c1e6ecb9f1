"""Rounds of a tuning over several equal servers: every round, so every pair, stays on one. Pure.

A ratio compares runs of one server only, so the level of a server is in no ratio: a server that is
30 % slower than the others changes nothing. The levels themselves are a separate result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import psycopg
from psycopg.conninfo import conninfo_to_dict

from pgdyno.features.tune.trial import Effect, StageName

_THIS_HOST = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class Round:
    """One round that was done: its server, and the goals that could be measured, by candidate."""

    server_number: int
    goals: dict[str, float]


class Spread:
    """Which server the next round runs on: the one with the fewest rounds of its stage."""

    def __init__(self, servers: Sequence[int]) -> None:
        """Begin. Args: servers, their numbers; (0,) without equal servers."""
        self.servers = tuple(servers)
        self.lost: tuple[int, ...] = ()
        self._round_counts: Counter[tuple[StageName, int]] = Counter()

    @property
    def left(self) -> tuple[int, ...]:
        """Return the servers that are not lost."""
        return tuple(server for server in self.servers if server not in self.lost)

    def in_turn(self, stage: StageName) -> list[int]:
        """Return the servers that are left; those with the fewest rounds of the stage first."""
        return sorted(self.left, key=lambda server: (self._round_counts[stage, server], server))

    def take(self, stage: StageName, server: int) -> None:
        """Count a round that is complete."""
        self._round_counts[stage, server] += 1

    def lose(self, server: int) -> None:
        """Give the server no further round."""
        self.lost = (*self.lost, server)

    def whole_rounds(self, count: int) -> int:
        """Return the smallest number of rounds, at least `count`, with as many on each server."""
        return -(-count // len(self.left)) * len(self.left)


def are_apart(dsns: Sequence[str]) -> bool:
    """Return whether each connection string names another host, and none names this host.

    Limits: two names of the same host are two hosts here; a service is not a name of a host.
    """
    hosts = [_host_of(dsn) for dsn in dsns]
    is_remote = all(host and host[0] not in "/@" and host not in _THIS_HOST for host in hosts)
    return is_remote and len(set(hosts)) == len(hosts)


def _host_of(dsn: str) -> str:
    """Return the host or address that a connection string names, "" if it names none."""
    try:
        fields = conninfo_to_dict(dsn)
    except psycopg.Error:
        return ""
    return str(fields.get("host") or fields.get("hostaddr") or "").lower()


def level_of(goals: Sequence[tuple[int, float]], server: int, first: int) -> Effect:
    """Return the level of a server against the first one, from runs with the same settings.

    The n-th run of one is compared with the n-th run of the other: they are neighbours in time.
    Args: goals, server and log of the goal of each run, in the order of the runs.
    """
    own, other = ([goal for at, goal in goals if at == number] for number in (server, first))
    count = min(len(own), len(other))
    return Effect(f"server {server}", tuple(np.subtract(own[:count], other[:count]).tolist()))
