"""Strips of a host's memory."""

from __future__ import annotations

from pgdyno.loop.strips.strip import Strip, within

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
