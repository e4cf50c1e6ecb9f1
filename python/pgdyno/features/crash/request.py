"""What one command asks of crashes: which server crashes, how, how often, with which load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pgdyno.features.crash.controls import Kind
from pgdyno.features.crash.power_disk import Directories, FileSystem
from pgdyno.server.find import Binaries
from pgdyno.server.target import Target
from pgdyno.server.user_command import COMMAND_TIMEOUT_S, run_command

Replication = Literal["synchronous", "asynchronous", "cut off"]
Fault = Literal["fsync-eio", "full", "stall"]


@dataclass(frozen=True, slots=True)
class OwnServer:
    """The user's server, or two of them, and the commands that crash and repair it."""

    target: Target
    crash_command: str
    recover_command: str = ""
    promote_command: str = ""
    command_timeout_s: float = COMMAND_TIMEOUT_S

    def run(
        self,
        option: str,
        server: Target | None = None,
        more: Mapping[str, str] | None = None,
    ) -> None:
        """Run the command of an option, which finds the server in its environment.

        Args: server, one of two; more, further variables.
        """
        run_command(
            getattr(self, option),
            option=f"--{option.replace('_', '-')}",
            timeout_s=self.command_timeout_s,
            env={**(server or self.target).environment(), **(more or {})},
        )


@dataclass(frozen=True, slots=True)
class CrashRequest:
    """What is asked: the server, how it crashes, how often. `only_number`: one of the crashes."""

    kind: Kind
    crashes: int
    seed: int
    clients: int
    binaries: Binaries | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    data_dir: Path | None = None
    allow_tmpfs: bool = False
    checks: Sequence[str] = ()
    controls: bool = True
    directories: Directories = "strict"
    sector_bytes: int = 512
    on: FileSystem | None = None
    recovery_timeout_s: float = 60.0
    replication: Replication = "synchronous"
    promote_command: str = ""
    faults: Sequence[Fault] = ()
    confirm: tuple[str, ...] = ()
    only_number: int | None = None
    name: str = ""
    note: str = ""
    defect: str | None = None
    own: OwnServer | None = None
