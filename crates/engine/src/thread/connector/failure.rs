//! What follows if a connection is not made: another way, another address, a pause, or the end.

use std::io;

use super::fault::Fault;
use super::{Connector, Outcome, Season};
use crate::client::{Connection, Shard};
use crate::timers::Wake;
use crate::tls::{Attempt, Endpoint};
use crate::walk::Next;

/// The next step of a connection that was not made.
enum Then {
    AtOnce,
    /// Wait for a timer, or do nothing any more.
    Waits,
    /// Tell the loop.
    Ends(Outcome),
}

impl Connector<'_> {
    /// The server closed a connection whose session was not open yet, or the socket failed.
    pub(in crate::thread) fn closed(
        &mut self,
        index: u32,
        error: Option<io::Error>,
        shard: &mut Shard,
        season: Season,
    ) -> Option<Outcome> {
        let fault = error.map_or(Fault::HungUp, Fault::Io);
        self.failed(index, &fault, shard, season)
    }

    /// The connection was not made: decide what follows.
    pub(super) fn failed(
        &mut self,
        index: u32,
        fault: &Fault,
        shard: &mut Shard,
        season: Season,
    ) -> Option<Outcome> {
        self.in_flight -= 1;
        shard.poller.close(index);
        match self.after_failure(index, fault, shard, season) {
            Then::Waits => None,
            Then::AtOnce => {
                self.waiting.push_front(index);
                None
            }
            Then::Ends(outcome) => Some(outcome),
        }
    }

    fn after_failure(
        &mut self,
        index: u32,
        fault: &Fault,
        shard: &mut Shard,
        season: Season,
    ) -> Then {
        let connection = &mut shard.clients.connections[index as usize];
        connection.disconnected();
        if !season.may_connect {
            return Then::Waits;
        }
        let is_refused = fault.is_about_the_password() && !connection.walk.is_password_new;
        if is_refused && self.asks_anew(connection.walk.password) {
            connection.walk.is_password_new = true;
            return Then::AtOnce;
        }
        if self.has_other_attempt(connection, fault) {
            connection.walk.try_another_way(fault.to_string());
            return Then::AtOnce;
        }
        let address = connection.walk.address;
        let before = connection.walk.first_fault.take();
        connection.walk.is_awaited |= fault.is_starting_up();
        let is_the_end =
            (season.is_initial || self.plan.pgbench.connects_late()) && fault.ends_the_search();
        let next = connection.walk.leave(self.endpoints.len(), self.attrs());
        if next == Next::AtOnce && !is_the_end {
            return Then::AtOnce;
        }
        if self.plan.pgbench.connects_late() {
            if let Some(observer) = &mut shard.observer {
                let host = &self.endpoints[address].host;
                observer.aborted_connecting(index, &fault.as_session_error(host), host);
            }
            return Then::Ends(Outcome::GaveUp(index));
        }
        if season.is_initial && (is_the_end || !connection.walk.is_awaited) {
            let Endpoint { address, host, .. } = &self.endpoints[address];
            let mut refusal = fault.refusal(self.plan);
            let before = before.map_or(String::new(), |before| format!(" (before that: {before})"));
            refusal.message = format!("could not connect to {address}: {fault}{before}");
            if let Some(observer) = &shard.observer {
                let said = observer.not_connected(index, &fault.as_session_error(host), host);
                (refusal.message, refusal.hint) = said;
            }
            return Then::Ends(Outcome::Fatal(Box::new(refusal)));
        }
        let place = self.endpoints[address].address.clone();
        self.keep_news(fault, &place);
        self.names.look_again();
        let at_ns = shard.now_ns + connection.walk.pause_ns(index);
        shard.timers.set(at_ns, Wake::Connect(index));
        Then::Waits
    }

    /// True when sslmode has another way to try, and the fault may lie in this one.
    fn has_other_attempt(&self, connection: &Connection, fault: &Fault) -> bool {
        let security = &self.endpoints[connection.walk.address].security;
        let number = connection.walk.attempt;
        let may_help = match fault {
            Fault::Opening(error) => error.may_be_the_encryption(),
            // Some servers close at a request for TLS.
            Fault::HungUp => security.attempt(number) == Some(Attempt::Tls),
            Fault::Io(_) | Fault::TookTooLong(_) => false,
        };
        may_help && security.attempt(number + 1).is_some()
    }
}
