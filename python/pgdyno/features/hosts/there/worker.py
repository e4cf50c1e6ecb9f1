"""Runs Dask workers on a load host until standard input ends.

The lab sends this text to Python on the host, then certificate and key of each worker: neither is
in an argument list or in a file that stays. The Python needs only the package `distributed`.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import tempfile
import threading
from typing import Any

SETTINGS = {
    "distributed.admin.system-monitor.interval": "1h",
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.tick.limit": "1h",
    "distributed.comm.require-encryption": True,
    "distributed.comm.timeouts.connect": "10s",
    "distributed.scheduler.active-memory-manager.start": False,
    "distributed.scheduler.allowed-failures": 0,
    "distributed.scheduler.http.routes": [],
    "distributed.scheduler.work-stealing": False,
    "distributed.worker.http.routes": [],
    "distributed.worker.profile.enabled": False,
    "logging": {"distributed": "error", "distributed.worker": "error"},
}


def main(count: int, versions: list[str]) -> None:
    """Load the packages, read an order for each worker, and run the workers.

    Several workers are forks of this process. `versions`: of `distributed` and Python in the lab.
    """
    for unused in ("jinja2", "numpy"):
        # Dask can do without them, and they take a fifth of its time to load.
        sys.modules.setdefault(unused, None)  # type: ignore[arg-type]
    import dask

    dask.config.set(SETTINGS)
    import distributed

    here = [distributed.__version__, f"{sys.version_info[0]}.{sys.version_info[1]}"]
    if here != versions:
        names = [f"distributed {dask} with Python {python}" for dask, python in (here, versions)]
        sys.exit(f"it has {names[0]}, and this host has {names[1]}")
    orders = [json.loads(sys.stdin.readline() or sys.exit(0)) for _ in range(count)]
    if count == 1:
        run(orders[0])
        return
    workers = {}
    for order in orders:
        if not (pid := os.fork()):
            run(order)
            os._exit(0)
        workers[pid] = order["name"]
    for _ in orders:
        pid, status = os.wait()
        code = os.waitstatus_to_exitcode(status)
        if code:
            os.write(2, f"worker {workers[pid]} ended with code {code}\n".encode())


def run(order: dict[str, Any]) -> None:
    """Connect to the scheduler as `order` says, and work until the lab closes our input."""
    import distributed

    # SSH_CONNECTION: the lab's address and port as this host sees them, then our own.
    seen = os.environ.get("SSH_CONNECTION", "").split()
    lab, own = (seen[0], seen[2]) if len(seen) == 4 else ("127.0.0.1", "127.0.0.1")
    host = f"[{lab}]" if ":" in lab else lab
    security = distributed.Security(
        require_encryption=True,
        tls_ca_file=order["ca"],
        tls_worker_cert=order["certificate"],
        tls_worker_key=order["key"],
    )
    threading.Thread(target=_end_with_input, daemon=True).start()

    async def work() -> None:
        worker = distributed.Worker(
            f"tls://{host}:{order['port']}",
            nthreads=1,
            name=order["name"],
            resources={"PGDYNO": 1},
            security=security,
            host=own,
            memory_limit=0,
            heartbeat_interval="5s",
            local_directory=tempfile.mkdtemp(dir=os.environ["PGDYNO_FOLDER"]),
            dashboard=False,
            dashboard_address="127.0.0.1:0",
            death_timeout=20,
        )
        async with worker:
            await worker.finished()

    asyncio.run(work())


def _end_with_input() -> None:
    while os.read(0, 1 << 16):
        pass
    # The engine ends with the thread that started it. The shell around us removes our folder, too,
    # if it has not ended with the lab.
    shutil.rmtree(os.environ["PGDYNO_FOLDER"], ignore_errors=True)
    os._exit(0)


if "start" in globals():
    main(globals()["start"]["worker_count"], globals()["start"]["versions"])
