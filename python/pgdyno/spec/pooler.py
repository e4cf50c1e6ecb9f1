"""A connection pooler between the load and a scratch server."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from pgdyno.errors import SpecError
from pgdyno.spec.base import Spec

PoolMode = Literal["session", "transaction", "statement"]
_FORM = "pooler=MODE:SIZE, such as pooler=transaction:20"


class Pooler(Spec):
    """PgBouncer beside the server: the load's clients share at most so many sessions."""

    kind: Literal["pgbouncer"] = "pgbouncer"
    mode: PoolMode = "transaction"
    session_count: Annotated[int, Field(ge=1, le=10_000, alias="pool_size")] = 20

    def __str__(self) -> str:
        return f"{self.kind} {self.mode}, {self.session_count} sessions"


def pooler_from(text: str) -> dict[str, str]:
    """Return the fields that `transaction:20`, `20` or `session` mean, to be judged by `Pooler`.

    Raises: SpecError if it has more parts than those two.
    """
    parts = [part.strip() for part in text.split(":")]
    if len(parts) > 2 or not all(parts):
        raise SpecError(f"pooler={text} is not MODE:SIZE.", hint=_FORM)
    if len(parts) == 1:
        return {"pool_size" if parts[0].isdecimal() else "mode": parts[0]}
    return {"mode": parts[0], "pool_size": parts[1]}
