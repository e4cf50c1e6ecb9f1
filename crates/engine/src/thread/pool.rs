//! Clients that share connections: which clients wait, and which have a connection.
//!
//! A client takes a connection for a whole transaction, its retries and pauses included, and gives
//! it back when the transaction ended. The queue is first in, first out. The client's state
//! (variables, random numbers) is in its terminal. The connection's state (session, prepared
//! statements) stays with the connection.

use std::collections::{VecDeque, vec_deque};
use std::ops::Range;

use super::in_flight::Start;
use super::tasks::Task;
use crate::client::{Current, Shard};
use crate::clock::now_ns;
use crate::program::Deferred;
use crate::recorder::owner_at;
use crate::timeline::Timeline;

/// The shared connections of one thread and their clients.
#[derive(Debug)]
pub(super) struct Pool {
    /// Clients whose transaction has started and waits for a connection.
    waiting: VecDeque<(u32, Current)>,
    /// Open connections that no client has.
    free: VecDeque<u32>,
}

impl Pool {
    pub(super) fn new(connection_count: usize) -> Pool {
        Pool { waiting: VecDeque::new(), free: VecDeque::with_capacity(connection_count) }
    }

    /// A connection can take a transaction.
    #[inline]
    pub(super) fn connection_is_free(&mut self, index: u32) {
        self.free.push_back(index);
    }

    /// A client's transaction has started, and waits for a connection.
    #[inline]
    pub(super) fn wait(&mut self, client: u32, current: Current) {
        self.waiting.push_back((client, current));
    }

    /// Give a free connection to the client that has waited longest.
    ///
    /// Returns: the connection and its task; None if there is no such connection or no such client.
    #[inline]
    pub(super) fn next(&mut self, shard: &mut Shard) -> Option<(u32, Task)> {
        loop {
            let index = *self.free.front()?;
            let connection = &mut shard.clients.connections[index as usize];
            if !connection.is_up() {
                // The connection returns to the pool when it is connected again.
                self.free.pop_front();
                continue;
            }
            let (client, mut current) = self.waiting.pop_front()?;
            self.free.pop_front();
            connection.terminal = client;
            let granted_ns = now_ns();
            current.connection_wait_ns = granted_ns.saturating_sub(current.started_ns);
            connection.current = Some(current);
            return Some((
                index,
                Task::Transaction { script: current.script, started_ns: granted_ns },
            ));
        }
    }

    /// Take all transactions that still wait.
    pub(super) fn take_waiting(&mut self) -> vec_deque::Drain<'_, (u32, Current)> {
        self.waiting.drain(..)
    }
}

/// The terminals of one thread that do deferred work. Their numbers follow those of the clients.
#[derive(Debug)]
pub(super) struct Background {
    numbers: Range<u32>,
    free: Vec<u32>,
}

impl Background {
    pub(super) fn new(numbers: Range<u32>) -> Background {
        Background { free: numbers.clone().collect(), numbers }
    }

    #[inline]
    pub(super) fn has(&self, terminal: u32) -> bool {
        terminal >= self.numbers.start
    }

    pub(super) fn terminal_is_free(&mut self, terminal: u32) {
        self.free.push(terminal);
    }

    /// Give the oldest deferred work to a free terminal.
    #[inline]
    pub(super) fn next(&mut self, shard: &mut Shard) -> Option<Start> {
        let client = *self.free.last()?;
        let Deferred { script, work, queued_ns } = shard.deferred.pop_front()?;
        self.free.pop();
        Some(Start { client, script, scheduled_ns: queued_ns, started_ns: now_ns(), work })
    }

    /// Transactions that have begun and not ended.
    pub(super) fn in_flight(&self) -> u64 {
        (self.numbers.len() - self.free.len()) as u64
    }

    /// The drain has ended: count the work that no terminal has begun.
    pub(super) fn give_up(&mut self, timeline: &Timeline, shard: &mut Shard) {
        for Deferred { script, queued_ns, .. } in shard.deferred.drain(..) {
            shard.recorder.left_undone(owner_at(timeline, queued_ns), script);
        }
    }
}
