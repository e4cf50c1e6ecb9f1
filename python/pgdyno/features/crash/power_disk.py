"""The lab's side of `pgdyno-powerloss`: a file system that forgets what was not synced."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pgdyno.errors import ProcessError, SpecError
from pgdyno.process import child, signals
from pgdyno.server.storage import unmount

Directories = Literal["strict", "ext4"]
FileSystem = Literal["ext4", "xfs"]
_PROGRAM = "pgdyno-powerloss"
_ANSWER_TIMEOUT_S = 60.0
_READ_BYTES = 1 << 16


def why_not_here() -> str:
    """Return why this host cannot lose power in a test; "" if it can."""
    if sys.platform != "linux":
        return "it needs Linux"
    if not Path("/dev/fuse").exists():
        return "it needs FUSE, and /dev/fuse does not exist"
    # Without fusermount3, only root may mount. The server runs as another user in both cases.
    if os.geteuid() != 0:
        return "it needs root, which may mount a file system"
    return "" if _program() is not None else f"the program {_PROGRAM} was not found"


def _program() -> Path | None:
    sibling = Path(sys.executable).with_name(_PROGRAM)
    if os.access(sibling, os.X_OK):
        return sibling
    on_path = shutil.which(_PROGRAM)
    return None if on_path is None else Path(on_path)


class PowerDisk:
    """One mounted disk that can lose its power. `close` unmounts it and forgets all its files."""

    def __init__(
        self,
        mount: Path,
        *,
        directories: Directories = "strict",
        sector_bytes: int = 512,
        on: FileSystem | None = None,
        defect: str | None = None,
    ) -> None:
        """Mount it at `mount`, an empty folder.

        Args: on, a real file system on this disk; defect, a planted one of the layer, for tests.
        Raises: SpecError if this host cannot do it; ProcessError with the layer's own words.
        """
        program = _program()
        if program is None or (why := why_not_here()):
            raise SpecError(
                f"Power cannot be cut here: {why if program else 'the layer was not found'}.",
                hint="--kind kill, failover and command need no such disk",
            )
        self.mount = mount
        self.warnings: list[str] = []
        self._pending = b""
        self._child = child.start(
            [program],
            name=_PROGRAM,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # At the end of its input it unmounts: better than to be ended by a signal.
            death_signal=None,
        )
        self.pid = self._child.pid
        job = {"mount": str(mount), "directories": directories, "sector_bytes": sector_bytes}
        more = {"on": on, "defect": defect}
        self._write(job | {name: value for name, value in more.items() if value is not None})
        try:
            self._answer()
        except BaseException:
            self.close()
            raise

    def settle(self) -> None:
        """Make everything durable that the disk has now."""
        self._command({"do": "settle"})

    def cut(self, seed: int) -> dict[str, int]:
        """Lose the power: every request gets EIO from now on.

        Returns: how many changes the seed kept, lost and tore.
        """
        answer = self._command({"do": "cut", "seed": seed})
        return {name: value for name, value in answer.items() if name.endswith("_count")}

    def restore(self) -> None:
        """Mount what survived; no process may use the mount then."""
        self._command({"do": "restore"})

    def fault(self, fault: str, seconds: float = 0.0) -> None:
        """Let the disk fail: "fsync_eio_once", "full", "stall" for some seconds, or "none"."""
        self._command({"do": "fault", "fault": fault, "seconds": seconds})

    def close(self) -> None:
        """Unmount, also while a process still uses the mount; closing twice is harmless."""
        with signals.shielded():
            self._child.close_pipes()
            self._child.ends_within(5)
            self._child.terminate()
            unmount(self.mount)
            # Where the layer is if a real file system is at `mount`.
            below = self.mount.with_name(f"{self.mount.name}.disk")
            if unmount(below) and below.exists():
                below.rmdir()

    def __enter__(self) -> PowerDisk:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _command(self, command: Mapping[str, Any]) -> dict[str, Any]:
        self._write(command)
        return self._answer()

    def _write(self, document: Mapping[str, Any]) -> None:
        assert self._child.stdin is not None
        try:
            self._child.stdin.write(json.dumps(document).encode() + b"\n")
            self._child.stdin.flush()
        except BrokenPipeError:
            return  # Its last record says why it ended.

    def _answer(self) -> dict[str, Any]:
        """Return the next record that is not a warning; raise ProcessError for an error."""
        while True:
            record = self._record()
            if record["kind"] == "warning":
                self.warnings.append(str(record["message"]))
            elif record["kind"] == "error":
                raise ProcessError(f"{_PROGRAM}: {record['message']}.")
            else:
                return record

    def _record(self) -> dict[str, Any]:
        stdout = self._child.stdout
        assert stdout is not None
        with signals.shielded():  # Half an exchange would leave an answer to the wrong command.
            while b"\n" not in self._pending:
                ready = signals.wait_readable([stdout.fileno()], _ANSWER_TIMEOUT_S)
                chunk = os.read(stdout.fileno(), _READ_BYTES) if ready else b""
                if not chunk:
                    raise ProcessError(f"{_PROGRAM} ended, or did not answer.")
                self._pending += chunk
        line, _, self._pending = self._pending.partition(b"\n")
        record: dict[str, Any] = json.loads(line)
        return record
