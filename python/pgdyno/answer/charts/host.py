"""Charts of the server's host (cores, memory, disks, network), the load's host, own commands."""

from __future__ import annotations

from pgdyno.answer.charts.chart import chart, line, only, within

HOST_CPU = within(
    "Host",
    chart("cores", "CPU by core", "cores busy", "cpu",
          only("user_ns", "nice_ns", "system_ns", "irq_ns", "softirq_ns"), by=("core",)),
    chart("run_queue", "Threads ready to run, and waiting for a disk", "threads", "scheduler",
          line("running or ready", "running"), line("waiting for a disk", "blocked")),
    chart("load", "Load average over one minute", "threads", "scheduler", only("load_1min_ratio")),
    chart("switches", "Context switches", "switches/s", "scheduler", only("context_switches")),
    chart("forks", "Processes and threads begun", "a second", "scheduler", only("forks")),
    chart("pressure", "Some task waited for", "% of the time", "pressure", only("some_ns"),
          by=("resource",)),
    chart("pressure_full", "Every task waited for", "% of the time", "pressure", only("full_ns"),
          by=("resource",)),
    chart("throttling", "Stopped by the CPU limit of a control group", "s each second",
          "throttling", only("throttled_ns"), by=("program",)),
    chart("frequency", "Frequency of the cores", "GHz", "frequency", line("mean", "mean_hz"),
          line("slowest", "lowest_hz"), line("fastest", "highest_hz")),
    chart("heat", "Slowed by heat", "times/s", "frequency", line("cores", "core_throttles"),
          line("processors", "package_throttles")),
    chart("power", "Power (RAPL)", "W", "energy", only("energy_uj"), by=("domain",)),
)  # fmt: skip


HOST_MEMORY = within(
    "Host",
    chart("memory", "Memory", "GB", "memory", line("programs", "anonymous_bytes"),
          line("shared", "shared_bytes"), line("cached files", "cached_bytes"),
          line("free", "free_bytes"), line("available", "available_bytes")),
    chart("dirty", "Pages waiting for the disk", "MB", "memory", line("dirty", "dirty_bytes"),
          line("being written", "writeback_bytes")),
    chart("page_tables", "Page tables", "MB", "memory", only("page_tables_bytes")),
    chart("committed", "Memory promised to programs", "GB", "memory",
          line("promised", "committed_bytes"), line("limit", "commit_limit_bytes")),
    chart("swap", "Swap space", "GB", "memory", line("total", "swap_total_bytes"),
          line("free", "swap_free_bytes")),
    chart("paging", "Paged between memory and disks", "MB/s", "paging",
          line("in", "paged_in_bytes"), line("out", "paged_out_bytes")),
    chart("swapping", "Swapped", "MB/s", "paging", line("in", "swapped_in_bytes"),
          line("out", "swapped_out_bytes")),
    chart("faults", "Page faults", "faults/s", "paging", line("all", "faults"),
          line("that waited for a disk", "major_faults")),
    chart("reclaim", "Pages scanned and reclaimed when memory ran short", "pages/s", "paging",
          line("looked at", "scanned_pages"), line("taken back", "stolen_pages"),
          line("by programs that had to wait", "direct_scans")),
)  # fmt: skip


HOST_DISK = within(
    "Host",
    chart("disk_requests", "Disk requests", "requests/s", "disk", line("reads", "reads"),
          line("writes", "writes"), line("flushes", "flushes"), line("discards", "discards")),
    chart("disk_requests_by", "Requests by disk", "requests/s", "disk", only("reads", "writes"),
          by=("device",)),
    chart("disk_read", "Read by disk", "MB/s", "disk", only("read_bytes"), by=("device",)),
    chart("disk_written", "Written by disk", "MB/s", "disk", only("write_bytes"), by=("device",)),
    chart("disk_read_time", "Time of a read by disk", "ms", "disk",
          only("read_time_ns", over="reads"), by=("device",)),
    chart("disk_write_time", "Time of a write by disk", "ms", "disk",
          only("write_time_ns", over="writes"), by=("device",)),
    chart("disk_flush_time", "Time of a flush by disk", "ms", "disk",
          only("flush_time_ns", over="flushes"), by=("device",)),
    chart("disk_queue", "Mean queue by disk", "requests", "disk", only("queue_time_ns"),
          by=("device",)),
    chart("disk_busy", "Disks with at least one request", "% of the time", "disk", only("busy_ns"),
          by=("device",), note="A disk can work on many requests at once."),
    chart("inodes", "Free inodes", "files", "space", only("available_files"), by=("place",)),
    chart("space", "Free space", "GB", "space", only("available_bytes"), by=("place",)),
)  # fmt: skip


HOST_NETWORK = within(
    "Host",
    chart("network", "Network", "MB/s", "network", line("received", "received_bytes"),
          line("sent", "sent_bytes")),
    chart("network_received", "Received by interface", "MB/s", "network", only("received_bytes"),
          by=("interface",)),
    chart("network_sent", "Sent by interface", "MB/s", "network", only("sent_bytes"),
          by=("interface",)),
    chart("network_packets", "Network packets", "packets/s", "network",
          line("received", "received_packets"), line("sent", "sent_packets")),
    chart("network_errors", "Network packets damaged or dropped", "packets/s", "network",
          line("received damaged", "received_errors"),
          line("received, dropped", "received_dropped"),
          line("not sent", "sent_errors", "sent_dropped")),
    chart("tcp", "TCP segments", "segments/s", "tcp", line("received", "received_segments"),
          line("sent", "sent_segments")),
    chart("tcp_trouble", "TCP errors", "a second", "tcp", line("sent again", "retransmits"),
          line("timeouts", "timeouts"), line("resets", "resets"),
          line("refused: backlog full", "listen_overflows")),
    chart("tcp_connections", "TCP connections", "connections", "tcp", only("established")),
)  # fmt: skip


LOAD_HOST = within(
    "Load host",
    chart("load_cpu", "CPU of the load's host", "cores", "load_cpu",
          line("user", "user_ns", "nice_ns"), line("system", "system_ns"),
          line("interrupts", "irq_ns", "softirq_ns"), line("stolen", "steal_ns"), keys=("all",),
          is_stacked=True),
    chart("load_run_queue", "Threads ready to run on the load's host", "threads", "load_scheduler",
          only("running")),
    chart("load_network", "Network of the load's host", "MB/s", "load_network",
          line("received", "received_bytes"), line("sent", "sent_bytes")),
    chart("load_tcp", "TCP errors of the load's host", "a second", "load_tcp",
          line("sent again", "retransmits"), line("timeouts", "timeouts"),
          line("resets", "resets")),
)  # fmt: skip
