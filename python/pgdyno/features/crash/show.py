"""Who hears of crashes while they are made."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pgdyno.features.crash.controls import ControlSeen
    from pgdyno.features.crash.record import CrashRecord
    from pgdyno.measure.run_progress import RunProgress
    from pgdyno.store.folder import ExperimentFolder


class CrashShow:
    """Receives what happens. This class is silent; the command line's prints."""

    progress: RunProgress

    def began(self, folder: ExperimentFolder, server: str) -> None:
        """Take note that the crashes begin."""

    def crashed(self, record: CrashRecord, of_count: int) -> None:
        """Take note of a crash."""

    def controlled(self, seen: ControlSeen, what: str = "control") -> None:
        """Take note of a control, or of a fault of the disk."""
