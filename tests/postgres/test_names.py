"""A host name that leads elsewhere while a load runs is followed when connections are lost."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from tests.fixtures import needs
from tests.fixtures.engine_process import Engine, load_job

from pgdyno.engine.executable import engine_path
from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.spec.base import SECOND_NS

pytestmark = pytest.mark.pg
PATIENCE_S = 60.0
NAME = "moving.example"
# More than a server answers until a session is open: it has transactions.
TRANSACTING_BYTES = 8_000


class Relay:
    """Takes connections at an address and passes their bytes to a server; ends with all of them."""

    def __init__(self, address: str, port: int, server: tuple[str, int]) -> None:
        self._listener = socket.create_server((address, port))
        self.port = self._listener.getsockname()[1]
        self._server = server
        self._sockets: list[socket.socket] = []
        self.answered_bytes: list[int] = []
        self._accepting = threading.Thread(target=self._accept)
        self._accepting.start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            self._sockets.append(near)
            far = socket.create_connection(self._server)
            self._sockets.append(far)
            self.answered_bytes.append(0)
            number = len(self.answered_bytes) - 1
            for source, sink in ((near, far), (far, near)):
                counted = number if source is far else None
                arguments = (source, sink, counted)
                threading.Thread(target=self._pass_on, args=arguments, daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket, counted: int | None) -> None:
        with contextlib.suppress(OSError):
            while received := source.recv(1 << 16):
                sink.sendall(received)
                if counted is not None:
                    self.answered_bytes[counted] += len(received)
        _shut(sink)

    def end(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._accepting.join()
        self._listener.close()
        for listener in self._sockets:
            _shut(listener)
            listener.close()


def _shut(listener: socket.socket) -> None:
    with contextlib.suppress(OSError):
        listener.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The /etc/hosts that the engine sees, in a separate mount namespace."""
    unshare = shutil.which("unshare")
    tried = None if unshare is None else subprocess.run([unshare, "-m", "true"], check=False)
    is_there = tried is not None and tried.returncode == 0
    needs.offered(is_there, "a mount namespace of one's own needs more rights than there are")
    file = tmp_path / "hosts"
    file.write_text(f"127.0.0.1 localhost\n127.0.0.1 {NAME}\n", encoding="ascii")
    wrapper = tmp_path / "engine"
    wrapper.write_text(
        f"#!/bin/sh\nexec {unshare} -m sh -c 'mount --bind {file} /etc/hosts && exec \"$@\"'"
        f' sh {engine_path()} "$@"\n',
        encoding="ascii",
    )
    wrapper.chmod(0o755)
    monkeypatch.setenv("PGDYNO_ENGINE", str(wrapper))
    return file


def test_a_load_follows_the_name_of_its_host_to_another_address(
    hosts: Path, pg15: ScratchCluster, engine: Engine
) -> None:
    own = pg15.tcp_target
    server = (own.host, own.port)
    first = Relay("127.0.0.1", 0, server)
    second = Relay("127.0.0.2", first.port, server)
    target = replace(own, host=NAME, ports=str(first.port), sslmode="disable")
    connect = {"timeout_ns": 20 * SECOND_NS, "patience_ns": 60 * SECOND_NS}
    try:
        running = engine.start(load_job(target, "SELECT 1;", measure_s=600.0, connect=connect))
        running.await_record(record="phase", phase="measure", event="begin")
        assert (len(first.answered_bytes), len(second.answered_bytes)) == (2, 0)
        hosts.write_text(f"127.0.0.2 {NAME}\n", encoding="ascii")
        first.end()
        deadline = time.monotonic() + PATIENCE_S
        while [count > TRANSACTING_BYTES for count in second.answered_bytes] != [True, True]:
            assert time.monotonic() < deadline, second.answered_bytes
            time.sleep(0.01)
        running.stop()
        summary = running.wait().summary
    finally:
        second.end()
    assert (summary.connections.lost_count, summary.connections.reconnect_count) == (2, 2)
