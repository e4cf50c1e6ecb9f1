"""The examination of a server before each run; the feature in the slot `checkup` makes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pgdyno.feature import part
from pgdyno.server.target import Target


class Checkup:
    """Examines nothing: the base of the examination that a feature brings."""

    def document(
        self,
        target: Target,  # noqa: ARG002
        *,
        clients: int,  # noqa: ARG002
        postmaster_pid: int | None,  # noqa: ARG002
        data_folder: Path | None,  # noqa: ARG002
        host_command: tuple[str, ...] | None = None,  # noqa: ARG002
    ) -> dict[str, Any] | None:
        """Return the examination before a run; None if there is none.

        Args: clients, of the load; postmaster_pid and data_folder, None if the server is on another
        host; host_command, which runs a shell on that host.
        """
        return None

    def disks(self, target: Target) -> tuple[str, ...]:  # noqa: ARG002
        """Return the disks with the data and the WAL of a server on another host."""
        return ()


def new_checkup() -> Checkup:
    """Return the checkup of an experiment, which begins now."""
    checkup = (part("checkup") or Checkup)()
    assert isinstance(checkup, Checkup), "a feature brings a Checkup"
    return checkup
