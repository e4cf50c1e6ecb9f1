//! Connections of one thread: made, lost, made again.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use pgdyno_wire::{
    Advance, BytesMut, Handshake, HandshakeError, ProtocolError, SaltedPasswords, Session,
    SqlState, encode,
};

use super::{Stage, Task, TaskEnd, Worker};
use crate::client::{Client, Link, News};
use crate::clock::{NEVER_NS, now_ns};
use crate::contract::job::Protocol;
use crate::contract::record::ErrorKind;
use crate::histogram::Histogram;
use crate::load::Message;
use crate::plan::Refusal;
use crate::poller::Address;
use crate::timers::Wake;

const MAX_IN_FLIGHT: u32 = 128;
/// Pause when a Unix socket's backlog is full.
const BACKLOG_PAUSE_NS: u64 = 2_000_000;
/// First pause before connecting again; each further one is twice as long.
const BACKOFF_NS: u64 = 50_000_000;
const MAX_BACKOFF_NS: u64 = 1_000_000_000;

/// See the module's text.
#[derive(Debug)]
pub(super) struct Connector {
    pub(super) addresses: Arc<[Address]>,
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
    Handshake(HandshakeError),
    /// The server hung up during the handshake.
    HungUp,
}

impl Connector {
    pub(super) fn new(
        addresses: Arc<[Address]>,
        client_count: usize,
        first_ns: u64,
        gap_ns: u64,
    ) -> Connector {
        Connector {
            addresses,
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
            shard.poller.connect(index, &self.connector.addresses[client.address])
        };
        match connected {
            Ok(is_connected) => {
                self.connector.in_flight += 1;
                if is_connected {
                    self.begin_handshake(index);
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

    fn begin_handshake(&mut self, index: u32) {
        let mut out = BytesMut::new();
        let begun = Handshake::start(&self.plan.login, &mut out);
        match begun {
            Err(error) => self.connect_failed(index, &Fault::Handshake(error)),
            Ok(handshake) => {
                let shard = &mut *self.shard.borrow_mut();
                let client = &mut shard.clients.states[index as usize];
                let Link::Connecting { began_ns } = client.link else {
                    unreachable!("a handshake follows connecting")
                };
                client.link = Link::Handshake { began_ns, handshake: Box::new(handshake) };
                shard.poller.send(index, &out);
            }
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
                News::Connected(index) => self.begin_handshake(index),
                News::Handshake(index, bytes) => self.advance_handshake(index, &bytes),
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

    fn advance_handshake(&mut self, index: u32, bytes: &[u8]) {
        let mut input = bytes;
        let mut out = BytesMut::new();
        let advance = {
            let shard = &mut *self.shard.borrow_mut();
            let client = &mut shard.clients.states[index as usize];
            let Link::Handshake { handshake, .. } = &mut client.link else { return };
            let salted = &mut self.connector.salted;
            let advance = handshake.advance(&self.plan.login, salted, &mut input, &mut out);
            if !out.is_empty() {
                shard.poller.send(index, &out);
            }
            advance
        };
        match advance {
            Ok(Advance::Continue) => {}
            Ok(Advance::Ready(session)) => self.on_up(index, session),
            Err(error) => self.connect_failed(index, &Fault::Handshake(error)),
        }
    }

    fn on_up(&mut self, index: u32, session: Session) {
        self.connector.in_flight -= 1;
        self.connector.up_count += 1;
        {
            let shard = &mut *self.shard.borrow_mut();
            let client = &mut shard.clients.states[index as usize];
            if let Link::Handshake { began_ns, .. } = client.link {
                self.connector.durations.record(now_ns() - began_ns);
            }
            client.link = Link::Up;
            client.failed_connects = 0;
            // The parameters are the same for all clients: eight thousand copies would be data.
            client.backend = Session { parameters: Default::default(), ..session };
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
        let client = &mut shard.clients.states[index as usize];
        if client.is_up() {
            let mut terminate = Vec::new();
            encode::terminate(&mut terminate);
            shard.poller.send(index, &terminate);
            shard.poller.close(index);
            client.disconnected();
            self.connector.up_count -= 1;
        }
    }

    /// The connection is gone, whatever state it was in.
    fn on_closed(&mut self, index: u32, error: Option<io::Error>) {
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
        let address_count = self.connector.addresses.len();
        let is_initial = self.stage < Stage::Load;
        let was_last = client.address + 1 == address_count;
        let is_elsewhere_better = !matches!(fault, Fault::Handshake(_)) || !is_initial;
        if is_elsewhere_better {
            client.address = (client.address + 1) % address_count;
        }
        let is_the_end = was_last || !is_elsewhere_better;
        if is_initial && is_the_end && !is_starting_up(fault) {
            let refusal = refusal(fault, &self.connector.addresses[address_count - 1], self.plan);
            self.tell(Message::Fatal(Box::new(refusal)));
            return;
        }
        let pause_ns =
            if is_initial && !was_last { 0 } else { backoff_ns(index, client.failed_connects) };
        client.failed_connects += 1;
        shard.timers.set(shard.now_ns + pause_ns, Wake::Connect(index));
    }

    /// Nobody feeds a COPY FROM STDIN: its error ends it.
    fn refuse_copy(&mut self, index: u32) {
        let mut out = Vec::new();
        encode::copy_fail(&mut out, "a script cannot send COPY data");
        if self.plan.work.protocol != Protocol::Simple {
            // During COPY the server ignores a Sync, so the one that was sent is lost.
            encode::sync(&mut out);
        }
        self.shard.borrow_mut().poller.send(index, &out);
    }
}

/// The server is there and will soon let us in.
fn is_starting_up(fault: &Fault) -> bool {
    matches!(fault, Fault::Handshake(HandshakeError::Server(error))
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

fn refusal(fault: &Fault, address: &Address, plan: &crate::plan::Plan) -> Refusal {
    let said = match fault {
        Fault::Io(error) => error.to_string(),
        Fault::HungUp => "the server closed the connection during the handshake".to_owned(),
        Fault::Handshake(error) => error.to_string(),
    };
    let (kind, hint) = match fault {
        Fault::Io(_) | Fault::HungUp => {
            (ErrorKind::Connect, "check host and port, and that the server runs".to_owned())
        }
        Fault::Handshake(HandshakeError::Server(error)) => {
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
        Fault::Handshake(HandshakeError::Protocol(_)) => {
            (ErrorKind::Protocol, "something else than PostgreSQL may listen there".to_owned())
        }
        Fault::Handshake(_) => (ErrorKind::Authentication, "check user and password".to_owned()),
    };
    let sqlstate = match fault {
        Fault::Handshake(HandshakeError::Server(error)) => Some(error.sqlstate.as_str().to_owned()),
        _ => None,
    };
    Refusal {
        sqlstate,
        ..Refusal::new(kind, format!("could not connect to {address}: {said}"), hint)
    }
}
