"""The findings of an experiment, as dataclasses: runs, curves, facts, and the whole answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pgdyno.analysis.capacity import Capacity
from pgdyno.analysis.compare_findings import CompareFindings
from pgdyno.analysis.curve import LoadCurve
from pgdyno.analysis.estimate import Estimate
from pgdyno.analysis.speed_up import SpeedUp
from pgdyno.analysis.verdicts import Doubt
from pgdyno.analysis.where import WhereTheTimeGoes
from pgdyno.quantities import counted


@dataclass(frozen=True, slots=True)
class ServedByHost:
    """What one of several hosts served: sessions opened there, and its transactions."""

    host: str
    port: int
    opened_count: int
    transactions_count: int
    transactions_ratio: float


@dataclass(frozen=True, slots=True)
class ConnectionFindings:
    """How the load connected, and how many connections were lost.

    `connect_ms`: "p50", "p95", "p99" and "max" of the time from opening the socket to the session.
    `wait_ms`: the same and "mean" of the wait of a transaction for a connection; None if clients
    do not share connections. The longest gap is the longest time of the measured phase without a
    completed transaction; None if it is shorter than one count interval. `hosts`: empty for one
    host.
    """

    opened_count: int
    connect_ms: dict[str, float]
    is_per_transaction: bool
    shared_count: int | None
    wait_ms: dict[str, float] | None
    idle_opened_count: int | None
    idle_alive_count: int | None
    lost_count: int
    reconnected_count: int
    commits_in_doubt_count: int
    longest_gap_ms: float | None
    longest_gap_began_s: float | None
    hosts: tuple[ServedByHost, ...] = ()


@dataclass(frozen=True, slots=True)
class FactTable:
    """One table of a report: words and numbers as text; columns after the first are numbers.

    `whole`: the first cell of each row in full; empty if `rows` shorten no first cell.
    """

    key: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    whole: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TelemetryFindings:
    """Facts of one run in addition to its charts.

    `facts` are label and text; `examined` are the doctor's findings, worst first; `not_measured`
    says in whole sentences what is missing, and why.
    """

    facts: tuple[tuple[str, str], ...] = ()
    tables: tuple[FactTable, ...] = ()
    examined: tuple[Mapping[str, Any], ...] = ()
    not_measured: tuple[str, ...] = ()
    energy_joules_per_transaction: float | None = None


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a panel; `values` has one entry for each of the panel's `time_s`, None = gap."""

    name: str
    values: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Panel:
    """One chart over time. `time_s` counts from the start of the measured phase."""

    key: str
    title: str
    unit: str
    time_s: tuple[float, ...]
    series: tuple[Series, ...]
    is_stacked: bool = False
    is_logarithmic: bool = False
    note: str = ""
    # "": the panel is shown at once; else the heading under which it is folded.
    section: str = ""


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened at one moment: a checkpoint, a change of speed, a gap.

    `count`: how many marks of one kind this mark stands for, if they are too near to each other.
    """

    time_s: float
    kind: Literal["checkpoint", "vacuum", "change", "gap", "error"]
    text: str
    count: int = 1


@dataclass(frozen=True, slots=True)
class PhaseFindings:
    """One phase of an open loop's rate: values within one run, without an interval.

    `backlog_at_end_count` counts due transactions that had not started. Percentiles are None if no
    transaction ended.
    """

    from_tps: float
    to_tps: float
    begin_s: float
    duration_s: float
    offered_tps: float
    tps: float
    failed: int
    p50_ms: float | None
    p99_ms: float | None
    backlog_at_end_count: int


@dataclass(frozen=True, slots=True)
class OpenLoopFindings:
    """An open loop: the offered rate and its phases.

    `backlog_at_end_count`: due transactions that had not started at the end of the measured time;
    None if not known.
    """

    offered_tps: float
    phases: tuple[PhaseFindings, ...] = ()
    backlog_at_end_count: int | None = None


@dataclass(frozen=True, slots=True)
class LateFindings:
    """The transactions that were not done within the latency limit: too slow, or never ended.

    `share` is `late_count` of `total_count`, in 0..1. Neither count includes failed transactions.
    """

    limit_ms: float
    late_count: int
    total_count: int
    share: Estimate


@dataclass(frozen=True, slots=True)
class RunCounts:
    """What the engine counted: transactions and its own CPU time.

    `transactions`: completed in the measured time. `committed_all_phases`: the warm-up too.
    `failures`: failed transactions by SQLSTATE or kind.
    """

    transactions: int
    committed_all_phases: int
    failures: Mapping[str, int]
    retried: int
    engine_cpu_s: float


@dataclass(frozen=True, slots=True)
class ProgramFindings:
    """What the program of a run adds.

    `name`: the program that every script of the run is; empty for text scripts. `own`: findings
    that only this program has. `metrics`: its figures by their names.
    """

    name: str = ""
    own: Any = None
    metrics: Mapping[str, Estimate] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RunTimeline:
    """A run second by second: charts, what happened at one moment, and telemetry in total."""

    duration_s: float
    panels: tuple[Panel, ...] = ()
    marks: tuple[Mark, ...] = ()
    telemetry: TelemetryFindings = field(default_factory=TelemetryFindings)


@dataclass(frozen=True, slots=True)
class RunFindings:
    """One measured run.

    `where_not`: the reason why `where` is missing, as the end of a sentence. `open_loop`: None in a
    closed loop.
    """

    label: str
    clients: int
    tps: Estimate
    counts: RunCounts
    latency: Latency
    where: WhereTheTimeGoes | None
    scripts: tuple[ScriptFindings, ...]
    is_valid: bool
    doubts: tuple[Doubt, ...]
    timeline: RunTimeline
    where_not: str = ""
    open_loop: OpenLoopFindings | None = None
    late: LateFindings | None = None
    connections: ConnectionFindings | None = None
    program: ProgramFindings = ProgramFindings()
    added: Mapping[str, Any] = field(default_factory=dict)
    "What features find in the run, by their names."


@dataclass(frozen=True, slots=True)
class CellFindings:
    """What only the program of the load finds in the runs of one variant and load.

    `name`: of the variant, the load, or both. `is_main`: of the cells that an answer is about:
    every variant of a comparison, the peaks of a sweep.
    """

    name: str
    program: str
    own: Any
    is_main: bool


@dataclass(frozen=True, slots=True)
class ServerAndLoad:
    """Server and load of a measurement: line 1 of each output, durability, label -> value rows."""

    target: str
    durability: str
    is_durable: bool
    rows: tuple[tuple[str, str], ...] = ()
    settings: tuple[tuple[str, str, str], ...] = ()
    "Settings that differ from PostgreSQL's default: name, value, source."


@dataclass(frozen=True, slots=True)
class CurveFindings:
    """The load curve of one line, with what limits it at the knee.

    `script` names the line: the script, and its variant if there are several. `capacity`: None
    without a latency target. `speed_up`: of a variant against the first variant. `cost`: the
    cost of 1,000 tps at the target, None without a price. `rates`: the metric `rate_name` of the
    program at each level; empty if the program has none.
    """

    script: str
    curve: LoadCurve
    limit: str
    capacity: Capacity | None = None
    variant: str = ""
    speed_up: SpeedUp | None = None
    cost: Estimate | None = None
    rate_name: str = ""
    rates: Mapping[int, Estimate] = field(default_factory=dict)
    client_word: str = "client"

    def load_words(self, clients: int) -> str:
        """Return "64 clients", or another word that the program uses for them."""
        return counted(clients, self.client_word)


@dataclass(frozen=True, slots=True)
class RepeatedRun:
    """A run that does not count: something outside disturbed it, and it was repeated."""

    number: int
    kind: str
    why: str


@dataclass(frozen=True, slots=True)
class ExperimentFindings:
    """The whole answer: what `show`, `report` and `--json` print.

    `run`: the run shown in detail (the only run of a bench, the long run at the knee of a sweep).
    `compare`: None if no variants were compared. `own`: the findings of a kind of answer that needs
    more than `run`, `curves` and `compare`. `kind`: the kind of the design. `cells`: what the
    program of the load finds in each cell; empty unless the answer has several cells. `notes`: how
    it was measured; `remarks`: what people noted with `pgdyno note`.
    """

    kind: str
    number: int
    name: str
    version: str
    started_utc: str
    seconds: float
    sentence: str
    facts: ServerAndLoad
    run: RunFindings | None
    curves: tuple[CurveFindings, ...] = ()
    compare: CompareFindings | None = None
    own: Any = None
    cells: tuple[CellFindings, ...] = ()
    runs_total: int = 1
    runs_valid: int = 1
    doubts: tuple[Doubt, ...] = ()
    notes: tuple[str, ...] = field(default=())
    remarks: tuple[str, ...] = ()
    is_complete: bool = True
    repeated: tuple[RepeatedRun, ...] = ()

    @property
    def repeated_words(self) -> str:
        """Return in one line what was repeated and why; "" if nothing was."""
        if not self.repeated:
            return ""
        whys = {run.kind: run.why.rstrip(".") for run in reversed(self.repeated)}
        return f"{counted(len(self.repeated), 'run')}: {'; '.join(reversed(whys.values()))}."


PERCENTILES = ("p50", "p90", "p95", "p99", "p999")


@dataclass(frozen=True, slots=True)
class Latency:
    """Latency of completed transactions; the unit of every Estimate is ms."""

    mean: Estimate
    percentiles: dict[str, Estimate]
    max_ms: float


@dataclass(frozen=True, slots=True)
class StatementFindings:
    """One statement of a script: `share` is its part of the script's mean latency, 0..1."""

    line: int
    text: str
    calls: int
    mean_ms: float
    p50_ms: float
    p99_ms: float
    share_ratio: float


@dataclass(frozen=True, slots=True)
class ScriptFindings:
    """One script of a run, or one transaction type of a program.

    Transactions rolled back on purpose are included. `counted`: counters that only this type has,
    such as order lines. `is_background`: no client waits for it, so it is in no total.
    """

    name: str
    weight: int
    transactions: int
    failures: dict[str, int]
    tps: Estimate
    latency: Latency
    statements: tuple[StatementFindings, ...]
    program: str = ""
    rolled_back_count: int = 0
    retry_count: int = 0
    counted: Mapping[str, int] = field(default_factory=dict)
    is_background: bool = False
