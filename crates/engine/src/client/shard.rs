//! The state of one thread that its transactions use, and how it sends and hangs up.

use std::collections::VecDeque;

use pgdyno_wire::encode;

use super::clients::Clients;
use super::failures::Failures;
use crate::commit_journal::{CommitJournal, Entry, Fate};
use crate::observer::Observer;
use crate::outcome::Remark;
use crate::poller::Poller;
use crate::program::Deferred;
use crate::recorder::Recorder;
use crate::refusal::Refusal;
use crate::timers::Timers;

/// Statements that were added and not sent, or that were sent and not answered. The thread keeps
/// the memory for later transactions, so a transaction allocates nothing here.
#[derive(Debug, Default)]
pub struct Waiting {
    pub messages: Vec<u8>,
    pub statements: Vec<usize>,
    pub newly_prepared: Vec<usize>,
    pub may_commit: bool,
    /// The messages are the text of one Query.
    pub is_text: bool,
    /// Somebody reads the rows of a statement.
    pub captures: bool,
    /// The commit that these statements make, if it is recorded.
    pub commit: Option<Entry>,
    /// Memory for the replies of a batch.
    pub batch: Vec<u8>,
}

impl Waiting {
    pub fn clear(&mut self) {
        self.sent();
        self.statements.clear();
        self.newly_prepared.clear();
    }

    /// The messages are sent and answered.
    pub fn sent(&mut self) {
        self.messages.clear();
        (self.may_commit, self.is_text, self.captures) = (false, false, false);
        self.commit = None;
    }
}

/// The state of one thread that its transactions use.
#[derive(Debug)]
pub struct Shard {
    pub poller: Poller,
    pub clients: Clients,
    pub timers: Timers,
    pub recorder: Recorder,
    /// The time of this turn of the loop.
    pub now_ns: u64,
    /// The message that is being encoded; `scratch` has memory for one parameter.
    pub out: Vec<u8>,
    pub scratch: Vec<u8>,
    /// The load has ended: a failed transaction is not tried again.
    pub is_draining: bool,
    /// The drain has ended: a transaction must not send another statement.
    pub is_cancelling: bool,
    /// The failures of transactions, for the coordinator.
    pub failures: Failures,
    /// Memory for the statements of native transactions.
    pub spare_waiting: Vec<Waiting>,
    /// Deferred work that no background terminal has begun.
    pub deferred: VecDeque<Deferred>,
    /// Records the commits, if the job has a journal.
    pub journal: Option<CommitJournal>,
    /// A fault in a script that ends the run.
    pub fault: Option<Box<Refusal>>,
    /// A warning for the user.
    pub warnings: Vec<Remark>,
    /// Statements that the server refused before the load.
    pub refused_statements: Vec<usize>,
    /// The drop-in's observer.
    pub observer: Option<Box<dyn Observer>>,
}

impl Shard {
    /// Remember a statement that the server refuses.
    pub(super) fn note_refused(&mut self, statement: usize) {
        if !self.refused_statements.contains(&statement) {
            self.refused_statements.push(statement);
        }
    }

    /// Record that the commit of this connection got no answer, if one was sent.
    pub fn give_up_commit(&mut self, index: u32, at_ns: u64) {
        let commit = self.clients.connections[index as usize].commit.take();
        if let (Some(sent), Some(journal)) = (commit, &mut self.journal) {
            journal.add(sent, Fate::InDoubt, at_ns);
        }
    }

    /// Record that every commit without an answer stays without one, and that the thread has ended.
    pub fn end_journal(&mut self, thread: u32, at_ns: u64) {
        (0..self.clients.connections.len() as u32)
            .for_each(|index| self.give_up_commit(index, at_ns));
        if let Some(journal) = &mut self.journal {
            journal.add_end(thread, at_ns);
        }
    }

    /// Send bytes of the protocol, encrypted if the connection is.
    pub fn send(&mut self, index: u32, bytes: &[u8]) {
        match &mut self.clients.connections[index as usize].tls {
            None => self.poller.send(index, bytes),
            Some(tls) => self.poller.send(index, tls.encrypt(bytes)),
        }
    }

    /// Send Terminate if the session is open, and close the connection.
    pub fn hang_up(&mut self, index: u32) {
        self.say_goodbye(index);
        self.poller.close(index);
    }

    /// Close all connections. All Terminate messages are written first, so that they leave together
    /// and not one by one.
    pub fn hang_up_all(&mut self) {
        let all = 0..self.clients.connections.len() as u32;
        all.clone().for_each(|index| self.say_goodbye(index));
        all.for_each(|index| self.poller.close(index));
    }

    fn say_goodbye(&mut self, index: u32) {
        let connection = &mut self.clients.connections[index as usize];
        if connection.is_up() {
            let mut terminate = Vec::new();
            encode::terminate(&mut terminate);
            match &mut connection.tls {
                None => self.poller.send(index, &terminate),
                Some(tls) => self.poller.send(index, tls.close(&terminate)),
            }
        }
    }
}
