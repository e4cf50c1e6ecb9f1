"""The session with a server's host: a shell there runs our script, which sends each sample.

Any command that opens a shell there can be used: ssh, kubectl exec, sudo. The shell ends as soon
as our end of the pipe is closed, for any reason.
"""

from __future__ import annotations

import os
import re
import select
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files as resources
from typing import IO

from pgdyno.clock import ClockPair, monotonic_ns
from pgdyno.errors import PgdynoError, SpecError
from pgdyno.observe.collector import NotMeasurable
from pgdyno.observe.host.files import ReceivedFiles
from pgdyno.observe.processes.proc_files import PAGE_BYTES
from pgdyno.process import child

_SHELLS = {"sh", "ash", "bash", "busybox", "dash", "ksh", "mksh", "zsh"}
_SSH = "ssh -T -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=5"
_SSH += " -o ServerAliveCountMax=3"
_READY_TIMEOUT_S = 20
# A busy host answers slowly; only silence means that it is lost.
_SILENCE_S_MAX = 5
_END_TIMEOUT_S = 1.0
_SLOW_EVERY_NS = 5_000_000_000
# Sent only with slow samples, and valid until the next.
LASTING = ("/proc/mounts", "/sys/", "/df/", "/inodes/", "/server/")
# Files that are kept from the sample before, because fast samples and health do not send all files.
_KEPT = {"fast": LASTING, "health": ("/",)}
# Units of the kernel (page size, ticks): the parsers use those of this host.
_UNITS = [str(os.sysconf("SC_CLK_TCK")), str(PAGE_BYTES)]
# Messages of ssh for errors that another try does not repair.
_HOPELESS = re.compile(
    r"Host key verification failed|Permission denied|Could not resolve hostname|not found"
    r"|No such file or directory|Too many authentication failures|a password is required"
)


def collector_script() -> str:
    """Return the script that runs on the server's host."""
    return resources("pgdyno.observe.remote").joinpath("collector.sh").read_text(encoding="utf-8")


def shell_command(text: str) -> tuple[str, ...]:
    """Return the command of --host-shell, with `sh` added if it does not end with a shell.

    Raises: SpecError for quotes that do not match, or an empty text.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise SpecError(f"--host-shell {text}: {error}.", hint="quote as a shell does") from None
    if not words:
        raise SpecError("--host-shell is empty.", hint='such as "kubectl exec -i pod --"')
    is_shell = words[-1].rpartition("/")[2] in _SHELLS
    return tuple(words) if is_shell else (*words, "sh")


def ssh_command(destination: str) -> tuple[str, ...]:
    """Return the command of --ssh: ssh never prompts, and notices a dead connection.

    Raises: SpecError for a host that ssh would take for an option.
    """
    if not destination or destination.startswith("-"):
        raise SpecError(f"--ssh {destination}: a host is needed.", hint="--ssh user@host")
    return (*_SSH.split(), destination, "sh")


class HostSession:
    """One shell on the server's host, begun again when it is lost. Used by one thread.

    `files` are those of the last sample; `before_sample` takes a sample when it is due. The script
    finds the server by `backend_pid`; `sampled_pid` was used for the last sample. `data_folder` is
    the data directory, if the process alone does not show it.
    """

    what = "server's host"
    kind = "host"
    sees_everybody = True
    user = ""

    def __init__(self, command: Sequence[str], clock: ClockPair) -> None:
        self._command = tuple(command)
        self._clock = clock
        self._child: child.Child | None = None
        self._said: IO[bytes] | None = None
        self._buffer = b""
        self._slow_due_ns = 0
        self._refreshed_ns = 0
        self.files = ReceivedFiles()
        self.offset = Offset()
        self.backend_pid = 0
        self.data_folder = ""
        self.sampled_pid = 0
        self.server_pids: dict[str, int] = {}
        self._sample_time_ns = 0
        self.host = ""

    def open(self) -> None:
        """Start the shell and send it the script.

        Raises: NotMeasurable if another try is useless; HostLost otherwise.
        """
        self.close()
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed in `close`
        try:
            # Not in the main thread: no death signal. The shell ends with our end of the pipe.
            self._child = child.start(
                self._command,
                name="host shell",
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._said,
                death_signal=None,
            )
        except PgdynoError as error:
            self.close()
            raise NotMeasurable(f"The server's host is not observed: {error.message}") from None
        try:
            self._send(collector_script())
            words = self._line_with(("@ready", "@none"), _READY_TIMEOUT_S).split(maxsplit=4)
        except HostLost as lost:
            if _HOPELESS.search(str(lost)):
                raise NotMeasurable(f"The server's host is not observed: {lost}.") from None
            raise
        if words[0] == "@none":
            self.close()
            raise NotMeasurable(
                f"The server's host is not observed: {' '.join(words[1:])}, and nothing else is"
                " read there."
            )
        if words[2:4] != _UNITS:
            self.close()
            raise NotMeasurable(
                f"The server's host is not observed: it counts in ticks of 1/{words[2]} s and pages"
                f" of {words[3]} bytes, this one in 1/{_UNITS[0]} s and {_UNITS[1]} bytes."
            )
        self.host = words[4] if len(words) > 4 else ""
        self._slow_due_ns = self._refreshed_ns = 0
        self.files.by_path = {}
        self.sampled_pid = 0

    @property
    def is_open(self) -> bool:
        """True until the shell is seen to be lost, or closed."""
        return self._child is not None

    def before_sample(self, interval_ns: int) -> int:
        """Take a sample unless the last one is younger than half the interval; return its time.

        Raises: HostLost; the session is then not open.
        """
        now_ns = monotonic_ns()
        if not self._refreshed_ns or now_ns - self._refreshed_ns >= interval_ns // 2:
            # After the server was found, its data directory is examined, too.
            is_slow = now_ns >= self._slow_due_ns or self.backend_pid != self.sampled_pid
            what = "slow" if is_slow else "fast"
            self.take(what)
            if what == "slow":
                self._slow_due_ns = now_ns + _SLOW_EVERY_NS
            self._refreshed_ns = now_ns
        return self._sample_time_ns

    def take(self, what: str) -> None:
        """Take one sample: fast, slow, facts or health. Raises: HostLost."""
        asked_ns = self._clock.now_ns()
        server = f"{self.backend_pid or ''}"
        if self.data_folder and "\n" not in self.data_folder:
            server = f"{self.backend_pid} {self.data_folder}"
        self._send(f"{what} {server}\n")
        header = self._line_with(("@sample",), _SILENCE_S_MAX)
        answered_ns = self._clock.now_ns()
        self.offset.see(asked_ns, int(header.split()[2]), answered_ns)
        # The files are read after the header was sent, which took half a round trip.
        self._sample_time_ns = (asked_ns + answered_ns) // 2
        lines: list[str] = []
        while (line := self._line(_SILENCE_S_MAX)) != "@end":
            lines.append(line)
        self.sampled_pid = self.backend_pid
        self.files.replace(files_of(lines), keeping=_KEPT.get(what, ()))

    def backend_cpu_ns(self) -> int:
        """Return 0: the script's CPU time is in the samples of its host."""
        return 0

    def cancel(self) -> None:
        """End the shell, from another thread: its reader then sees the end of the stream."""
        running = self._child
        if running is not None and running.stdin is not None:
            running.close_pipes()

    def close(self) -> None:
        """End the shell. Never raises."""
        running, self._child = self._child, None
        if running is not None:
            running.close_pipes()
            if not running.ends_within(_END_TIMEOUT_S):
                running.send_signal(signal.SIGKILL)
                running.ends_within(_END_TIMEOUT_S)
        if self._said is not None:
            self._said.close()
            self._said = None
        self._buffer = b""

    def _send(self, text: str) -> None:
        running = self._child
        if running is None or running.stdin is None:
            raise HostLost("the shell there was closed")
        try:
            running.stdin.write(text.encode())
            running.stdin.flush()
        except (OSError, ValueError):
            raise self._lost("the shell there ended") from None

    def _line_with(self, beginnings: tuple[str, ...], timeout_s: int) -> str:
        """Return the next line with one of these beginnings; skip a greeting of the login."""
        deadline_ns = monotonic_ns() + timeout_s * 1_000_000_000
        while not (line := self._line(timeout_s)).startswith(beginnings):
            if monotonic_ns() > deadline_ns:
                raise self._lost("no answer in time")
        return line

    def _line(self, silence_s_max: int) -> str:
        """Return the next line. Raises: HostLost if nothing came for `silence_s_max` seconds.

        Each look waits a second, and looks are counted instead of time: if the lab itself was
        stopped, the host does not look silent.
        """
        silent_looks = 0
        while b"\n" not in self._buffer:
            running = self._child
            if running is None or running.stdout is None:
                raise HostLost("the shell there was closed")
            try:
                ready, _, _ = select.select([running.stdout], [], [], 1.0)
                got = os.read(running.stdout.fileno(), 1 << 16) if ready else b""
            except (OSError, ValueError):
                raise self._lost("the shell there was closed") from None
            if ready and not got:
                raise self._lost("the shell there ended")
            silent_looks = 0 if ready else silent_looks + 1
            if silent_looks >= silence_s_max:
                raise self._lost("no answer in time")
            self._buffer += got
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode(errors="replace").rstrip("\r")

    def _lost(self, why: str) -> HostLost:
        """End the shell; return the error with the last message of the command that opened it."""
        words = ""
        if self._child is not None:
            self._child.close_pipes()
            self._child.ends_within(_END_TIMEOUT_S)
        if self._said is not None:
            self._said.seek(0)
            said = self._said.read(1 << 16).decode(errors="replace").strip().splitlines()
            words = said[-1].strip().rstrip(".") if said else ""
        self.close()
        return HostLost(words or why)


class HostLost(Exception):
    """The shell on the server's host is lost for now; the text has its last message."""


# A name, then its line: a colon belongs to the name when a number and a slash follow it, as in
# /sys/class/powercap/intel-rapl:0/name.
_LINE = re.compile(r"(/(?:[^:]|:(?=\d+(?::\d+)*/))*):(.*)", re.DOTALL)


def files_of(lines: Iterable[str]) -> dict[str, str]:
    """Return the texts of the files in the lines of one sample, by path."""
    texts_of: dict[str, list[str]] = {}
    for line in lines:
        match = _LINE.fullmatch(line)
        if match is not None:
            texts_of.setdefault(match[1], []).append(match[2])
    return {path: "\n".join(texts) + "\n" for path, texts in texts_of.items()}


@dataclass(slots=True)
class Offset:
    """How far another host's clock is ahead of ours, from the quickest answer so far.

    The other clock was read between question and answer: half of that time is the uncertainty.
    """

    offset_ns: int = 0
    uncertainty_ns: int = 0
    answers: int = 0

    def see(self, asked_ns: int, theirs_ns: int, answered_ns: int) -> None:
        """Use one answer: two times on our clock, and the time on theirs."""
        uncertainty_ns = (answered_ns - asked_ns) // 2
        if not self.answers or uncertainty_ns < self.uncertainty_ns:
            self.offset_ns = theirs_ns - (asked_ns + answered_ns) // 2
            self.uncertainty_ns = uncertainty_ns
        self.answers += 1
