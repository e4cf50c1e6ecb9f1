"""Every chart of telemetry, in reading order; all charts of pgcluu are among them."""

from __future__ import annotations

from collections.abc import Iterable

from pgdyno.answer.charts.chart import TelemetryChart, chart, line, only
from pgdyno.answer.charts.host import HOST_CPU, HOST_DISK, HOST_MEMORY, HOST_NETWORK, LOAD_HOST
from pgdyno.answer.charts.server import ACTIVITY, COPIES, POOLER, PROCESSES, TABLES, WRITING
from pgdyno.loop.took_part import parts_of_run
from pgdyno.store.stored_run import StoredRun

WATCHED = (
    chart("tps", "Transactions of the whole server, without our own", "tps", "database",
          line("committed", "xact_commit", minus=("own_transactions", "parallel_transactions")),
          line("rolled back", "xact_rollback")),
)  # fmt: skip
FIRST = (
    chart("wal", "WAL", "MB/s", "wal", line("generated", "position_bytes")),
    chart("buffers_written", "Who wrote dirty buffers", "blocks/s", "checkpointer",
          line("checkpointer", "buffers_checkpoint"), line("background writer", "buffers_clean"),
          line("backends", "buffers_backend"), is_stacked=True),
    chart("cpu", "CPU of the host", "cores", "cpu", line("user", "user_ns", "nice_ns"),
          line("system", "system_ns"), line("interrupts", "irq_ns", "softirq_ns"),
          line("waiting for I/O", "iowait_ns"), line("stolen", "steal_ns"), keys=("all",),
          is_stacked=True),
    chart("disk", "Disks", "MB/s", "disk", line("read", "read_bytes"),
          line("written", "write_bytes")),
    chart("temperature", "Temperature", "\xb0C", "temperature", only("temperature_celsius"),
          by=("place", "sensor")),
    chart("pooler_clients", "Clients of the pooler", "clients", "pooler",
          line("active", "clients_active"),
          line("waiting for a server connection", "clients_waiting")),
)  # fmt: skip
_SERVER = (*ACTIVITY, *WRITING, *TABLES, *COPIES)
_HOST = (
    *(*PROCESSES, *POOLER),
    *(*HOST_CPU, *HOST_MEMORY, *HOST_DISK, *HOST_NETWORK, *LOAD_HOST),
)


def further_charts(runs: Iterable[StoredRun]) -> tuple[TelemetryChart, ...]:
    """Return the charts that follow the first ones, with those of the features that took part."""
    made = (charts for run in runs for charts in parts_of_run("charts", run))
    of_features = dict.fromkeys(chart for charts in made for chart in charts)
    return (*_SERVER, *of_features, *_HOST)
