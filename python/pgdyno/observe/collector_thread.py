"""One thread of the observer, which samples its collectors in turn, over one connection.

If the connection is lost, the thread connects again. Its errors become notices.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import psycopg

from pgdyno.clock import ClockPair, monotonic_ns
from pgdyno.errors import PgdynoError
from pgdyno.observe.collector import (
    SECOND_NS,
    AskedOften,
    NoticeKind,
    Notices,
    NotMeasurable,
    Row,
    Sink,
)
from pgdyno.observe.schedule import CollectorSchedule, OwnCost
from pgdyno.observe.session import PoolerInThePath, ServerSession, Session
from pgdyno.process.processes import cores_of, give_priority, stay_on

# SQLSTATE of a login for which the server, the role or the database has no connection left.
ALL_TAKEN = "53300"
RECONNECT_FIRST_S = 0.25
RECONNECT_SLOWEST_S = 5.0
RARE_NS = 4 * SECOND_NS
# A sample that takes longer leaves a gap that shows in the results.
LATE_NS = 3 * SECOND_NS
# Answers are kept for this number of samples before they become rows, at most half a second. So a
# reader who looks every second sees new rows.
HELD_INTERVALS = 5
HELD_NS_MAX = SECOND_NS // 2


class Sample(NamedTuple):
    """The rows of one moment, which is Unix time in ns."""

    time_ns: int
    rows: list[Row]


class CollectorThread(threading.Thread):
    """Samples its collectors until it is stopped. It never raises an exception."""

    def __init__(
        self,
        name: str,
        scheduled: Sequence[CollectorSchedule],
        *,
        clock: ClockPair,
        sink: Sink,
        notices: Notices,
        cost: OwnCost,
        session: Session | None = None,
        is_urgent: bool = False,
    ) -> None:
        """Prepare the thread. Args: is_urgent, whether it may have priority over processes."""
        super().__init__(name=f"observe-{name}", daemon=True)
        self._scheduled = list(scheduled)
        self._clock = clock
        self._sink = sink
        self._notices = notices
        self._cost = cost
        self._session = session
        self._is_urgent = is_urgent
        # True if the thread and the backend of its session have priority.
        self.has_priority = False
        self._cores: list[int] = []
        self._random = random.Random(0)
        self._backend_cpu_ns = self._cpu_ns = 0
        self._stopping = StopSignal()
        self._to_begin = {item.collector.name for item in scheduled}
        # Called if no connection is free: it may free one, or stop this thread.
        self.refused: Callable[[], None] | None = None
        # Set as soon as every collector was tried once.
        self.has_begun = threading.Event()

    def run(self) -> None:
        """Sample the collectors that are due, until `stop` or until no collector is left."""
        self._cpu_ns = time.thread_time_ns()
        try:
            while self._scheduled and not self._stopping.is_set:
                if self._session is not None and not self._session.is_open:
                    if not self._connected(self._session):
                        break
                    continue
                item = min(self._scheduled, key=lambda candidate: candidate.due_ns)
                if self._stopping.wait((item.due_ns - monotonic_ns()) / SECOND_NS):
                    self._look_again()
                    break
                self._sample(item)
        except PgdynoError:
            # The store refuses rows (a full disk). The writer of the records reports this error.
            return
        finally:
            self.has_begun.set()
            self._close()

    def sample_too(self, scheduled: Sequence[CollectorSchedule]) -> None:
        """Sample more collectors, from the next sample on. Any thread may call it."""
        self._scheduled += scheduled

    def stop(self) -> None:
        """Ask the thread to end; join it afterwards."""
        self._stopping.set()

    def cancel(self) -> None:
        """Cancel a statement for which the thread waits."""
        if self._session is not None:
            self._session.cancel()

    def _look_again(self) -> None:
        """Sample the slow collectors once more, so that their totals reach the end of the run."""
        for item in [
            scheduled for scheduled in self._scheduled if scheduled.interval_ns >= RARE_NS
        ]:
            if self._session is not None and not self._session.is_open:
                return
            if item.last_sample_ns:
                self._sample(item)

    def _connected(self, session: Session) -> bool:
        """Connect, and try again until it works; return False after `stop` or a final error."""
        wait_s = RECONNECT_FIRST_S
        while True:
            try:
                session.open()
            except PoolerInThePath:
                self._notices.say(
                    "pooler",
                    NoticeKind.OBSERVER_BEHIND_POOLER,
                    "The observing connection ends at a pooler, so the server is not observed.",
                    "give `observe` a connection string that leads straight to the server",
                )
                return False
            except NotMeasurable as error:
                self._notices.say(session.what, NoticeKind.NOT_MEASURABLE, str(error), "")
                return False
            except Exception as error:  # The run continues after any error of telemetry.
                if self.refused and getattr(error, "sqlstate", "") == ALL_TAKEN:
                    self.refused()
                    if self._stopping.is_set:
                        return False
                self._notices.say(
                    session.what,
                    NoticeKind(f"observer_lost_{session.kind}"),
                    f"The {session.what} cannot be observed: {_one_line(error)}.",
                    "nothing is recorded until it answers; it is tried again every few seconds",
                    source=session.what if session.kind == "node" else "",
                )
                self.has_begun.set()
                if self._stopping.wait(wait_s):
                    return False
                wait_s = min(wait_s * 2, RECONNECT_SLOWEST_S)
                continue
            if self._is_urgent and isinstance(session, ServerSession):
                self._take_priority(session.backend_pid)
            self._backend_cpu_ns, self._cpu_ns = session.backend_cpu_ns(), time.thread_time_ns()
            self._notices.over(
                session.what,
                NoticeKind(f"observer_found_{session.kind}"),
                f"The {session.what} is observed again.",
            )
            if not session.sees_everybody:
                self._notices.say(
                    "rights",
                    NoticeKind.OBSERVER_WITHOUT_PG_MONITOR,
                    f"Role {session.user} may not see what other roles' sessions do, so they are"
                    " not split by wait event.",
                    f"GRANT pg_monitor TO {session.user};",
                )
            return True

    def _sample(self, item: CollectorSchedule) -> None:
        samples: list[Sample] = []
        trouble: Exception | None = None
        began_ns = monotonic_ns()
        try:
            self._take(item, samples)
        except Exception as error:  # The run continues without this sample.
            trouble = error
        took_ns = monotonic_ns() - began_ns
        if trouble is None and took_ns > LATE_NS:
            self._note_late(took_ns)
        self._keep(item, samples)
        if isinstance(trouble, NotMeasurable):
            name = item.collector.name
            # A node lacks what the coordinator lacks; that is reported once.
            lacking = getattr(item.collector, "base_name", name)
            self._notices.say(lacking, NoticeKind.NOT_MEASURABLE, str(trouble), "", source=name)
            self._scheduled.remove(item)
        elif trouble is not None:
            self._failed(item, trouble)
        self._account(item, len(samples) + (trouble is not None))
        self._to_begin.discard(item.collector.name)
        if not self._to_begin:
            self.has_begun.set()

    def _note_late(self, took_ns: int) -> None:
        """Add a notice that samples are missing because the server answered late.

        No notice is added if the lab itself was stopped.
        """
        if isinstance(self._session, ServerSession) and self._session.more_ms:
            self._notices.say(
                "late answers",
                NoticeKind.OBSERVER_ANSWERED_LATE,
                f"The server took {took_ns / SECOND_NS:.0f} s to answer pgdyno, so there are fewer"
                " samples than planned.",
                "the server has too many busy sessions: measure longer, or with fewer clients",
            )

    def _take(self, item: CollectorSchedule, samples: list[Sample]) -> None:
        """Add the sample that is due; of a frequent collector, also some later samples."""
        collector = item.collector
        if isinstance(collector, AskedOften):
            answers: list[tuple[int, Any]] = []
            try:
                self._ask_on(item, collector, answers)
            finally:
                samples += [
                    Sample(self._clock.unix_at(at_ns), collector.rows(answer))
                    for at_ns, answer in answers
                ]
            return
        began_ns = self._clock.now_ns()
        values_ns = self._session.before_sample(item.interval_ns) if self._session else 0
        rows = collector.sample(began_ns)
        # The values are from some moment between query and answer: take the middle.
        samples.append(Sample(values_ns or (began_ns + self._clock.now_ns()) // 2, rows))
        if item.interval_ns >= RARE_NS and isinstance(self._session, ServerSession):
            # An idle session reports its transactions 10 s late: they would look foreign.
            self._session.report_transactions()
        item.taken(monotonic_ns())

    def _ask_on(
        self, item: CollectorSchedule, collector: AskedOften, answers: list[tuple[int, Any]]
    ) -> None:
        """Add answers with their times; do no other work between the samples."""
        until_ns = self._held_until_ns(item)
        while True:
            asked_ns = monotonic_ns()
            answer = collector.ask()
            now_ns = monotonic_ns()
            answers.append(((asked_ns + now_ns) // 2, answer))
            self._change_core()
            item.taken(now_ns)
            if item.due_ns > until_ns or self._stopping.wait((item.due_ns - now_ns) / SECOND_NS):
                return

    def _take_priority(self, backend_pid: int) -> None:
        """Give this thread and its backend priority on the backend's cores, if the kernel permits.

        A sampler without priority gets a core when a process falls asleep, so it sees such moments
        too often.
        """
        threads = (threading.get_native_id(), backend_pid)
        self.has_priority = all([give_priority(thread) for thread in threads])
        self._cores = cores_of(backend_pid)
        self._change_core()

    def _change_core(self) -> None:
        """Choose a core at random for the next sample; thread and backend both run on this core.

        No other process runs on the core from the moment the thread wakes until the answer. If
        thread and backend had two cores, the first core would continue while the backend takes the
        second. Then a session that was interrupted on the second core and a session that runs on
        the first would both look active: samples would see more sessions at work than there are.
        """
        if self.has_priority and self._cores and isinstance(self._session, ServerSession):
            core = self._random.choice(self._cores)
            stay_on(core, threading.get_native_id(), self._session.backend_pid)

    def _held_until_ns(self, item: CollectorSchedule) -> int:
        """Return until when answers may stay unparsed: at most until another collector is due.

        The first answer becomes rows at once, so that `has_begun` is set early.
        """
        if self._to_begin:
            return 0
        until_ns = monotonic_ns() + min(HELD_INTERVALS * item.interval_ns, HELD_NS_MAX)
        return min([until_ns, *(other.due_ns for other in self._scheduled if other is not item)])

    def _keep(self, item: CollectorSchedule, samples: list[Sample]) -> None:
        name = item.collector.name
        for time_ns, rows in samples:
            interval_ns = time_ns - item.last_sample_ns if item.last_sample_ns else 0
            item.last_sample_ns = time_ns
            if rows:
                stamp: Row = {"time_ns": time_ns, "interval_ns": interval_ns}
                self._sink.add_samples(name, [stamp | row for row in rows])
        if samples:
            over = f"Collector {name} works again."
            self._notices.over(f"failing {name}", NoticeKind.COLLECTOR_WORKS, over)

    def _failed(self, item: CollectorSchedule, error: Exception) -> None:
        name = item.collector.name
        item.failed(monotonic_ns())
        session = self._session
        if session is not None and not session.is_open:
            # The server went away. All collectors of this thread have a gap until it returns.
            now_ns = monotonic_ns()
            for other in self._scheduled:
                other.last_sample_ns, other.failure_count, other.due_ns = 0, 0, now_ns
            self._notices.say(
                session.what,
                NoticeKind(f"observer_lost_{session.kind}"),
                f"The observing connection was lost: {_one_line(error)}.",
                f"nothing is recorded until the {session.what} answers; it is tried again every"
                " few seconds",
                source=session.what if session.kind == "node" else "",
            )
            return
        sqlstate = error.sqlstate if isinstance(error, psycopg.Error) else None
        state = f" (SQLSTATE {sqlstate})" if sqlstate else ""
        said = f"failed: {_one_line(error)}{state}"
        if sqlstate == "55P03":
            said = "met a lock that another session holds, and did not wait for it"
        self._notices.say(
            f"failing {name}",
            NoticeKind.COLLECTOR_FAILED,
            f"Collector {name} {said}.",
            "GRANT pg_monitor to the observing role"
            if sqlstate == "42501"
            else "it is tried again, at growing intervals",
        )

    def _account(self, item: CollectorSchedule, sample_count: int) -> None:
        """Add the CPU time of thread and backend since the last call, also between samples."""
        now_ns = time.thread_time_ns()
        cpu_ns, self._cpu_ns = now_ns - self._cpu_ns, now_ns
        backend_ns = 0
        if self._session is not None:
            total_ns = self._session.backend_cpu_ns()
            backend_ns = max(0, total_ns - self._backend_cpu_ns) if total_ns else 0
            self._backend_cpu_ns = total_ns or self._backend_cpu_ns
        name = item.collector.name
        self._cost.add(name, cpu_ns=cpu_ns, backend_cpu_ns=backend_ns, sample_count=sample_count)
        slowed_to_ns = item.slowed_by(cpu_ns + backend_ns, monotonic_ns())
        if slowed_to_ns:
            self._notices.say(
                f"dear {name} {slowed_to_ns}",
                NoticeKind.COLLECTOR_SLOWED,
                f"Collector {name} used more than 0.5 % of a core;"
                f" it now samples every {slowed_to_ns / SECOND_NS:g} s.",
                "fewer samples make its numbers less precise, not wrong",
            )

    def _close(self) -> None:
        for item in self._scheduled:
            close = getattr(item.collector, "close", None)
            if close is not None:
                close()
        if self._session is not None:
            self._session.close()


class StopSignal:
    """A threading.Event whose `wait` is one call that the interpreter makes in C.

    The `wait` of an Event makes a lock and a list entry. With cold caches this takes 0.1 ms, ten
    times a second.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        # This lock is held until the signal is set.
        self._unset = threading.Lock()
        self._unset.acquire()
        self.is_set = False

    def set(self) -> None:
        """End every present and future wait."""
        with self._guard:
            if not self.is_set:
                self.is_set = True
                self._unset.release()

    def wait(self, seconds: float) -> bool:
        """Wait at most this long; return whether the signal is set."""
        if not self._unset.acquire(timeout=max(0.0, seconds)):
            return False
        self._unset.release()
        return True


def _one_line(error: Exception) -> str:
    # Lines that begin with a tab have libpq's guess at the cause.
    lines = [line for line in str(error).splitlines() if not line.startswith("\t")]
    text = " ".join(" ".join(lines).split()) or type(error).__name__
    return text.rstrip(".")
