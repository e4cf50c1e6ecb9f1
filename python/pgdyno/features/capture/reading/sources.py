"""The sources of a capture: the right that each needs, its cost, what it adds; what is missing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from pgdyno.features.capture.reading import catalog, counted
from pgdyno.features.capture.reading.schema import Fetch
from pgdyno.observe.sql.statements import SCHEMA_SQL

# Looks at the sessions, one at once after another, and the time between two such rows of looks.
LOOKS = 3
# The share of a core that looks may take. Counters and the rest of a capture take as much.
LOOKS_RATIO = 0.005
POLL_S_MIN, POLL_S_MAX = 0.05, 1.0


@dataclass(frozen=True, slots=True)
class SourceSeen:
    """One source. `missing`: why it cannot be used, "" if it can; `loss`: what that costs."""

    name: str
    right: str
    cost: str
    gain: str
    missing: str = ""
    loss: str = ""
    repair: str = ""


def sources_of(
    fetch: Fetch, *, version: int, user: str, sees_everybody: bool, has_logs: bool = False
) -> Iterator[SourceSeen]:
    """Yield the sources that a server offers to this role.

    Args: has_logs, whether the statements and their order come from logs.
    """
    yield SourceSeen(
        name="catalogs",
        right="CONNECT",
        cost="one read at the start",
        gain="the schema, sizes, settings on which plans depend",
    )
    yield _of_statistics(fetch, user)
    statements = _of_statements(fetch, user, sees_everybody=sees_everybody)
    activity = _of_activity(fetch, version, user, sees_everybody=sees_everybody)
    if has_logs:
        statements = replace(statements, loss="rows, blocks and WAL of a call are not known")
        activity = replace(activity, loss="waits and active sessions are not known")
    yield from (statements, activity)


def _of_statistics(fetch: Fetch, user: str) -> SourceSeen:
    hidden = [name for (name,) in fetch(catalog.HIDDEN_SQL)]
    more = f" and {len(hidden) - 3} more" if len(hidden) > 3 else ""
    return SourceSeen(
        name="pg_stats",
        right="SELECT on the tables",
        cost="one read at the start",
        gain="how the values of each column are distributed",
        missing=f"no right on {', '.join(hidden[:3])}{more}" if hidden else "",
        loss="the columns of these tables are filled without their distribution",
        repair=f"GRANT pg_read_all_data TO {user}" if hidden else "",
    )


def _of_statements(fetch: Fetch, user: str, *, sees_everybody: bool) -> SourceSeen:
    missing = repair = ""
    rows = fetch(SCHEMA_SQL)
    if not rows:
        missing = "the extension is not in this database"
        repair = (
            "shared_preload_libraries = 'pg_stat_statements', a restart,"
            " CREATE EXTENSION pg_stat_statements"
        )
    elif missing := counted.has_statements(fetch, rows[0][0]):
        repair = "shared_preload_libraries = 'pg_stat_statements', and a restart"
    elif not sees_everybody:
        missing, repair = "the texts of other roles are hidden", _grant(user)
    return SourceSeen(
        name="pg_stat_statements",
        right="pg_read_all_stats",
        cost="its texts once, its counters every few seconds",
        gain="which statements, how often, their time, rows, blocks and WAL",
        missing=missing,
        loss="the capture has no load that can be run, only the schema and its statistics"
        if not rows or "library" in missing
        else "statements of other roles cannot be reproduced",
        repair=repair,
    )


def _of_activity(fetch: Fetch, version: int, user: str, *, sees_everybody: bool) -> SourceSeen:
    missing = repair = ""
    if not sees_everybody:
        missing, repair = "the sessions of other roles are hidden", _grant(user)
    elif version < 14:
        missing = "before PostgreSQL 14 sessions do not show the id of their statement"
    else:
        [(value, is_loaded)] = fetch(catalog.QUERY_IDS_SQL)
        if value == "off" or (value == "auto" and not is_loaded):
            missing = f"compute_query_id is {value}: sessions show no id of their statement"
            repair = "ALTER SYSTEM SET compute_query_id = on"
    return SourceSeen(
        name="pg_stat_activity",
        right="pg_read_all_stats",
        cost=f"at most {LOOKS / POLL_S_MIN:.0f} reads a second,"
        f" and {100 * LOOKS_RATIO:g} % of one core",
        gain="which statements share a transaction, sessions, waits, think times",
        missing=missing,
        loss="nothing shows which statements share a transaction: each one is a transaction",
        repair=repair,
    )


def _grant(user: str) -> str:
    return f"GRANT pg_monitor TO {user}"
