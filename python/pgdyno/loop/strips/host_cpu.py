"""Strips of a host's cores: time, queues, pressure, frequency, power."""

from __future__ import annotations

from pgdyno.loop.strips.strip import Strip, within

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
