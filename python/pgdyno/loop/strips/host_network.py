"""Strips of a host's network."""

from __future__ import annotations

from pgdyno.loop.strips.strip import Strip, within

HOST_NETWORK = within(
    "Host",
    Strip("network", "Network", "MB/s", "network",
          {"received": "received_bytes", "sent": "sent_bytes"}),
    Strip("network_received", "Received by interface", "MB/s", "network", "received_bytes",
          by="interface"),
    Strip("network_sent", "Sent by interface", "MB/s", "network", "sent_bytes", by="interface"),
    Strip("network_packets", "Network packets", "packets/s", "network",
          {"received": "received_packets", "sent": "sent_packets"}),
    Strip("network_errors", "Network packets damaged or dropped", "packets/s", "network",
          {"received damaged": "received_errors", "received, dropped": "received_dropped",
          "not sent": "sent_errors + sent_dropped"}),
    Strip("tcp", "TCP segments", "segments/s", "tcp",
          {"received": "received_segments", "sent": "sent_segments"}),
    Strip("tcp_trouble", "TCP trouble", "a second", "tcp", {"sent again": "retransmits",
           "timeouts": "timeouts", "resets": "resets",
          "refused: backlog full": "listen_overflows"}),
    Strip("tcp_connections", "TCP connections", "connections", "tcp", "established"),
)  # fmt: skip
