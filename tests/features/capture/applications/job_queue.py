"""Procrastinate, a job queue in PostgreSQL: its tables, its worker, and clients that defer jobs.

python job_queue.py prepare CONNINFO
python job_queue.py load CONNINFO CLIENTS

The load goes on until the standard input ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import sys
import threading
import time

import procrastinate


def app_of(conninfo: str) -> procrastinate.App:
    """Return the application with its tasks."""
    app = procrastinate.App(
        connector=procrastinate.PsycopgConnector(conninfo=conninfo, min_size=2, max_size=6)
    )

    @app.task(queue="mail", name="send")
    async def send(number: int, words: str) -> None:
        await asyncio.sleep(0.001)

    @app.task(queue="sums", name="add", retry=procrastinate.RetryStrategy(max_attempts=3))
    async def add(a: int, b: int) -> int:
        if a % 17 == 0:
            raise ValueError("try again")
        return a + b

    @app.task(queue="sums", name="once")
    async def once(name: str) -> None:
        return None

    @app.periodic(cron="* * * * * */1")
    @app.task(queue="mail", name="clean", queueing_lock="clean", pass_context=True)
    async def clean(context: procrastinate.JobContext, timestamp: int) -> None:
        return None

    return app


def defer_until(over: threading.Event, app: procrastinate.App, number: int) -> None:
    """Defer jobs as a program that has work for the queue does."""
    rng = random.Random(number)
    with app.open() as opened:
        manager, task = opened.job_manager, opened.configure_task
        while not over.is_set():
            choice = rng.random()
            if choice < 0.5:
                task("send", queue="mail").defer(number=rng.randrange(10_000), words="hello " * 5)
            elif choice < 0.7:
                lock = f"account {rng.randrange(50)}"
                task("add", queue="sums", lock=lock).defer(a=rng.randrange(1000), b=2)
            elif choice < 0.8:
                many = [{"number": place, "words": "many"} for place in range(rng.randrange(2, 8))]
                task("send", queue="mail").batch_defer(*many)
            elif choice < 0.88:
                name = f"only {rng.random()}"
                once = task("once", queue="sums", queueing_lock=name, priority=rng.randrange(3))
                once.defer(name=name)
            elif choice < 0.94:
                later = task("send", queue="mail", schedule_in={"seconds": 3600})
                manager.cancel_job_by_id(later.defer(number=1, words="later"))
            elif choice < 0.97:
                manager.list_jobs(queue="sums", status="todo")
            else:
                manager.list_queues()
            time.sleep(rng.expovariate(200))


async def work(app: procrastinate.App) -> None:
    async with app.open_async():
        worker = asyncio.create_task(
            app.run_worker_async(
                concurrency=4,
                install_signal_handlers=False,
                fetch_job_polling_interval=0.5,
                update_heartbeat_interval=1,
            )
        )
        await asyncio.to_thread(sys.stdin.read)
        worker.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await worker


def load(conninfo: str, clients: int) -> None:
    over, threads = threading.Event(), []
    for number in range(clients):
        app = procrastinate.App(connector=procrastinate.SyncPsycopgConnector(conninfo=conninfo))
        threads.append(threading.Thread(target=defer_until, args=(over, app, number)))
    for thread in threads:
        thread.start()
    asyncio.run(work(app_of(conninfo)))
    over.set()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    logging.disable()
    if sys.argv[1] == "prepare":
        app = procrastinate.App(connector=procrastinate.SyncPsycopgConnector(conninfo=sys.argv[2]))
        with app.open():
            app.schema_manager.apply_schema()
    else:
        load(sys.argv[2], int(sys.argv[3]))
