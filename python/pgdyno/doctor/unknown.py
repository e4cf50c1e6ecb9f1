"""That a fact is not known here, and the reasons that many checks share."""

from __future__ import annotations

NO_SHELL = "not possible without a shell on the host"
NO_SERVER = "no server was named"
NO_MONITOR = "what other roles do is not to be seen without pg_monitor"


class Unknown(Exception):
    """The fact a check needs is not known here; the text says why."""
