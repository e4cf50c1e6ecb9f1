"""Starts a worker on each load host, by ssh or on this host.

It needs no Dask: the workers load their packages while the lab loads its own.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import IO, TYPE_CHECKING

from pgdyno.features.hosts.there import worker
from pgdyno.observe.remote.host_session import ssh_command
from pgdyno.process import child
from pgdyno.process.child import Child
from pgdyno.spec.hosts import Hosts

if TYPE_CHECKING:
    from pgdyno.features.hosts.certificates import Identities

PYTHON = "PGDYNO_HOSTS_PYTHON"
_SSH = "PGDYNO_SSH"
_START = "import json,sys;start=json.loads(sys.stdin.readline());exec(start['code'])"
# The shell removes the folder of a worker that was killed, too.
_SHELL = (
    "PGDYNO_FOLDER=$(mktemp -d) && export PGDYNO_FOLDER || exit 73; {python} -c {start}; "
    'code=$?; rm -rf "$PGDYNO_FOLDER"; exit $code'
)


def python_version() -> str:
    """Return the part of Python's version that decides whether hosts understand each other."""
    return f"{sys.version_info[0]}.{sys.version_info[1]}"


@dataclass(slots=True)
class Host:
    """One load host. `address`: of its worker; `lost`: why it is lost, "" if it is not.

    `process`: its worker, or on this host the parent of all workers; `said`: its standard error.
    """

    name: str
    address: str = ""
    core_count: int = 1
    is_local: bool = False
    lost: str = ""
    process: Child | None = None
    said: IO[bytes] | None = None
    resources: dict[str, float] = field(default_factory=dict)

    def last_words(self) -> str:
        """Return the last lines that the worker, or ssh, wrote to standard error."""
        return " ".join(self._lines()[-3:])

    def exit_code(self) -> int | None:
        """Return the exit code of the worker if we started it, else None."""
        if self.process is None:
            return None
        ended = re.compile(rf"worker {re.escape(self.name)} ended with code (-?\d+)")
        codes = [match[1] for line in self._lines() if (match := ended.fullmatch(line))]
        return int(codes[0]) if codes else self.process.poll()

    def _lines(self) -> list[str]:
        if self.said is None or self.said.closed:
            return []
        # Subtle: the workers write at the same place, so it is not moved.
        text = os.pread(self.said.fileno(), 1 << 20, 0)
        return text.decode(errors="replace").strip().splitlines()


def start_workers(asked: Hosts) -> list[Host]:
    """Start the workers, and return their hosts; each waits for `send_orders`.

    Workers on this host are forks of one process, which loads their packages once. The list is
    empty if the workers of a cluster do the work.
    """
    if asked.local_count:
        process, said = _start(("sh", "-c"), sys.executable, "load hosts", asked.local_count)
        return [
            Host(f"local-{number}", is_local=True, process=process, said=said)
            for number in range(1, asked.local_count + 1)
        ]
    hosts = []
    for name in asked.names:
        way = ssh_command(name)[:-1]
        way = (*shlex.split(os.environ.get(_SSH, way[0])), *way[1:])
        process, said = _start(way, os.environ.get(PYTHON, "python3"), f"load host {name}", 1)
        hosts.append(Host(name, process=process, said=said))
    return hosts


def send_orders(hosts: list[Host], made: Identities, port: int) -> None:
    """Tell the workers who they are, and where the scheduler listens."""
    for host, identity in zip(hosts, made.hosts, strict=True):
        order = {
            "ca": made.authority,
            "certificate": identity.certificate,
            "key": identity.key,
            "port": port,
            "name": host.name,
        }
        assert host.process is not None
        _write(host.process, json.dumps(order))


def end_workers(hosts: list[Host]) -> None:
    """Close the input of the workers, and wait until they have ended."""
    processes = {host.process.pid: host.process for host in hosts if host.process is not None}
    for process in processes.values():
        process.close_pipes()
    for process in processes.values():
        if not process.ends_within(3.0):
            process.terminate_session()
    for host in hosts:
        if host.said is not None:
            host.said.close()


def _start(
    way: tuple[str, ...], python: str, name: str, worker_count: int
) -> tuple[Child, IO[bytes]]:
    script = _SHELL.format(python=shlex.quote(python), start=shlex.quote(_START))
    if way != ("sh", "-c"):
        script = f"sh -c {shlex.quote(script)}"
    said = tempfile.TemporaryFile()  # noqa: SIM115
    process = child.start([*way, script], name=name, stdin=subprocess.PIPE, stderr=said)
    start = {
        "code": inspect.getsource(worker),
        "worker_count": worker_count,
        "versions": [version("distributed"), python_version()],
    }
    _write(process, json.dumps(start))
    return process, said


def _write(process: Child, line: str) -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(line.encode() + b"\n")
        process.stdin.flush()
