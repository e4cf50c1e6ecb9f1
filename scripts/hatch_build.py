"""Puts into the wheel of the lab the pages of docs/, which `pgdyno help` prints, and its commit."""

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class WheelHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds docs/*.md and build.json. An editable installation reads the source tree itself."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name the files, if a real wheel is built."""
        if version == "editable":
            return
        added = build_data["force_include"]
        for page in sorted(Path(self.root, "docs").glob("*.md")):
            added[str(page)] = f"pgdyno/docs/{page.name}"
        argv = ["git", "-C", self.root, "rev-parse", "HEAD"]
        said = subprocess.run(argv, capture_output=True, text=True, check=False)
        folder = Path(tempfile.mkdtemp(prefix="pgdyno-wheel-"))
        built = {"commit": said.stdout.strip() or "unknown"}
        (folder / "build.json").write_text(json.dumps(built))
        added[str(folder / "build.json")] = "pgdyno/build.json"
        self._folder = folder

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what `initialize` made."""
        del build_data, artifact_path
        if version != "editable":
            (self._folder / "build.json").unlink()
            self._folder.rmdir()
