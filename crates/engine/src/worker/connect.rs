//! Connections of one thread: made, lost, made again.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::Arc;

use pgdyno_wire::{HandshakeError, ProtocolError, SaltedPasswords, SqlState, encode};

use super::{Stage, Task, TaskEnd, Worker};
use crate::client::{Client, ClientState, Link, News};
use crate::clock::{NEVER_NS, now_ns};
use crate::contract::job::Protocol;
use crate::contract::record::ErrorKind;
use crate::histogram::Histogram;
use crate::load::Message;
use crate::plan::Refusal;
use crate::timers::Wake;
use crate::tls::{Attempt, Endpoint, Opened, Opening, OpeningError, TlsError};

const MAX_IN_FLIGHT: u32 = 128;
/// Pause when a Unix socket's backlog is full.
const BACKLOG_PAUSE_NS: u64 = 2_000_000;
/// First pause before connecting again; each further one is twice as long.
const BACKOFF_NS: u64 = 50_000_000;
const MAX_BACKOFF_NS: u64 = 1_000_000_000;

/// See the module's text.
#[derive(Debug)]
pub(super) struct Connector {
    pub(super) endpoints: Arc<[Endpoint]>,
    /// Clients that shall connect.
    pub(super) waiting: VecDeque<u32>,
    in_flight: u32,
    /// Not before this instant.
    not_before_ns: u64,
    /// Between two connections; 0 = none.
    gap_ns: u64,
    salted: SaltedPasswords,
    pub(super) up_count: u64,
    pub(super) lost_count: u64,
    pub(super) reconnect_count: u64,
    /// From socket to ReadyForQuery.
    pub(super) durations: Histogram,
}

/// Why a connection was not made.
enum Fault {
    Io(io::Error),
    Opening(OpeningError),
    /// The server hung up before the session was open.
    HungUp,
}

impl Connector {
    pub(super) fn new(
        endpoints: Arc<[Endpoint]>,
        client_count: usize,
        first_ns: u64,
        gap_ns: u64,
    ) -> Connector {
        Connector {
            endpoints,
            waiting: VecDeque::with_capacity(client_count),
            in_flight: 0,
            not_before_ns: first_ns,
            gap_ns,
            salted: SaltedPasswords::default(),
            up_count: 0,
            lost_count: 0,
            reconnect_count: 0,
            durations: Histogram::default(),
        }
    }

    /// When the next connection may be begun.
    pub(super) fn next_ns(&self) -> u64 {
        if self.waiting.is_empty() || self.in_flight >= MAX_IN_FLIGHT {
            return NEVER_NS;
        }
        // 0 would mean not to wait at all.
        self.not_before_ns.max(1)
    }
}

impl<'s, F, M> Worker<'s, F, M>
where
    F: Future<Output = TaskEnd>,
    M: Fn(Client<'s>, Task) -> F,
{
    pub(super) fn queue_all_connects(&mut self) {
        self.connector.waiting.extend(0..self.slots.len() as u32);
    }

    /// Begin as many connections as may be begun now.
    pub(super) fn connect_more(&mut self) {
        if self.connector.waiting.is_empty() || self.stage >= Stage::Drain {
            return;
        }
        let mut now = now_ns();
        while self.connector.next_ns() <= now {
            let index = self.connector.waiting.pop_front().expect("next_ns says so");
            if !self.begin_connect(index, now) {
                self.connector.waiting.push_front(index);
                self.connector.not_before_ns = now + BACKLOG_PAUSE_NS;
                return;
            }
            if self.connector.gap_ns > 0 {
                self.connector.not_before_ns += self.connector.gap_ns;
            }
            now = now_ns();
        }
    }

    /// False when the backlog is full.
    fn begin_connect(&mut self, index: u32, began_ns: u64) -> bool {
        let connected = {
            let shard = &mut *self.shard.borrow_mut();
            let client = &mut shard.clients.states[index as usize];
            client.link = Link::Connecting { began_ns };
            shard.poller.connect(index, &self.connector.endpoints[client.address].address)
        };
        match connected {
            Ok(is_connected) => {
                self.connector.in_flight += 1;
                if is_connected {
                    self.begin_opening(index);
                }
                true
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.shard.borrow_mut().clients.states[index as usize].link = Link::Down;
                false
            }
            Err(error) => {
                self.connector.in_flight += 1;
                self.connect_failed(index, &Fault::Io(error));
                true
            }
        }
    }

    fn begin_opening(&mut self, index: u32) {
        let mut out = Vec::new();
        let begun = {
            let shard = &mut *self.shard.borrow_mut();
            let client = &mut shard.clients.states[index as usize];
            let Link::Connecting { began_ns } = client.link else {
                unreachable!("an opening follows connecting")
            };
            let security = &self.connector.endpoints[client.address].security;
            let attempt = security.attempt(client.attempt).expect("there is one more");
            let begun = Opening::start(security, attempt, &self.plan.login, &mut out);
            begun.map(|opening| {
                client.link = Link::Opening { began_ns, opening: Box::new(opening) };
                shard.poller.send(index, &out);
            })
        };
        if let Err(error) = begun {
            self.connect_failed(index, &Fault::Opening(error));
        }
    }

    /// Deal with what the sockets brought beside replies.
    pub(super) fn on_news(&mut self) {
        let mut all = std::mem::take(&mut self.shard.borrow_mut().clients.news);
        for news in all.drain(..) {
            match news {
                News::Connected(token) if self.cancels.is_token(token) => {
                    self.on_cancel_connected(token);
                }
                News::Closed(token, _) if self.cancels.is_token(token) => {
                    self.on_cancel_closed(token);
                }
                News::Opening(token, bytes) if self.cancels.is_token(token) => {
                    self.on_cancel_received(token, &bytes);
                }
                News::Connected(index) => self.begin_opening(index),
                News::Opening(index, bytes) => self.advance_opening(index, &bytes),
                News::Tls(index, error) => self.on_tls(index, error),
                News::Closed(index, error) => self.on_closed(index, error),
                News::Broken(index, error) => {
                    self.on_broken(index, &error);
                }
                News::CopyIn(index) => self.refuse_copy(index),
            }
        }
        // The memory goes back, unless dealing with news made more.
        let news = &mut self.shard.borrow_mut().clients.news;
        if news.is_empty() {
            *news = all;
        }
    }

    /// Something that is not the protocol: what came before it cannot be trusted either.
    fn on_broken(&mut self, index: u32, error: &ProtocolError) {
        let message = format!("the server broke the protocol: {error}");
        let hint = "something between engine and server may have changed what they said";
        self.tell(Message::Fatal(Box::new(Refusal::new(ErrorKind::Protocol, message, hint))));
        self.shard.borrow_mut().poller.close(index);
        self.on_closed(index, None);
    }

    fn advance_opening(&mut self, index: u32, bytes: &[u8]) {
        let mut out = Vec::new();
        let advance = {
            let shard = &mut *self.shard.borrow_mut();
            let client = &mut shard.clients.states[index as usize];
            let Link::Opening { opening, .. } = &mut client.link else { return };
            let salted = &mut self.connector.salted;
            let advance = opening.advance(bytes, &self.plan.login, salted, &mut out);
            if !out.is_empty() {
                shard.poller.send(index, &out);
            }
            advance
        };
        match advance {
            Ok(None) => {}
            Ok(Some(opened)) => self.on_up(index, opened),
            Err(error) => self.connect_failed(index, &Fault::Opening(error)),
        }
    }

    /// The TLS session of a client that is up has something to say to the server; with an error it
    /// is over.
    fn on_tls(&mut self, index: u32, error: Option<TlsError>) {
        {
            let shard = &mut *self.shard.borrow_mut();
            let Some(tls) = &mut shard.clients.states[index as usize].tls else { return };
            shard.poller.send(index, tls.to_send());
        }
        if let Some(error) = error {
            self.tell(Message::Fatal(Box::new(Refusal::new(
                ErrorKind::Protocol,
                error.message,
                error.hint,
            ))));
            self.shard.borrow_mut().poller.close(index);
            self.on_closed(index, None);
        }
    }

    fn on_up(&mut self, index: u32, opened: Opened) {
        self.connector.in_flight -= 1;
        self.connector.up_count += 1;
        {
            let shard = &mut *self.shard.borrow_mut();
            let client = &mut shard.clients.states[index as usize];
            if let Link::Opening { began_ns, .. } = client.link {
                self.connector.durations.record(now_ns() - began_ns);
            }
            client.link = Link::Up;
            client.failed_connects = 0;
            client.attempt = 0;
            client.first_fault = None;
            client.tls = opened.tls;
            client.backend = opened.session;
            // They are the same for all clients: eight thousand copies would be data.
            client.backend.parameters.clear();
            if !opened.rest.is_empty() {
                let at_ns = shard.now_ns;
                shard.clients.on_plain(index, &opened.rest, at_ns);
            }
        }
        match self.stage {
            Stage::Connect => {
                if self.connector.up_count == self.slots.len() as u64 && !self.is_connected {
                    self.is_connected = true;
                    self.tell(Message::Connected);
                }
            }
            Stage::Prepare => self.prepare(index),
            _ if self.plan.rules.is_some() => self.client_is_free(index),
            _ => {
                self.connector.reconnect_count += 1;
                self.prepare(index);
            }
        }
    }

    /// Close the client's connection, if there is one.
    pub(super) fn disconnect(&mut self, index: u32) {
        let shard = &mut *self.shard.borrow_mut();
        if shard.clients.states[index as usize].is_up() {
            shard.hang_up(index);
            shard.clients.states[index as usize].disconnected();
            self.connector.up_count -= 1;
        }
    }

    /// The connection is gone, whatever state it was in.
    fn on_closed(&mut self, index: u32, error: Option<io::Error>) {
        if matches!(self.shard.borrow().clients.states[index as usize].link, Link::Down) {
            // Subtle: what ended the connection came with the same events, and was dealt with.
            return;
        }
        let was_up = self.shard.borrow().clients.states[index as usize].is_up();
        if !was_up {
            let fault = error.map_or(Fault::HungUp, Fault::Io);
            self.connect_failed(index, &fault);
            return;
        }
        self.connector.up_count -= 1;
        self.connector.lost_count += 1;
        let shard = &mut *self.shard.borrow_mut();
        let client = &mut shard.clients.states[index as usize];
        let is_waiting = client.ready_wanted > 0;
        if is_waiting && client.may_commit && client.reply.error.is_none() {
            self.facts.commits_in_doubt += u64::from(client.current.is_some());
        }
        client.disconnected();
        // Its transaction, if any, learns of it.
        let is_idle = self.slots[index as usize].is_empty();
        if !is_idle {
            shard.clients.ready.push_back(index);
        }
        if self.plan.rules.is_some() {
            // pgbench makes a connection once.
            if is_idle && self.stage >= Stage::Load {
                self.abort_client(index);
            }
            return;
        }
        if self.stage < Stage::Drain {
            let at_ns = shard.now_ns + backoff_ns(index, 0);
            shard.timers.set(at_ns, Wake::Connect(index));
        }
    }

    fn connect_failed(&mut self, index: u32, fault: &Fault) {
        self.connector.in_flight -= 1;
        let shard = &mut *self.shard.borrow_mut();
        shard.poller.close(index);
        let client = &mut shard.clients.states[index as usize];
        client.disconnected();
        if self.stage >= Stage::Drain {
            return;
        }
        if self.has_other_attempt(client, fault) {
            client.attempt += 1;
            client.first_fault = Some(fault.to_string());
            self.connector.waiting.push_front(index);
            return;
        }
        let before = client.first_fault.take();
        client.attempt = 0;
        let address_count = self.connector.endpoints.len();
        let is_initial = self.stage < Stage::Load;
        let address = client.address;
        let was_last = address + 1 == address_count;
        let is_elsewhere_better = !matches!(fault, Fault::Opening(_)) || !is_initial;
        if is_elsewhere_better {
            client.address = (client.address + 1) % address_count;
        }
        let is_the_end = was_last || !is_elsewhere_better;
        if is_initial && is_the_end && !is_starting_up(fault) {
            let address = &self.connector.endpoints[address].address;
            let mut refusal = refusal(fault, self.plan);
            let before = before.map_or(String::new(), |before| format!(" (before that: {before})"));
            refusal.message = format!("could not connect to {address}: {fault}{before}");
            self.tell(Message::Fatal(Box::new(refusal)));
            return;
        }
        let pause_ns =
            if is_initial && !was_last { 0 } else { backoff_ns(index, client.failed_connects) };
        client.failed_connects += 1;
        shard.timers.set(shard.now_ns + pause_ns, Wake::Connect(index));
    }

    /// True when sslmode has another way to try, and the fault may lie in this one.
    fn has_other_attempt(&self, client: &ClientState, fault: &Fault) -> bool {
        let security = &self.connector.endpoints[client.address].security;
        let may_help = match fault {
            Fault::Opening(error) => error.may_be_the_encryption(),
            // Some servers close at a request for TLS.
            Fault::HungUp => security.attempt(client.attempt) == Some(Attempt::Tls),
            Fault::Io(_) => false,
        };
        may_help && security.attempt(client.attempt + 1).is_some()
    }

    /// Nobody feeds a COPY FROM STDIN: its error ends it.
    fn refuse_copy(&mut self, index: u32) {
        let mut out = Vec::new();
        encode::copy_fail(&mut out, "a script cannot send COPY data");
        if self.plan.work.protocol != Protocol::Simple {
            // During COPY the server ignores a Sync, so the one that was sent is lost.
            encode::sync(&mut out);
        }
        self.shard.borrow_mut().send(index, &out);
    }
}

/// The server is there and will soon let us in.
fn is_starting_up(fault: &Fault) -> bool {
    matches!(fault, Fault::Opening(OpeningError::Handshake(HandshakeError::Server(error)))
        if error.sqlstate == SqlState::new(b"57P03"))
}

/// Twice as long after each failure, and not the same for all clients.
fn backoff_ns(index: u32, failures: u32) -> u64 {
    let longest = (BACKOFF_NS << failures.min(10)).min(MAX_BACKOFF_NS);
    longest / 2 + u64::from(index).wrapping_mul(0x9e37_79b9_7f4a_7c15) % (longest / 2)
}

/// The server's own hint, or ours.
fn or(hint: String, ours: &str) -> String {
    if hint.is_empty() { ours.to_owned() } else { hint }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Io(error) => error.fmt(f),
            Fault::HungUp => f.write_str("the server closed the connection during the handshake"),
            Fault::Opening(error) => error.fmt(f),
        }
    }
}

/// Kind, hint and SQLSTATE of what ends the run; the message is the caller's.
fn refusal(fault: &Fault, plan: &crate::plan::Plan) -> Refusal {
    let handshake = match fault {
        Fault::Opening(OpeningError::Tls(error)) => {
            return Refusal::new(ErrorKind::Connect, "", error.hint.clone());
        }
        Fault::Opening(OpeningError::Handshake(error)) => error,
        Fault::Io(_) | Fault::HungUp => {
            let hint = "check host and port, and that the server runs";
            return Refusal::new(ErrorKind::Connect, "", hint);
        }
    };
    let (kind, hint) = match handshake {
        HandshakeError::Server(error) => {
            let hint = error.hint.clone().unwrap_or_default();
            match error.sqlstate {
                SqlState::TOO_MANY_CONNECTIONS => (
                    ErrorKind::TooManyConnections,
                    format!(
                        "the load needs {} connections: raise max_connections, or use fewer \
                         clients",
                        plan.client_count()
                    ),
                ),
                state if state.class() == "28" => {
                    (ErrorKind::Authentication, or(hint, "check user, password and pg_hba.conf"))
                }
                state if state.class() == "3D" => {
                    (ErrorKind::Connect, or(hint, "check the name of the database"))
                }
                _ => (ErrorKind::Connect, or(hint, "the server's log may say more")),
            }
        }
        HandshakeError::Protocol(_) => {
            (ErrorKind::Protocol, "something else than PostgreSQL may listen there".to_owned())
        }
        HandshakeError::NotBound => (
            ErrorKind::Authentication,
            "connect by TCP with TLS and scram-sha-256, or give channel_binding=prefer".to_owned(),
        ),
        _ => (ErrorKind::Authentication, "check user and password".to_owned()),
    };
    let sqlstate = match handshake {
        HandshakeError::Server(error) => Some(error.sqlstate.as_str().to_owned()),
        _ => None,
    };
    Refusal { sqlstate, ..Refusal::new(kind, "", hint) }
}
