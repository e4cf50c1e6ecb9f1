"""The doctor looks at a server's host through a shell there, and says why when it cannot."""

from __future__ import annotations

import pytest
from tests.fixtures.clusters import scalar
from tests.fixtures.ssh import SshServer

from pgdyno.doctor.facts import Facts
from pgdyno.doctor.host_afar import HostAfar
from pgdyno.doctor.unknown import Unknown
from pgdyno.observe.remote.host_session import shell_command
from pgdyno.server.scratch import ScratchCluster


@pytest.mark.parametrize("way", ["sh", "ssh"])
def test_the_host_from_afar_is_the_host(
    way: str, pg15: ScratchCluster, request: pytest.FixtureRequest
) -> None:
    server: SshServer | None = request.getfixturevalue("ssh_server") if way == "ssh" else None
    command = shell_command("sh" if server is None else server.shell)
    with pg15.connect() as connection:
        afar = HostAfar(command, connection.info.backend_pid)
        assert scalar(pg15.target, "SELECT count(*) FROM generate_series(1, 1000)") == 1000
        facts = afar.told(Facts())
    host = facts.on_host()
    assert host.cores >= 1
    assert host.window is not None
    assert host.machine
    assert facts.memory_bytes() > 0


def test_why_there_is_no_host_is_what_every_check_of_it_says() -> None:
    facts = HostAfar(("/nowhere/ssh", "sh"), 1).told(Facts())
    with pytest.raises(Unknown, match="cannot be started: No such file"):
        facts.on_host()


def test_another_host_than_the_servers_is_not_taken_for_it() -> None:
    facts = HostAfar(("sh",), 1).told(Facts())
    with pytest.raises(Unknown, match="process 1 is no PostgreSQL"):
        facts.on_host()
