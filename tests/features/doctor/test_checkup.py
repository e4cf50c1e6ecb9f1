"""The doctor's look before every run: what cannot change meanwhile is read once a command."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fixtures.ssh import shell_like

from pgdyno.features.doctor import checkup
from pgdyno.features.doctor.checkup import ServerCheckup
from pgdyno.features.doctor.host_facts import HostState, read_host
from pgdyno.observe.remote.host_session import shell_command
from pgdyno.server.scratch.cluster import ScratchCluster


def test_the_host_is_read_once_and_the_server_each_time(
    pg15: ScratchCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[int] = []

    def counted(*, pid: int) -> HostState:
        reads.append(pid)
        return read_host(pid=pid)

    monkeypatch.setattr(checkup, "read_host", counted)
    made = ServerCheckup()
    here = {"postmaster_pid": pg15.pid, "data_folder": pg15.data_dir}
    first, last = (made.document(pg15.target, clients=n, **here) for n in (1, 77))
    assert first is not None
    assert last is not None
    assert reads == [pg15.pid]
    rule = next(finding for finding in last["findings"] if finding["id"] == "memory_at_the_peak")
    assert "77 active (this load)" in rule["seen"]


def test_a_host_elsewhere_is_looked_at_once_a_command(pg15: ScratchCluster, tmp_path: Path) -> None:
    shell = shell_like(tmp_path, f"echo begun >>{tmp_path}/log\nexec /bin/sh")
    made = ServerCheckup()
    for clients in (1, 2):
        document = made.document(
            pg15.target,
            clients=clients,
            postmaster_pid=None,
            data_folder=None,
            host_command=shell_command(shell),
        )
        assert document is not None
        seen = {finding["id"]: finding["verdict"] for finding in document["findings"]}
        assert {seen[name] for name in ("free_space", "swappiness", "neighbours")} <= {
            "good", "warn", "bad",
        }  # fmt: skip
    assert (tmp_path / "log").read_text().splitlines() == ["begun"]
