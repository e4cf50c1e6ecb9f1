//! CancelRequest for every transaction that the drain did not see end.

use std::collections::VecDeque;

use pgdyno_wire::{BytesMut, Session, cancel_request};

use super::{Task, TaskEnd, Worker};
use crate::client::Client;
use crate::clock::NEVER_NS;

/// How long the replies of cancelled statements are waited for.
const GRACE_NS: u64 = 5_000_000_000;
const MAX_IN_FLIGHT: usize = 128;

/// Cancel requests of one thread: each is a connection, with a token above those of the clients.
#[derive(Debug)]
pub(super) struct Cancels {
    waiting: VecDeque<(u32, Session)>,
    in_flight: Vec<(u32, Session)>,
    first_token: u32,
    pub(super) give_up_ns: u64,
}

impl Cancels {
    pub(super) fn new(client_count: u32) -> Cancels {
        Cancels {
            waiting: VecDeque::new(),
            in_flight: Vec::new(),
            first_token: client_count,
            give_up_ns: NEVER_NS,
        }
    }

    pub(super) fn add(&mut self, client: u32, backend: Session) {
        self.waiting.push_back((client, backend));
    }

    pub(super) fn begin(&mut self, now_ns: u64) {
        self.give_up_ns = now_ns + GRACE_NS;
    }

    pub(super) fn is_done(&self) -> bool {
        self.waiting.is_empty() && self.in_flight.is_empty()
    }

    pub(super) fn is_token(&self, token: u32) -> bool {
        token >= self.first_token
    }
}

impl<'s, F, M> Worker<'s, F, M>
where
    F: Future<Output = TaskEnd>,
    M: Fn(Client<'s>, Task) -> F,
{
    /// Open connections for waiting requests.
    pub(super) fn cancel_more(&mut self) {
        while self.cancels.in_flight.len() < MAX_IN_FLIGHT {
            let Some((client, backend)) = self.cancels.waiting.pop_front() else { return };
            let token = self.cancels.first_token + client;
            let address = self.shard.borrow().clients.states[client as usize].address;
            let address = self.connector.addresses[address].clone();
            let connected = self.shard.borrow_mut().poller.connect(token, &address);
            // A request that cannot be sent is given up: the end of the connection remains.
            if let Ok(is_connected) = connected {
                self.cancels.in_flight.push((token, backend));
                if is_connected {
                    self.on_cancel_connected(token);
                }
            }
        }
    }

    pub(super) fn on_cancel_connected(&mut self, token: u32) {
        let Some((_, backend)) = self.cancels.in_flight.iter().find(|(t, _)| *t == token) else {
            return;
        };
        let mut request = BytesMut::new();
        cancel_request(backend, &mut request);
        self.shard.borrow_mut().poller.send(token, &request);
    }

    /// The server closes the connection when it has done what it could.
    pub(super) fn on_cancel_closed(&mut self, token: u32) {
        self.cancels.in_flight.retain(|(t, _)| *t != token);
        self.cancel_more();
    }

    /// Commits in flight whose reply did not come even now.
    pub(super) fn count_in_doubt(&self) -> u64 {
        let shard = self.shard.borrow();
        let in_doubt = shard.clients.states.iter().zip(&self.slots).filter(|(client, slot)| {
            !slot.is_empty() && client.ready_wanted > 0 && client.may_commit && client.is_up()
        });
        in_doubt.count() as u64
    }
}
