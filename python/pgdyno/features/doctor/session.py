"""Opens one read-only connection with timeouts, never through a pooler, that does not disturb."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from pgdyno.errors import ServerError
from pgdyno.observe.session import PoolerInThePath, ServerSession
from pgdyno.server.connect import Connection, connect, pinned
from pgdyno.server.failures import failure
from pgdyno.server.target import Target

OLDEST_MAJOR = 10


@contextmanager
def read_only(target: Target, verb: str) -> Iterator[tuple[ServerSession, Target]]:
    """Yield an open session, and the target with the host that was reached.

    Raises: ServerError for a server that cannot be reached or is too old, for a pooler, and for
    every error of psycopg inside the block.
    """
    reached: list[Target] = []

    def open_one() -> Connection:
        connection = connect(target, verb=verb)
        reached.append(pinned(target, connection))
        return connection

    session = ServerSession(open_one, f"pgdyno/{verb}/control", is_local=False)
    try:
        session.open()
        if session.version < OLDEST_MAJOR:
            raise ServerError(
                f"{target.place} is PostgreSQL {session.version}, older than {OLDEST_MAJOR}.",
                hint="pgdyno can only load older servers, with pgdyno pgbench",
            )
        yield session, reached[-1]
    except PoolerInThePath:
        raise ServerError(
            f"{target.place} is a pooler, not a server: settings made there reach other sessions.",
            hint="name the server itself with -h and -p",
        ) from None
    except psycopg.Error as error:
        raise failure(target, error) from None
    finally:
        session.close()
