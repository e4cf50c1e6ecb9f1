"""Strips of a host's disks and file systems."""

from __future__ import annotations

from pgdyno.loop.strips.strip import Strip, within

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
