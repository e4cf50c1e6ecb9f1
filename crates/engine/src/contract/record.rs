//! The records, in which the engine reports a run: one JSON object per line on standard output.
//!
//! `hello` comes first, `summary` always last. Times are nanoseconds. Indexes of scripts refer to
//! `hello.scripts`. The job's clock pair is one moment on the monotonic and on the Unix clock, so
//! that the records of several hosts fit together. Python reads the records in `engine/records.py`.
//! `contract.schema.json` has these types with their comments; a test compares both.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use super::summary::{
    ClientTimes, ConnectionFacts, EngineUsage, FailedStatement, Fairness, Gap, HostFacts,
    IdleFacts, InitFacts, PhaseSpan, RoundTripProbes, ScriptCounts, Served, Summary, ThreadFacts,
    TrafficFacts,
};

/// One line of the engine's output. `time_ns` is Unix time, converted with the job's clock pair.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum Record {
    Hello(Hello),
    Phase(Phase),
    Interval(Interval),
    Histogram(Histogram),
    Progress(Progress),
    Connecting(Connecting),
    Ready(Ready),
    Pieces(Pieces),
    Warning(Notice),
    Error(Failure),
    Summary(Box<Summary>),
}

/// First record: the engine, and the scripts of the job as the engine read them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Hello {
    pub time_ns: u64,
    pub format: String,
    pub engine_version: String,
    /// `release` or `debug`.
    pub build_profile: String,
    pub commit: String,
    pub pid: u32,
    /// `epoll` or `io_uring`.
    pub poller: String,
    pub scripts: Vec<ScriptShape>,
}

/// A parsed script, or a transaction type of a native program. The indexes in other records refer
/// to these.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScriptShape {
    pub name: String,
    /// Name of its entry in the job's `scripts`. For a script this is its own name; all types of a
    /// native program have the same.
    #[serde(default)]
    pub program: String,
    /// For a type of a native program: its weight within the program.
    pub weight: u32,
    /// None of its statements can write.
    pub reads_only: bool,
    /// Deferred work, which background terminals do. It is in no total over all scripts.
    #[serde(default)]
    pub is_background: bool,
    pub statements: Vec<StatementShape>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StatementShape {
    pub line: u32,
    /// As written in the script, without the values of its variables.
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PhaseName {
    Connect,
    Prepare,
    Warm,
    Measure,
    Drain,
    /// Steps of loading a dataset.
    Create,
    Load,
    Vacuum,
    Index,
    ForeignKeys,
}

/// A phase began or ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Phase {
    pub time_ns: u64,
    pub phase: PhaseName,
    pub event: PhaseEvent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PhaseEvent {
    Begin,
    End,
}

/// The events of all threads in the `interval_ns` before `time_ns`.
///
/// An event counts in the interval in which it happened, whichever phase its transaction belongs
/// to. In an open loop, transactions of the measured phase may end in the drain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    pub time_ns: u64,
    pub interval_ns: u64,
    pub phase: PhaseName,
    pub counts: Counts,
    /// Completed transactions of each script.
    pub completed_by_script: Vec<u64>,
    /// Sum of the latencies of the completed transactions.
    pub latency_sum_ns: u64,
    /// At the end of the interval: transactions that have started and not ended.
    pub in_flight: u64,
    /// At the end of the interval, open loop: transactions that are due and have not started.
    pub backlog: u64,
    /// Open connections, without the idle ones.
    pub connections: u64,
    /// At the end of the interval: terminals in their keying or think time.
    #[serde(default)]
    pub thinking: u64,
    /// CPU time of the engine's process, user and system.
    pub cpu_ns: u64,
}

/// scheduled = started + skipped + not_started; started = completed + failed + unfinished.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counts {
    pub scheduled: u64,
    pub started: u64,
    pub completed: u64,
    pub failed: u64,
    pub skipped: u64,
    pub not_started: u64,
    pub unfinished: u64,
    /// Of the completed: above the latency limit.
    pub late: u64,
    /// Of the completed: needed more than one try.
    pub retried: u64,
    /// Tries beyond the first, of all transactions.
    pub retries: u64,
    /// Of the unfinished: the commit was sent, and the connection was lost before the answer came.
    #[serde(default)]
    pub in_doubt: u64,
    /// Of the completed: rolled back on purpose, as a program's specification demands.
    #[serde(default)]
    pub rolled_back: u64,
}

/// Which duration a histogram holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Measured {
    /// ended - scheduled (open loop) or ended - started (closed loop), completed transactions.
    Latency,
    /// ended - started, completed transactions, all tries.
    Service,
    /// started - scheduled (open loop).
    Lag,
    /// One statement, from sending it to the last byte of its reply.
    Statement,
    /// One try of a transaction that was tried more than once.
    Attempt,
    /// Opening a connection, from socket to ReadyForQuery, with authentication.
    Connect,
    /// A Sync message and its ReadyForQuery on an idle connection, before the load.
    RoundTrip,
    /// If clients share connections: the wait for one, after `started`. It is a part of `service`.
    ConnectionWait,
}

/// A distribution of the `interval_ns` before `time_ns`. `bucket.rs` has the formula of the
/// buckets.
///
/// `phase` is the phase to which the transactions belong. So the distributions of the measured
/// phase add up to those of the summary, bucket by bucket.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Histogram {
    pub time_ns: u64,
    pub interval_ns: u64,
    pub phase: PhaseName,
    #[serde(flatten)]
    pub distribution: TimeDistribution,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TimeDistribution {
    pub measured: Measured,
    /// Index into `hello.scripts`; absent = all scripts together, and if there is only one script.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<u32>,
    /// Index into the script's statements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statement: Option<u32>,
    pub count: u64,
    pub sum_ns: u64,
    pub min_ns: u64,
    pub max_ns: u64,
    /// `[bucket, count]`, ascending, counts above 0.
    pub buckets: Vec<(u32, u64)>,
}

/// Loading a dataset: rows sent so far.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Progress {
    pub time_ns: u64,
    pub table: String,
    pub rows_done: u64,
    pub rows_total: u64,
}

/// Loading a dataset: progress of a phase without rows, such as the creation of many partitions.
/// Written once per second, if it changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pieces {
    pub time_ns: u64,
    pub phase: PhaseName,
    pub done_count: u64,
    pub total_count: u64,
}

/// The connect phase: connections made so far, with the idle ones. Written once per second.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Connecting {
    pub time_ns: u64,
    pub made_count: u64,
    pub wanted_count: u64,
}

/// The engine is one of several that make a load. It is prepared, and waits for the line `start`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ready {
    pub time_ns: u64,
}

/// A problem that did not stop the run, but that the reader must know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Notice {
    pub time_ns: u64,
    pub kind: WarningKind,
    pub message: String,
    pub hint: String,
}

/// The kinds of `warning` records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WarningKind {
    /// A script has a construct that is allowed and probably not meant.
    ScriptNotice,
    /// The server refused a statement before the load.
    StatementRefused,
    /// Commits were sent and never answered.
    CommitInDoubt,
    /// Stored procedures of another version were replaced.
    ProceduresReplaced,
    /// The load of a dataset waits for another load.
    Waiting,
    /// An interrupted load of a dataset continues.
    Resumed,
    /// The load of a dataset has fewer sessions than the job asks for.
    FewerSessions,
    /// A dataset is loaded on a kind of server that was never tested.
    UntestedServer,
    /// The load of a dataset did not finish: its rows were kept, removed, or could not be removed.
    DatasetUnfinished,
    DatasetRemoved,
    DatasetLeft,
}

/// Why the run ended early or did not begin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Failure {
    pub time_ns: u64,
    pub kind: ErrorKind,
    pub message: String,
    pub hint: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sqlstate: Option<String>,
    /// Name of the script. `line` and `column` count from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The job cannot be read, or breaks a rule.
    Job,
    /// A script does not parse.
    Script,
    /// A script variable or expression failed while running.
    Evaluation,
    /// No connection could be made.
    Connect,
    /// The server refused the user.
    Authentication,
    /// The server has no room for more connections.
    TooManyConnections,
    /// A statement was refused before the load began (SQLSTATE classes 28, 3D, 42).
    Prepare,
    /// The first 100 transactions failed in the same way, or more than half of them for 5 seconds.
    TooManyFailures,
    /// Every connection was lost and none could be made again.
    ConnectionLost,
    /// The load is read-only, and the next transaction of a session could write.
    ReadOnlyLost,
    /// The server broke the protocol.
    Protocol,
    /// Loading a dataset failed.
    Init,
    /// The operating system refused something.
    System,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The job was done.
    #[default]
    Completed,
    /// A signal, `stop` or the end of the input stopped it.
    Stopped,
    /// An error ended it; there is an error record.
    Aborted,
}
