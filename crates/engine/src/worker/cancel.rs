//! CancelRequest for every transaction that the drain did not see end, encrypted as its connection.

use std::collections::VecDeque;

use pgdyno_wire::{BytesMut, Session, cancel_request};

use super::{Starts, Worker};
use crate::clock::NEVER_NS;
use crate::tls::{Attempt, Negotiation};

/// How long the thread waits for the replies of cancelled statements.
const GRACE_NS: u64 = 5_000_000_000;
const MAX_IN_FLIGHT: usize = 128;

/// Cancel requests of one thread: each is a connection, with a token above those of the clients.
#[derive(Debug)]
pub(super) struct Cancels {
    waiting: VecDeque<Request>,
    in_flight: Vec<(u32, Request)>,
    first_token: u32,
    pub(super) give_up_ns: u64,
}

/// The message of one connection.
#[derive(Debug)]
struct Request {
    client: u32,
    backend: Session,
    attempt: Attempt,
    /// Absent until the connection is made.
    negotiation: Option<Negotiation>,
    is_sent: bool,
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

    pub(super) fn add(&mut self, client: u32, backend: Session, attempt: Attempt) {
        let (negotiation, is_sent) = (None, false);
        self.waiting.push_back(Request { client, backend, attempt, negotiation, is_sent });
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

impl<'s, S: Starts<'s>> Worker<'s, S> {
    /// Open connections for waiting requests.
    pub(super) fn cancel_more(&mut self) {
        while self.cancels.in_flight.len() < MAX_IN_FLIGHT {
            let Some(request) = self.cancels.waiting.pop_front() else { return };
            let token = self.cancels.first_token + request.client;
            let connected = {
                let shard = &mut *self.shard.borrow_mut();
                let address = shard.clients.states[request.client as usize].walk.address;
                shard.poller.connect(token, &self.connector.endpoints[address].address)
            };
            // If a request cannot be sent, closing the connection must suffice.
            if let Ok(is_connected) = connected {
                self.cancels.in_flight.push((token, request));
                if is_connected {
                    self.on_cancel_connected(token);
                }
            }
        }
    }

    pub(super) fn on_cancel_connected(&mut self, token: u32) {
        let mut out = Vec::new();
        let Some((_, request)) = self.cancels.in_flight.iter_mut().find(|(t, _)| *t == token)
        else {
            return;
        };
        let address = self.shard.borrow().clients.states[request.client as usize].walk.address;
        let security = &self.connector.endpoints[address].security;
        request.negotiation = Negotiation::start(security, request.attempt, &mut out).ok();
        self.shard.borrow_mut().poller.send(token, &out);
        self.on_cancel_received(token, &[]);
    }

    /// Continue the TLS handshake; when it is complete, send the request.
    pub(super) fn on_cancel_received(&mut self, token: u32, bytes: &[u8]) {
        let (mut plain, mut out) = (Vec::new(), Vec::new());
        let Some((_, request)) = self.cancels.in_flight.iter_mut().find(|(t, _)| *t == token)
        else {
            return;
        };
        let advance = match &mut request.negotiation {
            Some(negotiation) => negotiation.advance(bytes, &mut plain, &mut out).is_ok(),
            None => false,
        };
        if let Some(Negotiation::Done(tls)) = &mut request.negotiation
            && advance
            && !request.is_sent
        {
            request.is_sent = true;
            let mut message = BytesMut::new();
            cancel_request(&request.backend, &mut message);
            match tls {
                None => out.extend_from_slice(&message),
                Some(tls) => out.extend_from_slice(tls.encrypt(&message)),
            }
        }
        self.shard.borrow_mut().poller.send(token, &out);
        if !advance {
            self.shard.borrow_mut().poller.close(token);
            self.on_cancel_closed(token);
        }
    }

    /// The server closes the connection after it has handled the request.
    pub(super) fn on_cancel_closed(&mut self, token: u32) {
        self.cancels.in_flight.retain(|(t, _)| *t != token);
        self.cancel_more();
    }

    /// Commits in flight whose reply still has not come.
    pub(super) fn count_in_doubt(&self) -> u64 {
        let shard = self.shard.borrow();
        let in_doubt = shard.clients.states.iter().zip(&self.slots).filter(|(client, slot)| {
            !slot.is_empty() && client.is_up() && client.may_have_committed()
        });
        in_doubt.count() as u64
    }
}
