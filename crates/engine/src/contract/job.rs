//! The job: all instructions to the engine, in one JSON line on standard input.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use super::init::*;
pub use super::tls::{CertificateMode, ChannelBinding, SslMode, TlsSettings, TlsVersion};

/// One job for the engine. Secrets are only here, never in argv or on disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// Must be `pgdyno.contract/1`.
    pub format: String,
    pub clock: ClockPair,
    pub target: Target,
    pub work: Work,
}

/// One instant on both clocks. Every `time_ns` in the records is Unix time, converted with this
/// pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClockPair {
    /// CLOCK_MONOTONIC, nanoseconds.
    pub monotonic_ns: u64,
    /// CLOCK_REALTIME, nanoseconds since 1970.
    pub unix_ns: u64,
}

/// Where to connect, and as which user. The lab has read service files, PG* variables and .pgpass.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// Tried in this order. A name that begins with `/` is the directory of a Unix socket; a name
    /// that begins with `@` is the name of an abstract socket.
    pub hosts: Vec<HostPort>,
    pub user: String,
    pub database: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
    pub application_name: String,
    #[serde(default)]
    pub sslmode: SslMode,
    #[serde(default)]
    pub tls: TlsSettings,
    /// Start-up parameters sent to the server, such as `search_path`.
    #[serde(default)]
    pub options: BTreeMap<String, String>,
    #[serde(default)]
    pub reach: Reach,
    /// A command for `sh` that prints the password. It runs again if a connection needs the
    /// password and the last one is old or was refused. The command is a secret, as the password
    /// is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_command: Option<String>,
}

/// libpq's parameters for choosing one of several hosts, and for giving up a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reach {
    #[serde(default)]
    pub target_session_attrs: SessionAttrs,
    /// Each connection begins at a random host (load_balance_hosts=random of libpq).
    #[serde(default)]
    pub load_balance: bool,
    /// The n-th connection begins at the n-th host, and again at the first after the last one. All
    /// hosts then serve the load; without this they are alternatives.
    #[serde(default)]
    pub in_turns: bool,
    /// Longest time for one address, until its session is open. Absent = 10 s if there is another
    /// address or the load is running; if not, as long as the connect phase lasts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ns: Option<u64>,
    #[serde(default)]
    pub keepalive: Keepalive,
}

/// libpq's TCP parameters, which detect a dead peer. An absent one has the value of the system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Keepalive {
    /// Send no keepalive probes.
    #[serde(default)]
    pub off: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_s: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_s: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// Longest time that sent data may stay without an acknowledgement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_timeout_ms: Option<u32>,
}

/// libpq's target_session_attrs: the kind of server whose session is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SessionAttrs {
    #[default]
    Any,
    /// Transactions may write.
    ReadWrite,
    ReadOnly,
    /// Not in recovery.
    Primary,
    Standby,
    /// A standby if one of the hosts is a standby, else any.
    PreferStandby,
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostPort {
    /// A name, an address, or a Unix socket (`/directory`, `@abstract`). The server's certificate
    /// must be for this name.
    pub host: String,
    /// Connect to this address instead of looking up `host`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostaddr: Option<String>,
    pub port: u16,
    /// Password for this host only, as a password file may have; absent = the target's password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
}

impl HostPort {
    /// A host whose address is looked up, without a separate password.
    pub fn new(host: impl Into<String>, port: u16) -> HostPort {
        HostPort { host: host.into(), hostaddr: None, port, password: None }
    }

    /// True for a Unix socket, in a directory or abstract.
    pub fn is_socket(&self) -> bool {
        self.hostaddr.is_none() && self.host.starts_with(['/', '@'])
    }
}

/// The work of the job: generate load, or load a dataset.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Work {
    Load(LoadWork),
    Init(InitWork),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LoadWork {
    /// 1..=1024. Clients are assigned to threads round robin; threads without a client do not
    /// start.
    pub threads: u16,
    /// Every random stream of the run derives from (seed, thread, client).
    pub seed: u64,
    pub protocol: Protocol,
    /// At least one with a weight above 0.
    pub scripts: Vec<ScriptSource>,
    /// Script variables set before the first transaction, as `-D name=value`.
    #[serde(default)]
    pub variables: BTreeMap<String, String>,
    pub arrivals: Arrivals,
    pub connect: Connect,
    /// Length of the warm-up, before the measured phase; may be 0.
    pub warm_ns: u64,
    pub measure: Measure,
    /// Longest wait for running transactions after the measured phase.
    pub drain_ns: u64,
    /// Most tries of a transaction that fails with 40001 or 40P01; 1 = no retry.
    pub max_tries: u16,
    /// Set `default_transaction_read_only` in every session.
    #[serde(default)]
    pub read_only: bool,
    /// Length of one `interval` record.
    pub count_interval_ns: u64,
    /// Length of one set of `histogram` records; a multiple of `count_interval_ns`.
    pub histogram_interval_ns: u64,
    /// Measure the latency of each statement, which costs one reading of the clock per statement.
    #[serde(default = "yes")]
    pub statement_latency: bool,
    /// 0..=1: factor for the keying and think times of native programs, in a closed loop; 0 = no
    /// pauses.
    #[serde(default)]
    pub think_ratio: f64,
    /// Run `\shell` and `\setshell`. If false, a script with these commands is refused.
    #[serde(default)]
    pub allow_shell: bool,
    /// Path of a new file in which the load records every commit; see `commit_journal`. It needs a
    /// program that records its commits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal: Option<String>,
    /// Measure round trips during the load, on an additional connection with this application_name;
    /// absent = no such connection. If it cannot be opened, the run continues without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe_application_name: Option<String>,
    /// Absent = this engine makes the whole load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<Part>,
}

impl LoadWork {
    pub fn client_count(&self) -> u32 {
        match &self.arrivals {
            Arrivals::Closed(closed) => closed.clients,
            Arrivals::Open(open) => open.clients,
        }
    }

    /// Number of connections for transactions without those of background terminals.
    pub fn asked_connection_count(&self) -> u32 {
        self.client_count().min(self.connect.active_connections.unwrap_or(u32::MAX))
    }

    /// The threads that this engine runs. Their numbers are those of the whole load.
    pub fn own_threads(&self) -> std::ops::Range<u32> {
        let all = self.thread_count();
        self.part.map_or(0..all, |part| {
            let first = u32::from(part.first_thread).min(all);
            first..(first + u32::from(part.threads)).min(all)
        })
    }

    /// Number of threads of the whole load: each has at least one of those connections.
    pub fn thread_count(&self) -> u32 {
        u32::from(self.threads).min(self.asked_connection_count())
    }
}

/// The threads of the load that this engine runs, if several engines share the load. Everything
/// else in the job describes the whole load, and each thread does exactly what it would do if one
/// engine ran all threads. When the engine is prepared, it writes a `ready` record. Then it waits
/// for the line `start INSTANT` on its standard input: CLOCK_MONOTONIC of its host, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// `first_thread + threads` is at most `threads` of the job.
    pub first_thread: u16,
    /// At least 1.
    pub threads: u16,
}

fn yes() -> bool {
    true
}

/// The query protocol, in pgbench's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    Simple,
    Extended,
    Prepared,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScriptSource {
    /// Shown in results: the name of the built-in or of the file.
    pub name: String,
    /// 0 = never chosen.
    pub weight: u32,
    pub source: ScriptText,
    /// Options of a native program, with the names and values that `facts` lists.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
    /// The load of a program whose transaction types come with the job. The program has the types
    /// of this part; the schema does not repeat them.
    #[serde(default, rename = "mirror", skip_serializing_if = "Option::is_none")]
    pub templates: Option<Templates>,
}

/// Templates of transactions, as the program that executes them reads them.
pub type Templates = serde_json::Map<String, serde_json::Value>;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScriptText {
    Builtin(String),
    Text(String),
}

/// When transactions start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "loop", rename_all = "snake_case")]
pub enum Arrivals {
    /// Each client starts its next transaction when the last one has ended.
    Closed(ClosedLoop),
    /// The clock schedules transactions, whether or not a client is free.
    Open(OpenLoop),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClosedLoop {
    pub clients: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OpenLoop {
    pub clients: u32,
    pub process: ArrivalProcess,
    /// Offered rate in warm-up and measured phase, step after step. The last rate lasts to the end.
    pub steps: Vec<RateStep>,
    /// A transaction is skipped if it could not start within this time after its schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_limit_ns: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ArrivalProcess {
    Uniform,
    Poisson,
}

/// A linear change of the rate. Equal rates make a plateau; a duration of 0 makes a jump.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RateStep {
    pub duration_ns: u64,
    pub from_tps: f64,
    pub to_tps: f64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Connect {
    /// The connect phase fails if no further connection opens for this time. `Reach::timeout_ns`
    /// limits a single connection; the time of all together has no limit.
    pub timeout_ns: u64,
    /// New connections per second, of all threads together; absent = as fast as the server answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_per_second: Option<f64>,
    /// Number of idle connections, opened after the clients' connections and checked at the end.
    #[serde(default)]
    pub idle_connections: u32,
    /// Number of connections that the clients share, for one transaction at a time; absent = one
    /// for each client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_connections: Option<u32>,
    /// Number of terminals for the work that transactions put off, of all threads together. If
    /// transactions put off work, each thread needs at least one. Each has its own connection if
    /// `active_connections` is absent; otherwise it shares those of the clients.
    #[serde(default)]
    pub background_terminals: u32,
    /// Open a new connection for every transaction.
    #[serde(default)]
    pub each_transaction: bool,
    /// Longest time without any connection, after all were lost; absent = 5 s, or 60 s with several
    /// hosts, or no limit with `outlasts_crashes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patience_ns: Option<u64>,
    /// The load goes on while the server crashes, is away and recovers. Failures do not end it: a
    /// client pauses after a failed transaction, and connects again until it can work. Only wrong
    /// statements at the begin of the load, and `patience_ns`, end it.
    #[serde(default)]
    pub outlasts_crashes: bool,
}

/// How long the measured phase lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    DurationNs(u64),
    TransactionsPerClient(u64),
}

impl std::fmt::Debug for HostPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The password never reaches a log.
        f.debug_struct("HostPort")
            .field("host", &self.host)
            .field("hostaddr", &self.hostaddr)
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The password never reaches a log.
        f.debug_struct("Target")
            .field("hosts", &self.hosts)
            .field("user", &self.user)
            .field("database", &self.database)
            .field("sslmode", &self.sslmode)
            .finish_non_exhaustive()
    }
}
