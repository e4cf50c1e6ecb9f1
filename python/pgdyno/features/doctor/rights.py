"""Tells what each verb can do with a role, and which statements grant the missing rights."""

from __future__ import annotations

from dataclasses import dataclass

from pgdyno.features.doctor.server_seen import Rights

# Examples of settings that a session can change.
SESSION_SETTINGS = "synchronous_commit, work_mem, random_page_cost, ..."


@dataclass(frozen=True, slots=True)
class VerbRight:
    """What one verb can do with a role."""

    verb: str
    is_complete: bool
    """Whether the verb can do everything."""
    text: str
    """What it can do, in words, and what a missing right costs."""


def verb_rights(rights: Rights, *, has_shell: bool, is_standby: bool) -> list[VerbRight]:
    """Return what each verb can do with the role.

    Args: has_shell, whether this process runs on the server's host; is_standby, whether the server
    is a standby, on which no role can write.
    """
    # SQL does not show CPU, memory and disk of the host; they are read on the host itself.
    host = "" if has_shell else ", except host CPU, memory, disk"
    watch = f"complete{host}" if rights.monitor else f"own sessions only{host}"
    checkpoint = (
        "" if rights.checkpoint else "; starts at any checkpoint phase, so intervals are wider"
    )
    waits = "" if rights.monitor else "; without the waits of other sessions"
    bench = f"runs{checkpoint}{waits}"
    init = "loads" if rights.create_in_public else "cannot load: no privilege to create tables"
    if is_standby:
        bench = f"runs scripts that only read{checkpoint}{waits}"
        init = "cannot load: this is a standby; name its primary"
    compare = f"only settings that a session may change ({SESSION_SETTINGS})"
    # A setting takes effect after ALTER SYSTEM and a reload, so both rights are needed.
    if rights.alter_system and rights.reload:
        which = "every setting" if rights.is_superuser else "the granted settings"
        compare = f"{which}, if a reload changes them; a restart needs --restart-command"
    is_load_complete = rights.checkpoint and rights.monitor and not is_standby
    return [
        VerbRight("watch", rights.monitor and has_shell, watch),
        VerbRight("bench", is_load_complete, bench),
        VerbRight("sweep", is_load_complete, bench),
        VerbRight("init", rights.create_in_public and not is_standby, init),
        VerbRight("compare", rights.alter_system and rights.reload, compare),
    ]


def summary(rights: Rights, *, has_shell: bool) -> list[tuple[str, bool]]:
    """Return the important rights by their SQL names, and whether the role has them."""
    return [
        ("pg_monitor", rights.monitor),
        ("pg_checkpoint", rights.checkpoint),
        ("ALTER SYSTEM", rights.alter_system),
        ("CREATE", rights.create_in_public),
        ("shell on host", has_shell),
    ]


def grants(rights: Rights, *, major: int, database: str) -> list[str]:
    """Return the statements that grant the missing rights; the server's owner decides on them.

    Before PostgreSQL 15 there is no pg_checkpoint, and ALTER SYSTEM cannot be granted.
    """
    role = _identifier(rights.role)
    statements: list[str] = []
    if not rights.monitor:
        statements.append(f"GRANT pg_monitor TO {role};  -- watch, bench: what others wait for")
    if not rights.checkpoint and major >= 15:
        statements.append(f"GRANT pg_checkpoint TO {role};  -- bench: every run at the same phase")
    if not rights.create_in_public:
        statements.append(f"GRANT CREATE ON SCHEMA public TO {role};  -- init: its own tables")
    if not rights.alter_system and major >= 15:
        statements.append(
            f"GRANT SET, ALTER SYSTEM ON PARAMETER max_wal_size, checkpoint_timeout"
            f" TO {role};  -- settings under test, by name"
        )
    if not rights.reload:
        statements.append(
            f"GRANT EXECUTE ON FUNCTION pg_catalog.pg_reload_conf() TO {role};  -- in database"
            f" {database}: settings under test take effect"
        )
    return statements


def _identifier(name: str) -> str:
    """Return a name for SQL. It is always quoted, because a user's name may be a keyword."""
    return '"' + name.replace('"', '""') + '"'
