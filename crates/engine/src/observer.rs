//! All differences between the drop-in for pgbench and the lab's load.
//!
//! The drop-in has an `Observer`, which sees each transaction when it ends and decides what follows
//! a failure. The lab's load has none: a failed transaction is counted, and the client continues.
//! In pgbench a failed transaction may end its client.

use std::fmt::Debug;
use std::sync::Mutex;

use pgdyno_wire::ServerError;

use crate::contract::job::HostPort;
use crate::outcome::Ended;
use crate::session::SessionError;

/// What follows a failed try of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Try again at once, with the same variables and random numbers.
    Retry,
    /// The transaction failed. The client continues with its next one.
    Fail,
    /// The client ends, and the transaction is not counted.
    Abort,
}

/// Why a try failed.
#[derive(Clone, Copy, Debug)]
pub enum Cause<'a> {
    Server(&'a ServerError),
    /// The connection was lost, with the server's last message if there is one.
    Lost(Option<&'a ServerError>),
    /// An expression, a variable or a value for it has a fault, which the text describes.
    Evaluation(&'a str),
    /// A meta command is where it must not be.
    Misplaced(Misplaced),
    /// A statement was COPY.
    Copy,
    /// `\gset` needs one row and got this number.
    RowCount(u64),
    /// A meta command failed in another way.
    MetaCommand,
    /// The script ended inside a transaction block.
    OpenBlock,
    OpenPipeline,
}

/// A meta command where it must not be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misplaced {
    SimplePipeline,
    PipelineInPipeline,
    NotInPipeline,
    /// `\aset` if `is_aset`, else `\gset`.
    GsetInPipeline {
        is_aset: bool,
    },
}

/// A try that failed.
#[derive(Clone, Copy, Debug)]
pub struct FailedTry<'a> {
    /// Number of the client within its thread.
    pub client: u32,
    pub script: usize,
    /// Index of the command in the script.
    pub command: usize,
    /// Index of the query within a command that has several.
    pub query: u32,
    /// The SQL that was sent; empty for a meta command.
    pub sql: &'a str,
    pub cause: Cause<'a>,
    pub tries: u32,
    pub scheduled_ns: u64,
    pub started_ns: u64,
    /// The measured phase has ended.
    pub is_draining: bool,
}

/// Sees the transactions of one thread.
pub trait Observer: Send + Debug {
    /// The load begins.
    fn began(&mut self, at_ns: u64);

    /// A command of a script has ended. Called only if each command is timed.
    fn command(&mut self, script: usize, command: usize, duration_ns: u64);

    /// A client begins a step. Called only if the mode traces.
    fn debug(&mut self, client: u32, what: &str);

    /// The server sent a notice or a warning.
    fn notice(&mut self, notice: &ServerError);

    /// A transaction has completed, or has failed and is not tried again.
    fn ended(&mut self, client: u32, script: usize, ended: &Ended);

    /// A transaction was skipped because it could not keep its latency limit. Its script is
    /// `script`.
    fn skipped(&mut self, client: u32, script: usize);

    /// Return the message and the hint for a client that cannot connect before the load begins. The
    /// run then ends.
    fn not_connected(&self, client: u32, why: &SessionError, host: &HostPort) -> (String, String);

    /// A client ends, because it could not connect for its next transaction.
    fn aborted_connecting(&mut self, client: u32, why: &SessionError, host: &HostPort);

    /// Decide what follows a failed try.
    fn judge(&mut self, failed: &FailedTry<'_>) -> Verdict;
}

/// The differences of a load when the engine runs as pgbench, with a method for each of them. The
/// default is the lab's load, for which all of them return false.
#[derive(Debug, Default)]
pub struct PgbenchMode {
    is_on: bool,
    reconnects: bool,
    traces: bool,
    /// One for each thread, which takes it when it starts.
    observers: Mutex<Vec<Option<Box<dyn Observer>>>>,
}

impl PgbenchMode {
    /// Args: `reconnects`, true if each transaction has a new connection (`-C`).
    pub fn new(reconnects: bool, observers: Vec<Option<Box<dyn Observer>>>) -> PgbenchMode {
        PgbenchMode { is_on: true, reconnects, traces: false, observers: Mutex::new(observers) }
    }

    /// Args: `traces`, true if the observer gets every step of a client (`--debug`).
    pub fn tracing(self, traces: bool) -> PgbenchMode {
        PgbenchMode { traces, ..self }
    }

    pub fn take_observer(&self, thread: u32) -> Option<Box<dyn Observer>> {
        self.observers.lock().ok()?.get_mut(thread as usize)?.take()
    }

    /// A client connects when its transaction begins.
    pub fn connects_late(&self) -> bool {
        self.reconnects
    }

    /// A client ends when its connection is lost.
    pub fn connects_once(&self) -> bool {
        self.is_on
    }

    /// The observer gets every step of a client.
    #[inline]
    pub fn traces(&self) -> bool {
        self.traces
    }

    /// Statements are not checked before the load, and no round trips are measured.
    pub fn skips_preparing(&self) -> bool {
        self.is_on
    }

    /// Each client counts its remaining transactions, also in an open loop.
    pub fn counts_by_client(&self) -> bool {
        self.is_on
    }

    /// A client chooses its script before it waits for its arrival, so the arrival is never
    /// skipped.
    pub fn holds_arrivals(&self) -> bool {
        self.is_on
    }

    /// Open loop: transactions that are due and have not started at the end of the phase are
    /// dropped.
    pub fn drops_backlog(&self) -> bool {
        self.is_on
    }

    /// Each thread gets consecutive clients. This decides which random stream chooses their
    /// scripts.
    pub fn deals_ranges(&self) -> bool {
        self.is_on
    }

    /// A commit without an answer counts as failed, like any other statement.
    pub fn ignores_doubt(&self) -> bool {
        self.is_on
    }

    /// The load continues whatever fails, even without any connection.
    pub fn goes_on_regardless(&self) -> bool {
        self.is_on
    }

    /// Notices and warnings of the server go to the observer.
    pub fn shows_notices(&self) -> bool {
        self.is_on
    }

    /// The observer gets every command of a script, if commands are timed.
    pub fn observes_commands(&self) -> bool {
        self.is_on
    }

    /// Standard output has no records, so shell commands may print there.
    pub fn shares_stdout(&self) -> bool {
        self.is_on
    }

    /// COPY in a script ends its client.
    pub fn refuses_copy(&self) -> bool {
        self.is_on
    }
}
