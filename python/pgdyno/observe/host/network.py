"""Bytes, packets and errors by network interface: /proc/net/dev."""

from __future__ import annotations

from typing import ClassVar

from pgdyno.observe.collector import SECOND_NS, Row
from pgdyno.observe.column import Column, counter, key
from pgdyno.observe.host.files import HERE, HostFiles

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


def parse(text: str) -> list[Row]:
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


class NetworkCollector:
    """Samples /proc/net/dev."""

    name: ClassVar[str] = "network"
    meaning: ClassVar[str] = "Bytes, packets and errors by network interface"
    interval_ns: ClassVar[int] = SECOND_NS
    columns: ClassVar[tuple[Column, ...]] = (
        key("interface", "name; 'lo' is this host talking to itself"),
        counter("received_bytes", "bytes", "received"),
        counter("received_packets", "packets", "received"),
        counter("received_errors", "packets", "received damaged"),
        counter("received_dropped", "packets", "received and thrown away"),
        counter("sent_bytes", "bytes", "sent"),
        counter("sent_packets", "packets", "sent"),
        counter("sent_errors", "packets", "that could not be sent"),
        counter("sent_dropped", "packets", "thrown away before they were sent"),
    )

    def __init__(self, files: HostFiles = HERE) -> None:
        self._files = files

    def sample(self, now_ns: int) -> list[Row]:  # noqa: ARG002 - the interface of every collector
        """Return one row an interface."""
        return parse(self._files.text("/proc/net/dev"))
