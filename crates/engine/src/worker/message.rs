//! Messages from a thread to the coordinator of the load.

use super::facts::Facts;
use super::shares::Shares;
use crate::client::FailureNews;
use crate::contract::record::IdleFacts;
use crate::histogram::Histogram;
use crate::outcome::Remark;
use crate::plan::Refusal;
use crate::poller::Kind;
use crate::recorder::{Epoch, ThreadId};

/// Messages to the coordinator.
#[derive(Debug)]
pub enum Message {
    Epoch(Box<Epoch>),
    /// Every client of a thread is connected.
    Connected,
    /// Every client of a thread is prepared, and the round trip is known.
    Prepared,
    /// A thread has done its number of transactions.
    WorkDone {
        last_ns: u64,
    },
    /// A warning; the run continues.
    Warning(Remark),
    /// Transactions failed in a new way.
    Failures(ThreadId, FailureNews),
    /// The run must end.
    Fatal(Box<Refusal>),
    Finished(Box<Finished>),
    /// A thread panicked.
    Died(ThreadId),
    /// A signal, `stop` or the end of the input stops the run.
    Stop,
}

/// The last message of a thread.
#[derive(Debug)]
pub struct Finished {
    pub thread: ThreadId,
    pub poller: Kind,
    pub clients: u32,
    pub committed_count: u64,
    pub commits_in_doubt: u64,
    pub connections_lost: u64,
    pub reconnects: u64,
    pub idle: IdleFacts,
    pub connect: Histogram,
    pub facts: Facts,
    pub shares: Shares,
}
