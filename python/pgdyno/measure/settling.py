"""Until the sessions that looked at a server before have ended, and what they did is counted."""

from __future__ import annotations

import psycopg

from pgdyno.clock import monotonic_ns
from pgdyno.doctor.session import read_only
from pgdyno.errors import PgdynoError
from pgdyno.process import signals
from pgdyno.server.target import Target

_VERB = "watch"
_POLL_S = 0.02
_PATIENCE_NS = 2_000_000_000

OTHERS_SQL = (
    "SELECT 1 FROM pg_catalog.pg_stat_get_activity(NULL)"
    f" WHERE application_name = 'pgdyno/{_VERB}/control' AND pid <> pg_backend_pid() LIMIT 1"
)


def settle(target: Target) -> None:
    """Wait until the sessions a watch begins with have ended, and are counted as done.

    A backend reports what it did when it ends: in the first second of a watch that would look like
    somebody's transactions. Never raises: a server that does not answer is for the observer to say.
    """
    deadline_ns = monotonic_ns() + _PATIENCE_NS
    try:
        with read_only(target, _VERB) as (session, _):
            while session.fetch(OTHERS_SQL) and monotonic_ns() < deadline_ns:
                signals.sleep(_POLL_S)
            session.report_transactions()
    except (PgdynoError, psycopg.Error):
        return
