from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures import needs

from pgdyno.errors import InterruptedByUser, RefusedError, ServerError, SpecError
from pgdyno.process import cleanup, signals
from pgdyno.process.host import ProcessIdentity
from pgdyno.server import scratch
from pgdyno.server.connect import connect
from pgdyno.server.find import Binaries
from pgdyno.server.leftovers import kept_clusters, sweep_leftovers
from pgdyno.server.scratch import ScratchCluster, ScratchRequest
from pgdyno.server.settings import read_back

LAB = """
import sys
from pathlib import Path
from pgdyno.server.find import find
from pgdyno.server.scratch import ScratchCluster, ScratchRequest
cluster = ScratchCluster.create(
    ScratchRequest(find(version=sys.argv[1]), data_dir=Path(sys.argv[2]), keep={keep})
)
print(cluster.pid, cluster.target.host, flush=True)
sys.stdin.read()
"""


def until(condition: object, within_s: float = 30.0) -> bool:
    deadline = time.monotonic() + within_s
    while not condition():  # type: ignore[operator]
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def one(cluster: ScratchCluster, query: str) -> object:
    with cluster.connect(verb="test") as connection:
        row = connection.execute(query).fetchone()
        return None if row is None else row[0]


def killed_lab(binaries: Binaries, folder: Path, *, keep: bool) -> tuple[ProcessIdentity, Path]:
    """Kill a lab with SIGKILL while its cluster runs; return its postmaster and socket folder."""
    lab = subprocess.Popen(
        [sys.executable, "-c", LAB.format(keep=keep), str(binaries.major), str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with lab:
        assert lab.stdout is not None
        pid, socket_dir = lab.stdout.readline().split()
        identity = ProcessIdentity.of(int(pid))
        assert identity is not None
        lab.kill()
    return identity, Path(socket_dir)


@pytest.fixture
def nothing_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whatever the test does, no registration and no temporary folder of ours remains."""
    made: list[Path] = []
    real = tempfile.mkdtemp

    def recorded(*args: str, **options: Any) -> str:
        made.append(Path(real(*args, **options)))
        return str(made[-1])

    monkeypatch.setattr(tempfile, "mkdtemp", recorded)
    before = cleanup.pending()
    yield
    assert cleanup.pending() == before
    assert [path for path in made if path.exists() and "scratch" not in path.name] == []


def test_a_cluster_leaves_no_process_and_no_folder(
    binaries: Binaries, open_folder: Path, nothing_left: None
) -> None:
    with ScratchCluster.create(ScratchRequest(binaries, data_dir=open_folder)) as cluster:
        assert cluster.pid is not None
        postmaster = ProcessIdentity.of(cluster.pid)
        assert one(cluster, "SELECT 1") == 1
        socket_dir = Path(cluster.target.host)
        assert [path.parent for path in open_folder.iterdir()] == [open_folder]
    assert postmaster is not None
    assert not postmaster.is_running()
    assert list(open_folder.iterdir()) == []
    assert not socket_dir.exists()


def test_only_what_measuring_needs_differs_from_the_defaults(cluster: ScratchCluster) -> None:
    with cluster.connect(verb="test") as connection:
        rows = connection.execute(
            "SELECT name FROM pg_settings WHERE source = 'configuration file'"
            " AND sourcefile NOT LIKE '%/data/postgresql.conf'"
            " AND setting IS DISTINCT FROM boot_val"
        ).fetchall()
    always = {"cluster_name", "listen_addresses", "max_connections", "port"}
    always |= {"unix_socket_directories", "unix_socket_permissions"}
    since_15 = {"compute_query_id", "track_io_timing"}  # log_checkpoints is on by default there.
    assert {name for (name,) in rows} == always | since_15


def test_max_connections_is_the_largest_level_and_twenty(cluster: ScratchCluster) -> None:
    assert one(cluster, "SHOW max_connections") == "30"


def test_the_version_s_own_default_of_checksums_is_kept_and_known(cluster: ScratchCluster) -> None:
    shown = one(cluster, "SHOW data_checksums") == "on"
    assert shown is cluster.has_checksums is (cluster.binaries.major >= 18)


def test_checksums_can_be_asked_for(binaries: Binaries) -> None:
    wanted = binaries.major < 18
    with ScratchCluster.create(ScratchRequest(binaries, checksums=wanted)) as cluster:
        assert (one(cluster, "SHOW data_checksums") == "on") is wanted


def test_the_wal_lies_where_it_was_asked_for_and_goes_too(
    binaries: Binaries, open_folder: Path
) -> None:
    data_dir, wal_dir = open_folder / "fast", open_folder / "log"
    request = ScratchRequest(binaries, data_dir=data_dir, wal_dir=wal_dir)
    with ScratchCluster.create(request) as cluster:
        assert (cluster.data_dir / "pg_wal").resolve() == cluster.wal_dir
        assert cluster.wal_dir.parent == wal_dir
        assert len(list(cluster.wal_dir.glob("0*"))) >= 1
    assert list(data_dir.iterdir()) == list(wal_dir.iterdir()) == []


def test_a_setting_that_prevents_the_start_is_told_in_the_server_s_words(
    binaries: Binaries, open_folder: Path, nothing_left: None
) -> None:
    request = ScratchRequest(binaries, data_dir=open_folder, settings={"wal_level": "minimal"})
    with pytest.raises(ServerError, match=rf"PostgreSQL {binaries.version} cannot start: .*WAL"):
        ScratchCluster.create(request)
    assert list(open_folder.iterdir()) == []


def test_of_a_wrong_value_the_line_that_names_it_is_told(
    binaries: Binaries, open_folder: Path
) -> None:
    request = ScratchRequest(binaries, data_dir=open_folder, settings={"work_mem": "plenty"})
    with pytest.raises(ServerError, match='invalid value for parameter "work_mem": "plenty"'):
        ScratchCluster.create(request)
    request = ScratchRequest(binaries, data_dir=open_folder, settings={"work_men": "4MB"})
    with pytest.raises(ServerError, match='unrecognized configuration parameter "work_men"'):
        ScratchCluster.create(request)


def test_a_setting_that_keeps_the_cluster_in_place_may_not_be_moved(binaries: Binaries) -> None:
    with pytest.raises(SpecError, match="port of a scratch server belongs to pgdyno"):
        ScratchCluster.create(ScratchRequest(binaries, settings={"Port": "5432"}))


def test_settings_take_effect_by_a_reload_where_that_is_enough(cluster: ScratchCluster) -> None:
    before = cluster.pid
    try:
        assert cluster.apply({"work_mem": "16MB", "checkpoint_timeout": "1h"}) is False
        assert cluster.pid == before
        assert one(cluster, "SHOW checkpoint_timeout") == "1h"
        assert cluster.apply({"shared_buffers": "24MB"}) is True
        assert one(cluster, "SHOW work_mem") == "4MB"
        assert one(cluster, "SHOW shared_buffers") == "24MB"
    finally:
        cluster.apply({})


def test_a_value_that_the_server_shows_as_another_one_took_effect(cluster: ScratchCluster) -> None:
    with cluster.connect(verb="test") as connection:
        for value in ("on", "pglz", "off"):
            connection.execute(f"SET wal_compression = {value}")
            assert read_back(connection, {"wal_compression": value}) == []
        assert [str(one) for one in read_back(connection, {"wal_compression": "on"})] == [
            "wal_compression: asked 'on', seen 'off'"
        ]


@pytest.mark.parametrize(
    "refused",
    [{"work_mem": "plenty"}, {"max_wal_size": "1 parsec"}, {"shared_buffers": "900TB"}],
)
def test_after_a_refused_setting_the_previous_ones_still_hold(
    cluster: ScratchCluster, refused: dict[str, str]
) -> None:
    cluster.apply({"work_mem": "9MB"})
    try:
        with pytest.raises(ServerError, match=next(iter(refused))):
            cluster.apply(refused)
        assert cluster.settings == {"work_mem": "9MB"}
        assert one(cluster, "SHOW work_mem") == "9MB"
        assert one(cluster, "SHOW shared_buffers") == "128MB"
    finally:
        cluster.apply({})


def test_a_setting_that_something_overrides_is_an_error(cluster: ScratchCluster) -> None:
    with cluster.connect(verb="test") as connection:
        connection.execute("ALTER ROLE postgres SET work_mem = '5MB'")
    try:
        with pytest.raises(ServerError, match="work_mem: asked '64MB', seen '5120 x kB'"):
            cluster.apply({"work_mem": "64MB"})
    finally:
        with cluster.connect(verb="test") as connection:
            connection.execute("ALTER ROLE postgres RESET work_mem")
        cluster.apply({})


def test_a_restarted_cluster_has_its_data_and_a_new_postmaster(cluster: ScratchCluster) -> None:
    before = cluster.pid
    with cluster.connect(verb="test") as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    cluster.restart()
    assert cluster.pid != before
    assert one(cluster, "SELECT answer FROM kept") == 42


def test_memory_is_refused_as_a_disk_unless_allowed(binaries: Binaries) -> None:
    memory = Path("/dev/shm")
    needs.offered(memory.is_dir(), "no /dev/shm here")
    with pytest.raises(RefusedError, match="it is memory") as caught:
        ScratchCluster.create(ScratchRequest(binaries, data_dir=memory))
    assert "--allow-tmpfs" in caught.value.hint
    with pytest.raises(RefusedError, match="--wal-dir /dev/shm"):
        ScratchCluster.create(ScratchRequest(binaries, wal_dir=memory))
    request = ScratchRequest(binaries, data_dir=memory, allow_tmpfs=True)
    with ScratchCluster.create(request) as cluster:
        assert cluster.path.parent == memory
    assert not list(memory.glob("pgdyno-*"))


def test_a_folder_of_any_length_does_because_the_socket_lies_elsewhere(
    binaries: Binaries, open_folder: Path
) -> None:
    deep = open_folder / ("very-long-name-" * 8) / ("and-'quoted' name " * 4)
    deep.parent.mkdir(mode=0o755)
    with ScratchCluster.create(ScratchRequest(binaries, data_dir=deep)) as cluster:
        assert len(os.fsencode(cluster.target.host)) < scratch.SOCKET_PATH_BYTES_MAX
        assert one(cluster, "SELECT 1") == 1


def test_the_data_directory_of_a_postgresql_is_refused(
    binaries: Binaries, cluster: ScratchCluster
) -> None:
    with pytest.raises(RefusedError, match="the data directory of a PostgreSQL"):
        ScratchCluster.create(ScratchRequest(binaries, data_dir=cluster.data_dir / "base"))


def test_a_dataset_that_does_not_fit_is_refused_before_anything_is_made(
    binaries: Binaries, open_folder: Path
) -> None:
    needed = {"data": 10**18, "wal": 0}
    with pytest.raises(ServerError, match=r"needs about 1000000000\.0 GB"):
        ScratchCluster.create(ScratchRequest(binaries, data_dir=open_folder, needed=needed))
    assert list(open_folder.iterdir()) == []


def test_a_kept_cluster_is_started_again_with_its_data_and_settings(
    binaries: Binaries, open_folder: Path, nothing_left: None
) -> None:
    request = ScratchRequest(
        binaries, data_dir=open_folder, keep=True, settings={"work_mem": "7MB"}
    )
    with ScratchCluster.create(request) as cluster:
        with cluster.connect(verb="test") as connection:
            connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
        path = cluster.path
        assert kept_clusters([open_folder]) == []
        with pytest.raises(SpecError, match="in use by another command"):
            ScratchCluster.adopt(path)
    assert kept_clusters([open_folder]) == [path]
    assert sweep_leftovers([open_folder]) == []
    with ScratchCluster.adopt(path, keep=False, listens_tcp=True) as again:
        assert one(again, "SELECT answer FROM kept") == 42
        assert one(again, "SHOW work_mem") == "7MB"
        assert again.binaries.source == binaries.source
        with connect(again.tcp_target, verb="test") as by_password:
            assert by_password.execute("SELECT 1").fetchone() == (1,)
    assert list(open_folder.iterdir()) == []


def test_a_folder_that_is_no_kept_cluster_is_not_adopted(open_folder: Path) -> None:
    with pytest.raises(SpecError, match="is no kept cluster"):
        ScratchCluster.adopt(open_folder)


@needs.LINUX
def test_when_the_lab_is_killed_the_postmaster_ends_and_the_leftover_is_swept(
    binaries: Binaries, open_folder: Path
) -> None:
    experiment = open_folder / "an-experiment-of-the-store"
    postmaster, socket_dir = killed_lab(binaries, experiment, keep=False)
    assert until(lambda: not postmaster.is_running())
    (left,) = experiment.iterdir()
    (swept,) = sweep_leftovers([open_folder])
    assert (swept.path, swept.is_removed) == (left, True)
    assert list(experiment.iterdir()) == []
    assert not socket_dir.exists()


@needs.LINUX
def test_a_cluster_to_be_kept_outlives_a_killed_lab(binaries: Binaries, open_folder: Path) -> None:
    postmaster, socket_dir = killed_lab(binaries, open_folder, keep=True)
    assert until(lambda: not postmaster.is_running())
    assert [leftover for leftover in sweep_leftovers([open_folder]) if leftover.is_removed] == []
    assert not socket_dir.exists()
    (path,) = kept_clusters([open_folder])
    with ScratchCluster.adopt(path, keep=False) as cluster:
        assert one(cluster, "SELECT 1") == 1
    assert list(open_folder.iterdir()) == []


def test_an_orphaned_postmaster_is_ended_only_if_it_is_the_recorded_one(
    binaries: Binaries, open_folder: Path
) -> None:
    with ScratchCluster.create(ScratchRequest(binaries, data_dir=open_folder)) as cluster:
        record = cluster._folder.record
        another = scratch.ClusterRecord(
            bin_dir=record.bin_dir,
            version=record.version,
            source=record.source,
            user=record.user,
            checksums=False,
            settings={},
            postmaster_pid=record.postmaster_pid,
            postmaster_started="another boot:17",
        )
        assert scratch.end_orphan(another) is False
        assert one(cluster, "SELECT 1") == 1
        assert scratch.end_orphan(record) is True
        assert until(lambda: cluster.pid is None)


def test_a_cluster_in_use_is_never_swept(cluster: ScratchCluster) -> None:
    assert cluster.path not in {left.path for left in sweep_leftovers([cluster.path.parent])}
    assert one(cluster, "SELECT 1") == 1


def test_a_folder_that_others_may_write_to_is_never_trusted(open_folder: Path) -> None:
    fake = open_folder / "pgdyno-scratch-trap"
    fake.mkdir()
    (fake / "lock").touch()
    (fake / "cluster.json").write_text('{"format": "pgdyno.cluster/1"}')
    fake.chmod(0o777)
    assert sweep_leftovers([open_folder]) == []
    assert fake.exists()


def test_ctrl_c_while_starting_leaves_nothing(
    binaries: Binaries, open_folder: Path, nothing_left: None
) -> None:
    def interrupt_when_begun() -> None:
        until(lambda: any(open_folder.glob("*/data/*")))
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt_when_begun)
    with signals.handled():
        thread.start()
        with pytest.raises(InterruptedByUser):
            ScratchCluster.create(ScratchRequest(binaries, data_dir=open_folder))
        thread.join()
    assert list(open_folder.iterdir()) == []


def test_the_exit_of_the_lab_removes_what_was_forgotten(
    binaries: Binaries, open_folder: Path
) -> None:
    script = LAB.format(keep=False).replace("sys.stdin.read()", "raise SystemExit(0)")
    subprocess.run(
        [sys.executable, "-c", script, str(binaries.major), str(open_folder)],
        check=True,
        capture_output=True,
        timeout=120,
    )
    assert list(open_folder.iterdir()) == []


def test_a_taken_port_is_replaced_by_another(
    binaries: Binaries, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        free_port, tried = scratch._free_port, [taken.getsockname()[1]]
        monkeypatch.setattr(scratch, "_free_port", lambda: tried.pop() if tried else free_port())
        with ScratchCluster.create(ScratchRequest(binaries, listens_tcp=True)) as cluster:
            assert cluster.tcp_target.port != taken.getsockname()[1]
            with connect(cluster.tcp_target, verb="test") as connection:
                assert connection.execute("SELECT 1").fetchone() == (1,)
