"""Strips of a host's cores: time, queues, pressure, frequency, power."""

from __future__ import annotations

from pgdyno.answer.charts.chart import Strip, within

HOST_CPU = within(
    "Host",
    Strip("cores", "CPU by core", "cores busy", "cpu",
          "user_ns + nice_ns + system_ns + irq_ns + softirq_ns", by="core"),
    Strip("run_queue", "Threads ready to run, and waiting for a disk", "threads", "scheduler",
          {"running or ready": "running", "waiting for a disk": "blocked"}),
    Strip("load", "Load average over one minute", "threads", "scheduler", "load_1min_ratio"),
    Strip("switches", "Context switches", "switches/s", "scheduler", "context_switches"),
    Strip("forks", "Processes and threads begun", "a second", "scheduler", "forks"),
    Strip("pressure", "Some task waited for", "% of the time", "pressure", "some_ns",
          by="resource"),
    Strip("pressure_full", "Every task waited for", "% of the time", "pressure", "full_ns",
          by="resource"),
    Strip("throttling", "Kept off the CPU by a control group", "s each second", "throttling",
          "throttled_ns", by="program"),
    Strip("frequency", "Frequency of the cores", "GHz", "frequency",
          {"mean": "mean_hz", "slowest": "lowest_hz", "fastest": "highest_hz"}),
    Strip("heat", "Slowed by heat", "times/s", "frequency",
          {"cores": "core_throttles", "processors": "package_throttles"}),
    Strip("power", "Power (RAPL)", "W", "energy", "energy_uj", by="domain"),
)  # fmt: skip


HOST_MEMORY = within(
    "Host",
    Strip("memory", "Memory", "GB", "memory", {"programs": "anonymous_bytes",
           "shared": "shared_bytes", "cached files": "cached_bytes", "free": "free_bytes",
          "available": "available_bytes"}),
    Strip("dirty", "Pages waiting for the disk", "MB", "memory",
          {"dirty": "dirty_bytes", "being written": "writeback_bytes"}),
    Strip("page_tables", "Page tables", "MB", "memory", "page_tables_bytes"),
    Strip("committed", "Memory promised to programs", "GB", "memory",
          {"promised": "committed_bytes", "limit": "commit_limit_bytes"}),
    Strip("swap", "Swap space", "GB", "memory",
          {"total": "swap_total_bytes", "free": "swap_free_bytes"}),
    Strip("paging", "Paged between memory and disks", "MB/s", "paging",
          {"in": "paged_in_bytes", "out": "paged_out_bytes"}),
    Strip("swapping", "Swapped", "MB/s", "paging",
          {"in": "swapped_in_bytes", "out": "swapped_out_bytes"}),
    Strip("faults", "Page faults", "faults/s", "paging",
          {"all": "faults", "that waited for a disk": "major_faults"}),
    Strip("reclaim", "Pages looked at and taken back when memory ran short", "pages/s", "paging",
          {"looked at": "scanned_pages", "taken back": "stolen_pages",
          "by programs that had to wait": "direct_scans"}),
)  # fmt: skip


HOST_DISK = within(
    "Host",
    Strip("disk_requests", "Disk requests", "requests/s", "disk",
          {"reads": "reads", "writes": "writes", "flushes": "flushes", "discards": "discards"}),
    Strip("disk_requests_by", "Requests by disk", "requests/s", "disk", "reads + writes",
          by="device"),
    Strip("disk_read", "Read by disk", "MB/s", "disk", "read_bytes", by="device"),
    Strip("disk_written", "Written by disk", "MB/s", "disk", "write_bytes", by="device"),
    Strip("disk_read_time", "Time of a read by disk", "ms", "disk", "read_time_ns / reads",
          by="device"),
    Strip("disk_write_time", "Time of a write by disk", "ms", "disk", "write_time_ns / writes",
          by="device"),
    Strip("disk_flush_time", "Time of a flush by disk", "ms", "disk", "flush_time_ns / flushes",
          by="device"),
    Strip("disk_queue", "Mean queue by disk", "requests", "disk", "queue_time_ns", by="device"),
    Strip("disk_busy", "Disks with at least one request", "% of the time", "disk", "busy_ns",
          by="device", note="Says little of disks that work on many requests at once."),
    Strip("inodes", "Free inodes", "files", "space", "available_files", by="place"),
    Strip("space", "Free space", "GB", "space", "available_bytes", by="place"),
)  # fmt: skip


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
