"""The doctor looks at a server's host through a shell there, and says why when it cannot."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.fixtures import needs
from tests.fixtures.clusters import scalar
from tests.fixtures.command import Command, server_options
from tests.fixtures.programs import BY_SSH
from tests.fixtures.ssh import SshServer

from pgdyno.features.doctor.check_facts import CheckFacts
from pgdyno.features.doctor.examination_text import text_of
from pgdyno.features.doctor.examine import Subject, examine
from pgdyno.features.doctor.finding import Unknown
from pgdyno.features.doctor.host_afar import HostAfar
from pgdyno.features.doctor.storage_facts import read_place
from pgdyno.observe.remote.host_session import shell_command
from pgdyno.server.scratch.cluster import ScratchCluster


@pytest.mark.parametrize("way", ["sh", BY_SSH])
def test_the_host_from_afar_is_the_host(
    way: str, pg15: ScratchCluster, request: pytest.FixtureRequest
) -> None:
    server: SshServer | None = request.getfixturevalue("ssh_server") if way == "ssh" else None
    command = shell_command("sh" if server is None else server.shell)
    with pg15.connect() as connection:
        afar = HostAfar(command, connection.info.backend_pid)
        assert scalar(pg15.target, "SELECT count(*) FROM generate_series(1, 1000)") == 1000
        facts = afar.told(CheckFacts())
    host = facts.on_host()
    assert host.cores >= 1
    assert host.window is not None
    assert host.machine
    assert facts.memory_bytes() > 0
    for place, name in ((facts.data, "data"), (facts.wal, "WAL")):
        here = read_place(name, pg15.data_dir / ("pg_wal" if name == "WAL" else ""))
        assert place is not None
        assert here is not None
        free = replace(place, total_bytes=0, free_bytes=0, path="")
        assert free == replace(here, total_bytes=0, free_bytes=0, path="")
        assert place.total_bytes > place.free_bytes > 0


@needs.ROOT
def test_a_user_who_may_not_enter_the_data_directory_still_sees_its_disk(
    pg15: ScratchCluster,
) -> None:
    command = ("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "sh")
    with pg15.connect() as connection:
        pid, folder = connection.info.backend_pid, str(pg15.data_dir)
        facts = HostAfar(command, pid, folder).told(CheckFacts())
        blind = HostAfar(command, pid).told(CheckFacts())
    assert facts.data is not None
    assert facts.data.total_bytes > 0
    assert facts.wal is None
    assert "has no access to the data directory" in facts.half_seen()
    assert facts.on_host().limits is not None
    with pytest.raises(Unknown, match="data_directory is not readable"):
        blind.places()


def test_every_check_of_a_server_elsewhere_is_judged_or_its_reason_is_listed(
    pg15: ScratchCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As through a tunnel: the backend's process is not among this host's.
    monkeypatch.setattr("pgdyno.features.doctor.examine.is_backend_here", lambda *_: False)
    examination = examine(Subject(target=pg15.target, host_command=("sh",)))
    unjudged = {
        name for source in examination.as_document()["not_measurable"] for name in source["checks"]
    }
    judged = {
        "file_system",
        "mount_options",
        "free_space",
        "swappiness",
        "cpu_limit",
        "dirty_limits",
    }
    assert unjudged == {finding.id for finding in examination.of("unknown")}
    assert judged <= {finding.id for finding in examination.findings} - unjudged
    text = " ".join(text_of(examination, verbs=("watch",), show_all=False).split())
    assert "not measurable there: " in text
    assert [name for name in unjudged if name.replace("_", " ") not in text] == []


def test_a_way_to_the_host_of_no_server_is_refused(pgdyno: Command) -> None:
    said = pgdyno("doctor", "--ssh", "me@there")
    assert said.code == 1
    assert "--ssh needs a server on another host" in said.error


@pytest.mark.parametrize("option", ["--ssh", "--host-shell"])
def test_an_ssh_command_to_this_host_is_not_used_and_a_note_says_so(
    option: str, pg15: ScratchCluster, pgdyno: Command
) -> None:
    said = pgdyno("doctor", *server_options(pg15.target), option, "/nowhere")
    assert said.code == 0, said.err
    assert f"{option} is ignored: the server is on this host" in said.err
    assert "cannot be started" not in said.out


def test_every_check_of_an_unreachable_host_gives_the_same_reason() -> None:
    facts = HostAfar(("/nowhere/ssh", "sh"), 1).told(CheckFacts())
    with pytest.raises(Unknown, match="cannot be started: No such file"):
        facts.on_host()


def test_another_host_than_the_servers_is_not_taken_for_it() -> None:
    facts = HostAfar(("sh",), 1).told(CheckFacts())
    with pytest.raises(Unknown, match="process 1 is not a PostgreSQL"):
        facts.on_host()
