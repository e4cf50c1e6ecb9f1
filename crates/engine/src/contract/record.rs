//! The records: one JSON object a line on standard output, `summary` always last.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use super::summary::{
    Fairness, Gap, IdleFacts, InitFacts, PhaseSpan, RoundTripProbes, ScriptCounts, Served, Summary,
    ThreadFacts,
};

/// One line of the engine's output. `time_ns` is Unix time through the job's clock pair.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum Record {
    Hello(Hello),
    Phase(Phase),
    Interval(Interval),
    Histogram(Histogram),
    Progress(Progress),
    Connecting(Connecting),
    Pieces(Pieces),
    Warning(Notice),
    Error(Failure),
    Summary(Box<Summary>),
}

/// First line: who answers, and what the job was understood to be.
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

/// A script as parsed, or a transaction type of a native program: what the indexes in other records
/// refer to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScriptShape {
    pub name: String,
    /// Name of the entry of the job's `scripts` that it belongs to: a script has its own name here,
    /// the types of a native program share one.
    #[serde(default)]
    pub program: String,
    /// Of a type of a native program: its weight within the program.
    pub weight: u32,
    /// True when no statement of it can write.
    pub reads_only: bool,
    /// Work that transactions put off and other terminals do: it is in no total over all scripts.
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

/// A phase ended.
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

/// What happened in the `interval_ns` before `time_ns`, over all threads.
///
/// Counts are of the events of that time, whichever phase their transactions belong to: in an open
/// loop, transactions of the measured phase also end in the drain.
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
    /// At the end of the interval: transactions started and not ended.
    pub in_flight: u64,
    /// At the end of the interval, open loop: transactions due and not started.
    pub backlog: u64,
    /// Of the clients, without the idle ones.
    pub connections: u64,
    /// At the end of the interval: terminals in their keying or thinking time.
    #[serde(default)]
    pub thinking: u64,
    /// CPU of the engine's process, user and system.
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
    /// Of the unfinished: the commit was sent, and the connection lost before it was answered.
    #[serde(default)]
    pub in_doubt: u64,
    /// Of the completed: rolled back on purpose, by a program that must do so now and then.
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
    /// One statement, from sending it to its last reply byte.
    Statement,
    /// One try of a transaction that was tried more than once.
    Attempt,
    /// From socket to ReadyForQuery, authentication included.
    Connect,
    /// A Sync message and its ReadyForQuery on an idle connection, before the load.
    RoundTrip,
    /// From started to the connection, where clients share connections; a part of `service`.
    ConnectionWait,
}

/// A distribution over the `interval_ns` before `time_ns`; buckets by the formula of `bucket.rs`.
///
/// `phase` is the one the transactions belong to, so those of the measured phase add up to the
/// summary's, bucket by bucket.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Histogram {
    pub time_ns: u64,
    pub interval_ns: u64,
    pub phase: PhaseName,
    #[serde(flatten)]
    pub distribution: Distribution,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Distribution {
    pub measured: Measured,
    /// Index into `hello.scripts`; absent = over all scripts, which is all there is of one script.
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

/// Loading a dataset: how far a phase has come that has no rows, such as the creation of many
/// partitions. Once a second, where it changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pieces {
    pub time_ns: u64,
    pub phase: PhaseName,
    pub done_count: u64,
    pub total_count: u64,
}

/// The connect phase: connections made so far, of the clients and idle ones. Once a second.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Connecting {
    pub time_ns: u64,
    pub made_count: u64,
    pub wanted_count: u64,
}

/// Something the reader must know that did not stop the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Notice {
    pub time_ns: u64,
    /// Matchable, snake case.
    pub kind: String,
    pub message: String,
    pub hint: String,
}

/// Why the run ended early, or was not begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Failure {
    pub time_ns: u64,
    pub kind: ErrorKind,
    pub message: String,
    pub hint: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sqlstate: Option<String>,
    /// Name of the script, and place in it, 1-based.
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
    /// The job is not one, or asks the impossible.
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
    /// The server broke the protocol.
    Protocol,
    /// Loading a dataset failed.
    Init,
    /// The operating system refused something.
    System,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The job was done.
    Completed,
    /// Told to stop: signal, `stop`, or end of input.
    Stopped,
    /// An error ended it; the error record says which.
    Aborted,
}
