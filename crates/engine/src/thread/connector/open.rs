//! Takes a connection from its begin to an open session.

use std::io;

use super::fault::Fault;
use super::{Connector, Outcome, Season, login_at};
use crate::client::{Link, Shard};
use crate::clock::now_ns;
use crate::tls::{Endpoint, Opened, Opening};

/// The queue of the server's Unix socket is full.
pub(super) struct BacklogIsFull;

impl Connector<'_> {
    /// Begin a connection.
    pub(super) fn begin(
        &mut self,
        index: u32,
        began_ns: u64,
        shard: &mut Shard,
        season: Season,
    ) -> Result<Option<Outcome>, BacklogIsFull> {
        let connection = &mut shard.clients.connections[index as usize];
        connection.link = Link::Connecting { began_ns };
        connection.walk.password = self.password_number;
        let endpoint = &self.endpoints[connection.walk.address];
        match shard.poller.connect(index, &endpoint.address) {
            Ok(is_connected) => {
                self.in_flight += 1;
                if let Some(limit_ns) = self.limit_ns(!season.is_initial) {
                    let limit_ns = began_ns.saturating_add(limit_ns);
                    self.limits.push_back((limit_ns, index, began_ns));
                }
                Ok(if is_connected { self.connected(index, shard, season) } else { None })
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                connection.link = Link::Down;
                Err(BacklogIsFull)
            }
            Err(error) => {
                self.in_flight += 1;
                Ok(self.failed(index, &Fault::Io(error), shard, season))
            }
        }
    }

    /// The socket is connected: begin to open a session.
    pub(in crate::thread) fn connected(
        &mut self,
        index: u32,
        shard: &mut Shard,
        season: Season,
    ) -> Option<Outcome> {
        let mut out = Vec::new();
        let connection = &mut shard.clients.connections[index as usize];
        let Link::Connecting { began_ns } = connection.link else {
            unreachable!("an opening follows connecting")
        };
        let Endpoint { security, host, .. } = &self.endpoints[connection.walk.address];
        let attempt = security.attempt(connection.walk.attempt).expect("there is one more");
        let login = login_at(host, &self.login);
        let asked = (&*login, connection.walk.attrs(self.attrs()));
        match Opening::start(security, attempt, asked, &mut out) {
            Ok(opening) => {
                connection.link = Link::Opening { began_ns, opening: Box::new(opening) };
                shard.poller.send(index, &out);
                None
            }
            Err(error) => self.failed(index, &Fault::Opening(error), shard, season),
        }
    }

    /// Bytes of the server for a session that is being opened.
    pub(in crate::thread) fn received(
        &mut self,
        index: u32,
        bytes: &[u8],
        shard: &mut Shard,
        season: Season,
    ) -> Option<Outcome> {
        let mut out = Vec::new();
        let connection = &mut shard.clients.connections[index as usize];
        let Link::Opening { opening, .. } = &mut connection.link else { return None };
        let login = login_at(&self.endpoints[connection.walk.address].host, &self.login);
        let advance = opening.advance(bytes, &login, &mut self.salted, &mut out);
        if !out.is_empty() {
            shard.poller.send(index, &out);
        }
        match advance {
            Ok(None) => None,
            Ok(Some(opened)) => {
                self.opened(index, opened, shard, season);
                Some(Outcome::Up(index))
            }
            Err(error) => self.failed(index, &Fault::Opening(error), shard, season),
        }
    }

    fn opened(&mut self, index: u32, opened: Opened, shard: &mut Shard, season: Season) {
        self.in_flight -= 1;
        let connection = &mut shard.clients.connections[index as usize];
        if let Link::Opening { began_ns, .. } = connection.link {
            self.durations.record(now_ns() - began_ns);
        }
        self.good_address = connection.walk.address;
        connection.host = self.host_number(self.good_address);
        self.opened_at[connection.host] += 1;
        let is_reconnect = connection.walk.is_after_loss;
        connection.walk.arrive();
        connection.link = Link::Up;
        connection.tls = opened.tls;
        connection.backend = opened.session;
        // A server before version 14 does not report it, nor do some poolers.
        let told = connection.backend.parameters.get("default_transaction_read_only");
        connection.asks_read_only =
            self.plan.work.read_only && told.is_none_or(|value| value != "on");
        // Kept once: they are the same for all clients, of which there may be thousands.
        connection.backend.parameters.clear();
        if !opened.rest.is_empty() {
            let at_ns = shard.now_ns;
            shard.clients.on_plain(index, &opened.rest, at_ns);
        }
        if self.is_idle(index) {
            self.counts.idle_up += 1;
        } else {
            self.counts.up += 1;
            self.counts.reconnects += u64::from(is_reconnect && !season.is_initial);
        }
    }
}
