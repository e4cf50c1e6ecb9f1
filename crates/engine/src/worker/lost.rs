//! Lost or failed connections of one thread, and the search for another address.

use std::io;

use super::fault::Fault;
use super::message::Message;
use super::{Stage, Starts, Worker};
use crate::client::{ClientState, Link};
use crate::plan::Refusal;
use crate::timers::Wake;
use crate::tls::{Attempt, Endpoint};
use crate::walk::Next;

/// The next step of a connection that was not made.
enum Then {
    AtOnce,
    /// Wait for a timer, or do nothing any more.
    Waits,
    /// It ends the run.
    Ends(Box<Refusal>),
    /// Its client is done, because this address refused it.
    IsDone(usize),
}

impl<'s, S: Starts<'s>> Worker<'s, S> {
    /// The connection is lost, in any state.
    pub(super) fn on_closed(&mut self, index: u32, error: Option<io::Error>) {
        if matches!(self.shard.borrow().clients.states[index as usize].link, Link::Down) {
            // Subtle: the event that ended the connection came in the same turn and was already
            // handled.
            return;
        }
        let was_up = self.shard.borrow().clients.states[index as usize].is_up();
        if !was_up {
            let fault = error.map_or(Fault::HungUp, Fault::Io);
            self.connect_failed(index, &fault);
            return;
        }
        if self.is_idle(index) {
            self.lose_idle(index);
        } else {
            self.lose_client(index);
            if self.plan.pgbench.connects_once() {
                // pgbench makes a connection once.
                if self.slots[index as usize].is_empty() && self.stage >= Stage::Load {
                    self.abort_client(index);
                }
                return;
            }
        }
        // An idle connection that was lost is not opened again: the number at the end shows the
        // loss.
        let is_wanted = !self.is_idle(index) || self.stage < Stage::Prepare;
        if is_wanted && self.may_connect() {
            self.connect_later(index);
        }
    }

    /// Begin the search for an address after a pause.
    fn connect_later(&mut self, index: u32) {
        self.connector.look_again();
        let shard = &mut *self.shard.borrow_mut();
        let walk = &mut shard.clients.states[index as usize].walk;
        walk.begin(self.connector.first_address(index));
        let at_ns = shard.now_ns + walk.pause_ns(index);
        shard.timers.set(at_ns, Wake::Connect(index));
    }

    /// The server refused the statements of a connection that was made again. In a load that
    /// outlasts crashes the server may be recovering, for example with a full disk.
    pub(super) fn refused_in_prepare(&mut self, index: u32, refusal: Box<Refusal>) {
        if self.stage < Stage::Load || !self.plan.work.connect.outlasts_crashes {
            return self.tell(Message::Fatal(refusal));
        }
        self.shard.borrow_mut().clients.states[index as usize].walk.is_after_loss = true;
        self.disconnect(index);
        if self.may_connect() {
            self.connect_later(index);
        }
    }

    fn lose_idle(&mut self, index: u32) {
        let client = &mut self.shard.borrow_mut().clients.states[index as usize];
        self.connector.idle_up_count -= 1;
        if client.ready_wanted > 0 {
            self.idle.on_lost();
        }
        client.ready_wanted = 0;
        client.disconnected();
    }

    fn lose_client(&mut self, index: u32) {
        let shard = &mut *self.shard.borrow_mut();
        let client = &mut shard.clients.states[index as usize];
        self.connector.up_count -= 1;
        self.connector.lost_count += 1;
        client.walk.is_after_loss = true;
        client.is_in_doubt = client.may_have_committed();
        self.facts.commits_in_doubt += u64::from(client.is_in_doubt);
        client.disconnected();
        // Its transaction, if any, gets the error.
        if !self.slots[index as usize].is_empty() {
            shard.clients.ready.push_back(index);
        }
    }

    pub(super) fn connect_failed(&mut self, index: u32, fault: &Fault) {
        self.connector.in_flight -= 1;
        match self.after_failure(index, fault) {
            Then::Waits => {}
            Then::AtOnce => self.connector.waiting.push_front(index),
            Then::Ends(refusal) => self.tell(Message::Fatal(refusal)),
            Then::IsDone(address) => self.abort_unconnected(index, address, fault),
        }
    }

    /// Decide the next step of a connection that was not made.
    fn after_failure(&mut self, index: u32, fault: &Fault) -> Then {
        let is_initial = self.stage < Stage::Load;
        let may_connect = self.may_connect();
        let shard = &mut *self.shard.borrow_mut();
        shard.poller.close(index);
        let client = &mut shard.clients.states[index as usize];
        client.disconnected();
        if !may_connect {
            return Then::Waits;
        }
        let is_refused = fault.is_about_the_password() && !client.walk.is_password_new;
        if is_refused && self.connector.asks_anew(client.walk.password) {
            client.walk.is_password_new = true;
            return Then::AtOnce;
        }
        if self.has_other_attempt(client, fault) {
            client.walk.try_another_way(fault.to_string());
            return Then::AtOnce;
        }
        let address = client.walk.address;
        let before = client.walk.first_fault.take();
        client.walk.is_awaited |= fault.is_starting_up();
        let is_the_end =
            (is_initial || self.plan.pgbench.connects_late()) && fault.ends_the_search();
        let next = client.walk.leave(self.connector.endpoints.len(), self.connector.attrs());
        if next == Next::AtOnce && !is_the_end {
            return Then::AtOnce;
        }
        if self.plan.pgbench.connects_late() {
            return Then::IsDone(address);
        }
        if is_initial && (is_the_end || !client.walk.is_awaited) {
            let Endpoint { address, host, .. } = &self.connector.endpoints[address];
            let mut refusal = fault.refusal(self.plan);
            let before = before.map_or(String::new(), |before| format!(" (before that: {before})"));
            refusal.message = format!("could not connect to {address}: {fault}{before}");
            if let Some(observer) = &shard.observer {
                let said = observer.not_connected(index, &fault.as_session_error(host), host);
                (refusal.message, refusal.hint) = said;
            }
            return Then::Ends(Box::new(refusal));
        }
        self.connector.look_again();
        let at_ns = shard.now_ns + client.walk.pause_ns(index);
        shard.timers.set(at_ns, Wake::Connect(index));
        Then::Waits
    }

    /// True when sslmode has another way to try, and the fault may lie in this one.
    fn has_other_attempt(&self, client: &ClientState, fault: &Fault) -> bool {
        let security = &self.connector.endpoints[client.walk.address].security;
        let number = client.walk.attempt;
        let may_help = match fault {
            Fault::Opening(error) => error.may_be_the_encryption(),
            // Some servers close at a request for TLS.
            Fault::HungUp => security.attempt(number) == Some(Attempt::Tls),
            Fault::Io(_) | Fault::TookTooLong(_) => false,
        };
        may_help && security.attempt(number + 1).is_some()
    }
}
