"""A server's host from afar: every shell, ssh, and everything that can be wrong with them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.fixtures.programs import BY_SSH
from tests.fixtures.ssh import SshServer, shell_like

from pgdyno.clock import read_pair
from pgdyno.errors import SpecError
from pgdyno.observe.collector import Collector, NotMeasurable, Row
from pgdyno.observe.host.collectors import of_server_host
from pgdyno.observe.host.disk import Space, spaces_here, spaces_received
from pgdyno.observe.host.files import HERE, ReceivedFiles
from pgdyno.observe.remote.host_session import (
    HostLost,
    HostSession,
    collector_script,
    shell_command,
    ssh_command,
)
from pgdyno.server.scratch.cluster import ScratchCluster

SECOND_NS = 1_000_000_000
BUSYBOX = pytest.param("busybox sh", marks=pytest.mark.takes("busybox"))
SHELLS = ["dash", BUSYBOX, "bash", BY_SSH]


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> str:
    """Return a command that leads to a shell of each kind."""
    if request.param == "ssh":
        return str(request.getfixturevalue("ssh_server").shell)
    return str(request.param)


def opened(command: str) -> HostSession:
    session = HostSession(shell_command(command), read_pair())
    session.open()
    return session


def sampled(collector: Collector) -> list[Row] | str:
    """Return what a collector gives, or why it cannot."""
    try:
        return collector.sample(0)
    except NotMeasurable as error:
        return str(error)


def test_every_table_of_a_host_from_afar_is_the_table_of_that_host(shell: str) -> None:
    session = opened(shell)
    try:
        session.before_sample(SECOND_NS)
        afar = of_server_host(session.files, dict)
        here = of_server_host(HERE, dict)
        for theirs, ours in zip(afar, here, strict=True):
            received, read = sampled(theirs), sampled(ours)
            if isinstance(received, str) or isinstance(read, str):
                assert received == read
                continue
            assert [_shape(theirs, row) for row in received] == [
                _shape(ours, row) for row in read
            ], ours.name
    finally:
        session.close()


def _shape(collector: Collector, row: Row) -> list[object]:
    """Return the columns, the keys' values, and where nothing is known."""
    keys = [row[column.name] for column in collector.columns if column.nature == "key"]
    return [*row, *keys, *(value is None for value in row.values())]


def test_the_clock_of_the_same_host_is_not_found_ahead(shell: str) -> None:
    session = opened(shell)
    for _ in range(3):
        session.take("fast")
    session.close()
    whole_seconds_ns = SECOND_NS if "busybox" in shell else 0
    assert abs(session.offset.offset_ns) <= session.offset.uncertainty_ns + whole_seconds_ns
    assert session.offset.answers == 3


def test_a_clock_that_is_ahead_is_measured(tmp_path: Path) -> None:
    date = tmp_path / "date"
    date.write_text('#!/bin/sh\nexec /bin/date -d "+1000 seconds" "$@"\n')
    date.chmod(0o755)
    session = opened(shell_like(tmp_path, f"PATH={tmp_path}:$PATH exec /bin/sh"))
    session.take("fast")
    session.close()
    assert abs(session.offset.offset_ns - 1000 * SECOND_NS) <= session.offset.uncertainty_ns


def test_facts_bring_what_the_doctor_looks_at(shell: str) -> None:
    session = opened(shell)
    session.take("facts")
    session.close()
    assert session.files.exists("/proc/sys/vm/swappiness")
    assert session.files.text("/proc/self/mountinfo")
    assert session.files.matching("/proc/[0-9]*/comm")


def test_files_of_a_slow_sample_last_until_the_next(shell: str) -> None:
    session = opened(shell)
    session.take("slow")
    assert session.files.exists("/proc/mounts")
    session.take("fast")
    assert session.files.exists("/proc/mounts")
    assert session.files.exists("/proc/stat")
    session.close()


def test_space_and_inodes_below_the_server_are_those_of_its_file_system(
    shell: str, pg15: ScratchCluster
) -> None:
    session = opened(shell)
    with pg15.connect() as connection:
        session.backend_pid = connection.info.backend_pid
        session.take("slow")
    session.close()
    here = spaces_here({"data": pg15.data_dir, "wal": pg15.data_dir / "pg_wal"})
    afar = spaces_received(session.files)
    assert [_fixed(*pair) for pair in afar.items()] == [_fixed(*pair) for pair in here.items()]


def _fixed(place: str, space: Space) -> tuple[object, ...]:
    """Return what does not change from moment to moment; some systems make inodes as needed."""
    return place, space.total_bytes // 1024, bool(space.total_files), bool(space.available_files)


def test_free_space_is_shown_if_visible_and_inodes_if_limited() -> None:
    files = ReceivedFiles({
        "/df/data": "/dev/sda1 1000 400 600 40% /pg\n",
        "/inodes/data": "/dev/sda1 5000 1000 4000 20% /pg\n",
        "/df/wal": "/dev/sdb1 1000 400 600 40% /wal\n",
        "/inodes/wal": "/dev/sdb1 0 0 0 - /wal\n",
        "/df/store": "tmpfs - - - - /x\n",
    })  # fmt: skip
    assert spaces_received(files) == {
        "data": Space(1_024_000, 614_400, 5000, 4000),
        "wal": Space(1_024_000, 614_400),
    }


def test_an_error_says_that_a_host_has_no_proc(tmp_path: Path) -> None:
    command = shell_like(
        tmp_path, "exec sed -u '/-r .proc.stat/s,/proc/stat ],/nowhere ],' | exec /bin/sh"
    )
    with pytest.raises(NotMeasurable, match=r"Linux has no /proc/stat"):
        opened(command)


def test_an_error_names_a_missing_shell() -> None:
    with pytest.raises(NotMeasurable, match="cannot be started: No such file"):
        opened("/nowhere/kubectl exec -i pod --")


def test_a_refused_connection_is_worth_another_try() -> None:
    session = HostSession(ssh_command("ssh://nobody@127.0.0.1:1"), read_pair())
    with pytest.raises(HostLost, match="Connection refused"):
        session.open()
    assert not session.is_open


def test_an_unknown_host_key_is_not_accepted_silently(ssh_server: SshServer) -> None:
    command = ssh_command(f"ssh://{Path.home().name}@127.0.0.1:{ssh_server.port}")
    with pytest.raises(NotMeasurable, match="Host key verification failed"):
        HostSession(command, read_pair()).open()


def test_a_key_the_host_does_not_know_is_refused_without_asking(ssh_server: SshServer) -> None:
    command = ssh_server.shell.replace("ssh -T", "ssh -T -o IdentityFile=none -i /dev/null")
    session = HostSession(shell_command(f"{command} -l nobody-here"), read_pair())
    with pytest.raises(NotMeasurable, match="Permission denied"):
        session.open()


def test_a_shell_that_dies_is_lost_and_can_be_begun_again(tmp_path: Path) -> None:
    # It ends by itself after the first quick sample.
    session = opened(shell_like(tmp_path, "exec sed -u '/^fast *$/q' | exec /bin/sh"))
    session.take("slow")
    session.take("fast")
    with pytest.raises(HostLost, match="the shell there ended"):
        session.take("fast")
    assert not session.is_open
    session.open()
    session.take("slow")
    session.close()


def test_a_shell_that_says_nothing_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # It is never asked for quick samples.
    session = opened(shell_like(tmp_path, "exec sed -u '/^fast *$/d' | exec /bin/sh"))
    session.take("slow")
    monkeypatch.setattr("pgdyno.observe.remote.host_session._SILENCE_S_MAX", 1)
    with pytest.raises(HostLost, match="no answer in time"):
        session.take("fast")
    assert not session.is_open


@pytest.mark.parametrize(
    ("asked", "run"),
    [
        ("ssh -J bastion host", ("ssh", "-J", "bastion", "host", "sh")),
        ("kubectl exec -i pod --", ("kubectl", "exec", "-i", "pod", "--", "sh")),
        ("sudo -n -u postgres sh", ("sudo", "-n", "-u", "postgres", "sh")),
        ("docker exec -i db /bin/bash", ("docker", "exec", "-i", "db", "/bin/bash")),
    ],
)
def test_a_shell_is_added_where_the_command_names_none(asked: str, run: tuple[str, ...]) -> None:
    assert shell_command(asked) == run


@pytest.mark.parametrize("asked", ["", "  ", "ssh 'host"])
def test_an_empty_command_is_refused(asked: str) -> None:
    with pytest.raises(SpecError, match="--host-shell"):
        shell_command(asked)


def test_ssh_never_asks_and_takes_no_option_for_a_host() -> None:
    assert {"BatchMode=yes", "ServerAliveInterval=5"} <= set(ssh_command("me@there"))
    assert ssh_command("me@there")[-2:] == ("me@there", "sh")
    with pytest.raises(SpecError, match="a host is needed"):
        ssh_command("-oProxyCommand=x")


def test_the_script_is_short_and_only_reads() -> None:
    script = collector_script()
    assert len(script.splitlines()) < 150
    # "#" begins a comment only after a blank: ${place#*:} and $# are code.
    code = [re.sub(r"(^|\s)#.*", "", line) for line in script.splitlines()]
    redirected = [line for line in code if ">" in line.replace("2>/dev/null", "")]
    assert redirected == []
    forbidden = {"rm", "mv", "cp", "tee", "dd", "kill", "mkdir", "touch", "chmod", "sysctl"}
    assert not forbidden & {word for line in code for word in re.split(r"[\s;|&()`]+", line)}
