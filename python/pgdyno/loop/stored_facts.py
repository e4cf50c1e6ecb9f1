"""The facts of an experiment's servers in the store: what results show about each of them."""

from __future__ import annotations

import platform
from importlib.metadata import version
from typing import Any

from pgdyno.clock import reading_ns
from pgdyno.measure.run_progress import RunProgress
from pgdyno.quantities import format_bytes
from pgdyno.server.server_facts import ServerFacts, target_line
from pgdyno.spec.planned import PlannedVariant
from pgdyno.store.folder import ExperimentFolder


class StoredFacts:
    """The server facts in the store: of the first server, of each variant."""

    def __init__(self, folder: ExperimentFolder, progress: RunProgress) -> None:
        self._folder, self._progress = folder, progress
        self._kept: dict[str, Any] = folder.facts() or {}

    def keep(self, variant: PlannedVariant | None, facts: ServerFacts) -> None:
        """Write the missing facts, and show the target once."""
        if "server" not in self._kept:
            self._progress.said(f"target  {target_line(facts)}")
            self._kept |= _document(facts)
        elif variant is None or variant.id in self._kept.get("variants", {}):
            return
        if variant is not None:
            self._kept.setdefault("variants", {})[variant.id] = _document(facts)
        self._folder.write_facts(self._kept)


def _document(facts: ServerFacts) -> dict[str, Any]:
    """Return the facts of the server and of this host that results show."""
    weakened = facts.weakened_durability
    durability = ", ".join(f"{name} {value}" for name, value in facts.durability.items())
    rows = [
        ("PostgreSQL", facts.version),
        ("data", format_bytes(max(facts.database_size_bytes, facts.dataset.size_bytes))),
        ("shared_buffers", format_bytes(facts.shared_buffers_bytes)),
    ]
    if facts.ram_bytes:
        rows.append(("RAM", format_bytes(facts.ram_bytes)))
    if facts.data_storage is not None:
        rows.append(("disk", f"{facts.data_storage.file_system} on {facts.data_storage.device}"))
    if facts.is_local:
        rows.append(("clock", f"one reading takes at most {reading_ns()} ns; timed I/O needs two"))
    rows.append(("load host", f"{platform.node()}, {platform.system()} {platform.release()}"))
    rows.append(("pgdyno", version("pgdyno")))
    return {
        "server": facts.as_document(),
        "target_line": target_line(facts),
        "durability_line": durability + (f": {', '.join(weakened)} weakened" if weakened else ""),
        "is_durable": not weakened,
        "weakened": list(weakened),
        "rows": rows,
        "settings": dict(facts.settings),
    }
