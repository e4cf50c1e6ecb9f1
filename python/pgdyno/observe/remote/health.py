"""What another host's NVMe disks say of their health: asked once, through the host collector."""

from __future__ import annotations

import json

from pgdyno.clock import read_pair
from pgdyno.observe.collector import NotMeasurable
from pgdyno.observe.device.health import Health, HealthUnknown, parse_nvme, parse_smartctl
from pgdyno.observe.host.files import HostFiles
from pgdyno.observe.remote.host_session import HostLost, HostSession


def read_health_afar(command: tuple[str, ...], devices: tuple[str, ...]) -> dict[str, Health | str]:
    """Return the health of each disk such as nvme0n1, or in a sentence why it is not known."""
    session = HostSession(command, read_pair())
    try:
        session.open()
        session.take("health")
    except (NotMeasurable, HostLost) as error:
        return dict.fromkeys(devices, f"The server's host did not tell: {error}")
    finally:
        session.close()
    return {device: known_or_why(session.files, device) for device in devices}


def known_or_why(files: HostFiles, device: str) -> Health | str:
    """Return the health of one disk, of the sample `health`, or why it is not known."""
    try:
        return health_received(files, device)
    except HealthUnknown as error:
        return str(error)


def health_received(files: HostFiles, device: str) -> Health:
    """Return the health of one disk. Raises: HealthUnknown."""
    if not device.startswith("nvme"):
        raise HealthUnknown(f"The wear of {device} is not read: it is no NVMe disk.")
    if not files.exists(f"/health/{device}"):
        raise HealthUnknown(f"The wear of {device} was not asked for on its host.")
    told = files.text(f"/health/{device}").strip()
    if told == "none":
        raise HealthUnknown(
            f"The wear of {device} cannot be read there: neither nvme nor smartctl is installed."
        )
    try:
        document = json.loads(told)
    except ValueError:
        raise HealthUnknown(
            f"The wear of {device} cannot be read there: nvme and smartctl need root."
        ) from None
    return parse_smartctl(document) if "smartctl" in document else parse_nvme(document)
