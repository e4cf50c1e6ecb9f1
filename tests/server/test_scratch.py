"""A scratch cluster while its command lives: how it is made, what it is, that nothing remains."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Iterable
from pathlib import Path

import pytest
from tests.fixtures import needs
from tests.fixtures.clusters import Make, scalar
from tests.fixtures.command import eventually

from pgdyno.errors import InterruptedByUser, RefusedError, ServerError, SpecError
from pgdyno.process import signals
from pgdyno.process.child import UserIds, descendants
from pgdyno.process.processes import ProcessIdentity
from pgdyno.server.configuration import read_back
from pgdyno.server.connect import connect
from pgdyno.server.find import Binaries
from pgdyno.server.scratch import cluster as scratch
from pgdyno.server.scratch import conf as cluster_conf
from pgdyno.server.scratch import postmaster
from pgdyno.server.scratch.cluster import ScratchCluster, ScratchRequest
from pgdyno.server.scratch.leftovers import sweep_leftovers
from pgdyno.server.scratch.making import initdb
from pgdyno.server.scratch.postmaster import shared_memory


def test_a_cluster_leaves_no_process_and_no_folder(
    binaries: Binaries, open_folder: Path, nothing_left: None
) -> None:
    with ScratchCluster.create(ScratchRequest(binaries, data_dir=open_folder)) as cluster:
        assert cluster.pid is not None
        postmaster = ProcessIdentity.of(cluster.pid)
        assert scalar(cluster.target, "SELECT 1") == 1
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
    since_15 = {"compute_query_id"}  # log_checkpoints is on by default there.
    timed = {"track_io_timing", "track_wal_io_timing"}
    assert {name for (name,) in rows} - timed == always | since_15


@pytest.mark.parametrize(("clock_ns", "timing"), [(25, "on"), (900, "off")])
def test_i_o_is_timed_where_reading_the_clock_is_cheap(
    clock_ns: int, timing: str, cluster: ScratchCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_conf, "reading_ns", lambda: clock_ns)
    cluster.apply({"work_mem": f"{4096 + clock_ns}kB"})
    for setting in ("track_io_timing", "track_wal_io_timing"):
        assert scalar(cluster.target, f"SHOW {setting}") == timing


def test_max_connections_is_the_largest_level_and_twenty(cluster: ScratchCluster) -> None:
    assert scalar(cluster.target, "SHOW max_connections") == "30"


def test_the_version_s_own_default_of_checksums_is_kept_and_known(cluster: ScratchCluster) -> None:
    shown = scalar(cluster.target, "SHOW data_checksums") == "on"
    assert shown is cluster.has_checksums is (cluster.binaries.major >= 18)


def test_checksums_can_be_asked_for(binaries: Binaries) -> None:
    wanted = binaries.major < 18
    with ScratchCluster.create(ScratchRequest(binaries, checksums=wanted)) as cluster:
        assert (scalar(cluster.target, "SHOW data_checksums") == "on") is wanted


def test_a_killed_cluster_leaves_no_shared_memory(binaries: Binaries, nothing_left: None) -> None:
    with ScratchCluster.create(ScratchRequest(binaries)) as cluster:
        assert cluster.pid is not None
        files = shared_memory(cluster.pid)
        assert files
        cluster.kill()
        assert all(file.exists() for file in files)
    assert not any(file.exists() for file in files)


def test_a_signal_ends_the_wait_for_a_server_that_does_not_stop(
    new_cluster: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = new_cluster("18")
    go_on = postmaster.signal_all
    calls: list[int] = []

    def only_the_second_time(pids: Iterable[int], number: signal.Signals) -> None:
        calls.append(number)
        if len(calls) > 1:
            go_on(pids, number)

    monkeypatch.setattr(postmaster, "signal_all", only_the_second_time)
    os.kill(cluster.pid or 0, signal.SIGSTOP)
    with signals.handled(), signals.shielded():
        os.kill(os.getpid(), signal.SIGINT)
        began = time.monotonic()
        cluster.stop()
        took_s = time.monotonic() - began
    assert cluster.pid is None
    assert took_s < 5


@pytest.mark.parametrize("major", ["15", "18"])
def test_a_server_that_somebody_stopped_is_removed_at_once(new_cluster: Make, major: str) -> None:
    cluster = new_cluster(major)
    assert cluster.pid is not None
    pids = [cluster.pid, *descendants(cluster.pid)]
    for pid in pids:
        # A worker may end between the two.
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
    began_s = time.monotonic()
    cluster.close()
    assert time.monotonic() - began_s < 5
    assert not cluster.data_dir.exists()


def test_the_wal_is_in_its_folder_and_is_removed_with_the_cluster(
    binaries: Binaries, open_folder: Path
) -> None:
    data_dir, wal_dir = open_folder / "fast", open_folder / "log"
    request = ScratchRequest(binaries, data_dir=data_dir, wal_dir=wal_dir)
    with ScratchCluster.create(request) as cluster:
        assert (cluster.data_dir / "pg_wal").resolve() == cluster.wal_dir
        assert cluster.wal_dir.parent == wal_dir
        assert len(list(cluster.wal_dir.glob("0*"))) >= 1
    assert list(data_dir.iterdir()) == list(wal_dir.iterdir()) == []


def test_the_error_of_a_bad_setting_quotes_the_server(
    binaries: Binaries, open_folder: Path, nothing_left: None
) -> None:
    request = ScratchRequest(binaries, data_dir=open_folder, settings={"wal_level": "minimal"})
    with pytest.raises(ServerError, match=rf"PostgreSQL {binaries.version} cannot start: .*WAL"):
        ScratchCluster.create(request)
    assert list(open_folder.iterdir()) == []


def test_a_user_without_a_name_is_told_to_get_one(binaries: Binaries, open_folder: Path) -> None:
    needs.offered(os.geteuid() == 0, "only root can become another user")
    nameless = UserIds("54321", 54321, 54321, (), "/")
    with pytest.raises(ServerError, match="user does not exist") as failure:
        initdb(binaries, nameless, data_dir=open_folder, wal_dir=None, checksums=False)
    assert "as root, useradd --uid 54321 NAME" in failure.value.hint


def test_the_package_of_a_missing_library_is_named(binaries: Binaries, open_folder: Path) -> None:
    request = ScratchRequest(
        binaries, data_dir=open_folder, settings={"shared_preload_libraries": "no_such_bird"}
    )
    with pytest.raises(ServerError, match="could not access file") as failure:
        ScratchCluster.create(request)
    package = f"postgresql-{binaries.major}-no-such-bird"
    assert failure.value.hint == (
        f"install the package {package}, or remove no_such_bird from the setting"
    )


def test_the_error_of_a_wrong_value_names_its_line(binaries: Binaries, open_folder: Path) -> None:
    request = ScratchRequest(binaries, data_dir=open_folder, settings={"work_mem": "plenty"})
    with pytest.raises(ServerError, match='invalid value for parameter "work_mem": "plenty"'):
        ScratchCluster.create(request)
    request = ScratchRequest(binaries, data_dir=open_folder, settings={"work_men": "4MB"})
    with pytest.raises(ServerError, match='unrecognized configuration parameter "work_men"'):
        ScratchCluster.create(request)


def test_a_setting_that_keeps_the_cluster_in_place_may_not_be_moved(binaries: Binaries) -> None:
    with pytest.raises(SpecError, match="pgdyno sets port of a scratch server"):
        ScratchCluster.create(ScratchRequest(binaries, settings={"Port": "5432"}))


def test_settings_take_effect_by_a_reload_where_that_is_enough(cluster: ScratchCluster) -> None:
    before = cluster.pid
    try:
        assert cluster.apply({"work_mem": "16MB", "checkpoint_timeout": "1h"}) is False
        assert cluster.pid == before
        assert scalar(cluster.target, "SHOW checkpoint_timeout") == "1h"
        assert cluster.apply({"shared_buffers": "24MB"}) is True
        assert scalar(cluster.target, "SHOW work_mem") == "4MB"
        assert scalar(cluster.target, "SHOW shared_buffers") == "24MB"
    finally:
        cluster.apply({})


def test_a_value_that_the_server_shows_as_another_one_took_effect(cluster: ScratchCluster) -> None:
    try:
        for value in ("on", "pglz", "off"):
            cluster.apply({"wal_compression": value})
            with cluster.connect(verb="test") as connection:
                assert read_back(connection, {"wal_compression": value}) == []
        with cluster.connect(verb="test") as connection:
            changes = read_back(connection, {"wal_compression": "on"})
        assert [str(change) for change in changes] == [
            "wal_compression: requested 'on', found 'off'"
        ]
    finally:
        cluster.apply({})


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
        assert scalar(cluster.target, "SHOW work_mem") == "9MB"
        assert scalar(cluster.target, "SHOW shared_buffers") == "128MB"
    finally:
        cluster.apply({})


def test_a_setting_that_something_overrides_is_an_error(cluster: ScratchCluster) -> None:
    with cluster.connect(verb="test") as connection:
        connection.execute("ALTER ROLE postgres SET work_mem = '5MB'")
    try:
        with pytest.raises(ServerError, match="work_mem: requested '64MB', found '5120 x kB'"):
            cluster.apply({"work_mem": "64MB"})
    finally:
        with cluster.connect(verb="test") as connection:
            connection.execute("ALTER ROLE postgres RESET work_mem")
        cluster.apply({})


def test_a_restarted_cluster_has_its_data_and_a_new_postmaster(cluster: ScratchCluster) -> None:
    before = cluster.pid
    with cluster.connect(verb="test") as connection:
        connection.execute("CREATE TABLE public.kept AS SELECT 42 AS answer")
    cluster.restart()
    assert cluster.pid != before
    assert scalar(cluster.target, "SELECT answer FROM public.kept") == 42


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
        assert cluster.path.exists()
    assert not cluster.path.exists()


def test_a_folder_may_have_a_long_path_because_the_socket_is_elsewhere(
    binaries: Binaries, open_folder: Path
) -> None:
    deep = open_folder / ("very-long-name-" * 8) / ("and-'quoted' name " * 4)
    deep.parent.mkdir(mode=0o755)
    with ScratchCluster.create(ScratchRequest(binaries, data_dir=deep)) as cluster:
        assert len(os.fsencode(cluster.target.host)) < scratch.SOCKET_PATH_BYTES_MAX
        assert scalar(cluster.target, "SELECT 1") == 1


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


def test_a_cluster_in_use_is_never_swept(cluster: ScratchCluster) -> None:
    assert cluster.path not in {left.path for left in sweep_leftovers([cluster.path.parent])}
    assert scalar(cluster.target, "SELECT 1") == 1


def test_ctrl_c_while_starting_leaves_nothing(
    binaries: Binaries, open_folder: Path, nothing_left: None
) -> None:
    def interrupt_when_begun() -> None:
        eventually(lambda: any(open_folder.glob("*/data/*")))
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt_when_begun)
    with signals.handled():
        thread.start()
        with pytest.raises(InterruptedByUser):
            ScratchCluster.create(ScratchRequest(binaries, data_dir=open_folder))
        thread.join()
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
