//! CancelRequest for every transaction that the drain did not see end, encrypted as its connection.

use std::collections::VecDeque;

use pgdyno_wire::{BytesMut, Session, cancel_request};

use super::connector::Connector;
use crate::client::Shard;
use crate::clock::NEVER_NS;
use crate::tls::{Attempt, Negotiation};

/// How long the thread waits for the replies of cancelled statements.
const GRACE_NS: u64 = 1_000_000_000;
const MAX_IN_FLIGHT: usize = 128;

/// Cancel requests of one thread: each is a connection, with a token above those of the clients.
#[derive(Debug)]
pub(super) struct Cancels {
    waiting: VecDeque<Request>,
    in_flight: Vec<(u32, Request)>,
    first_token: u32,
    give_up_ns: u64,
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

    /// Queue a request for the statement that a client's connection runs.
    pub(super) fn add(&mut self, client: u32, backend: Session, attempt: Attempt) {
        let (negotiation, is_sent) = (None, false);
        self.waiting.push_back(Request { client, backend, attempt, negotiation, is_sent });
    }

    /// Send the queued requests, and wait for the replies of their statements from now on.
    pub(super) fn begin(&mut self, now_ns: u64, shard: &mut Shard, connector: &Connector<'_>) {
        self.give_up_ns = now_ns + GRACE_NS;
        self.connect_more(shard, connector);
    }

    /// True if no request is left.
    pub(super) fn is_done(&self) -> bool {
        self.waiting.is_empty() && self.in_flight.is_empty()
    }

    pub(super) fn give_up_ns(&self) -> u64 {
        self.give_up_ns
    }

    #[inline]
    pub(super) fn is_token(&self, token: u32) -> bool {
        token >= self.first_token
    }

    /// Open connections for waiting requests.
    fn connect_more(&mut self, shard: &mut Shard, connector: &Connector<'_>) {
        while self.in_flight.len() < MAX_IN_FLIGHT {
            let Some(request) = self.waiting.pop_front() else { return };
            let token = self.first_token + request.client;
            let endpoint = connector.endpoint_of(request.client, shard);
            let connected = shard.poller.connect(token, &endpoint.address);
            // If a request cannot be sent, closing the connection must suffice.
            if let Ok(is_connected) = connected {
                self.in_flight.push((token, request));
                if is_connected {
                    self.on_connected(token, shard, connector);
                }
            }
        }
    }

    pub(super) fn on_connected(
        &mut self,
        token: u32,
        shard: &mut Shard,
        connector: &Connector<'_>,
    ) {
        let mut out = Vec::new();
        let Some((_, request)) = self.in_flight.iter_mut().find(|(t, _)| *t == token) else {
            return;
        };
        let security = &connector.endpoint_of(request.client, shard).security;
        request.negotiation = Negotiation::start(security, request.attempt, &mut out).ok();
        shard.poller.send(token, &out);
        self.on_received(token, &[], shard, connector);
    }

    /// Continue the TLS handshake; when it is complete, send the request.
    pub(super) fn on_received(
        &mut self,
        token: u32,
        bytes: &[u8],
        shard: &mut Shard,
        connector: &Connector<'_>,
    ) {
        let (mut plain, mut out) = (Vec::new(), Vec::new());
        let Some((_, request)) = self.in_flight.iter_mut().find(|(t, _)| *t == token) else {
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
        shard.poller.send(token, &out);
        if !advance {
            shard.poller.close(token);
            self.on_closed(token, shard, connector);
        }
    }

    /// The server closes the connection after it has handled the request.
    pub(super) fn on_closed(&mut self, token: u32, shard: &mut Shard, connector: &Connector<'_>) {
        self.in_flight.retain(|(t, _)| *t != token);
        self.connect_more(shard, connector);
    }
}
