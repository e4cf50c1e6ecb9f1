"""Puts the pages of docs/ into the wheel of the lab, where `pgdyno help` prints them."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class DocumentationHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds docs/*.md as pgdyno/docs/*.md. An editable installation reads docs/ itself."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name the pages, if a real wheel is built."""
        if version == "editable":
            return
        for page in sorted(Path(self.root, "docs").glob("*.md")):
            build_data["force_include"][str(page)] = f"pgdyno/docs/{page.name}"
