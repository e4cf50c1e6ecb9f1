"""Traffic by network interface (/proc/net/dev), and TCP counters (/proc/net/snmp, netstat)."""

from __future__ import annotations

from typing import ClassVar

from pgdyno.observe.collector import Column, Row, counter, gauge, key
from pgdyno.observe.host.files import HostCollector, text_or_nothing

# Place of each counter among the sixteen numbers of a line.
_PLACES = {
    "received_bytes": 0,
    "received_packets": 1,
    "received_errors": 2,
    "received_dropped": 3,
    "sent_bytes": 8,
    "sent_packets": 9,
    "sent_errors": 10,
    "sent_dropped": 11,
}


def parse_network(text: str) -> list[Row]:
    """Return one row for each interface that ever carried a packet."""
    rows: list[Row] = []
    for line in text.splitlines():
        name, colon, rest = line.rpartition(":")
        words = rest.split()
        if not colon or len(words) < 16 or not any(word != "0" for word in words):
            continue
        row: Row = {"interface": name.strip()}
        row |= {column: int(words[place]) for column, place in _PLACES.items()}
        rows.append(row)
    return rows


class NetworkCollector(HostCollector):
    """Samples /proc/net/dev."""

    name: ClassVar[str] = "network"
    meaning: ClassVar[str] = "Bytes, packets and errors by network interface"
    columns: ClassVar[tuple[Column, ...]] = (
        key("interface", "name; 'lo' has the traffic within this host"),
        counter("received_bytes", "bytes", "received"),
        counter("received_packets", "packets", "received"),
        counter("received_errors", "packets", "received damaged"),
        counter("received_dropped", "packets", "received and discarded"),
        counter("sent_bytes", "bytes", "sent"),
        counter("sent_packets", "packets", "sent"),
        counter("sent_errors", "packets", "that could not be sent"),
        counter("sent_dropped", "packets", "discarded before they were sent"),
    )

    def sample(self, now_ns: int) -> list[Row]:  # noqa: ARG002 - the interface of every collector
        """Return one row for each interface."""
        return parse_network(self._files.text("/proc/net/dev"))


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
_PROTOCOLS = {protocol for _, _, protocol, _, _ in _FIELDS}


def parse_tcp(snmp: str, netstat: str) -> Row:
    """Return the counters of both files; None for what this kernel does not count."""
    protocols = _pairs(snmp) | _pairs(netstat)
    fields = [("established", "Tcp", "CurrEstab")]
    fields += [(column, protocol, name) for column, _, protocol, name, _ in _FIELDS]
    return {
        column: int(protocols[protocol][name]) if name in protocols.get(protocol, {}) else None
        for column, protocol, name in fields
    }


class TcpCollector(HostCollector):
    """Samples /proc/net/snmp and /proc/net/netstat of this network name space."""

    name: ClassVar[str] = "tcp"
    meaning: ClassVar[str] = "TCP segments, retransmits, resets and refused connections"
    columns: ClassVar[tuple[Column, ...]] = (
        gauge("established", "connections", "established at this instant", is_nullable=True),
        *(counter(name, unit, meaning, is_nullable=True) for name, unit, _, _, meaning in _FIELDS),
    )

    def sample(self, now_ns: int) -> list[Row]:  # noqa: ARG002 - the interface of every collector
        """Return one row."""
        netstat = text_or_nothing(self._files, "/proc/net/netstat")
        return [parse_tcp(self._files.text("/proc/net/snmp"), netstat)]


def _pairs(text: str) -> dict[str, dict[str, str]]:
    """Return the values by protocol and field: a line of names, then a line of numbers."""
    lines = text.splitlines()
    protocols: dict[str, dict[str, str]] = {}
    for names, values in zip(lines[::2], lines[1::2], strict=False):
        protocol, _, rest = names.partition(":")
        if protocol in _PROTOCOLS:
            numbers = values.partition(":")[2].split()
            protocols[protocol] = dict(zip(rest.split(), numbers, strict=False))
    return protocols
