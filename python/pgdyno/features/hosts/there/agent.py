"""Works inside a Dask worker of a load host: answers probes, runs the engine, gives its records.

The lab sends this module by value, so it imports nothing of pgdyno and of `distributed` only what
every worker has.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import hashlib
import os
import platform
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

# If the lab asks nothing for so long, it is lost: the engine is ended.
SILENCE_NS = 4_000_000_000
_LOG_BYTES = 4000
_REACH_S = 5.0
_WRITTEN_AFTER_S = 60


def now_ns() -> int:
    """Return CLOCK_MONOTONIC of this host, which the engine reads, too."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


class Run:
    """One part of a load: the engine, and its records that the lab has not yet confirmed."""

    def __init__(self, engine: subprocess.Popen[bytes]) -> None:
        self.engine = engine
        self.lock = threading.Lock()
        self.lines: list[bytes] = []
        self.first = 0
        self.code: int | None = None
        self.log = b""
        self.why = ""
        self.news, self.ended = asyncio.Event(), asyncio.Event()


class Agent:
    """The state of one worker; `answer` runs in its event loop, `work` in its thread."""

    def __init__(self, worker: Any) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="pgdyno-", dir=worker.local_directory))
        self.engine = self.folder / "pgdyno-engine"
        self.loop = asyncio.get_running_loop()
        self.heard_ns = now_ns()
        self.runs: dict[str, Run] = {}
        self.claims: list[Path] = []
        self.orders = {
            name.removeprefix("on_"): getattr(self, name)
            for name in dir(self)
            if name.startswith("on_")
        }

    async def answer(self, ask: str, **given: Any) -> dict[str, Any]:
        """Answer one message of the lab; `why` says what failed."""
        self.heard_ns = received_ns = now_ns()
        if ask == "clock":
            return {"received_ns": received_ns, "sent_ns": now_ns()}
        try:
            return await self.orders[ask](**given) or {}
        except OSError as error:
            return {"why": f"{error.strerror or error} ({error.filename or ask})"}

    async def on_facts(self) -> dict[str, Any]:
        """Return what the lab must know about this host."""
        fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
        return {
            "machine": platform.machine(),
            "system": platform.system(),
            "host": platform.node(),
            "core_count": len(os.sched_getaffinity(0)),
            "cpu_ticks": [int(field) for field in fields[:8]],
            "worker_cpu_ns": time.process_time_ns(),
        }

    async def on_engine(
        self, sha256: str = "", program: bytes = b"", path: str = ""
    ) -> dict[str, Any]:
        """Keep the engine, if these bytes are the ones that were sent; return its path.

        `path`: another worker of this host has kept the engine there.
        """
        if path:
            self.engine = Path(path)
            return {"path": path}
        if hashlib.sha256(program).hexdigest() != sha256:
            return {"why": "the engine that arrived is not the one that was sent (SHA-256)"}
        descriptor = os.open(self.engine, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o700)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(program)
        except OSError as error:
            need = f"the engine needs {len(program) / 1e6:.1f} MB in {tempfile.gettempdir()}"
            return {"why": f"{need}: {error.strerror}"}
        said = subprocess.run(
            [self.engine, "--version"], capture_output=True, check=False, timeout=20
        )
        if said.returncode:
            return {"why": f"the engine does not run here: {said.stderr.decode()[-200:].strip()}"}
        return {"path": str(self.engine)}

    async def on_reach(self, hosts: list[list[Any]]) -> dict[str, Any]:
        """Say why no server of `hosts` (name, address, port) can be reached; "" if one can."""
        reasons = []
        for host, address, port in hosts:
            where = f"{host}:{port}"
            try:
                if not address and host.startswith("/"):
                    where = f"{host}/.s.PGSQL.{port}"
                    opening = asyncio.open_unix_connection(where)
                else:
                    opening = asyncio.open_connection(address or host, port)
                _, writer = await asyncio.wait_for(opening, _REACH_S)
                writer.close()
                return {"unreached": ""}
            except TimeoutError:
                reasons.append(f"{where} did not answer within {_REACH_S:g} s")
            except OSError as error:
                reasons.append(f"{where}: {error.strerror or error}")
        return {"unreached": ", ".join(reasons)}

    async def on_records(
        self, run: str, after: int, wait_s: float, at_once: bool
    ) -> dict[str, Any]:
        """Return the records from number `after` on; the earlier ones have arrived.

        Waits at most `wait_s` for the end of the engine, or with `at_once` for one more record.
        """
        part = self.runs.get(run)
        if part is None:
            await asyncio.sleep(0.02)
            return {"first": after, "lines": [], "code": None}
        if part.code is None and not (at_once and part.first + len(part.lines) > after):
            part.news.clear()
            event = part.news if at_once else part.ended
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(event.wait(), wait_s)
            self.heard_ns = now_ns()
        with part.lock:
            del part.lines[: after - part.first]
            part.first = after
            lines, code = list(part.lines), part.code
        return {
            "first": after,
            "lines": lines,
            "code": code,
            "log": part.log.decode(errors="replace"),
            "ended_why": part.why,
        }

    async def on_order(self, run: str, order: str) -> dict[str, Any]:
        """Pass an order on to the engine: `start INSTANT` or `stop`."""
        part = self.runs.get(run)
        if part is None or part.engine.stdin is None:
            return {"why": "the engine has not started"}
        os.write(part.engine.stdin.fileno(), order.encode() + b"\n")
        return {}

    async def on_forget(self, run: str) -> dict[str, Any]:
        """Drop what is left of a run; its engine is killed if it still runs."""
        part = self.runs.pop(run, None)
        if part is not None and part.code is None:
            part.engine.kill()
        return {}

    async def on_leave(self) -> dict[str, Any]:
        """End every engine, and remove the folder."""
        for part in self.runs.values():
            if part.code is None:
                part.engine.kill()
        for path in self.claims:
            path.unlink(missing_ok=True)
        shutil.rmtree(self.folder, ignore_errors=True)
        return {}

    def work(self, run: str, job: str) -> int:
        """Run the engine to its end, unless this run has ever begun on this host."""
        self.claims.append(claim(run))
        with tempfile.TemporaryFile() as log:
            engine = subprocess.Popen(
                [self.engine, "run"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                preexec_fn=_end_with_parent(),
                start_new_session=True,
            )
            part = self.runs[run] = Run(engine)
            assert engine.stdin is not None
            try:
                engine.stdin.write(job.encode())
                engine.stdin.flush()
                self._read(part)
            except BrokenPipeError:
                part.why = "the engine ended before it read the job"
            finally:
                if engine.poll() is None and part.why:
                    engine.kill()
                code = engine.wait()
                log.seek(max(0, log.seek(0, os.SEEK_END) - _LOG_BYTES))
                part.log = log.read()
                part.code = code
                self._tell(part)
        return code

    def _read(self, part: Run) -> None:
        """Keep the lines of the engine until it closes its output, or the lab is silent."""
        stdout = part.engine.stdout
        assert stdout is not None
        rest = b""
        while True:
            if now_ns() - self.heard_ns > SILENCE_NS:
                part.why = f"pgdyno was silent for {SILENCE_NS // 1_000_000_000} s"
                return
            if not select.select([stdout], [], [], 0.5)[0]:
                continue
            chunk = os.read(stdout.fileno(), 1 << 16)
            if not chunk:
                return
            *lines, rest = (rest + chunk).split(b"\n")
            with part.lock:
                part.lines += lines
            self._tell(part)

    def _tell(self, part: Run) -> None:
        self.loop.call_soon_threadsafe(part.news.set)
        if part.code is not None:
            self.loop.call_soon_threadsafe(part.ended.set)


def claim(run: str) -> Path:
    """Return the new, exclusive file of a run, EXPERIMENT-NUMBER-PLACE.

    Files of other experiments whose worker has ended are removed. That of this experiment stays: a
    worker that is restarted must find it.
    Raises: FileExistsError if the run has begun here.
    """
    folder = Path(tempfile.gettempdir()) / f"pgdyno-runs-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.lstat().st_uid != os.getuid() or folder.is_symlink():
        raise PermissionError(f"{folder} belongs to another user")
    experiment = run.split("-")[0]
    for old in folder.iterdir():
        # Another worker of this host may remove it at the same time.
        with contextlib.suppress(FileNotFoundError):
            if old.name.split("-")[0] != experiment and not _is_alive(old):
                old.unlink()
    descriptor = os.open(folder / run, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(f"{os.getpid()} {_started(os.getpid())}")
    return folder / run


def _is_alive(claimed: Path) -> bool:
    """Return whether the worker of a claim runs, or may not have written its name yet."""
    words = claimed.read_text().split()
    if not words:
        return time.time() - claimed.stat().st_mtime < _WRITTEN_AFTER_S
    return _started(int(words[0])) == words[1]


def _started(pid: int) -> str:
    """Return when a process began, in ticks since the start of this host; "" if it has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""


def _end_with_parent() -> Any:
    """Return what makes the kernel kill a child when the thread that started it ends."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.PyDLL(None).prctl
    return lambda: prctl(1, signal.SIGKILL, 0, 0, 0)


def install(dask_worker: Any) -> None:
    """Let a worker answer the lab. Dask runs this in the worker's event loop."""
    agent = dask_worker.pgdyno = Agent(dask_worker)
    dask_worker.handlers["pgdyno"] = agent.answer


def work(run: str, job: str) -> int:
    """Run one part of a load: the task of the worker."""
    from distributed import get_worker

    worker: Any = get_worker()
    agent: Agent = worker.pgdyno
    return agent.work(run, job)
