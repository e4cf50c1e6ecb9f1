"""Load hosts in different networks: two network namespaces with an sshd each."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.fixtures.command import Command, Said, server_options
from tests.fixtures.line import Line
from tests.fixtures.needs import IS_ROOT, when_offered
from tests.fixtures.ssh import configure_client, make_keys, start_sshd

from pgdyno.server.target import Target

PORT = 2222


def _has_network_namespaces() -> bool:
    return IS_ROOT and not subprocess.run(["unshare", "--net", "true"], check=False).returncode


pytestmark = [
    pytest.mark.pg,
    when_offered(_has_network_namespaces(), "no network namespaces for this user"),
]


@dataclass(frozen=True)
class Network:
    """One namespace: a host at `address`, which knows the lab as `lab`."""

    namespace: str
    lab: str
    address: str

    def ip(self, *words: str) -> None:
        """Change the network within the namespace."""
        change("-n", self.namespace, *words)


def change(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


@pytest.fixture
def networks(ip: Path) -> Iterator[list[Network]]:
    """Two networks, each between this host and a namespace."""
    third = os.getpid() % 60 * 4
    made = []
    with ExitStack() as stack:
        for number in range(2):
            name = f"pgd{os.getpid()}-{number}"
            lab, address = (f"10.213.{third + number}.{last}" for last in (1, 2))
            network = Network(name, lab, address)
            change("netns", "add", name)
            stack.callback(change, "netns", "del", name)
            # The kernel removes both ends with the namespace.
            change("link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
            change("addr", "add", f"{lab}/30", "dev", name)
            change("link", "set", name, "up")
            network.ip("addr", "add", f"{address}/30", "dev", "eth0")
            network.ip("link", "set", "lo", "up")
            network.ip("link", "set", "eth0", "up")
            network.ip("route", "add", "default", "via", lab)
            made.append(network)
        yield made


@pytest.fixture
def environment(
    ssh: Path, sshd: Path, networks: list[Network], tmp_path: Path
) -> Iterator[dict[str, str]]:
    """An sshd in each namespace, and the variables with which pgdyno uses them as net0, net1."""
    folder = tmp_path / "ssh"
    make_keys(folder)
    with ExitStack() as stack:
        for network in networks:
            within = ("ip", "netns", "exec", network.namespace)
            process = start_sshd(sshd, folder, network.address, PORT, within=within)
            stack.callback(process.wait)
            stack.callback(process.terminate)
        places = {f"net{n}": (network.address, PORT) for n, network in enumerate(networks)}
        configure_client(folder, places)
        ssh = f"ssh -F {folder}/ssh_config"
        yield {"PGDYNO_SSH": ssh, "PGDYNO_HOSTS_PYTHON": sys.executable}


def test_hosts_of_two_networks_make_one_load_and_a_firewall_is_named(
    pgdyno: Command,
    database15: Target,
    networks: list[Network],
    environment: dict[str, str],
    tmp_path: Path,
) -> None:
    script = tmp_path / "read.sql"
    script.write_text("SELECT 1;\n")
    line = Line(database15, networks[0].lab)

    def bench() -> Said:
        load = ("-f", script, "-c", "4", "-t", "20", "--warmup", "0", "--reset", "none", "--json")
        server = server_options(line.target)
        return pgdyno("bench", *server, *load, "--hosts", "net0,net1", env=environment)

    try:
        said = bench()
        assert said.code in (0, 3), said.err
        hosts = [(host["name"], host["transactions"]) for host in said.document["hosts"]]
        assert hosts == [("net0", 40), ("net1", 40)]
        networks[1].ip("route", "add", "prohibit", networks[0].lab)
        said = bench()
        assert said.code == 1, said.err
        assert f"Load host net1 cannot reach the server: {line.target.host}:" in said.error
        assert "net0" not in said.error
    finally:
        line.close()
