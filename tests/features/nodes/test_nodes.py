"""The way to a node, which the coordinator's word alone decides."""

from __future__ import annotations

import socket
import threading
from typing import Any

import pytest
from psycopg import pq
from pydantic import SecretStr

from pgdyno.errors import ServerError
from pgdyno.features.nodes.nodes import Node, directly
from pgdyno.server.connect import connect
from pgdyno.server.target import Target

SECRET = "planted-password"
# AuthenticationCleartextPassword.
ASKS = b"R\x00\x00\x00\x08\x00\x00\x00\x03"


def received_by(listener: socket.socket, received: bytearray) -> None:
    """Ask the client that connects for a password in clear text, and keep all that is sent."""
    with listener.accept()[0] as session:
        session.settimeout(2)
        received += session.recv(4096)
        session.sendall(ASKS)
        while part := session.recv(4096):
            received += part


@pytest.mark.parametrize("libpq", [pq.version(), 150_000])
@pytest.mark.parametrize(
    "given",
    [{"password": SecretStr(SECRET)}, {"password_command": f"echo {SECRET}"}],
    ids=["a password", "a password command"],
)
def test_no_node_gets_the_password_in_clear_text(
    given: dict[str, Any], libpq: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pq, "version", lambda: libpq)
    target = Target(
        host="db1", ports="5432", user="app", database="bank", sslmode="disable", **given
    )
    with socket.create_server(("127.0.0.1", 0)) as listener:
        node = Node("127.0.0.1", str(listener.getsockname()[1]))
        received = bytearray()
        thread = threading.Thread(target=received_by, args=(listener, received))
        thread.start()
        with pytest.raises(ServerError):
            connect(directly(target, node), verb="observe")
        thread.join(30)
    assert b"bank" in received
    assert SECRET.encode() not in received
