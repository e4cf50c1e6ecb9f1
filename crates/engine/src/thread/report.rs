//! What a thread tells the coordinator of the load, and what it tells once.

use std::collections::BTreeMap;
use std::sync::mpsc::Sender;

use super::reply_wait::Looked;
use super::shares::Shares;
use super::usage::Usage;
use crate::client::{FailureKind, FailureNews, RoundTrips};
use crate::contract::record::{ErrorKind, IdleFacts};
use crate::histogram::Histogram;
use crate::outcome::Remark;
use crate::poller::Kind;
use crate::recorder::{Epoch, ThreadId};
use crate::refusal::Refusal;
use crate::timeline::Timeline;

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
    /// Why a connection was not made during the load; the run continues.
    NotConnected(Box<Refusal>),
    /// The run must end.
    Fatal(Box<Refusal>),
    Finished(Box<Finished>),
    /// A thread panicked.
    Died(ThreadId),
    /// The order to begin the load at this instant.
    Start {
        at_ns: u64,
    },
    /// A signal, `stop` or the end of the input stops the run.
    Stop,
}

/// The last message of a thread.
#[derive(Debug)]
pub struct Finished {
    pub thread: ThreadId,
    pub poller: Kind,
    pub clients: u32,
    pub connections: Connections,
    pub committed_count: u64,
    pub commits_in_doubt: u64,
    /// Failed tries of the measured phase.
    pub failed_counts: BTreeMap<FailureKind, u64>,
    /// Age of each transaction that had not ended when the drain ended, or is in doubt.
    pub unfinished_ages_ns: Vec<u64>,
    pub shares: Shares,
    pub usage: Usage,
    /// When the load began in this thread; None if it did not.
    pub load_begun_ns: Option<u64>,
    /// How late timers fired while a client was free.
    pub timer_lag: Histogram,
    pub round_trips: RoundTrips,
}

/// Facts about the connections of a thread.
#[derive(Debug)]
pub struct Connections {
    pub lost_count: u64,
    pub reconnect_count: u64,
    /// From socket to ReadyForQuery.
    pub durations: Histogram,
    pub idle: IdleFacts,
    /// Sessions opened at each host of the job.
    pub opened_at: Vec<u64>,
}

/// The way to the coordinator.
#[derive(Debug)]
pub(super) struct Report {
    thread: ThreadId,
    sender: Sender<Message>,
    is_connected: bool,
    is_work_done: bool,
    usage: Usage,
}

impl Report {
    pub(super) fn new(thread: ThreadId, sender: Sender<Message>) -> Report {
        let usage = Usage::default();
        Report { thread, sender, is_connected: false, is_work_done: false, usage }
    }

    pub(super) fn tell(&self, message: Message) {
        // It fails only if the coordinator has ended, and then the process ends, too.
        let _ = self.sender.send(message);
    }

    /// The run must end.
    pub(super) fn fatal(&self, kind: ErrorKind, message: String, hint: impl Into<String>) {
        self.tell(Message::Fatal(Box::new(Refusal::new(kind, message, hint))));
    }

    /// All connections are open. Only the first call tells.
    pub(super) fn connected(&mut self) {
        if !std::mem::replace(&mut self.is_connected, true) {
            self.tell(Message::Connected);
        }
    }

    /// The number of transactions is done. Only the first call tells.
    pub(super) fn work_done(&mut self, last_ns: u64) {
        if !std::mem::replace(&mut self.is_work_done, true) {
            self.tell(Message::WorkDone { last_ns });
        }
    }

    /// Hand over an epoch that ended at `boundary_ns`.
    pub(super) fn epoch(
        &mut self,
        epoch: Epoch,
        boundary_ns: u64,
        timeline: &Timeline,
        looked: Looked,
    ) {
        self.tell(Message::Epoch(Box::new(epoch)));
        self.usage.at_boundary(boundary_ns, timeline, looked);
    }

    /// Hand over new kinds of failures.
    pub(super) fn failures(&self, news: &mut Vec<FailureNews>) {
        news.drain(..).for_each(|news| self.tell(Message::Failures(self.thread, news)));
    }

    pub(super) fn thread(&self) -> ThreadId {
        self.thread
    }

    pub(super) fn usage(&self) -> Usage {
        self.usage
    }
}
