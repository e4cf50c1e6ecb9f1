//! The summary of a run, which is its last record, and the parts of the summary.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::record::{Counts, Ending, PhaseName, TimeDistribution};

/// The whole run; always the last record. Counts and distributions describe the measured phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    pub time_ns: u64,
    pub ending: Ending,
    pub phases: Vec<PhaseSpan>,
    pub counts: Counts,
    pub transactions_committed_all_phases: u64,
    pub scripts: Vec<ScriptCounts>,
    /// Failed transactions by SQLSTATE. `connection_lost`: the connection was lost and the server
    /// gave no reason. `XX` and a word: the script had a fault.
    pub failures: BTreeMap<String, u64>,
    /// For each key of `failures`, the server's message when it first occurred, in any phase.
    #[serde(default)]
    pub failure_messages: BTreeMap<String, String>,
    /// Where tries failed, with the first message of each kind of failure.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed_statements: Vec<FailedStatement>,
    pub distributions: Vec<TimeDistribution>,
    /// Age of each transaction of the measured phase that had not ended when the drain ended. At
    /// most 10,000 of them.
    pub unfinished_ages_ns: Vec<u64>,
    /// Commits that were sent and never answered, in all phases. They may have happened or not.
    #[serde(default)]
    pub commits_in_doubt: u64,
    /// The longest time of the measured phase without a completed transaction. Absent if it is
    /// shorter than a count interval, which is the resolution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_gap: Option<Gap>,
    pub clients: ClientTimes,
    pub connections: ConnectionFacts,
    pub traffic: TrafficFacts,
    pub engine: EngineUsage,
    /// For a job that loads a dataset: its steps.
    pub init: Option<InitFacts>,
}

/// One kind of failure: a statement and a code.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FailedStatement {
    /// Place in `Summary::scripts`.
    pub script: u32,
    /// Line of the command; in a native program, the number of the statement, from 1. Absent if
    /// it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// SQLSTATE, or a key of `Summary::failures`.
    pub code: String,
    /// The server's message when it first occurred, in any phase.
    pub message: String,
    /// Failed tries of the measured phase.
    pub count: u64,
}

/// What the clients did between and within their transactions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClientTimes {
    /// Time between two transactions, summed over all clients: from the last reply of one
    /// transaction to the begin of the next. In this time the engine worked, for this client or for
    /// others, or waited for a core. Absent in an open loop, where clients wait for the schedule;
    /// and if each transaction opens a connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub between_transactions_ns: Option<u64>,
    /// Time in `\sleep`, summed over all transactions.
    #[serde(default)]
    pub sleep_ns: u64,
    /// Time in `\shell` and `\setshell`, summed over all transactions.
    #[serde(default)]
    pub shell_ns: u64,
    /// Keying and think time within the measured phase, summed over all terminals; absent if
    /// terminals do not pause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub think_time_ns: Option<u64>,
    /// Absent if no transaction was completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fairness: Option<Fairness>,
}

/// What happened to the connections, in all phases.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConnectionFacts {
    pub lost_count: u64,
    pub reconnect_count: u64,
    /// Absent if the job has no idle connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<IdleFacts>,
    /// What each host served, in the order of the job; empty if the job has one host.
    #[serde(default)]
    pub hosts: Vec<HostFacts>,
}

/// What one of several hosts served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostFacts {
    pub host: String,
    pub port: u16,
    /// Sessions that were opened there, in all phases.
    pub opened_count: u64,
    /// Transactions that clients completed there in the measured phase.
    pub completed_count: u64,
}

/// What went over the network.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrafficFacts {
    /// Number of waits for replies: one for each flush of a statement or pipeline.
    pub round_trips: u64,
    /// The part of a `round_trip` in which engine and backend were on a core or waited for one;
    /// mean. Absent if the kernel does not report both, for example if they are on two hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip_runnable_ns: Option<u64>,
    /// The same, measured during the load. Absent if the job has no probe, or if the probe could
    /// not connect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip_probes: Option<RoundTripProbes>,
    pub bytes_sent: u64,
    pub bytes_received: u64,
}

/// What the engine used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EngineUsage {
    /// CPU time of the engine's process in the measured phase.
    pub cpu_user_ns: u64,
    pub cpu_system_ns: u64,
    pub resident_bytes_max: u64,
    pub threads: Vec<ThreadFacts>,
}

/// Round trips without work for the server, at random instants of the measured phase, on a separate
/// connection. Times are means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RoundTripProbes {
    pub count: u64,
    pub round_trip_ns: u64,
    /// The part in which the measuring thread was on a core or waited for one.
    pub engine_runnable_ns: u64,
    /// The part in which the backend was on a core or waited for one. Absent if the kernel does not
    /// report it, for example if the backend is on another host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend_runnable_ns: Option<u64>,
    /// Standard error of the remaining part, the way there and back.
    pub error_ns: u64,
}

/// How evenly the clients were served, by the number of transactions that each of them completed in
/// the measured phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fairness {
    pub clients: u64,
    pub completed_count_min: u64,
    pub completed_count_max: u64,
    /// Gini coefficient: 0 = all clients equal, near 1 = one client did everything.
    pub gini_ratio: f64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PhaseSpan {
    pub phase: PhaseName,
    pub began_ns: u64,
    pub ended_ns: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScriptCounts {
    pub counts: Counts,
    pub failures: BTreeMap<String, u64>,
    /// The counters of a native program, such as lines of orders. Completed transactions count,
    /// also those that were rolled back on purpose.
    #[serde(default)]
    pub counted: BTreeMap<String, u64>,
    /// The transactions that kept the server busy: completed and failed, with background ones.
    #[serde(default)]
    pub served: Served,
}

/// Transactions of a script that ended within the measured phase, whichever phase they belong to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Served {
    pub ended_count: u64,
    /// Sum of the times from begin to end of each transaction, without the wait for a connection.
    pub held_ns: u64,
    pub round_trips: u64,
}

/// A time without a completed transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Gap {
    pub began_ns: u64,
    pub ended_ns: u64,
}

/// Connections in addition to those of the clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IdleFacts {
    pub opened_count: u64,
    /// Those that answered a Sync after the load.
    pub alive_count: u64,
}

/// Whether a thread of the engine was the bottleneck.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ThreadFacts {
    pub clients: u32,
    /// As in `hello`; `epoll` if this thread could not get a ring.
    #[serde(default)]
    pub poller: String,
    /// CPU time of the thread, divided by the length of the measured phase.
    pub busy_ratio: f64,
    /// Time that the thread waited for a core, divided by the length of the measured phase.
    pub starved_ratio: f64,
    /// How late timers fired while a client was free: median, then 99th percentile and maximum.
    pub timer_lag_ns_p50: u64,
    pub timer_lag_ns_p99: u64,
    pub timer_lag_ns_max: u64,
    /// How long a reply waited for the thread, in its socket and after it was read; mean. One turn
    /// in 61 is measured, or more if turns are long. Null if the kernel has no schedstat, or no
    /// reply was in a measured turn.
    pub reply_wait_ns_mean: Option<u64>,
    /// When the thread began the load; absent if it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began_ns: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InitFacts {
    pub rows: u64,
    pub bytes_sent: u64,
    pub steps: Vec<PhaseSpan>,
}
