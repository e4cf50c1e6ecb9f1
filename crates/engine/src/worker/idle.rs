//! Idle connections: opened after those of the clients, kept open, and tested at the end.
//!
//! They follow the clients' connections in the shard's list, and have no transactions.

use pgdyno_wire::encode;

use super::{Stage, Starts, Worker};
use crate::clock::NEVER_NS;

/// How long an idle connection may take to answer in the end.
const PATIENCE_NS: u64 = 5_000_000_000;

/// Idle connections of one thread.
#[derive(Debug)]
pub(super) struct Idle {
    count: u64,
    /// Had a session when the load began.
    pub(super) opened: u64,
    /// Answered in the end.
    pub(super) alive: u64,
    /// Tested, but the answer has not come yet.
    asked: u64,
    give_up_ns: u64,
}

impl Idle {
    pub(super) fn new(count: u64) -> Idle {
        Idle { count, opened: 0, alive: 0, asked: 0, give_up_ns: NEVER_NS }
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn give_up_ns(&self) -> u64 {
        self.give_up_ns
    }

    pub(super) fn on_lost(&mut self) {
        self.asked = self.asked.saturating_sub(1);
    }

    pub(super) fn on_answer(&mut self) {
        self.asked = self.asked.saturating_sub(1);
        self.alive += 1;
    }
}

impl<'s, S: Starts<'s>> Worker<'s, S> {
    pub(super) fn is_idle(&self, index: u32) -> bool {
        index as usize >= self.slots.len()
    }

    /// The load is over: test the idle connections, if any, before the thread ends.
    pub(super) fn look_at_idle(&mut self) {
        let shard = &mut *self.shard.borrow_mut();
        let mut sync = Vec::new();
        encode::sync(&mut sync);
        for index in self.slots.len()..shard.clients.states.len() {
            let client = &mut shard.clients.states[index];
            if client.is_up() {
                client.reply.reset(false);
                client.ready_wanted = 1;
                shard.send(index as u32, &sync);
                self.idle.asked += 1;
            }
        }
        self.idle.give_up_ns = shard.now_ns + PATIENCE_NS;
        self.stage = if self.idle.asked > 0 { Stage::Look } else { Stage::Over };
    }

    pub(super) fn end_look_at_idle(&mut self, now_ns: u64) {
        if self.idle.asked == 0 || now_ns >= self.idle.give_up_ns {
            self.stage = Stage::Over;
        }
    }
}
