//! Idle connections: opened after those of the clients, kept open, and tested at the end.
//!
//! They follow the clients' connections in the shard's list, and have no transactions.

use std::ops::Range;

use pgdyno_wire::encode;

use crate::client::Shard;
use crate::clock::NEVER_NS;
use crate::contract::record::IdleFacts;

/// How long an idle connection may take to answer in the end.
const PATIENCE_NS: u64 = 5_000_000_000;

/// Idle connections of one thread.
#[derive(Debug)]
pub(super) struct Idle {
    /// Their places in the list of connections.
    places: Range<u32>,
    facts: IdleFacts,
    /// Tested, but the answer has not come yet.
    asked_count: u64,
    give_up_ns: u64,
}

impl Idle {
    pub(super) fn new(places: Range<u32>) -> Idle {
        Idle { places, facts: IdleFacts::default(), asked_count: 0, give_up_ns: NEVER_NS }
    }

    /// Count a connection that had a session before the load began.
    pub(super) fn opened(&mut self) {
        self.facts.opened_count += 1;
    }

    /// Handle the loss of a connection.
    pub(super) fn lost(&mut self, index: u32, shard: &mut Shard) {
        let connection = &mut shard.clients.connections[index as usize];
        if connection.ready_wanted > 0 {
            self.asked_count = self.asked_count.saturating_sub(1);
        }
        connection.ready_wanted = 0;
        connection.disconnected();
    }

    /// Ask each open connection for an answer.
    ///
    /// Returns: true if at least one was asked.
    pub(super) fn ask(&mut self, shard: &mut Shard) -> bool {
        let mut sync = Vec::new();
        encode::sync(&mut sync);
        for index in self.places.clone() {
            let connection = &mut shard.clients.connections[index as usize];
            if connection.is_up() {
                connection.reply.reset(false);
                connection.ready_wanted = 1;
                shard.send(index, &sync);
                self.asked_count += 1;
            }
        }
        self.give_up_ns = shard.now_ns + PATIENCE_NS;
        self.asked_count > 0
    }

    pub(super) fn answered(&mut self) {
        self.asked_count = self.asked_count.saturating_sub(1);
        self.facts.alive_count += 1;
    }

    /// True if every connection has answered or is lost, or the patience is at its end.
    pub(super) fn is_done(&self, now_ns: u64) -> bool {
        self.asked_count == 0 || now_ns >= self.give_up_ns
    }

    pub(super) fn give_up_ns(&self) -> u64 {
        self.give_up_ns
    }

    pub(super) fn facts(&self) -> IdleFacts {
        self.facts
    }
}
