"""A crash test that is killed or interrupted at any moment leaves nothing behind."""

from __future__ import annotations

import random
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from tests.fixtures import needs
from tests.fixtures.command import Command, eventually

from pgdyno.errors import PgdynoError
from pgdyno.process.child import descendants
from pgdyno.process.processes import ProcessIdentity
from pgdyno.server.scratch.leftovers import sweep_leftovers
from pgdyno.server.scratch.record import read_record
from pgdyno.server.storage import mounts_below

pytestmark = pytest.mark.pg
SEED, MOMENTS, IN_MAKE_TEST = 26, 10, 2
LONGEST_S = 9.0
_draw = random.Random(SEED)
# Each moment twice: a lab that is killed, and one that is interrupted.
DELAYS_S = [_draw.uniform(0.3, LONGEST_S) for _ in range(MOMENTS)]
SIGNALS = [signal.SIGKILL, signal.SIGINT] * (MOMENTS // 2)
CASES = [
    pytest.param(number, delay_s, marks=() if place < IN_MAKE_TEST else (pytest.mark.slow,))
    for place, (number, delay_s) in enumerate(zip(SIGNALS, DELAYS_S, strict=True))
]


def family(pid: int) -> list[ProcessIdentity]:
    """Return all processes below a process."""
    below = (ProcessIdentity.of(process) for process in descendants(pid))
    return [process for process in below if process is not None]


def loop_devices(below: Path) -> list[str]:
    """Return the loop devices whose file is below a folder."""
    devices = []
    for entry in Path("/sys/block").glob("loop*/loop/backing_file"):
        with suppress(OSError):
            if entry.read_text().startswith(str(below)):
                devices.append(entry.parts[3])
    return devices


def socket_folders(below: Path) -> list[Path]:
    """Return the folders of the sockets of the clusters in a folder."""
    folders = []
    for path in below.iterdir():
        with suppress(PgdynoError, OSError):
            if (folder := read_record(path).socket_dir) is not None:
                folders.append(Path(folder))
    return folders


@pytest.mark.parametrize(("number", "delay_s"), CASES)
def test_nothing_stays_behind_after_a_signal_at_any_moment(
    number: signal.Signals,
    delay_s: float,
    mkfs_ext4: Path,
    can_lose_power: None,
    pgdyno: Command,
    house: Path,
) -> None:
    needs.postgresql("15")
    place = house / f"signal-{number}-{delay_s:.3f}"
    place.mkdir(mode=0o755)
    given = ("--kind", "power", "--on", "ext4", "--no-controls", "--pg-version", "15")
    running = pgdyno.start("crash", "--scratch", "--data-dir", place, "--crashes", "30", *given)
    with suppress(subprocess.TimeoutExpired):
        running.process.wait(timeout=delay_s)
    assert running.process.poll() is None, running.wait().err
    processes, sockets = family(running.process.pid), socket_folders(place)
    running.signal(number)
    said = running.wait()
    if number == signal.SIGINT:
        assert said.code == 130, said.err
    else:
        sweep_leftovers([place])  # Every command of a scratch server begins with it.
    eventually(lambda: not any(process.is_running() for process in processes))
    assert mounts_below(place) == []
    assert loop_devices(place) == []
    assert list(place.iterdir()) == []
    assert [folder for folder in sockets if folder.exists()] == []
