"""Who hears of a watch while it lasts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pgdyno.features.doctor.examine import Examination
    from pgdyno.features.watch.incident.finding import IncidentFinding
    from pgdyno.features.watch.statements import KnownTexts
    from pgdyno.features.watch.tally import Tally
    from pgdyno.store.folder import ExperimentFolder


class WatchShow:
    """Receives what happens in a watch. This class is silent; the command line's prints."""

    def doing(self, _words: str, /) -> AbstractContextManager[None]:
        """Take note of work that may last some seconds, until the block ends."""
        return nullcontext()

    def began(self, examination: Examination, folder: ExperimentFolder, texts: KnownTexts) -> None:
        """Take note that the watch begins. Args: texts, from which texts can be asked."""

    def moved(self, time_ns: int, tally: Tally) -> None:
        """Take note of the sums so far; called twice a second."""

    def found(self, time_ns: int, findings: Sequence[IncidentFinding]) -> None:
        """Take note of what is wrong so far; called every two seconds."""

    def noticed(self, notice: Mapping[str, Any]) -> None:
        """Take note of an event: time_ns, kind, message, hint."""
