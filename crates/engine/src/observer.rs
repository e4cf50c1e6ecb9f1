//! Where the drop-in differs from the lab's load: it sees every transaction as it ends, and says
//! what becomes of one that fails.
//!
//! The lab's load has no observer, and for it a failed transaction is a count. To pgbench a failed
//! transaction may be the end of its client.

use std::fmt::Debug;
use std::sync::Mutex;

use pgdyno_wire::ServerError;

use crate::contract::job::HostPort;
use crate::outcome::Ended;
use crate::session::SessionError;

/// What becomes of a transaction whose try failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Try again at once, with the same variables and random numbers.
    Retry,
    /// The transaction failed; the client goes on.
    Fail,
    /// The client is done, and the transaction is not counted.
    Abort,
}

/// Why a try failed.
#[derive(Clone, Copy, Debug)]
pub enum Cause<'a> {
    Server(&'a ServerError),
    /// The connection is gone; what the server said last, if anything.
    Lost(Option<&'a ServerError>),
    /// An expression, a variable or a row for one; the text says which.
    Evaluation(&'a str),
    /// What must not stand where it stands; the name of the meta command, if not the command's own.
    Misplaced(Misplaced),
    /// A statement was COPY.
    Copy,
    /// `\gset` wants one row and got another number.
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
    /// `\gset`, or `\aset`.
    GsetInPipeline {
        is_aset: bool,
    },
}

/// A try that failed.
#[derive(Clone, Copy, Debug)]
pub struct FailedTry<'a> {
    /// Number of the client in its thread.
    pub client: u32,
    pub script: usize,
    /// Index of the command in the script.
    pub command: usize,
    /// Index of the query, of a command with several.
    pub query: u32,
    /// What was sent; empty for a meta command.
    pub sql: &'a str,
    pub cause: Cause<'a>,
    pub tries: u32,
    pub scheduled_ns: u64,
    pub started_ns: u64,
    /// The time of the run is over.
    pub is_draining: bool,
}

/// Sees the transactions of one thread.
pub trait Observer: Send + Debug {
    /// The load begins.
    fn began(&mut self, at_ns: u64);

    /// A command of a script was carried out; told only where each is timed.
    fn command(&mut self, script: usize, command: usize, duration_ns: u64);

    /// What a client is about to do; told only where the mode traces.
    fn debug(&mut self, client: u32, what: &str);

    /// The server said something that is no error.
    fn notice(&mut self, notice: &ServerError);

    /// A transaction completed, or failed and is not tried again.
    fn ended(&mut self, client: u32, script: usize, ended: &Ended);

    /// An arrival came too late to keep its latency limit; `script` would have run.
    fn skipped(&mut self, client: u32, script: usize);

    /// Say why a client has no connection before the load begins, which ends the run; and of whom.
    fn not_connected(&self, client: u32, why: &SessionError, host: &HostPort) -> (String, String);

    /// A client is done: the connection for its next transaction could not be made.
    fn aborted_connecting(&mut self, client: u32, why: &SessionError, host: &HostPort);

    /// Decide what becomes of a transaction whose try failed.
    fn judge(&mut self, failed: &FailedTry<'_>) -> Verdict;
}

/// What a load does differently when the engine runs as pgbench: a method for each question. The
/// default is the lab's load, which answers every question with no.
#[derive(Debug, Default)]
pub struct PgbenchMode {
    is_on: bool,
    reconnects: bool,
    traces: bool,
    /// One for each thread, taken when it starts.
    observers: Mutex<Vec<Option<Box<dyn Observer>>>>,
}

impl PgbenchMode {
    /// Args: `reconnects`, a new connection for each transaction (`-C`).
    pub fn new(reconnects: bool, observers: Vec<Option<Box<dyn Observer>>>) -> PgbenchMode {
        PgbenchMode { is_on: true, reconnects, traces: false, observers: Mutex::new(observers) }
    }

    /// Args: `traces`, report every step of a client (`--debug`).
    pub fn tracing(self, traces: bool) -> PgbenchMode {
        PgbenchMode { traces, ..self }
    }

    pub fn take_observer(&self, thread: u32) -> Option<Box<dyn Observer>> {
        self.observers.lock().ok()?.get_mut(thread as usize)?.take()
    }

    /// A client connects when its transaction begins, not before.
    pub fn connects_late(&self) -> bool {
        self.reconnects
    }

    /// A client whose connection was lost is done.
    pub fn connects_once(&self) -> bool {
        self.is_on
    }

    /// The observer gets every step of a client.
    #[inline]
    pub fn traces(&self) -> bool {
        self.traces
    }

    /// Statements are not parsed before the load, and no round trip is measured.
    pub fn skips_preparing(&self) -> bool {
        self.is_on
    }

    /// Each client counts the transactions it has left, also in an open loop.
    pub fn counts_by_client(&self) -> bool {
        self.is_on
    }

    /// A client that waits for its arrival knows its script already, and cannot be too late.
    pub fn holds_arrivals(&self) -> bool {
        self.is_on
    }

    /// Open loop: what is due and not started when the time is over is dropped.
    pub fn drops_backlog(&self) -> bool {
        self.is_on
    }

    /// Clients are dealt to threads in ranges, which decides what stream chooses their scripts.
    pub fn deals_ranges(&self) -> bool {
        self.is_on
    }

    /// A commit without an answer failed, like any other statement.
    pub fn ignores_doubt(&self) -> bool {
        self.is_on
    }

    /// The load goes on whatever fails, and without any connection.
    pub fn goes_on_regardless(&self) -> bool {
        self.is_on
    }

    /// What the server says besides errors goes to the observer.
    pub fn shows_notices(&self) -> bool {
        self.is_on
    }

    /// The observer hears of every command of a script, where commands are timed.
    pub fn observes_commands(&self) -> bool {
        self.is_on
    }

    /// Standard output carries no records: shell commands may print there.
    pub fn shares_stdout(&self) -> bool {
        self.is_on
    }

    /// COPY in a script is an error of its client.
    pub fn refuses_copy(&self) -> bool {
        self.is_on
    }
}
