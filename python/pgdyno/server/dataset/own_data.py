"""What a program examines in its data after a run, apart from the conditions of the dataset.

The file `data.py` of a program's folder overrides it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pgdyno.programs.program import Program
from pgdyno.programs.registry import part_of
from pgdyno.server.connect import Connection


class OwnData:
    """The base of all programs, which examines nothing but the conditions."""

    def before_run(
        self,
        connection: Connection,  # noqa: ARG002
        options: Mapping[str, str],  # noqa: ARG002
    ) -> Any:
        """Return a note by which `after_run` finds the rows of the run; None: nothing is examined.

        Args: options, of the dataset, as its mark has them.
        """
        return None

    def after_run(self, connection: Connection, before: Any) -> dict[str, Any]:  # noqa: ARG002
        """Return keys for the stored result of the check. The session has no statement_timeout.

        Args: before, the note of `before_run`.
        """
        return {}


def own_data(program: Program) -> OwnData:
    """Return what a program examines in its data."""
    part = part_of(program, "data")
    data = OwnData() if part is None else part.DATA
    assert isinstance(data, OwnData), f"DATA of {program.name} is an OwnData"
    return data
