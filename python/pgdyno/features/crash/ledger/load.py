"""The ledger as a load."""

from __future__ import annotations

from pgdyno.programs.program import Program

# BEGIN and both changes are sent together; only COMMIT waits for their results.
PROGRAM = Program(name="ledger", protocol="prepared", pipelines=lambda _script: True)
