"""Reads what disks, sensors and checkpoints did in the runs of each variant."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from pgdyno.analysis.devices import PLACES, DeviceQuantity, DevicesOfRuns
from pgdyno.answer.telemetry import energy_joules
from pgdyno.loop.counter_growth import counters_of, grown
from pgdyno.loop.journal import Visit
from pgdyno.loop.load_numbers import LoadNumbers
from pgdyno.observe.collector import NoticeKind
from pgdyno.observe.rates import Deltas
from pgdyno.store.stored_run import StoredRun

_OF_A_DISK = (
    DeviceQuantity("requests", "reads and writes", "requests/s"),
    DeviceQuantity("reads", "reads", "requests/s"),
    DeviceQuantity("writes", "writes", "requests/s"),
    DeviceQuantity("flushes", "flushes", "requests/s"),
    DeviceQuantity("read", "read", "MB/s"),
    DeviceQuantity("written", "written", "MB/s"),
    DeviceQuantity("read_time", "time of a read", "ms"),
    DeviceQuantity("write_time", "time of a write", "ms"),
    DeviceQuantity("flush_time", "time of a flush", "ms"),
    DeviceQuantity("queue", "mean queue", "requests"),
    DeviceQuantity("temperature", "highest temperature", "\xb0C"),
)
QUANTITIES = (
    *(
        DeviceQuantity(f"{place}_{of_disk.key}", f"{words}: {of_disk.words}", of_disk.unit)
        for place, words in PLACES.items()
        for of_disk in _OF_A_DISK
    ),
    DeviceQuantity("wal_generated", "WAL generated", "MB/s"),
    DeviceQuantity("checkpoints", "checkpoints begun in a run", "checkpoints"),
    DeviceQuantity("checkpoint_pages", "written by checkpoints", "pages/s"),
    DeviceQuantity("cleaner_pages", "written by the background writer", "pages/s"),
    DeviceQuantity("backend_pages", "written by backends", "pages/s"),
    DeviceQuantity("processor_temperature", "processors: highest temperature", "\xb0C"),
    DeviceQuantity("power", "processors: power", "W"),
    DeviceQuantity("energy", "processors: energy per transaction", "mJ"),
)
_TIMES = (
    ("read_time", "read_time_ns", "reads"),
    ("write_time", "write_time_ns", "writes"),
    ("flush_time", "flush_time_ns", "flushes"),
)
_PAGES = {
    "checkpoint_pages": "buffers_checkpoint",
    "cleaner_pages": "buffers_clean",
    "backend_pages": "buffers_backend",
}
_PROCESSOR_CHIPS = frozenset({"coretemp", "k10temp", "zenpower", "cpu_thermal"})


def devices_of_runs(
    variant: str,
    runs: Sequence[Visit],
    numbers: Mapping[int, LoadNumbers],
    server: Mapping[str, Any],
) -> DevicesOfRuns:
    """Return what was measured in each run of a variant, and why the rest is missing.

    Args: server, the facts of the variant's server as stored.
    """
    places: dict[str, str] = {}
    by_run, missing = [], []
    for visit in runs:
        of_run = _OfRun(visit.stored, numbers[visit.planned.number], server)
        places |= of_run.places
        by_run.append({key: value for key, value in of_run.values() if math.isfinite(value)})
        missing += list(of_run.missing(by_run[-1]))
    return DevicesOfRuns(variant, places, by_run, missing)


class _OfRun:
    """One stored run, in its measured phase."""

    def __init__(self, stored: StoredRun, numbers: LoadNumbers, server: Mapping[str, Any]) -> None:
        self._stored, self._numbers = stored, numbers
        self._storage = {place: server.get(f"{place}_storage") or {} for place in PLACES}
        disks = counters_of(stored, "disk")
        data, wal = data_disk(disks, self._storage["data"]), _named(disks, self._storage["wal"])
        is_apart = data is not None and wal is not None and wal.key != data.key
        self._disks = {"data": data, "wal": wal if is_apart else None}
        self._sensors = _highest_celsius(stored, numbers)

    @property
    def places(self) -> dict[str, str]:
        """Return the name of the disk of each place."""
        return {
            place: growth.key["device"]
            for place, growth in self._disks.items()
            if growth is not None
        }

    def values(self) -> Iterator[tuple[str, float]]:
        """Yield key and value of each quantity that the telemetry of the run has."""
        for place, growth in self._disks.items():
            if growth is not None:
                for key, value in (*self._of_disk(growth), *self._heat(place, growth)):
                    yield f"{place}_{key}", value
        yield from self._of_server()
        celsius = [value for (chip, _), value in self._sensors.items() if chip in _PROCESSOR_CHIPS]
        if celsius:
            yield "processor_temperature", max(celsius)
        joules = energy_joules(self._stored, self._numbers)
        completed = self._numbers.counts.completed
        if joules:
            yield "power", joules / self._numbers.seconds
            if completed:
                yield "energy", joules / completed * 1e3

    def missing(self, values: Mapping[str, float]) -> Iterator[str]:
        """Yield a sentence for each source that has no value."""
        reasons = {
            str(warning.get("source")): str(warning["message"])
            for warning in self._stored.warnings
            if warning["kind"] == NoticeKind.NOT_MEASURABLE
        }
        disk, storage = self._disks["data"], self._storage["data"]
        if disk is None and storage.get("device"):
            yield f"The kernel counts no requests of {storage['device']}, where the data are."
        elif disk is None:
            yield "No disk was observed, because the host of the server is not observed."
        elif not values.get("data_reads") and "data_reads" in values:
            yield f"A read has no time: nothing was read from {disk.key['device']}."
        if disk is not None and "data_temperature" not in values:
            unknown = f"No sensor shows the temperature of {disk.key['device']}."
            yield reasons.get("temperature", unknown)
        if "power" not in values:
            yield reasons.get("energy", "The power of the processors was not observed.")

    def _of_disk(self, growth: Deltas) -> Iterator[tuple[str, float]]:
        seconds = self._numbers.seconds
        total = {
            column: value
            for column in growth.by_column
            if (value := grown(growth, column, *self._numbers.span_ns)) is not None
        }
        for key in ("reads", "writes", "flushes"):
            if key in total:
                yield key, total[key] / seconds
        if {"reads", "writes"} <= total.keys():
            yield "requests", (total["reads"] + total["writes"]) / seconds
        for key, column in (("read", "read_bytes"), ("written", "write_bytes")):
            if column in total:
                yield key, total[column] / seconds / 1e6
        for key, time, count in _TIMES:
            if total.get(count) and time in total:
                yield key, total[time] / total[count] / 1e6
        if "queue_time_ns" in total:
            yield "queue", total["queue_time_ns"] / seconds / 1e9

    def _heat(self, place: str, growth: Deltas) -> Iterator[tuple[str, float]]:
        """Yield the highest temperature of the disks below a device, such as those of an array."""
        disks = {growth.key["device"], *self._storage[place].get("disks", ())}
        celsius = [value for (_, sensor), value in self._sensors.items() if sensor in disks]
        if celsius:
            yield "temperature", max(celsius)

    def _of_server(self) -> Iterator[tuple[str, float]]:
        span_ns, seconds = self._numbers.span_ns, self._numbers.seconds
        wal = next(iter(counters_of(self._stored, "wal")), None)
        position = grown(wal, "position_bytes", *span_ns)
        if position is not None:
            yield "wal_generated", position / seconds / 1e6
        growth = next(iter(counters_of(self._stored, "checkpointer")), None)
        if growth is None:
            return
        inside = (growth.time_ns > span_ns[0]) & (growth.time_ns <= span_ns[1])
        begun = ("checkpoints_timed", "checkpoints_requested")
        yield "checkpoints", sum(float(growth.by_column[name][inside].sum()) for name in begun)
        for key, column in _PAGES.items():
            pages = grown(growth, column, *span_ns)
            if pages is not None:
                yield key, pages / seconds


def data_disk(disks: Sequence[Deltas], storage: Mapping[str, Any]) -> Deltas | None:
    """Return the growth of the disk with the data.

    If the server does not show its device, as on another host, this is the disk that moved the most
    bytes. None: no disk moved any, or the data are in memory or on a network.
    Args: disks, of one run; storage, the place of the data as stored in the facts of a server.
    """
    named = _named(disks, storage)
    is_known = bool(storage.get("device")) and "disks" in storage
    return named if named is not None or is_known else _busiest(disks)


def _named(disks: Sequence[Deltas], storage: Mapping[str, Any]) -> Deltas | None:
    """Return the growth of a place's device, or of the disk below its partition, else None."""
    by_name = {growth.key["device"]: growth for growth in disks}
    below = storage.get("disks", ())
    # Of several disks below a device that is not sampled, none has the whole traffic.
    names = [storage.get("device"), *(below if len(below) == 1 else ())]
    return next((by_name[name] for name in names if name in by_name), None)


def _busiest(disks: Sequence[Deltas]) -> Deltas | None:
    """Return the disk that moved the most bytes, None if no disk moved any."""
    most = max(disks, key=moved_bytes, default=None)
    return most if most is not None and moved_bytes(most) else None


def moved_bytes(disk: Deltas) -> float:
    """Return how many bytes a disk read and wrote in all intervals."""
    columns = ("read_bytes", "write_bytes")
    return sum(float(np.nansum(disk.by_column[column])) for column in columns)


def _highest_celsius(stored: StoredRun, numbers: LoadNumbers) -> dict[tuple[str, str], float]:
    """Return the highest temperature in the measured phase, by chip and place of the sensor."""
    arrays = stored.telemetry("temperature")
    highest: dict[tuple[str, str], float] = {}
    if arrays is None:
        return highest
    began_ns, ended_ns = numbers.span_ns
    columns = (
        arrays[name].tolist() for name in ("time_ns", "chip", "place", "temperature_celsius")
    )
    for time_ns, chip, place, celsius in zip(*columns, strict=True):
        if began_ns <= time_ns <= ended_ns:
            sensor = str(chip), str(place)
            highest[sensor] = max(highest.get(sensor, -math.inf), float(celsius))
    return highest
