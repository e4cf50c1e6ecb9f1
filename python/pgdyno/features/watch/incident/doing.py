"""What one session is doing, and the step that ends it: each works in the state that was seen."""

from __future__ import annotations

from pgdyno.features.watch.incident.evidence import Row, number
from pgdyno.features.watch.incident.finding import quoted
from pgdyno.quantities import seconds


def doing(row: Row) -> str:
    """Return "idle in transaction for 12 s", or what an active session has done for how long."""
    age = seconds(round(number(row, "state_age_ns") / 1e9))
    state = str(row["state"])
    if state == "prepared":
        return f"in the prepared state for {age}"
    if client := waits_for_client(row):
        return f"in one statement for {age}: it waits for its client, which {client}"
    if state == "active":
        return f"at work on one statement for {age}"
    return f"{state or 'in a state hidden from this role'} for {age}"


def ending_step(row: Row) -> str:
    """Return how to end what a session or a prepared transaction holds."""
    pid, state = int(row["pid"] or 0), str(row["state"])
    if state == "prepared":
        name = quoted(str(row.get("prepared") or row.get("name")))
        return (
            "ask the transaction manager that prepared it whether it was committed elsewhere; then,"
            f" in {row['database']}: COMMIT PREPARED {name}, or ROLLBACK PREPARED {name}"
        )
    if row.get("backend_type") == "autovacuum worker":
        return (
            "let it end: if it is cancelled, it begins again; autovacuum_vacuum_cost_delay = 0 and"
            " a reload make it faster"
        )
    ends = f"SELECT pg_catalog.pg_terminate_backend({pid})"
    if state.startswith("idle in transaction"):
        return f"ask its owner, or {ends}; idle_in_transaction_session_timeout prevents it"
    if state == "idle":
        # Cancelling ends a statement; an idle session has none.
        return f"it holds the lock for its session: {ends} releases it"
    if waits_for_client(row):
        # The server looks at a cancellation between two messages, and this one does not end.
        return f"see why its client stands still, or {ends}; pg_cancel_backend does not end it"
    return f"let it end, or SELECT pg_catalog.pg_cancel_backend({pid})"


def waits_for_client(row: Row) -> str:
    """Return what the client of an active session does not do; "" if it does not wait for it."""
    if row["state"] != "active":
        return ""
    return {
        "Client:ClientWrite": "does not read its result",
        "Client:ClientRead": "sends nothing more",
    }.get(str(row.get("event", "")), "")
