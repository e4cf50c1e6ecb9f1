"""Strips of the load's host where it is another, and of numbers laid on the axis by hand."""

from __future__ import annotations

from pgdyno.loop.strips.strip import Strip, within

LOAD_HOST = within(
    "Load host",
    Strip("load_cpu", "CPU of the load's host", "cores", "load_cpu", {"user": "user_ns + nice_ns",
           "system": "system_ns", "interrupts": "irq_ns + softirq_ns", "stolen": "steal_ns"},
          keys=("all",), is_stacked=True),
    Strip("load_run_queue", "Threads ready to run on the load's host", "threads", "load_scheduler",
          "running"),
    Strip("load_network", "Network of the load's host", "MB/s", "load_network",
          {"received": "received_bytes", "sent": "sent_bytes"}),
    Strip("load_tcp", "TCP trouble of the load's host", "a second", "load_tcp",
          {"sent again": "retransmits", "timeouts": "timeouts", "resets": "resets"}),
)  # fmt: skip

ELSEWHERE = within(
    "Elsewhere",
    Strip("outside", "Numbers from elsewhere", "as each says", "outside", "value", by="name unit"),
)  # fmt: skip
