//! Begins the connections of one thread, and takes them to an open session.

use std::io;

use super::connector::{Connector, login_at};
use super::fault::Fault;
use super::message::Message;
use super::{Stage, Starts, Worker};
use crate::client::Link;
use crate::clock::now_ns;
use crate::contract::record::ErrorKind;
use crate::plan::Refusal;
use crate::tls::{Endpoint, Opened, Opening};

/// Pause when a Unix socket's backlog is full.
const BACKLOG_PAUSE_NS: u64 = 2_000_000;
/// Pause before a password command that failed is run again.
const PASSWORD_PAUSE_NS: u64 = 1_000_000_000;

impl<'s, S: Starts<'s>> Worker<'s, S> {
    /// Clients come first: if not all connections can be made, idle ones are missing.
    pub(super) fn queue_all_connects(&mut self) {
        if self.plan.pgbench.connects_late() {
            self.is_connected = true;
            return self.tell(Message::Connected);
        }
        let clients = self.slots.len() as u32;
        let all = clients + self.idle.count() as u32;
        (0..all).for_each(|index| self.queue_connect(index));
    }

    /// Ask for a connection, and begin its search for an address.
    pub(super) fn queue_connect(&mut self, index: u32) {
        let address = self.connector.first_address(index);
        self.shard.borrow_mut().clients.states[index as usize].walk.begin(address);
        self.connector.waiting.push_back(index);
    }

    /// True if a new connection may still be useful.
    pub(super) fn may_connect(&self) -> bool {
        self.stage < Stage::Drain
            || self.stage == Stage::Drain
                && (self.plan.pgbench.connects_late() || self.makes_connections_in_drain())
    }

    /// Begin all connections that may begin now, and give up those that took too long.
    pub(super) fn connect_more(&mut self) {
        let mut now = now_ns();
        self.give_up_slow(now);
        if self.connector.waiting.is_empty() || !self.may_connect() || !self.has_password(now) {
            return;
        }
        self.connector.follow_names();
        while self.connector.next_begin_ns() <= now {
            let index = self.connector.waiting.pop_front().expect("next_begin_ns says so");
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

    fn has_password(&mut self, now_ns: u64) -> bool {
        match self.connector.take_password() {
            Ok(is_there) => is_there,
            Err(why) if self.stage < Stage::Load => {
                let hint = "run the command by hand: it must print the password and nothing else";
                let refusal = Refusal::new(ErrorKind::Authentication, why, hint);
                self.tell(Message::Fatal(Box::new(refusal)));
                self.connector.waiting.clear();
                false
            }
            Err(_) => {
                self.connector.not_before_ns = now_ns + PASSWORD_PAUSE_NS;
                false
            }
        }
    }

    /// False when the backlog is full.
    fn begin_connect(&mut self, index: u32, began_ns: u64) -> bool {
        let connected = {
            let shard = &mut *self.shard.borrow_mut();
            let client = &mut shard.clients.states[index as usize];
            client.link = Link::Connecting { began_ns };
            client.walk.password = self.connector.password_number;
            let endpoint = &self.connector.endpoints[client.walk.address];
            shard.poller.connect(index, &endpoint.address)
        };
        match connected {
            Ok(is_connected) => {
                self.connector.in_flight += 1;
                if let Some(limit_ns) = self.connector.limit_ns(self.stage >= Stage::Load) {
                    let limit_ns = began_ns.saturating_add(limit_ns);
                    self.connector.limits.push_back((limit_ns, index, began_ns));
                }
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

    /// Close connections that were not opened in time.
    fn give_up_slow(&mut self, now_ns: u64) {
        while let Some(&(limit_ns, index, began_at_ns)) = self.connector.limits.front() {
            let is_on_its_way = match self.shard.borrow().clients.states[index as usize].link {
                Link::Connecting { began_ns } | Link::Opening { began_ns, .. } => {
                    began_ns == began_at_ns
                }
                Link::Down | Link::Up => false,
            };
            if is_on_its_way && limit_ns > now_ns {
                return;
            }
            self.connector.limits.pop_front();
            if is_on_its_way {
                self.connect_failed(index, &Fault::TookTooLong(limit_ns - began_at_ns));
            }
        }
    }

    pub(super) fn begin_opening(&mut self, index: u32) {
        let mut out = Vec::new();
        let begun = {
            let shard = &mut *self.shard.borrow_mut();
            let client = &mut shard.clients.states[index as usize];
            let Link::Connecting { began_ns } = client.link else {
                unreachable!("an opening follows connecting")
            };
            let Endpoint { security, host, .. } = &self.connector.endpoints[client.walk.address];
            let attempt = security.attempt(client.walk.attempt).expect("there is one more");
            let login = login_at(host, &self.connector.login);
            let asked = (&*login, client.walk.attrs(self.connector.attrs()));
            let begun = Opening::start(security, attempt, asked, &mut out);
            begun.map(|opening| {
                client.link = Link::Opening { began_ns, opening: Box::new(opening) };
                shard.poller.send(index, &out);
            })
        };
        if let Err(error) = begun {
            self.connect_failed(index, &Fault::Opening(error));
        }
    }

    pub(super) fn advance_opening(&mut self, index: u32, bytes: &[u8]) {
        let mut out = Vec::new();
        let advance = {
            let shard = &mut *self.shard.borrow_mut();
            let client = &mut shard.clients.states[index as usize];
            let Link::Opening { opening, .. } = &mut client.link else { return };
            let Connector { endpoints, login, salted, .. } = &mut self.connector;
            let login = login_at(&endpoints[client.walk.address].host, login);
            let advance = opening.advance(bytes, &login, salted, &mut out);
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

    fn on_up(&mut self, index: u32, opened: Opened) {
        self.connector.in_flight -= 1;
        let is_reconnect = {
            let shard = &mut *self.shard.borrow_mut();
            let client = &mut shard.clients.states[index as usize];
            if let Link::Opening { began_ns, .. } = client.link {
                self.connector.durations.record(now_ns() - began_ns);
            }
            self.connector.good_address = client.walk.address;
            let is_reconnect = client.walk.is_after_loss;
            client.walk.arrive();
            client.link = Link::Up;
            client.tls = opened.tls;
            client.backend = opened.session;
            // A server before version 14 does not report it, nor do some poolers.
            let told = client.backend.parameters.get("default_transaction_read_only");
            client.asks_read_only =
                self.plan.work.read_only && told.is_none_or(|value| value != "on");
            // Kept once: they are the same for all clients, of which there may be thousands.
            client.backend.parameters.clear();
            if !opened.rest.is_empty() {
                let at_ns = shard.now_ns;
                shard.clients.on_plain(index, &opened.rest, at_ns);
            }
            is_reconnect
        };
        if self.is_idle(index) {
            self.connector.idle_up_count += 1;
            self.idle.opened += u64::from(self.stage == Stage::Connect);
            return self.tell_when_connected();
        }
        self.connector.up_count += 1;
        self.connector.reconnect_count += u64::from(is_reconnect && self.stage >= Stage::Load);
        match self.stage {
            Stage::Connect => self.tell_when_connected(),
            Stage::Prepare => self.prepare(index),
            _ if self.plan.pgbench.connects_late() => self.start_connected(index),
            // The transaction that needs the statements parses them, as in pgbench.
            _ if self.plan.pgbench.skips_preparing() || self.plan.connects_each_time() => {
                self.connection_is_free(index);
            }
            _ => self.prepare(index),
        }
    }

    fn tell_when_connected(&mut self) {
        let is_whole = self.connector.up_count == self.slots.len() as u64
            && self.connector.idle_up_count == self.idle.count();
        if self.stage == Stage::Connect && is_whole && !self.is_connected {
            self.is_connected = true;
            self.tell(Message::Connected);
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
}
