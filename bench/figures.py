"""Figures of one run that the rows of `make bench` compare."""

from __future__ import annotations

from bench.loads import Measured


def cpu_per_transaction(run: Measured) -> float:
    """Return the client's CPU time of one transaction, ns."""
    return run.cpu_ns_per_transaction


def steady_cpu_per_transaction(run: Measured) -> float:
    """Return the same without the CPU time of connecting, ns."""
    return run.steady_cpu_ns_per_transaction


def throughput(run: Measured) -> float:
    """Return transactions per second."""
    return run.tps


def peak_memory(run: Measured) -> float:
    """Return the largest resident size, bytes."""
    return float(run.resident_bytes_max)


def connecting(run: Measured) -> float:
    """Return the time until all clients were connected, s."""
    return run.connect_s


def watch_cost(run: Measured) -> float:
    """Return the share of a core that telemetry took, or may take."""
    return run.watch_core_ratio


def cpu(run: Measured) -> float:
    """Return the CPU time of the program, ns."""
    return float(run.cpu_ns)


def page_size(run: Measured) -> float:
    """Return the size of the page that it wrote, bytes."""
    return float(run.page_bytes)


def duration(run: Measured) -> float:
    """Return the time that the program ran, ns."""
    return float(run.wall_ns)
