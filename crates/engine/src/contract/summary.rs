//! The summary of a run and its parts.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::record::{Counts, Distribution, Ending, PhaseName};

/// The whole run; always the last record. Counts and distributions are of the measured phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    pub time_ns: u64,
    pub ending: Ending,
    pub phases: Vec<PhaseSpan>,
    pub counts: Counts,
    pub transactions_committed_all_phases: u64,
    pub scripts: Vec<ScriptCounts>,
    /// Failed transactions by SQLSTATE: `connection_lost` when the connection was lost and the
    /// server gave no reason, `XX` + word when the script was at fault.
    pub failures: BTreeMap<String, u64>,
    /// What the server said when a transaction first failed in each way, in any phase.
    #[serde(default)]
    pub failure_messages: BTreeMap<String, String>,
    pub distributions: Vec<Distribution>,
    /// Age of each transaction of the measured phase that had not ended when the drain ended, at
    /// most 10,000.
    pub unfinished_ages_ns: Vec<u64>,
    /// How long clients were between two transactions, all of them together: from the end of one,
    /// when its last reply was read, to the begin of the next. The engine was at work then, for
    /// them or for others, or waited for a core. Absent in an open loop, where clients wait for
    /// what is due, and where each transaction makes a connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub between_transactions_ns: Option<u64>,
    /// How long transactions slept in `\sleep`, all of them together.
    #[serde(default)]
    pub sleep_ns: u64,
    /// How long transactions waited for commands of `\shell` and `\setshell`, all of them together.
    #[serde(default)]
    pub shell_ns: u64,
    /// Keying and thinking time of all terminals together, as far as it lay in the measured phase;
    /// absent where terminals do not think.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub think_time_ns: Option<u64>,
    pub connections_lost: u64,
    pub reconnects: u64,
    /// Commits sent and never answered, in all phases: they may or may not have happened.
    #[serde(default)]
    pub commits_in_doubt: u64,
    /// The longest time of the measured phase without a completed transaction; absent when it is
    /// shorter than a count interval, which is as fine as it is looked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_gap: Option<Gap>,
    /// Absent when none was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<IdleFacts>,
    /// Messages waited for: one for each flush of a statement or pipeline.
    pub round_trips: u64,
    /// Of an exchange without work on an idle connection (`round_trip`), how long engine and
    /// backend were on a core or waited for one, mean; absent where the kernel does not tell of
    /// both, as on two hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip_runnable_ns: Option<u64>,
    /// The same while the load ran; absent where the job asks for no probe, or it did not get
    /// through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip_probes: Option<RoundTripProbes>,
    pub bytes_sent: u64,
    pub bytes_received: u64,
    /// CPU of the whole process during the measured phase.
    pub cpu_user_ns: u64,
    pub cpu_system_ns: u64,
    pub resident_bytes_max: u64,
    pub threads: Vec<ThreadFacts>,
    /// Absent when nothing was completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fairness: Option<Fairness>,
    /// Measured loading steps, for a dataset job.
    pub init: Option<InitFacts>,
}

/// Exchanges without work at random instants of the measured phase, on a connection that no client
/// uses: means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RoundTripProbes {
    pub count: u64,
    pub round_trip_ns: u64,
    /// Of it, how long the measuring thread was on a core or waited for one.
    pub engine_runnable_ns: u64,
    /// The same of the backend; absent where the kernel does not tell, as on another host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend_runnable_ns: Option<u64>,
    /// Standard error of the rest, the way there and back.
    pub error_ns: u64,
}

/// How evenly the clients were served: transactions each completed in the measured phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fairness {
    pub clients: u64,
    pub completed_count_min: u64,
    pub completed_count_max: u64,
    /// 0 = all alike, towards 1 = one client got everything.
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
    /// What the program counted in its completed transactions, those rolled back on purpose
    /// included: lines of orders, for example.
    #[serde(default)]
    pub counted: BTreeMap<String, u64>,
    /// What the server was kept busy with: completed and failed transactions, background ones too.
    #[serde(default)]
    pub served: Served,
}

/// Transactions of a script that ended within the measured phase, whichever phase they belong to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Served {
    pub ended_count: u64,
    /// From the begin of each transaction to its end, without waiting for a connection: together.
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
    /// Answered a Sync after the load.
    pub alive_count: u64,
}

/// Whether a thread of the engine was the bottleneck.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ThreadFacts {
    pub clients: u32,
    /// As in `hello`; epoll if this thread got no ring.
    #[serde(default)]
    pub poller: String,
    /// CPU time of the thread over the length of the measured phase.
    pub busy_ratio: f64,
    /// Time runnable and waiting for a core over the length of the measured phase.
    pub starved_ratio: f64,
    /// How late timers fired while a client was free.
    pub timer_lag_ns_p50: u64,
    pub timer_lag_ns_p99: u64,
    pub timer_lag_ns_max: u64,
    /// How long a reply waited for the thread: in its socket, and read but not gone on with. Mean
    /// over one turn in 61, over more where turns take long; null where the kernel has no
    /// schedstat, or no reply was looked at.
    pub reply_wait_ns_mean: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InitFacts {
    pub rows: u64,
    pub bytes_sent: u64,
    pub steps: Vec<PhaseSpan>,
}
