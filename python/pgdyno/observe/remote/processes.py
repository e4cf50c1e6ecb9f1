"""The server's processes on a remote host, from the files that the host collector sent."""

from __future__ import annotations

import json
from collections.abc import Callable

from pgdyno.clock import read_pair
from pgdyno.observe.collector import NotMeasurable
from pgdyno.observe.device.health import Health, HealthUnknown, parse_nvme, parse_smartctl
from pgdyno.observe.host.files import HostFiles
from pgdyno.observe.processes.backends import postgres_parent
from pgdyno.observe.processes.proc_files import parse_schedstat, parse_usage
from pgdyno.observe.processes.usage import Counts, UsageReader
from pgdyno.observe.remote.host_session import HostLost, HostSession


class ReceivedProcesses:
    """The server's processes in the last sample; the script finds them by the pid of a backend."""

    def __init__(self, session: HostSession) -> None:
        self._session = session
        self.times: UsageReader = _ReceivedFiles(session, "schedstat", parse_schedstat)
        self.usage: UsageReader = _ReceivedFiles(session, "stat", parse_usage)

    def postmaster_of(self, backend_pid: int) -> int:
        """Return the parent of one of the server's backends; 0 until a sample has it."""
        if self._session.sampled_pid != backend_pid:
            self._session.backend_pid = backend_pid
            return 0
        text = self._session.files.by_path.get(f"/proc/{backend_pid}/stat", "")
        postmaster_pid = postgres_parent(text) if text else 0
        if not postmaster_pid:
            raise NotMeasurable(
                f"The server's processes cannot be seen on host {self._session.host}: process"
                f" {backend_pid} is no PostgreSQL there. Is it another host, or a container?"
            )
        self._session.server_pids = {"server": postmaster_pid}
        return postmaster_pid

    def children(self, pid: int) -> list[int]:
        """Return the children of the postmaster: all processes that were sent, except `pid`."""
        sent = [path.split("/") for path in self._session.files.by_path]
        numbers = [words[2] for words in sent if words[-1] == "schedstat"]
        return [int(number) for number in numbers if int(number) != pid]


class _ReceivedFiles:
    """Reads one file of each process from the last sample."""

    def __init__(self, session: HostSession, name: str, parse: Callable[[bytes], Counts]) -> None:
        self._session, self._name, self._parse = session, name, parse

    def read(self, pid: int) -> Counts | None:
        """Return the counts of a process, None when it is gone."""
        try:
            text = self._session.files.by_path[f"/proc/{pid}/{self._name}"]
            return self._parse(text.encode())
        except (KeyError, ValueError, IndexError):
            return None

    def forget(self, pid: int) -> None:
        """Do nothing: every sample has all processes."""


def read_health_afar(command: tuple[str, ...], devices: tuple[str, ...]) -> dict[str, Health | str]:
    """Return the health of each disk such as nvme0n1, or a sentence why it is not known."""
    session = HostSession(command, read_pair())
    try:
        session.open()
        session.take("health")
    except (NotMeasurable, HostLost) as error:
        return dict.fromkeys(devices, f"The server's host did not report it: {error}")
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
        raise HealthUnknown(f"The wear of {device} is not read: it is not an NVMe disk.")
    if not files.exists(f"/health/{device}"):
        raise HealthUnknown(f"pgdyno did not read the wear of {device} on its host.")
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
