"""The load of a capture as a program: its templates come with the capture."""

from __future__ import annotations

from pgdyno.programs.program import Program

MIRROR = "mirror"
PROGRAM = Program(name=MIRROR, protocol="prepared", counts_statements=True)
