"""What --hosts may be."""

from __future__ import annotations

import pytest
from tests.fixtures.command import Command

from pgdyno.spec.hosts import hosts_from


def test_hosts_are_local_by_ssh_or_of_a_cluster() -> None:
    assert hosts_from("local:4").local_count == 4
    assert hosts_from("a, me@b,10.0.0.7").names == ("a", "me@b", "10.0.0.7")
    assert hosts_from("tls://s:8786/").scheduler == "tls://s:8786"


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("local:0", "from 1 to 256"),
        ("local:x", "from 1 to 256"),
        ("tcp://s:8786", "the code of anybody"),
        ("tls://s", "tls://HOST:PORT"),
        ("a,,b", "not the name of a load host"),
        ("-oProxyCommand=x", "not the name of a load host"),
        ("a,b,a", "named twice"),
        (
            ",".join(f"h{n}" for n in range(1000)),
            "at most 256 load hosts can share a load, got 1000",
        ),
        ("local:200", "200 load hosts for 1 clients"),
    ],
)
def test_bad_hosts_are_refused_with_the_rule(pgdyno: Command, text: str, rule: str) -> None:
    said = pgdyno("bench", f"--hosts={text}", "--dry-run")
    assert said.code == 1
    assert "hosts" in said.error
    assert rule in " ".join(said.error.split())
    if "clients" not in rule:
        said = pgdyno("init", "-d", "bank", f"--hosts={text}")
        assert said.code == 1
        assert rule in " ".join(said.error.split())
