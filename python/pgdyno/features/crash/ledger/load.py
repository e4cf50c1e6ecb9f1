"""The ledger as a load."""

from __future__ import annotations

from pgdyno.programs.program import Program

PROGRAM = Program(name="ledger", protocol="prepared")
