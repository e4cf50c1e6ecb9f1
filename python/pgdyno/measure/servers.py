"""The servers of one experiment: which are there, and how one is made ready for a run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from pgdyno.measure.changes import Journal
from pgdyno.measure.under_test import UnderTest
from pgdyno.spec.planned import PlannedVariant


class Servers(ABC):
    """Every server of one experiment; `excluded`: id of a variant that cannot be measured -> why.

    `journal` keeps what is changed on a server that is not ours, before it is changed.
    """

    def __init__(self) -> None:
        self.excluded: dict[str, str] = {}
        self.journal: Journal = _no_journal

    @abstractmethod
    def ready(self, variant: PlannedVariant | None, round_number: int = 0) -> UnderTest:
        """Return the server in the state that a run of the variant starts from.

        What a variant needs that was not there at the start is made when it is first used.
        Args: round_number, 0 for runs outside the rounds.
        Raises: ServerError when it cannot be brought there.
        """


def _no_journal(_entry: Mapping[str, Any]) -> None:
    raise AssertionError("a change needs a journal")


class OneServer(Servers):
    """A server without variants."""

    def __init__(self, under_test: UnderTest) -> None:
        super().__init__()
        self._under_test = under_test

    def ready(
        self,
        variant: PlannedVariant | None,
        round_number: int = 0,  # noqa: ARG002
    ) -> UnderTest:
        """Return the one server."""
        assert variant is None, "an experiment without variants has one server"
        return self._under_test
