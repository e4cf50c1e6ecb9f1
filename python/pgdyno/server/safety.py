"""The rules for writing on a server that pgdyno did not start. Pure: facts in, refusal out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pgdyno.errors import RefusedError


@dataclass(frozen=True, slots=True)
class OtherSessions:
    """Client sessions of one application that is not pgdyno.

    `role`: of an application that calls itself pgdyno.
    """

    application: str
    count: int
    role: str = ""

    @property
    def name(self) -> str:
        """Return the application in words."""
        if self.role:
            return f"role {self.role} that calls itself {self.application}"
        return self.application or "unnamed"


@dataclass(frozen=True, slots=True)
class Intent:
    """The plan of a verb, and the permissions of the user.

    Args: scripts_writing, names of the scripts that are not wholly SELECT; is_marked, the dataset
    is pgdyno's own; landlords, roles that can replace its tables, if the session is a superuser's;
    confirmed, the texts of `--confirm`, one for each server of the command.
    """

    is_scratch: bool
    database: str
    host: str
    scripts_writing: tuple[str, ...] = ()
    is_marked: bool = False
    others: tuple[OtherSessions, ...] = ()
    landlords: tuple[str, ...] = ()
    allow_write: bool = False
    confirmed: tuple[str, ...] = ()

    @property
    def confirmation(self) -> str:
        """Return the text that `--confirm` needs for this target."""
        return f"{self.database}@{self.host}"


@dataclass(frozen=True, slots=True)
class ConnectionRoom:
    """How many sessions a server admits; `reserved_count` has both kinds of reserved slots."""

    max_connections: int
    reserved_count: int
    used_count: int
    is_superuser: bool = False

    @property
    def free(self) -> int:
        """Return how many more sessions this role may open."""
        kept = 0 if self.is_superuser else self.reserved_count
        return max(0, self.max_connections - kept - self.used_count)


def refuse_unsafe_load(intent: Intent) -> None:
    """Raise RefusedError if the load may disturb others; a scratch server has no other users."""
    if intent.is_scratch:
        return
    _refuse_wrong_confirmation(intent)
    if intent.scripts_writing and not (intent.allow_write or intent.is_marked):
        raise RefusedError(
            f"{_listed(intent.scripts_writing)} would write to {intent.confirmation}, into "
            "tables that pgdyno did not make.",
            hint="add --allow-write, or run a script that only reads (-b select-only)",
        )
    _refuse_unconfirmed(intent)


def refuse_read_only_session(
    place: str, scripts_writing: Sequence[str], *, is_standby: bool
) -> None:
    """Raise RefusedError for scripts that write if the session of the load may not write.

    Args: is_standby, the server is in recovery; else the role or the database sets read-only.
    """
    if not scripts_writing:
        return
    if is_standby:
        why, step = "is a standby, which accepts no writes", "connect to the primary"
    else:
        why = "accepts no writes in this session: default_transaction_read_only is on"
        step = "use a role and a database without this setting"
    writes = "writes" if len(scripts_writing) == 1 else "write"
    raise RefusedError(
        f"{_listed(scripts_writing)} {writes}, but {place} {why}.",
        hint=f"{step}, or run a script that only reads (-b select-only)",
    )


def refuse_unsafe_init(intent: Intent, *, tables: Sequence[str]) -> None:
    """Raise RefusedError if loading would replace somebody's tables or disturb their sessions.

    Args: tables, the names of the dataset that are there already, marked or not.
    """
    if tables and not intent.is_marked:
        raise RefusedError(
            f"{intent.confirmation} has {', '.join(tables)}, which pgdyno did not make and "
            "never replaces.",
            hint="name another database with -d, or drop the tables yourself",
        )
    if intent.is_scratch:
        return
    _refuse_wrong_confirmation(intent)
    _refuse_unconfirmed(intent)


def refuse_too_many_connections(
    room: ConnectionRoom, *, load: int, control: int, in_words: str
) -> None:
    """Raise RefusedError if the server cannot admit the load, with the number it needs.

    Args: load, connections of the largest level, and whose they are in words; control, our own
    additional sessions.
    """
    wanted = load + control
    if wanted <= room.free:
        return
    needed = room.max_connections + wanted - room.free
    raise RefusedError(
        f"{in_words} and {control} sessions of pgdyno need {wanted} connections, but only "
        f"{room.free} are free: max_connections is {room.max_connections}, {room.used_count} in "
        f"use, {room.reserved_count} reserved.",
        hint=(
            f"use at most {max(0, room.free - control)}, or set max_connections to at least "
            f"{needed}"
        ),
    )


def describe(others: Sequence[OtherSessions]) -> str:
    """Return the other applications in words, those with most sessions first."""
    ordered = sorted(others, key=lambda other: (-other.count, other.application))
    parts = [f"{other.count} of {other.name}" for other in ordered[:3]]
    rest = sum(other.count for other in ordered[3:])
    return ", ".join(parts) + (f", {rest} of other applications" if rest else "") + " (sessions)"


def _refuse_wrong_confirmation(intent: Intent) -> None:
    # A wrong confirmation is refused even if none is needed, because it is for another server.
    if intent.confirmed and intent.confirmation not in intent.confirmed:
        named = " ".join(f"--confirm {text}" for text in intent.confirmed)
        raise RefusedError(
            f"{named} does not name this target, which is {intent.confirmation}.",
            hint="check the target of the connection; several servers need --confirm once for each",
        )


def _refuse_unconfirmed(intent: Intent) -> None:
    reasons, steps = [], []
    if intent.landlords:
        roles = ", ".join(intent.landlords)
        reasons.append(
            f"You are a superuser on {intent.confirmation}, and {roles} can replace the tables "
            "that pgdyno makes there, also while they are in use. What the new tables call would "
            "run with your rights."
        )
        steps.append(f"connect as a role with few rights (-U), or, if you trust {roles}")
    if intent.others:
        reasons.append(f"Other sessions use {intent.confirmation}: {describe(intent.others)}.")
        steps.append("if the load may slow them down")
    if reasons and not intent.confirmed:
        step = f"{' and '.join(steps)}, add --confirm {intent.confirmation}"
        raise RefusedError(" ".join(reasons), hint=step)


def _listed(names: Sequence[str]) -> str:
    return "Script " + names[0] if len(names) == 1 else "Scripts " + ", ".join(names)
