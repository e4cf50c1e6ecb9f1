"""Text scripts as a load."""

from __future__ import annotations

from pgdyno.programs.program import Program

# Each default says what a script does: nothing that another program would have to change.
PROGRAM = Program()
