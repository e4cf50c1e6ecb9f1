"""Two servers of the user's own as two machines of one matrix, each reached by two paths."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fixtures.clusters import run_sql, scalar
from tests.fixtures.own_servers import MakeOwn, command_of
from tests.measure.test_servers import Open, open_servers, show

from pgdyno.errors import RefusedError, SpecError
from pgdyno.server.conninfo import resolve
from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.spec.designs import MatrixDesign
from pgdyno.spec.experiment import ExistingDataset, Experiment, Script, Server, Workload
from pgdyno.spec.variant_text import variant_from
from pgdyno.store.experiment import Store
from pgdyno.store.folder import ExperimentFolder

__all__ = ["open_servers"]


@pytest.fixture
def services(
    pg15: ScratchCluster, pg18: ScratchCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Name both ways to both servers in a service file: db1-socket, db1-tcp, db2-..."""
    sections = []
    for name, cluster in (("db1", pg15), ("db2", pg18)):
        for path, target in (("socket", cluster.target), ("tcp", cluster.tcp_target)):
            password = target.password.get_secret_value() if target.password else ""
            sections.append(
                f"[{name}-{path}]\nhost={target.host}\nport={target.ports}\nuser={target.user}\n"
                f"dbname=postgres\n" + (f"password={password}\n" if password else "")
            )
    (tmp_path / "services").write_text("\n".join(sections))
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services"))
    yield
    for cluster in (pg15, pg18):
        assert run_sql(cluster.target, "SELECT 1 FROM pg_file_settings WHERE name = 'x'") == []


def matrix(admin: str | None, **commands: str) -> Experiment:
    means = {"admin": admin, **commands}
    factors = [
        {"name": "machine", "levels": [{"name": "db1"}, {"name": "db2"}]},
        {
            "name": "settings",
            "levels": [
                {"name": "before"},
                {"name": "after", "settings": {"work_mem": "9MB", "autovacuum_naptime": "41s"}},
            ],
        },
        {
            "name": "path",
            "levels": [
                {"name": "socket", "dsn": "service={machine}-socket", **means},
                {"name": "tcp", "dsn": "service={machine}-tcp", **means},
            ],
        },
    ]
    return Experiment(
        name="two machines",
        server=Server(dsn="service=db1-socket"),
        dataset=ExistingDataset(),
        workload=Workload(scripts=(Script(file=Path("/one.sql"), text="SELECT 1"),)),
        design=MatrixDesign(factors=factors),
    )


def test_every_cell_is_on_its_machine_by_its_path_with_its_settings(
    services: None, open_servers: Open, tmp_path: Path, pg15: ScratchCluster, pg18: ScratchCluster
) -> None:
    asked = matrix("service={machine}-socket")
    folder = Store(tmp_path / "store").create("two machines", "matrix")
    servers = open_servers(asked, resolve(conninfo="service=db1-socket").target)
    servers.servers.journal = folder.add_audit
    names = [variant.name for variant in asked.all_variants()]
    for index, name in enumerate(names):
        machine, settings, path = name.split(", ")
        server = servers.ready(index)
        assert server.facts.major == {"db1": 15, "db2": 18}[machine]
        assert server.target.is_socket == (path == "socket")
        wanted = {"before": ("4MB", "1min"), "after": ("9MB", "41s")}[settings]
        assert (show(server, "work_mem"), show(server, "autovacuum_naptime")) == wanted
    assert len(ExperimentFolder(folder.folder).outstanding_changes()) == 2
    servers.servers.close()
    assert ExperimentFolder(folder.folder).outstanding_changes() == []
    for cluster in (pg15, pg18):
        assert scalar(cluster.target, "SHOW autovacuum_naptime") == "1min"


def test_a_machine_without_an_admin_is_refused_by_what_would_change(
    services: None, open_servers: Open
) -> None:
    with pytest.raises(RefusedError, match="autovacuum_naptime would change"):
        open_servers(matrix(None), resolve(conninfo="service=db1-socket").target)


def test_each_machine_has_its_own_command_and_gets_only_its_own_settings(
    services: None, open_servers: Open, tmp_path: Path, pg15: ScratchCluster, pg18: ScratchCluster
) -> None:
    for machine in ("db1", "db2"):
        psql = f"{pg15.binaries.program('psql')} -X -q -d service={machine}-socket"
        # In addition to the two settings in SQL: null puts one back.
        command_of(
            tmp_path / f"apply-{machine}",
            f"cat >> {tmp_path}/given-{machine}; echo >> {tmp_path}/given-{machine}",
            f"tail -1 {tmp_path}/given-{machine} | grep -q 41s"
            " && set='SET autovacuum_naptime = 41' || set='RESET autovacuum_naptime'",
            f'{psql} -c "ALTER SYSTEM $set" -c "SELECT pg_reload_conf()" > /dev/null',
        )
    asked = matrix(None, apply_command=str(tmp_path / "apply-{machine}"))
    folder = Store(tmp_path / "store").create("two machines", "matrix")
    servers = open_servers(asked, resolve(conninfo="service=db1-socket").target)
    servers.servers.journal = folder.add_audit
    after_on_db2 = [v.name for v in asked.all_variants()].index("db2, after, tcp")
    assert show(servers.ready(after_on_db2), "autovacuum_naptime") == "41s"
    assert not (tmp_path / "given-db1").exists()
    assert scalar(pg15.target, "SHOW autovacuum_naptime") == "1min"
    [changed] = ExperimentFolder(folder.folder).outstanding_changes()
    assert changed["apply_command"] == str(tmp_path / "apply-db2")
    servers.ready(0)
    servers.servers.close()
    assert ExperimentFolder(folder.folder).outstanding_changes() == []
    given = (tmp_path / "given-db2").read_text().splitlines()
    assert [json.loads(line)["autovacuum_naptime"] for line in given] == ["41s", None]
    assert scalar(pg18.target, "SHOW autovacuum_naptime") == "1min"


def test_each_machine_is_restarted_by_its_own_command(
    new_own_server: MakeOwn, open_servers: Open, tmp_path: Path
) -> None:
    own_servers = {"db1": new_own_server(), "db2": new_own_server()}
    levels = [
        {
            "name": name,
            "dsn": own.conninfo,
            "admin": own.conninfo,
            "restart_command": own.restart_command(
                tmp_path / f"restart-{name}", f"echo again >> {tmp_path}/restarted-{name}"
            ),
        }
        for name, own in own_servers.items()
    ]
    memory = [{"name": size, "settings": {"shared_buffers": size}} for size in ("16MB", "24MB")]
    factors = [{"name": "machine", "levels": levels}, {"name": "memory", "levels": memory}]
    asked = matrix(None).model_copy(update={"design": MatrixDesign(factors=factors)})
    folder = Store(tmp_path / "store").create("two machines", "matrix")
    servers = open_servers(asked, resolve(conninfo=own_servers["db1"].conninfo).target)
    servers.servers.journal = folder.add_audit
    larger_on_db2 = [v.name for v in asked.all_variants()].index("db2, 24MB")
    assert show(servers.ready(larger_on_db2), "shared_buffers") == "24MB"
    assert (tmp_path / "restarted-db2").exists()
    assert not (tmp_path / "restarted-db1").exists()
    servers.servers.close()
    assert scalar(own_servers["db2"].target, "SHOW shared_buffers") == "32MB"


def test_a_command_of_the_experiment_for_several_servers_is_refused(
    services: None, open_servers: Open
) -> None:
    asked = matrix(None).model_copy(
        update={"server": Server(dsn="service=db1-socket", apply_command="true")}
    )
    with pytest.raises(SpecError, match="do not know their server"):
        open_servers(asked, resolve(conninfo="service=db1-socket").target)


def test_two_commands_for_one_server_are_refused(services: None, open_servers: Open) -> None:
    asked = matrix(None, apply_command="apply {path}")
    with pytest.raises(SpecError, match="different commands"):
        open_servers(asked, resolve(conninfo="service=db1-socket").target)


def test_the_first_of_two_servers_can_be_put_back(tmp_path: Path) -> None:
    folder = Store(tmp_path).create("two machines", "matrix")
    for host in ("db1", "db2"):
        folder.add_audit({"change": "settings", "admin": {"host": host}, "previous": {}})
    folder.add_audit({"change": "undone", "admin": {"host": "db1"}, "names": []})
    assert [change["admin"]["host"] for change in folder.outstanding_changes()] == ["db2"]


def test_a_level_may_stand_in_a_connection_string() -> None:
    dsns = {variant.name: variant.dsn for variant in matrix(None).all_variants()}
    assert dsns["db2, after, tcp"] == "service=db2-tcp"
    assert len(set(dsns.values())) == 4


def test_a_password_in_a_connection_string_of_a_spec_is_refused() -> None:
    with pytest.raises(ValueError, match="a password does not belong in a spec"):
        Server(dsn="host=db1 password=secret")
    with pytest.raises(Exception, match="a password does not belong in a spec"):
        variant_from("b: dsn=postgresql://u:secret@db1/x")
