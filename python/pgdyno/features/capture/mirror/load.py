"""The load of a capture as a program: its templates come with the capture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pgdyno.programs.program import Program

MIRROR = "mirror"


def _pipelines(script: Mapping[str, Any]) -> bool:
    """Return whether a step is sent together with the step before it. Most captures have none."""
    templates = (script.get("mirror") or {}).get("templates", ())
    return any(step.get("same_trip") for template in templates for step in template["steps"])


PROGRAM = Program(name=MIRROR, protocol="prepared", counts_statements=True, pipelines=_pipelines)
