"""Strips of the server's processes, and of a pooler."""

from __future__ import annotations

from pgdyno.loop.strips.strip import Strip, within

PROCESSES = within(
    "Processes",
    Strip("process_cpu", "CPU by kind of process", "cores", "backends", "run_ns", by="backend_type",
          is_stacked=True),
    Strip("process_wait", "Waiting for a core by kind of process", "processes", "backends",
          "wait_ns", by="backend_type", is_stacked=True),
    Strip("process_count", "Processes of the server", "processes", "backends", "processes",
          by="backend_type"),
    Strip("slices", "How often processes were given a core", "times/s", "backends", "slices",
          by="backend_type"),
    Strip("process_faults", "Page faults by kind of process", "faults/s",
          "process_usage", "minor_faults", by="backend_type"),
    Strip("process_major_faults", "Pages read for page faults by kind of process", "faults/s",
          "process_usage", "major_faults", by="backend_type"),
    Strip("process_io_delay", "Waiting for a disk by kind of process (delay accounting)",
          "processes", "process_usage", "io_delay_ns", by="backend_type"),
    Strip("process_memory", "Memory of one process by kind, shared pages divided", "MB",
          "footprint", "proportional_bytes", by="backend_type"),
    Strip("process_resident", "Resident memory of one process by kind", "MB", "footprint",
          "resident_bytes", by="backend_type"),
    Strip("program_memory", "Memory of our own programs", "MB", "programs", "resident_bytes",
          by="program"),
)  # fmt: skip

POOLER = within(
    "Pooler",
    Strip("pooler_servers", "Server connections of the pooler", "connections", "pooler",
          {"given to a client": "servers_active", "idle": "servers_idle + servers_used",
          "logging in": "servers_login + servers_tested"}, is_stacked=True),
    Strip("pooler_wait", "Longest wait in the pooler's queue", "s", "pooler", "longest_wait_ns",
          by="database"),
    Strip("pooler_queries", "Through the pooler", "a second", "pooler_traffic",
          {"transactions": "transactions", "queries": "queries"}),
    Strip("pooler_times", "Clients' time in the pooler", "s each second", "pooler_traffic",
          {"working": "transaction_time_ns", "waiting for a server connection": "wait_time_ns"}),
    Strip("pooler_each", "One through the pooler", "ms", "pooler_traffic",
          {"transaction": "transaction_time_ns / transactions",
           "wait for a server connection": "wait_time_ns / transactions"}),
    Strip("pooler_bytes", "Through the pooler", "MB/s", "pooler_traffic",
          {"from clients": "received_bytes", "to clients": "sent_bytes"}),
    Strip("pooler_cpu", "CPU of the pooler", "cores", "programs",
          {"user": "cpu_user_ns", "system": "cpu_system_ns"}, keys=("pooler",), is_stacked=True),
)  # fmt: skip
