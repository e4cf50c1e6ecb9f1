"""The records: the engine's output, one JSON object a line, `summary` always last.

Mirrors `crates/engine/src/contract/record.rs`. Unknown fields are ignored, so that a newer engine
can add some; tests/contract compares the two sides.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from pgdyno.errors import EngineError

PhaseName = Literal[
    "connect",
    "prepare",
    "warm",
    "measure",
    "drain",
    "create",
    "load",
    "vacuum",
    "index",
    "foreign_keys",
]
Measured = Literal[
    "latency",
    "service",
    "lag",
    "statement",
    "attempt",
    "connect",
    "round_trip",
    "connection_wait",
]
ErrorKind = Literal[
    "job",
    "script",
    "evaluation",
    "connect",
    "authentication",
    "too_many_connections",
    "prepare",
    "too_many_failures",
    "connection_lost",
    "read_only_lost",
    "protocol",
    "init",
    "system",
]


class Open(BaseModel):
    """A frozen model that ignores unknown fields."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class StatementShape(Open):
    """A statement in its written form, with its 1-based line in the script."""

    line: int
    text: str


class ScriptShape(Open):
    """A script, or a type of a native program; other records refer to it by index.

    `is_background`: work that transactions put off; it is in no total over all scripts.
    """

    name: str
    program: str = ""
    weight: int
    reads_only: bool
    is_background: bool = False
    statements: tuple[StatementShape, ...]


class Hello(Open):
    """First record: the engine's identity, and how it understood the job."""

    record: Literal["hello"] = "hello"
    time_ns: int
    format: str
    engine_version: str
    build_profile: str
    commit: str
    pid: int
    poller: str
    scripts: tuple[ScriptShape, ...]


class Phase(Open):
    """A phase began or ended."""

    record: Literal["phase"] = "phase"
    time_ns: int
    phase: PhaseName
    event: Literal["begin", "end"]


class Counts(Open):
    """scheduled = started + skipped + not_started; started = completed + failed + unfinished."""

    scheduled: int = 0
    started: int = 0
    completed: int = 0
    failed: int = 0
    skipped: int = 0
    not_started: int = 0
    unfinished: int = 0
    late: int = 0
    retried: int = 0
    retries: int = 0
    in_doubt: int = 0
    rolled_back: int = 0


class Interval(Open):
    """Events in the `interval_ns` before `time_ns`, over all threads."""

    record: Literal["interval"] = "interval"
    time_ns: int
    interval_ns: int
    phase: PhaseName
    counts: Counts
    completed_by_script: tuple[int, ...]
    latency_sum_ns: int
    in_flight: int
    backlog: int
    connections: int
    thinking: int = 0
    cpu_ns: int


class TimeDistribution(Open):
    """A distribution of durations; buckets by the formula of `bucket.rs`."""

    measured: Measured
    script: int | None = None
    statement: int | None = None
    count: int
    sum_ns: int
    min_ns: int
    max_ns: int
    buckets: tuple[tuple[int, int], ...]


class HistogramRecord(TimeDistribution):
    """A distribution over the `interval_ns` before `time_ns`."""

    record: Literal["histogram"] = "histogram"
    time_ns: int
    interval_ns: int
    phase: PhaseName


class Progress(Open):
    """Loading a dataset: rows sent so far."""

    record: Literal["progress"] = "progress"
    time_ns: int
    table: str
    rows_done: int
    rows_total: int


class Pieces(Open):
    """Loading a dataset: how far a phase without rows has come."""

    record: Literal["pieces"] = "pieces"
    time_ns: int
    phase: PhaseName
    done_count: int
    total_count: int


class Connecting(Open):
    """The connect phase: connections made so far, of the clients and idle ones."""

    record: Literal["connecting"] = "connecting"
    time_ns: int
    made_count: int
    wanted_count: int


class Ready(Open):
    """The engine is one of several that make a load. It is prepared, and waits for `start`."""

    record: Literal["ready"] = "ready"
    time_ns: int


class WarningKind(StrEnum):
    """The kinds of the engine's warnings."""

    SCRIPT_NOTICE = "script_notice"
    STATEMENT_REFUSED = "statement_refused"
    COMMIT_IN_DOUBT = "commit_in_doubt"
    PROCEDURES_REPLACED = "procedures_replaced"
    WAITING = "waiting"
    RESUMED = "resumed"
    FEWER_SESSIONS = "fewer_sessions"
    UNTESTED_SERVER = "untested_server"
    DATASET_UNFINISHED = "dataset_unfinished"
    DATASET_REMOVED = "dataset_removed"
    DATASET_LEFT = "dataset_left"


class Warning_(Open):
    """Something the reader must know, although the run continued."""

    record: Literal["warning"] = "warning"
    time_ns: int
    kind: WarningKind
    message: str
    hint: str


class Failure(Open):
    """Why the run ended early, or did not begin."""

    record: Literal["error"] = "error"
    time_ns: int
    kind: ErrorKind
    message: str
    hint: str
    sqlstate: str | None = None
    script: str | None = None
    line: int | None = None
    column: int | None = None


class PhaseSpan(Open):
    """One phase, Unix nanoseconds."""

    phase: PhaseName
    began_ns: int
    ended_ns: int


class Served(Open):
    """Transactions of a script that ended in the measured phase.

    `held_ns`: the sum of their times on a connection.
    """

    ended_count: int = 0
    held_ns: int = 0
    round_trips: int = 0


class ScriptCounts(Open):
    """Counts of one script, failures by SQLSTATE, and what its program itself `counted`."""

    counts: Counts
    failures: dict[str, int]
    counted: dict[str, int] = Field(default_factory=dict)
    served: Served = Served()


class Gap(Open):
    """A time without a completed transaction, Unix nanoseconds."""

    began_ns: int
    ended_ns: int


class IdleFacts(Open):
    """Connections in addition to those of the clients; `alive_count` answered after the load."""

    opened_count: int
    alive_count: int


class ThreadFacts(Open):
    """Whether a thread of the engine was the bottleneck."""

    clients: int
    poller: str = ""
    busy_ratio: float
    starved_ratio: float
    timer_lag_ns_p50: int
    timer_lag_ns_p99: int
    timer_lag_ns_max: int
    reply_wait_ns_mean: int | None = None
    began_ns: int | None = None


class Fairness(Open):
    """How evenly the clients were served: how many transactions each of them completed."""

    clients: int
    completed_count_min: int
    completed_count_max: int
    gini_ratio: float


class InitFacts(Open):
    """The rows, bytes and times of loading a dataset."""

    rows: int
    bytes_sent: int
    steps: tuple[PhaseSpan, ...]


class RoundTripProbes(Open):
    """Means of round trips without work, which were measured while the load ran."""

    count: int
    round_trip_ns: int
    engine_runnable_ns: int
    backend_runnable_ns: int | None = None
    error_ns: int


class ClientTimes(Open):
    """What the clients did between and within their transactions."""

    between_transactions_ns: int | None = None
    sleep_ns: int = 0
    shell_ns: int = 0
    think_time_ns: int | None = None
    fairness: Fairness | None = None


class HostFacts(Open):
    """What one of several hosts served: sessions in all phases, transactions while measuring."""

    host: str
    port: int
    opened_count: int
    completed_count: int


class ConnectionFacts(Open):
    """What happened to the connections, in all phases; `hosts` is empty for one host."""

    lost_count: int
    reconnect_count: int
    idle: IdleFacts | None = None
    hosts: tuple[HostFacts, ...] = ()


class TrafficFacts(Open):
    """What went over the network."""

    round_trips: int
    round_trip_runnable_ns: int | None = None
    round_trip_probes: RoundTripProbes | None = None
    bytes_sent: int
    bytes_received: int


class EngineUsage(Open):
    """What the engine used."""

    cpu_user_ns: int
    cpu_system_ns: int
    resident_bytes_max: int
    threads: tuple[ThreadFacts, ...]


# The groups of a summary. Up to contract 1.12 their fields were the summary's own.
_GROUPS: Mapping[str, type[Open]] = {
    "clients": ClientTimes,
    "connections": ConnectionFacts,
    "traffic": TrafficFacts,
    "engine": EngineUsage,
}
_OLD_NAMES = {"lost_count": "connections_lost", "reconnect_count": "reconnects"}


class FailedStatement(Open):
    """One kind of failure: a script by its index, a statement by its line, and a code.

    `count`: failed tries of the measured phase. `message`: of the first one in any phase.
    """

    script: int
    line: int | None = None
    code: str
    message: str
    count: int


class Summary(Open):
    """The whole run; counts and distributions cover the measured phase."""

    record: Literal["summary"] = "summary"
    time_ns: int
    ending: Literal["completed", "stopped", "aborted"]
    phases: tuple[PhaseSpan, ...]
    counts: Counts
    transactions_committed_all_phases: int
    scripts: tuple[ScriptCounts, ...]
    failures: dict[str, int]
    failure_messages: dict[str, str] | None = None
    failed_statements: tuple[FailedStatement, ...] | None = None
    distributions: tuple[TimeDistribution, ...]
    unfinished_ages_ns: tuple[int, ...]
    commits_in_doubt: int = 0
    longest_gap: Gap | None = None
    clients: ClientTimes
    connections: ConnectionFacts
    traffic: TrafficFacts
    engine: EngineUsage
    init: InitFacts | None = None

    @model_validator(mode="before")
    @classmethod
    def _of_an_older_engine(cls, record: Any) -> Any:
        if not isinstance(record, dict) or "traffic" in record:
            return record
        groups = {
            name: {
                field: record[old]
                for field in group.model_fields
                if (old := _OLD_NAMES.get(field, field)) in record
            }
            for name, group in _GROUPS.items()
        }
        return {**record, **groups}

    def span(self, phase: PhaseName) -> PhaseSpan | None:
        """Return when `phase` began and ended, or None if the run did not reach it."""
        return next((span for span in self.phases if span.phase == phase), None)

    def distribution(
        self, measured: Measured, script: int | None = None, statement: int | None = None
    ) -> TimeDistribution | None:
        """Return one distribution of the measured phase, or None if it has no values."""
        wanted = (measured, script, statement)
        matching = (d for d in self.distributions if (d.measured, d.script, d.statement) == wanted)
        return next(matching, None)


Record = Annotated[
    Hello
    | Phase
    | Interval
    | HistogramRecord
    | Progress
    | Pieces
    | Connecting
    | Ready
    | Warning_
    | Failure
    | Summary,
    Field(discriminator="record"),
]
_RECORD: TypeAdapter[Record] = TypeAdapter(Record)


def parse_record(line: bytes | str) -> Record:
    """Parse one line of the engine's output.

    Raises: EngineError if the line is not a record; the text quotes its first 120 characters.
    """
    try:
        return _RECORD.validate_json(line)
    except ValidationError as error:
        text = line.decode(errors="replace") if isinstance(line, bytes) else line
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise EngineError(
            f"The engine wrote a line that is not a record: {place or 'line'}: {first['msg']} "
            f"in {text[:120]!r}.",
            hint="pgdyno and its engine may have different versions: run make build",
        ) from error


def raw_record(line: bytes) -> dict[str, object]:
    """Return the JSON object of a line, which is stored unchanged."""
    document: dict[str, object] = json.loads(line)
    return document
