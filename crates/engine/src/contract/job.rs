//! The job: all instructions to the engine, in one JSON line on standard input.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use super::init::{
    DatasetOptions, Distribute, DistributedServer, DistributionColumn, InitWork, PartitionMethod,
    PgbenchOptions, TpccOptions,
};
pub use super::tls::{CertificateMode, ChannelBinding, SslMode, TlsSettings, TlsVersion};

/// One order to the engine. Secrets travel here only, never in argv or on disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// Must be `pgdyno.contract/1`.
    pub format: String,
    pub clock: ClockPair,
    pub target: Target,
    pub work: Work,
}

/// One instant on both clocks; every `time_ns` in the records is Unix time through this pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClockPair {
    /// CLOCK_MONOTONIC, nanoseconds.
    pub monotonic_ns: u64,
    /// CLOCK_REALTIME, nanoseconds since 1970.
    pub unix_ns: u64,
}

/// Where and as whom to connect. The lab has resolved service files, PG* variables and .pgpass.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// Tried in this order; a name beginning with `/` is a socket directory, one with `@` the name
    /// of an abstract one.
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
    /// Prints the password, run through `sh`: again when a connection needs it and what it printed
    /// is old, or was refused. A secret, as the password is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_command: Option<String>,
}

/// Which of several hosts is the right one, and how long one may take: libpq's parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reach {
    #[serde(default)]
    pub target_session_attrs: SessionAttrs,
    /// Every connection begins at a host of its own choice, not at the first.
    #[serde(default)]
    pub load_balance: bool,
    /// For one address, until its session is open; absent = 10 s where there is another address to
    /// go to, or a load that waits for the connection, else as long as the connect phase lasts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ns: Option<u64>,
    #[serde(default)]
    pub keepalive: Keepalive,
}

/// How a peer that is silent is found to be dead: libpq's parameters of TCP; what is absent is the
/// system's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Keepalive {
    /// No probes are sent.
    #[serde(default)]
    pub off: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_s: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_s: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// What was sent may stay without an acknowledgement for so long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_timeout_ms: Option<u32>,
}

/// libpq's target_session_attrs: what a server must be for its session to be used.
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
    /// A standby if one of the hosts is, else any.
    PreferStandby,
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostPort {
    /// A name, an address, a socket directory or an abstract one; certificates are held against it.
    pub host: String,
    /// Connect to this address instead of looking up `host`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostaddr: Option<String>,
    pub port: u16,
    /// Of this host alone, as a password file may have it; absent: that of the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
}

impl HostPort {
    /// A host whose address is looked up, without a separate password.
    pub fn new(host: impl Into<String>, port: u16) -> HostPort {
        HostPort { host: host.into(), hostaddr: None, port, password: None }
    }

    /// True for a Unix socket, in a directory or an abstract one.
    pub fn is_socket(&self) -> bool {
        self.hostaddr.is_none() && self.host.starts_with(['/', '@'])
    }
}

/// What to do: generate load, or load a dataset.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Work {
    Load(LoadWork),
    Init(InitWork),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LoadWork {
    /// 1..=1024; clients are dealt to threads round robin. More threads than clients are not used.
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
    /// Load before the measured phase; may be 0.
    pub warm_ns: u64,
    pub measure: Measure,
    /// How long transactions in flight may take after the measured phase.
    pub drain_ns: u64,
    /// Tries of a transaction that fails with 40001 or 40P01; 1 = no retry.
    pub max_tries: u16,
    /// Sets `default_transaction_read_only` in every session.
    #[serde(default)]
    pub read_only: bool,
    /// Length of one `interval` record.
    pub count_interval_ns: u64,
    /// Length of one set of `histogram` records; a multiple of `count_interval_ns`.
    pub histogram_interval_ns: u64,
    /// Latency per statement costs one clock reading a statement.
    #[serde(default = "yes")]
    pub statement_latency: bool,
    /// 0..=1: keying and thinking times of native programs, in a closed loop, are multiplied by
    /// this; 0 = none.
    #[serde(default)]
    pub think_ratio: f64,
    /// Run `\shell` and `\setshell`; without it such a script is refused.
    #[serde(default)]
    pub allow_shell: bool,
    /// One more connection, of this application_name, measures round trips while the load runs;
    /// absent: none is opened. Where it cannot be opened, the run goes on without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe_application_name: Option<String>,
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

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScriptSource {
    /// Shown in results: the name of the built-in or of the file.
    pub name: String,
    /// 0 = never chosen.
    pub weight: u32,
    pub source: ScriptText,
    /// Of a native program: how it runs, by the names and values that `facts` lists.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
}

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
    /// Every client starts its next transaction when the last one ended.
    Closed(ClosedLoop),
    /// Transactions are scheduled by the clock, whether or not a client is free.
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
    /// Offered rate over the warm and measured phases, one step after another; the last one lasts.
    pub steps: Vec<RateStep>,
    /// A transaction that could not start within this time after its schedule is skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_limit_ns: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ArrivalProcess {
    Uniform,
    Poisson,
}

/// Linear from one rate to the other; equal rates are a plateau, duration 0 a jump.
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
    /// The connect phase ends with an error when for so long no further connection was made. How
    /// long one connection may take is `Reach::timeout_ns`; the time of all is not limited.
    pub timeout_ns: u64,
    /// New connections a second over all threads; absent = as fast as the server answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_per_second: Option<f64>,
    /// Idle connections, opened after those of the clients and checked at the end.
    #[serde(default)]
    pub idle_connections: u32,
    /// Number of connections that the clients share, one transaction at a time; absent = one each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_connections: Option<u32>,
    /// A new connection for every transaction.
    #[serde(default)]
    pub each_transaction: bool,
    /// All connections may be lost for so long; absent = 5 s, with several hosts 60 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patience_ns: Option<u64>,
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
