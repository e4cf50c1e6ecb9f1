//! Clients that share connections: which clients wait, and which have a connection.
//!
//! A client takes a connection for a whole transaction, its retries and pauses included, and gives
//! it back when the transaction ended. The queue is first in, first out. The client's state
//! (variables, random numbers) is in its terminal. The connection's state (session, prepared
//! statements) stays with the connection.

use std::collections::VecDeque;

use super::{Stage, Starts, Task, Worker};
use crate::client::{Clients, Current};
use crate::clock::now_ns;
use crate::program::Deferred;
use crate::recorder::owner_at;

/// The shared connections of one thread and their clients.
#[derive(Debug)]
pub(super) struct Pool {
    /// Clients whose transaction has started and waits for a connection.
    pub(super) waiting: VecDeque<(u32, Current)>,
    /// Open connections that no client has.
    free: VecDeque<u32>,
}

impl Pool {
    pub(super) fn new(connection_count: usize) -> Pool {
        Pool { waiting: VecDeque::new(), free: VecDeque::with_capacity(connection_count) }
    }
}

impl<'s, S: Starts<'s>> Worker<'s, S> {
    /// The client whose transaction a connection has.
    #[inline]
    pub(super) fn client_on(&self, index: u32) -> u32 {
        self.shard.borrow().clients.states[index as usize].terminal
    }

    /// A connection can take a transaction.
    #[inline]
    pub(super) fn connection_is_free(&mut self, index: u32) {
        match &mut self.pool {
            None => self.client_is_free(index, None),
            Some(pool) => {
                pool.free.push_back(index);
                self.serve();
            }
        }
    }

    /// A connection's transaction has ended, at `ended_ns`, and its client has nothing to do.
    #[inline]
    pub(super) fn give_back(&mut self, index: u32, ended_ns: Option<u64>) {
        if self.pool.is_none() {
            return self.client_is_free(index, ended_ns);
        }
        let (client, is_up) = {
            let state = &self.shard.borrow().clients.states[index as usize];
            (state.terminal, state.is_up())
        };
        // Subtle: waiting clients are served before this client asks again.
        if is_up {
            self.connection_is_free(index);
        }
        self.client_is_free(client, ended_ns);
    }

    /// Every client of the pool begins.
    pub(super) fn free_all_clients(&mut self) {
        if self.pool.is_some() {
            (0..self.client_count).for_each(|client| self.client_is_free(client, None));
        }
    }

    /// A client's transaction has started, and waits for a connection.
    pub(super) fn wait_for_connection(&mut self, client: u32, current: Current) {
        let pool = self.pool.as_mut().expect("who waits shares");
        pool.waiting.push_back((client, current));
        self.serve();
    }

    /// Give deferred work to background terminals, the oldest first.
    pub(super) fn start_deferred(&mut self) {
        if self.client_count as usize == self.shard.borrow().clients.terminals.len()
            || !matches!(self.stage, Stage::Load | Stage::Drain)
        {
            return;
        }
        while let Some(&terminal) = self.background.last() {
            let current = {
                let shard = &mut *self.shard.borrow_mut();
                let Some(Deferred { script, work, queued_ns }) = shard.deferred.pop_front() else {
                    return;
                };
                let owner = owner_at(&self.timeline, queued_ns);
                shard.recorder.started(owner, script);
                Current {
                    script,
                    scheduled_ns: queued_ns,
                    started_ns: now_ns(),
                    owner,
                    retries: 0,
                    connection_wait_ns: 0,
                    work,
                }
            };
            self.background.pop();
            self.in_flight += 1;
            self.wait_for_connection(terminal, current);
        }
    }

    /// Background transactions that have begun and not ended.
    pub(super) fn background_in_flight(&self, clients: &Clients) -> u64 {
        let count = clients.terminals.len() - self.client_count as usize;
        (count - self.background.len()) as u64
    }

    /// Give free connections to waiting clients until one of both is used up.
    fn serve(&mut self) {
        loop {
            let Some(pool) = &mut self.pool else { return };
            let Some(&index) = pool.free.front() else { return };
            let task = {
                let state = &mut self.shard.borrow_mut().clients.states[index as usize];
                if !state.is_up() {
                    // The connection returns to the pool when it is connected again.
                    pool.free.pop_front();
                    continue;
                }
                let Some((client, mut current)) = pool.waiting.pop_front() else { return };
                pool.free.pop_front();
                state.terminal = client;
                let granted_ns = now_ns();
                current.connection_wait_ns = granted_ns.saturating_sub(current.started_ns);
                state.current = Some(current);
                Task::Transaction { script: current.script, started_ns: granted_ns }
            };
            self.begin_task(index, task);
        }
    }
}
