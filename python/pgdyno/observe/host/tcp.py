"""TCP over all interfaces: segments, retransmits, resets, overflowing queues: /proc/net/snmp."""

from __future__ import annotations

from typing import ClassVar

from pgdyno.observe.collector import SECOND_NS, Row
from pgdyno.observe.column import Column, counter, gauge
from pgdyno.observe.host.files import HERE, HostFiles, text_or_nothing

# Column, unit, protocol and field of /proc/net/snmp or netstat, meaning.
_FIELDS: tuple[tuple[str, str, str, str, str], ...] = (
    ("opened_actively", "connections", "Tcp", "ActiveOpens", "begun from this host"),
    ("opened_passively", "connections", "Tcp", "PassiveOpens", "accepted"),
    ("failed_attempts", "connections", "Tcp", "AttemptFails", "never established"),
    ("resets", "connections", "Tcp", "EstabResets", "that ended in a reset"),
    ("received_segments", "segments", "Tcp", "InSegs", "received, damaged ones included"),
    ("sent_segments", "segments", "Tcp", "OutSegs", "sent, retransmits left out"),
    ("retransmits", "segments", "Tcp", "RetransSegs", "sent again"),
    ("received_errors", "segments", "Tcp", "InErrs", "received damaged"),
    ("timeouts", "timeouts", "TcpExt", "TCPTimeouts", "retransmits after silence, no fast ones"),
    ("lost_retransmits", "segments", "TcpExt", "TCPLostRetransmit", "sent again, and lost again"),
    (
        "listen_overflows",
        "connections",
        "TcpExt",
        "ListenOverflows",
        "refused: the backlog was full",
    ),
    ("listen_drops", "connections", "TcpExt", "ListenDrops", "dropped before they were accepted"),
)


def parse(snmp: str, netstat: str) -> Row:
    """Return the counters of both files; None for what this kernel does not count."""
    found = _pairs(snmp) | _pairs(netstat)
    row: Row = {"established": found.get(("Tcp", "CurrEstab"))}
    row |= {column: found.get((protocol, name)) for column, _, protocol, name, _ in _FIELDS}
    return row


class TcpCollector:
    """Samples /proc/net/snmp and /proc/net/netstat of this network name space."""

    name: ClassVar[str] = "tcp"
    meaning: ClassVar[str] = "TCP segments, retransmits, resets and refused connections"
    interval_ns: ClassVar[int] = SECOND_NS
    columns: ClassVar[tuple[Column, ...]] = (
        gauge("established", "connections", "established at this instant", is_nullable=True),
        *(
            counter(name, unit, meaning, is_nullable=True, wraps_at=1 << 32)
            for name, unit, _, _, meaning in _FIELDS
        ),
    )

    def __init__(self, files: HostFiles = HERE) -> None:
        self._files = files

    def sample(self, now_ns: int) -> list[Row]:  # noqa: ARG002 - the interface of every collector
        """Return one row."""
        netstat = text_or_nothing(self._files, "/proc/net/netstat")
        return [parse(self._files.text("/proc/net/snmp"), netstat)]


def _pairs(text: str) -> dict[tuple[str, str], int]:
    """Return the values by protocol and field: a line of names, then a line of numbers."""
    lines = text.splitlines()
    found: dict[tuple[str, str], int] = {}
    for names, values in zip(lines[::2], lines[1::2], strict=False):
        protocol, _, rest = names.partition(":")
        numbers = values.partition(":")[2].split()
        for name, number in zip(rest.split(), numbers, strict=False):
            found[protocol, name] = int(number)
    return found
