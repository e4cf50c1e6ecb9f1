"""Every strip there is, in the order they are read; the charts that pgcluu has are the floor."""

from __future__ import annotations

from pgdyno.loop.strips.activity import ACTIVITY
from pgdyno.loop.strips.elsewhere import ELSEWHERE, LOAD_HOST
from pgdyno.loop.strips.host_cpu import HOST_CPU
from pgdyno.loop.strips.host_disk import HOST_DISK
from pgdyno.loop.strips.host_memory import HOST_MEMORY
from pgdyno.loop.strips.host_network import HOST_NETWORK
from pgdyno.loop.strips.programs import POOLER, PROCESSES
from pgdyno.loop.strips.strip import Strip
from pgdyno.loop.strips.tables import TABLES
from pgdyno.loop.strips.writing import COPIES, WRITING

WATCHED = (
    Strip("tps", "Transactions of the whole server, without our own", "tps", "database",
          {"committed": "xact_commit - own_transactions", "rolled back": "xact_rollback"}),
)  # fmt: skip
FIRST = (
    Strip("wal", "WAL", "MB/s", "wal", {"generated": "position_bytes"}),
    Strip("buffers_written", "Who wrote dirty buffers", "blocks/s", "checkpointer",
          {"checkpointer": "buffers_checkpoint", "background writer": "buffers_clean",
          "backends": "buffers_backend"}, is_stacked=True),
    Strip("cpu", "CPU of the host", "cores", "cpu", {"user": "user_ns + nice_ns",
           "system": "system_ns", "interrupts": "irq_ns + softirq_ns",
          "waiting for I/O": "iowait_ns", "stolen": "steal_ns"}, keys=("all",), is_stacked=True),
    Strip("disk", "Disks", "MB/s", "disk", {"read": "read_bytes", "written": "write_bytes"}),
    Strip("temperature", "Temperature", "\u00b0C", "temperature", "temperature_celsius",
          by="place sensor"),
    Strip("pooler_clients", "Clients of the pooler", "clients", "pooler",
          {"active": "clients_active", "waiting for a server connection": "clients_waiting"}),
)  # fmt: skip
FURTHER = (
    *(*ACTIVITY, *WRITING, *TABLES, *COPIES, *PROCESSES, *POOLER),
    *(*HOST_CPU, *HOST_MEMORY, *HOST_DISK, *HOST_NETWORK, *LOAD_HOST, *ELSEWHERE),
)
