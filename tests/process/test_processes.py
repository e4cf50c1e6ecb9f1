"""Processes of this host that are not our children."""

from __future__ import annotations

import signal
import subprocess

from tests.fixtures import needs
from tests.fixtures.command import eventually

from pgdyno.process.processes import ProcessIdentity


@needs.LINUX
def test_a_process_that_ignores_its_signal_is_killed_with_those_below_it() -> None:
    # The trap is inherited: neither of the two ends at SIGQUIT.
    script = "trap '' QUIT; sleep 600 & echo $!; wait"
    with subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, text=True) as shell:
        assert shell.stdout is not None
        below = ProcessIdentity.of(int(shell.stdout.readline()))
        parent = ProcessIdentity.of(shell.pid)
        assert below is not None
        assert parent is not None
        assert parent.end(grace_s=0.2, signal_number=signal.SIGQUIT)
        eventually(lambda: not below.is_running())
        assert shell.wait() == -signal.SIGKILL
    assert not parent.end(grace_s=0.2, signal_number=signal.SIGQUIT)
