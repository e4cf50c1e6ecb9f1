"""Whether servers have equal hosts: cores and RAM, read by the role that changes the settings."""

from __future__ import annotations

import os

import pytest
from tests.fixtures.clusters import run_sql

from pgdyno.measure.equal_servers import Hardware, hardware_of, why_other_hardware
from pgdyno.server.connect import connect
from pgdyno.server.scratch import ScratchCluster

_GIB = 1 << 30


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (Hardware(16 * _GIB, 8), ""),
        (Hardware(17 * _GIB, 8), ""),
        (Hardware(16 * _GIB, 4), "number of cores is 8 and 4"),
        (Hardware(32 * _GIB, 8), "RAM is 16 GB and 32 GB"),
        (Hardware(None, 8), ""),
        (Hardware(), ""),
    ],
)
def test_hosts_with_other_cores_or_ram_are_named_with_both_values(
    other: Hardware, why: str
) -> None:
    assert why_other_hardware(Hardware(16 * _GIB, 8), other) == why


@pytest.mark.pg
@pytest.mark.parametrize("version", ["pg15", "pg18"])
def test_cores_and_ram_of_the_host_are_read_by_a_role_that_may_read_files(
    version: str, request: pytest.FixtureRequest
) -> None:
    cluster: ScratchCluster = request.getfixturevalue(version)
    with connect(cluster.target, verb="test") as connection:
        hardware = hardware_of(connection)
    assert hardware.core_count == os.cpu_count()
    ram_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert hardware.ram_bytes == pytest.approx(ram_bytes, rel=0.01)


@pytest.mark.pg
@pytest.mark.parametrize("version", ["pg15", "pg18"])
def test_a_role_that_may_not_read_files_knows_neither_and_causes_no_error(
    version: str, request: pytest.FixtureRequest
) -> None:
    cluster: ScratchCluster = request.getfixturevalue(version)
    run_sql(cluster.target, "DROP ROLE IF EXISTS reads_no_files")
    run_sql(cluster.target, "CREATE ROLE reads_no_files")
    with connect(cluster.target, verb="test") as connection:
        connection.execute("SET ROLE reads_no_files")
        assert hardware_of(connection) == Hardware()
        connection.execute("RESET ROLE")
        connection.execute("DROP ROLE reads_no_files")


@pytest.mark.pg
@pytest.mark.parametrize("version", ["pg15", "pg18"])
def test_membership_and_the_function_together_are_enough_to_read_both(
    version: str, request: pytest.FixtureRequest
) -> None:
    cluster: ScratchCluster = request.getfixturevalue(version)
    function = "FUNCTION pg_catalog.pg_read_file(text, bigint, bigint, boolean)"
    run_sql(cluster.target, "DROP ROLE IF EXISTS reads_files")
    run_sql(cluster.target, "CREATE ROLE reads_files IN ROLE pg_read_server_files")
    with connect(cluster.target, verb="test") as connection:
        connection.execute("SET ROLE reads_files")
        assert hardware_of(connection) == Hardware(), "the function is not granted"
        connection.execute("RESET ROLE")
        connection.execute(f"GRANT EXECUTE ON {function} TO reads_files")
        connection.execute("SET ROLE reads_files")
        assert hardware_of(connection).is_known
        connection.execute("RESET ROLE")
        connection.execute("DROP OWNED BY reads_files")
        connection.execute("DROP ROLE reads_files")
