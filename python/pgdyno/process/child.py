"""Starts, watches and ends child processes; nothing else in pgdyno starts one.

Every child gets three things. A parent-death signal (Linux) ends it even if this process is killed
with SIGKILL. The engine gets no such signal, because it ends when its input does; nor does a
program that only prints its version. A registration in `cleanup` ends it on every other exit. A
session keeps it apart from our terminal: Ctrl-C reaches only us, and we decide in which order
processes end.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pwd
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NoReturn

from pgdyno.clock import monotonic_ns
from pgdyno.errors import InterruptedByUser, ProcessError
from pgdyno.process import cleanup, signals
from pgdyno.redaction import redacted

_ENDING = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
_PR_SET_PDEATHSIG = 1
_OUTPUT_BYTES_MAX = 1 << 20
_CHUNK_BYTES = 1 << 18
# A child that a signal ends has this time after SIGTERM; the user is waiting.
_AFTER_SIGNAL_S = 1.0
# PyDLL keeps the interpreter lock: another thread may hold a lock forever between fork and exec.
_libc = ctypes.PyDLL(None, use_errno=True) if sys.platform == "linux" else None


@dataclass(frozen=True, slots=True)
class UserIds:
    """The operating system user a child runs as."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str

    @classmethod
    def of(cls, name: str) -> UserIds:
        """Look the user up. Raises: KeyError if there is none."""
        entry = pwd.getpwnam(name)
        groups = tuple(os.getgrouplist(name, entry.pw_gid))
        return cls(entry.pw_name, entry.pw_uid, entry.pw_gid, groups, entry.pw_dir)

    @classmethod
    def current(cls) -> UserIds:
        """Return the user this process runs as, named even where the user database is empty."""
        try:
            return cls.of(pwd.getpwuid(os.geteuid()).pw_name)
        except KeyError:
            return cls(str(os.geteuid()), os.geteuid(), os.getegid(), tuple(os.getgroups()), "/")

    @property
    def is_current(self) -> bool:
        """True if this process already runs as that user."""
        return self.uid == os.geteuid()


@dataclass(frozen=True, slots=True)
class EndedChild:
    """A child that ended by itself; of its output the last MiB is kept."""

    argv: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str
    duration_ns: int


class Child:
    """One running child process, which is ended and reaped by its pid, never by its name."""

    def __init__(self, popen: subprocess.Popen[bytes], name: str) -> None:
        self._popen = popen
        self.name = name
        self.pid = popen.pid
        self.stdin, self.stdout, self.stderr = popen.stdin, popen.stdout, popen.stderr
        self.started_ns = monotonic_ns()
        self._exit_fd = _open_pidfd(popen.pid)
        self._token = cleanup.register(f"process {name} ({popen.pid})", self.terminate)

    def poll(self) -> int | None:
        """Return the exit code (negative: the signal that killed it), or None while it runs."""
        returncode = self._popen.poll()
        if returncode is not None:
            self._forget()
        return returncode

    def wait(self, timeout_s: float | None = None) -> int:
        """Wait for the end and return the exit code.

        Raises: ProcessError after `timeout_s`, InterruptedByUser if a signal asks for the end. In
        both cases the child still runs.
        """
        if not self.ends_within(timeout_s):
            raise ProcessError(f"{self.name} did not end within {timeout_s:g} s.")
        return self._popen.returncode

    def ends_within(self, timeout_s: float | None) -> bool:
        """Wait at most `timeout_s` (None: no limit) and return True if the child has ended.

        Raises: InterruptedByUser if a signal asks for the end; the child still runs.
        """
        deadline_ns = None if timeout_s is None else monotonic_ns() + int(timeout_s * 1e9)
        while self.poll() is None:
            rest_s = None if deadline_ns is None else (deadline_ns - monotonic_ns()) / 1e9
            if rest_s is not None and rest_s <= 0:
                return False
            if self._exit_fd is not None:
                signals.wait_readable([self._exit_fd], rest_s)
            else:  # No pidfd on this system: check every 20 ms.
                signals.sleep(0.02 if rest_s is None else min(0.02, rest_s))
        return True

    def send_signal(self, number: signal.Signals) -> None:
        """Send one signal; do nothing if the child has already ended."""
        self._popen.send_signal(number)

    def terminate(
        self, grace_s: float = 5.0, signal_number: signal.Signals = signal.SIGTERM
    ) -> int:
        """End the child and return its exit code: send the signal, wait, then send SIGKILL.

        Args: grace_s, the longest wait. A signal to this process does not shorten the wait.
        """
        with signals.shielded():
            if self.poll() is None:
                self.send_signal(signal_number)
                if not self.ends_within(grace_s):
                    self._popen.kill()
                    self._popen.wait()
            self._forget()
        return self._popen.returncode

    def terminate_session(self, grace_s: float = 5.0) -> None:
        """End the child and every process that it started in its session, as `terminate` does.

        Where processes have no /proc, only those of its group.
        """
        with signals.shielded():
            deadline_ns = monotonic_ns() + int(grace_s * 1e9)
            is_left = self._send_to_session(signal.SIGTERM)
            while is_left and monotonic_ns() < deadline_ns:
                self.poll()  # A child that nobody waited for would stay in its group.
                signals.sleep(0.02)
                is_left = self._send_to_session(0)
            if is_left:
                self._send_to_session(signal.SIGKILL)
            self.terminate()

    def kill_family(self, before: Callable[[], None] | None = None) -> None:
        """End the child and every process below it with SIGKILL, as if the host had crashed.

        The child is stopped first, so it starts no other process and sees none of them end. Returns
        when all of them are gone. Where processes have no /proc, only the child is killed.
        Args: before, called when the child is stopped and all others still run.
        """
        with signals.shielded():
            if self.poll() is None:
                self.send_signal(signal.SIGSTOP)
            family = descendants(self.pid)
            if before is not None:
                before()
            signal_all(family, signal.SIGKILL)
            self._popen.kill()
            self._popen.wait()
            while any(_is_alive(pid) for pid in family):
                signals.sleep(0.005)
            self._forget()

    def _send_to_session(self, number: int) -> bool:
        """Return whether there is a process of the session that we may signal."""
        # A shell with job control gives each of its jobs a group.
        groups = {self.pid, *_groups_of_session(self.pid)}
        return any([_send_to_group(group, number) for group in groups])

    def lines(self) -> Iterator[bytes]:
        """Yield the lines that the child writes to its output pipe.

        Raises: InterruptedByUser if a signal asks for the end, also while the child is silent.
        """
        assert self.stdout is not None
        descriptor, rest = self.stdout.fileno(), b""
        while True:
            signals.wait_readable([descriptor], None)
            chunk = os.read(descriptor, _CHUNK_BYTES)
            if not chunk:
                break
            *lines, rest = (rest + chunk).split(b"\n")
            yield from (line + b"\n" for line in lines)
        if rest:
            yield rest

    def close_pipes(self) -> None:
        """Close our ends of the child's pipes: a reader on the other side sees the end of input."""
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.terminate()
        self.close_pipes()

    def _forget(self) -> None:
        cleanup.forget(self._token)
        if self._exit_fd is not None:
            os.close(self._exit_fd)
            self._exit_fd = None


def start(
    argv: Sequence[str | Path],
    *,
    name: str = "",
    user: UserIds | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | str | None = None,
    stdin: int | IO[bytes] | None = subprocess.DEVNULL,
    stdout: int | IO[bytes] | None = subprocess.DEVNULL,
    stderr: int | IO[bytes] | None = subprocess.DEVNULL,
    new_session: bool = True,
    death_signal: signal.Signals | None = signal.SIGTERM,
) -> Child:
    """Start a child that cannot outlive this process.

    Args: user, who runs the child (None: our user); env, the whole environment (None: ours without
    PGPASSWORD); death_signal, which the kernel sends to the child when this process dies (Linux
    only; None: no signal, for a child that ends by itself. It starts ten times as fast, because
    Python need not copy this process to ask for the signal).
    Raises: ProcessError if the program cannot be started.
    Limits: Linux sends the death signal when the *thread* that started the child ends. Therefore
    only the main thread may start a child that has it.
    """
    if death_signal is not None:
        is_main = threading.current_thread() is threading.main_thread()
        assert is_main, "a child with a death signal belongs to the main thread"
    arguments = [str(argument) for argument in argv]
    name = name or Path(arguments[0]).name
    if any(redacted(argument) != argument for argument in arguments):
        raise AssertionError(f"the arguments of {name} must not contain a secret")
    change = user is not None and not user.is_current
    try:
        popen = subprocess.Popen(
            arguments,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            env=_environment() if env is None else dict(env),
            cwd=cwd,
            start_new_session=new_session,
            user=user.uid if change and user else None,
            group=user.gid if change and user else None,
            extra_groups=list(user.groups) if change and user else None,
            preexec_fn=_before_the_program(death_signal),
        )
    except (OSError, subprocess.SubprocessError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ProcessError(f"{arguments[0]} cannot be started: {reason}.") from error
    return Child(popen, name)


def _environment() -> dict[str, str]:
    """Return our environment without the server's password, which no child needs by default."""
    return {name: value for name, value in os.environ.items() if name != "PGPASSWORD"}


def run(
    argv: Sequence[str | Path],
    *,
    timeout_s: float,
    user: UserIds | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | str | None = None,
    stdin: bytes = b"",
    name: str = "",
    grace_s: float = 0.0,
    death_signal: signal.Signals | None = signal.SIGTERM,
) -> EndedChild:
    """Run a child to its end, with `stdin` as its input, and return its output.

    Args: grace_s, how long the child may still run after a signal asked for the end; death_signal,
    as in `start`.
    Raises: ProcessError if it cannot be started or runs longer than `timeout_s`; InterruptedByUser
    if a signal asks for the end. In both cases the child is ended first, with its own children.
    """
    # Files, not pipes: a child with much output never blocks, and we only wait for its end.
    with (
        tempfile.TemporaryFile() as given,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
    ):
        given.write(stdin)
        given.seek(0)
        child = start(
            argv,
            name=name,
            user=user,
            env=env,
            cwd=cwd,
            stdin=given,
            stdout=out,
            stderr=err,
            death_signal=death_signal,
        )
        try:
            returncode = child.wait(timeout_s)
        except InterruptedByUser:
            with signals.shielded(f"{child.name} (at most {grace_s:g} s)" if grace_s else ""):
                if not child.ends_within(grace_s):
                    child.terminate_session(_AFTER_SIGNAL_S)
            raise
        except BaseException:
            child.terminate_session()
            raise
        return EndedChild(
            argv=tuple(str(argument) for argument in argv),
            returncode=returncode,
            stdout=_tail(out),
            stderr=_tail(err),
            duration_ns=monotonic_ns() - child.started_ns,
        )


def become(argv: Sequence[str | Path]) -> NoReturn:
    """Run the registered clean-up, then replace this process by another program.

    Raises: ProcessError if the program cannot be started; InterruptedByUser if a signal came first.
    """
    arguments = [str(argument) for argument in argv]
    cleanup.run_all()
    sys.stdout.flush()
    sys.stderr.flush()
    # Subtle: our handler only notes a signal, and this note would be lost with our program. If the
    # signal is blocked, it stays pending and ends the other program.
    signal.pthread_sigmask(signal.SIG_BLOCK, signals.HANDLED)
    try:
        signals.check()
        for number in signals.HANDLED:
            signal.signal(number, signal.SIG_DFL)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, signals.HANDLED)
    try:
        os.execv(arguments[0], arguments)
    except OSError as error:
        raise ProcessError(f"{arguments[0]} cannot be started: {error.strerror}.") from error


def _before_the_program(death_signal: signal.Signals | None) -> Callable[[], None] | None:
    """Return the function that the new process runs before exec; None without a death signal."""
    if death_signal is None:
        return None
    prctl = None if _libc is None else _libc.prctl
    parent_pid, number = os.getpid(), int(death_signal)

    def in_child() -> None:
        # A process that a shell starts with `&` inherits ignored SIGINT and SIGQUIT. A server that
        # gets its signal to end before it handles signals would never receive it.
        for ending in _ENDING:
            signal.signal(ending, signal.SIG_DFL)
        if prctl is None:
            return
        # Subtle: this runs after the change of user, which would clear the death signal. It checks
        # the parent afterwards, because the parent may have died before the signal was requested.
        if prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0) != 0 or os.getppid() != parent_pid:
            os._exit(127)

    return in_child


def _open_pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def signal_all(pids: Iterable[int], number: signal.Signals) -> None:
    """Send a signal to each process that still exists."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def descendants(pid: int) -> list[int]:
    """Return the pids of all processes below `pid`, parents first; none without /proc."""
    parents: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError, ValueError):
            fields = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
            parents.setdefault(int(fields[1]), []).append(int(folder.name))
    below: list[int] = []
    waiting = [pid]
    while waiting:
        children = parents.get(waiting.pop(), [])
        below += children
        waiting += children
    return below


def _groups_of_session(session: int) -> set[int]:
    """Return the process groups of a session; none without /proc."""
    groups: set[int] = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, IndexError, ValueError):
            fields = stat.read_text(errors="replace").rpartition(")")[2].split()
            if int(fields[3]) == session and fields[0] not in "ZX":
                groups.add(int(fields[2]))
    return groups


def _send_to_group(group: int, number: int) -> bool:
    """Return whether there is a process of the group that we may signal."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _is_alive(pid: int) -> bool:
    """Return whether a process runs; a zombie, whose parent has not yet asked for it, does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state not in "ZX"


def _tail(stream: IO[bytes]) -> str:
    size = stream.seek(0, os.SEEK_END)
    stream.seek(max(0, size - _OUTPUT_BYTES_MAX))
    return stream.read().decode("utf-8", "replace")
