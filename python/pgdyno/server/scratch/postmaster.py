"""One postmaster: started as our own child, watched until it is ready, ended.

It is started without a forking wrapper, so it is our child and ends when we end. Its death signal
is SIGQUIT, an immediate shutdown: sessions end at once, nothing is flushed, and the disk is quiet
for the next program. No data are lost, because the next start replays the WAL; only unlogged tables
become empty. SIGINT would write a whole checkpoint for a cluster that nobody waits for any more.
"""

from __future__ import annotations

import contextlib
import re
import signal
from dataclasses import dataclass
from pathlib import Path

from pgdyno.clock import monotonic_ns
from pgdyno.errors import ServerError
from pgdyno.process import signals
from pgdyno.process.child import Child, UserIds, descendants, signal_all, start
from pgdyno.server.find import Binaries

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 60.0
# After a signal to pgdyno, nobody waits longer for a checkpoint.
_CHECKPOINT_S_MAX = 1.0
_POLL_S = 0.02
_SEVERE = re.compile(r"\b(PANIC|FATAL|ERROR):\s+(.*)")
_COMPLAINT = re.compile(r"\bLOG:\s+(.*(?:parameter|syntax error).*)")
_HINT = re.compile(r"\bHINT:\s+(.*)")
_MISSING_LIBRARY = re.compile(r'could not access file "(\w+)": No such file')
_SETTINGS_HINT = "change the settings that the server names"
_WORDS = re.compile(r"\b(LOG|FATAL|PANIC):\s+(.*)")
_START_WORDS = "starting PostgreSQL"
_IDLE_WORDS = re.compile(
    rf"checkpoint |restartpoint |automatic |{_START_WORDS}|listening on |terminating connection"
    r"|(the )?database system (is|was)|could not send|could not receive|unexpected EOF|sorry, too"
    r"|remaining connection slots|received SIGHUP|parameter \""
)
_WORDS_SHOWN = 4
# A line of /proc/PID/maps has five words before the path, which may have blanks.
_SHARED_MEMORY = re.compile(r"^(?:\S+ +){5}(/dev/shm/PostgreSQL\.\d+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Place:
    """The files of one postmaster, and the user it runs as."""

    data_dir: Path
    config_path: Path
    log_path: Path
    user: UserIds


def server_environment(user: UserIds) -> dict[str, str]:
    """Return the environment of initdb and the postmaster; only PATH is from this process.

    Messages are in English, because pgdyno reads them if the server fails.
    """
    return {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "HOME": user.home, "USER": user.name}


def start_postmaster(
    binaries: Binaries, place: Place, *, timeout_s: float = START_TIMEOUT_S
) -> Child:
    """Start the postmaster and wait until it accepts connections.

    Raises: ServerError with the server's own words if it does not start (it is ended then);
    InterruptedByUser, likewise.
    """
    log_start = place.log_path.stat().st_size if place.log_path.exists() else 0
    child = launch_postmaster(binaries, place)
    try:
        _await_ready(child, binaries, place, log_start, timeout_s)
    except BaseException:
        stop_postmaster(child, is_immediate=True)
        raise
    return child


def launch_postmaster(binaries: Binaries, place: Place) -> Child:
    """Start the postmaster, and do not wait for it."""
    place.log_path.touch(mode=0o600)
    with place.log_path.open("ab") as log:
        return start(
            [
                binaries.program("postgres"),
                "-D",
                place.data_dir,
                f"--config-file={place.config_path}",
            ],
            name=f"PostgreSQL {binaries.version}",
            user=place.user,
            env=server_environment(place.user),
            cwd="/",
            stdout=log,
            stderr=log,
            death_signal=signal.SIGQUIT,
        )


def stop_postmaster(child: Child, *, is_immediate: bool, timeout_s: float = STOP_TIMEOUT_S) -> None:
    """End the postmaster: fast (sessions end, a checkpoint is written) or immediate (neither).

    Processes that somebody stopped would obey no other signal, so they go on first.
    """
    signal_all((child.pid, *descendants(child.pid)), signal.SIGCONT)
    if is_immediate:
        # A postmaster gives its children 5 s to follow an immediate shutdown.
        child.terminate(grace_s=10, signal_number=signal.SIGQUIT)
        return
    with signals.shielded():
        child.send_signal(signal.SIGINT)
        deadline_ns = monotonic_ns() + int(timeout_s * 1e9)
        while monotonic_ns() < deadline_ns and signals.seconds_since_first() < _CHECKPOINT_S_MAX:
            if child.ends_within(0.1):
                return
    stop_postmaster(child, is_immediate=True)


def shared_memory(pid: int) -> set[Path]:
    """Return the files of dynamic shared memory of a postmaster and its processes.

    If they are killed, the files stay until the next start in the same data directory.
    """
    files: set[Path] = set()
    for process in (pid, *descendants(pid)):
        with contextlib.suppress(OSError):  # It has ended.
            maps = Path(f"/proc/{process}/maps").read_text(errors="replace")
            files.update(map(Path, _SHARED_MEMORY.findall(maps)))
    return files


def why_it_failed(log: str) -> tuple[str, str]:
    """Return the line with the cause and its hint, from the log of one start.

    This is the last severe line. If that line only says that the configuration has errors, it is
    the line before, which names the error.
    """
    reason = hint = complaint = ""
    for line in log.splitlines():
        if match := _SEVERE.search(line):
            is_summary = "contains errors" in match[2] and complaint
            reason, hint = (complaint if is_summary else f"{match[1]}: {match[2]}"), ""
        elif match := _COMPLAINT.search(line):
            complaint = match[1]
        elif (match := _HINT.search(line)) and reason and not hint:
            hint = match[1]
    if not reason:
        lines = [line for line in log.splitlines() if line.strip()]
        reason = lines[-1].strip() if lines else "it printed nothing"
    return reason, hint


def last_words(log: str) -> tuple[str, ...]:
    """Return the server's last messages since its start, each once, without time and process.

    Messages to sessions and checkpoints are left out: neither explains why a server ended.
    """
    said: dict[str, None] = {}
    for line in log.splitlines():
        match = _WORDS.search(line)
        if match is not None and match[2].startswith(_START_WORDS):
            said.clear()
        if match is not None and not _IDLE_WORDS.match(match[2]):
            words = match[2] if match[1] == "LOG" else f"{match[1]}: {match[2]}"
            said.pop(words, None)
            said[words] = None
    return tuple(said)[-_WORDS_SHOWN:]


def read_log(path: Path, start_byte: int = 0) -> str:
    """Return the log from one byte on, at most the last 64 KiB of it."""
    if not path.exists():
        return ""
    with path.open("rb") as stream:
        stream.seek(max(start_byte, path.stat().st_size - (64 << 10)))
        return stream.read().decode("utf-8", "replace")


def postmaster_status(data_dir: Path, pid: int) -> str:
    """Return the status that postmaster `pid` wrote to postmaster.pid: "starting", "ready" ..."""
    try:
        lines = (data_dir / "postmaster.pid").read_text().splitlines()
    except OSError:
        return ""
    return lines[7].strip() if len(lines) > 7 and lines[0].strip() == str(pid) else ""


def _await_ready(
    child: Child, binaries: Binaries, place: Place, log_start: int, timeout_s: float
) -> None:
    deadline_ns = monotonic_ns() + int(timeout_s * 1e9)
    while postmaster_status(place.data_dir, child.pid) != "ready":
        if child.poll() is not None:
            reason, hint = why_it_failed(read_log(place.log_path, log_start))
            raise ServerError(
                f"PostgreSQL {binaries.version} cannot start: {_sentence(reason)}",
                hint=hint or _library_hint(reason, binaries.major) or _SETTINGS_HINT,
            )
        if monotonic_ns() > deadline_ns:
            reason, _ = why_it_failed(read_log(place.log_path, log_start))
            raise ServerError(
                f"PostgreSQL {binaries.version} did not become ready within {timeout_s:g} s; "
                f"last messages: {_sentence(reason)}",
                hint=(
                    "a large shared_buffers or a recovery takes time; check whether the disk is "
                    "busy"
                ),
            )
        signals.sleep(_POLL_S)


def _library_hint(reason: str, major: int) -> str:
    """Return how to get the library that the server did not find; empty for another reason."""
    match = _MISSING_LIBRARY.search(reason)
    if match is None:
        return ""
    # Debian and the PostgreSQL project name the packages of extensions in this way.
    package = f"postgresql-{major}-{match[1].replace('_', '-')}"
    return f"install the package {package}, or remove {match[1]} from the setting"


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!")) else f"{text}."
