"""Reads the health that a disk reports: wear, spare blocks, media errors, throttling by heat.

It is read before and after a run, with `nvme smart-log` or `smartctl`, if the user may run one of
them.
Source: NVM Express base specification, SMART / Health Information log page (02h).
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from typing import Any

from pgdyno.errors import ProcessError
from pgdyno.process.child import run

_TIMEOUT_S = 3.0
_UNIT_BYTES = 1000 * 512
_KELVIN = 273


@dataclass(frozen=True, slots=True)
class Health:
    """The counters of one NVMe disk since it was made; None: this disk has no such counter."""

    used_percent: int | None
    available_spare_percent: int | None
    temperature_celsius: int | None
    read_bytes: int | None
    written_bytes: int | None
    media_errors: int | None
    unsafe_shutdowns: int | None
    too_warm_minutes: int | None
    critical_minutes: int | None
    slowed_count: int | None
    slowed_seconds: int | None


class HealthUnknown(Exception):
    """The disk's health cannot be read here; the text is one sentence with the reason."""


def read_health(device: str) -> Health:
    """Return the health of a disk such as nvme0n1.

    Raises: HealthUnknown; InterruptedByUser.
    """
    if not device.startswith("nvme"):
        raise HealthUnknown(f"The wear of {device} is not read: it is not an NVMe disk.")
    nvme, smartctl = shutil.which("nvme"), shutil.which("smartctl")
    if nvme is not None:
        return parse_nvme(_said([nvme, "smart-log", "--output-format=json", f"/dev/{device}"]))
    if smartctl is not None:
        return parse_smartctl(_said([smartctl, "--json", "--all", f"/dev/{device}"]))
    raise HealthUnknown(
        f"The wear of {device} cannot be read: neither nvme nor smartctl is installed."
    )


def parse_nvme(document: dict[str, Any]) -> Health:
    """Return the counters of `nvme smart-log --output-format=json`; temperatures are in kelvin."""
    times = [document.get(f"thm_temp{kind}_total_time") for kind in (1, 2)]
    counts = [document.get(f"thm_temp{kind}_trans_count") for kind in (1, 2)]
    kelvin = _whole(document.get("temperature"))
    return Health(
        used_percent=_whole(document.get("percent_used", document.get("percentage_used"))),
        available_spare_percent=_whole(document.get("avail_spare")),
        temperature_celsius=kelvin - _KELVIN if kelvin else None,
        read_bytes=_units(document.get("data_units_read")),
        written_bytes=_units(document.get("data_units_written")),
        media_errors=_whole(document.get("media_errors")),
        unsafe_shutdowns=_whole(document.get("unsafe_shutdowns")),
        too_warm_minutes=_whole(document.get("warning_temp_time")),
        critical_minutes=_whole(document.get("critical_comp_time")),
        slowed_count=_sum(counts),
        slowed_seconds=_sum(times),
    )


def parse_smartctl(document: dict[str, Any]) -> Health:
    """Return the counters of `smartctl --json --all`, which has no count of throttling by heat."""
    log = document.get("nvme_smart_health_information_log", {})
    if not log:
        raise HealthUnknown("smartctl tells nothing of the disk's health.")
    return Health(
        used_percent=_whole(log.get("percentage_used")),
        available_spare_percent=_whole(log.get("available_spare")),
        temperature_celsius=_whole(log.get("temperature")),
        read_bytes=_units(log.get("data_units_read")),
        written_bytes=_units(log.get("data_units_written")),
        media_errors=_whole(log.get("media_errors")),
        unsafe_shutdowns=_whole(log.get("unsafe_shutdowns")),
        too_warm_minutes=_whole(log.get("warning_temp_time")),
        critical_minutes=_whole(log.get("critical_comp_time")),
        slowed_count=None,
        slowed_seconds=None,
    )


def slowed_by_heat(before: Health, after: Health) -> bool:
    """Return whether the disk was too warm, or slowed itself, between two readings."""
    pairs = (
        (before.slowed_count, after.slowed_count),
        (before.slowed_seconds, after.slowed_seconds),
        (before.too_warm_minutes, after.too_warm_minutes),
        (before.critical_minutes, after.critical_minutes),
    )
    return any(was is not None and now is not None and now > was for was, now in pairs)


def _said(argv: list[str]) -> dict[str, Any]:
    try:
        done = run(argv, timeout_s=_TIMEOUT_S)
        document = json.loads(done.stdout)
    except ProcessError as error:
        raise HealthUnknown(f"The disk's health cannot be read: {error.message}") from None
    except ValueError:
        said = (done.stderr or done.stdout).strip().splitlines()
        words = said[-1].rstrip(".") if said else f"exit code {done.returncode}"
        raise HealthUnknown(f"The disk's health cannot be read: {argv[0]}: {words}.") from None
    return document if isinstance(document, dict) else {}


def _whole(value: Any) -> int | None:
    """Return a number; large numbers are printed as text."""
    return int(value) if str(value).strip().isdigit() else None


def _units(value: Any) -> int | None:
    units = _whole(value)
    return None if units is None else units * _UNIT_BYTES


def _sum(values: list[Any]) -> int | None:
    known = [number for number in map(_whole, values) if number is not None]
    return sum(known) if known else None
