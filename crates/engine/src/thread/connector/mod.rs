//! Makes and replaces the connections of one thread: which next, when, where, and as which user.
//!
//! `open` takes a connection from its begin to an open session. `failure` decides what follows if
//! that fails.

mod failure;
mod fault;
mod open;

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use pgdyno_wire::{Login, SaltedPasswords};

use self::fault::Fault;
use crate::client::{Link, Shard};
use crate::clock::{NEVER_NS, now_ns};
use crate::contract::job::{HostPort, Reach, SessionAttrs};
use crate::contract::record::ErrorKind;
use crate::histogram::Histogram;
use crate::names::Names;
use crate::password::{Offer, Passwords};
use crate::plan::Plan;
use crate::poller::{Address, Waker};
use crate::refusal::Refusal;
use crate::timers::Wake;
use crate::tls::Endpoint;

const MAX_IN_FLIGHT: u32 = 128;
/// Time limit of one address if the job has none, and either the load is running or there is
/// another address to try.
const TIMEOUT_NS: u64 = 10_000_000_000;
/// Pause when a Unix socket's backlog is full.
const BACKLOG_PAUSE_NS: u64 = 2_000_000;
/// Pause before a password command that failed is run again.
const PASSWORD_PAUSE_NS: u64 = 1_000_000_000;

/// What the thread's loop must do, because a connection was made or will not be made.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The session of this connection is open.
    Up(u32),
    /// The run must end.
    Fatal(Box<Refusal>),
    /// The client of this connection is done: the address refused it.
    GaveUp(u32),
}

/// What the stage of the thread allows a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Season {
    /// The load has not begun: a connection that cannot be made ends the run.
    pub(super) is_initial: bool,
    /// A new connection may still be useful.
    pub(super) may_connect: bool,
}

/// Queue, pace, addresses and login of the connections of one thread.
#[derive(Debug)]
pub(super) struct Connector<'s> {
    plan: &'s Plan,
    /// The connections of the clients, and of clients and idle ones together.
    client_connections: u32,
    all_connections: u32,
    endpoints: Arc<[Endpoint]>,
    names: Arc<Names>,
    version: u64,
    /// User and present password.
    login: Login,
    passwords: Option<Arc<Passwords>>,
    password_number: u32,
    /// The password command is running: no connection begins until it wakes the thread.
    is_parked: bool,
    waker: Waker,
    reach: Reach,
    thread: u32,
    /// Sessions opened at each host of the job.
    opened_at: Vec<u64>,
    /// The address where the last session was opened.
    good_address: usize,
    /// Connections that wait for their begin.
    waiting: VecDeque<u32>,
    in_flight: u32,
    /// Connections with a time limit, oldest first: end of the limit, connection, begin.
    limits: VecDeque<(u64, u32, u64)>,
    /// The next connection must not begin before this instant.
    not_before_ns: u64,
    /// Time between the begins of two connections; 0 = no pause.
    gap_ns: u64,
    salted: SaltedPasswords,
    counts: ConnectionCounts,
    /// From socket to ReadyForQuery.
    durations: Histogram,
    /// Why the last connection was not made during the load, if it is news for the coordinator.
    news: Option<Box<Refusal>>,
    told: Option<String>,
}

/// How many connections are open, and how many were lost and replaced.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ConnectionCounts {
    /// Open connections of clients; idle ones are counted separately.
    pub(super) up: u64,
    pub(super) idle_up: u64,
    pub(super) lost: u64,
    pub(super) reconnects: u64,
}

/// When the first connection of a thread may begin, and the time between two.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    pub first_ns: u64,
    /// 0 = no pause.
    pub gap_ns: u64,
}

/// How a thread reaches its servers.
#[derive(Debug)]
pub(super) struct Way {
    pub(super) names: Arc<Names>,
    pub(super) waker: Waker,
    pub(super) pace: Pace,
    pub(super) thread: u32,
}

impl<'s> Connector<'s> {
    /// Args: `client_connections` and `all_connections`, their numbers without and with idle ones.
    pub(super) fn new(
        plan: &'s Plan,
        way: Way,
        client_connections: u32,
        all_connections: u32,
    ) -> Self {
        let Way { names, waker, pace, thread } = way;
        let command = plan.target.password_command.as_deref();
        let first = plan.target.password.as_deref();
        let (endpoints, version) = names.endpoints();
        Connector {
            plan,
            client_connections,
            all_connections,
            endpoints,
            names,
            version,
            login: plan.login.clone(),
            passwords: command.map(|command| Passwords::of(command, first)),
            password_number: 0,
            is_parked: false,
            waker,
            reach: plan.target.reach.clone(),
            thread,
            opened_at: vec![0; plan.target.hosts.len()],
            good_address: 0,
            waiting: VecDeque::new(),
            in_flight: 0,
            limits: VecDeque::new(),
            not_before_ns: pace.first_ns,
            gap_ns: pace.gap_ns,
            salted: SaltedPasswords::default(),
            counts: ConnectionCounts::default(),
            durations: Histogram::default(),
            news: None,
            told: None,
        }
    }

    /// Queue all connections. Clients come first: if not all connections can be made, idle ones are
    /// missing.
    pub(super) fn queue_all(&mut self, shard: &mut Shard) {
        (0..self.all_connections).for_each(|index| self.queue(index, shard));
    }

    /// Ask for a connection, and begin its search for an address.
    pub(super) fn queue(&mut self, index: u32, shard: &mut Shard) {
        let address = self.first_address(index);
        shard.clients.connections[index as usize].walk.begin(address);
        self.waiting.push_back(index);
    }

    /// Continue with a connection whose pause is over. If it is not needed any more, it never
    /// begins.
    pub(super) fn pause_is_over(&mut self, index: u32) {
        self.waiting.push_back(index);
    }

    /// Forget the connections that have not begun.
    pub(super) fn clear_queue(&mut self) {
        self.waiting.clear();
    }

    /// True if no connection waits or has a time limit, so that `connect_more` has nothing to do.
    #[inline]
    pub(super) fn is_quiet(&self) -> bool {
        self.waiting.is_empty() && self.limits.is_empty()
    }

    /// Begin all connections that may begin now, and give up those that took too long.
    ///
    /// Returns: the first outcome; call it again until there is none.
    pub(super) fn connect_more(&mut self, shard: &mut Shard, season: Season) -> Option<Outcome> {
        let mut now = now_ns();
        while let Some((index, fault)) = self.next_slow(now, shard) {
            let outcome = self.failed(index, &fault, shard, season);
            if outcome.is_some() {
                return outcome;
            }
        }
        if self.waiting.is_empty() || !season.may_connect {
            return None;
        }
        match self.take_password() {
            Ok(true) => {}
            Ok(false) => return None,
            Err(why) if season.is_initial => {
                self.waiting.clear();
                let hint = "run the command by hand: it must print the password and nothing else";
                let refusal = Refusal::new(ErrorKind::Authentication, why, hint);
                return Some(Outcome::Fatal(Box::new(refusal)));
            }
            Err(_) => {
                self.not_before_ns = now + PASSWORD_PAUSE_NS;
                return None;
            }
        }
        // A connection was lost or could not be made, so addresses may have changed.
        if self.names.has_changed(self.version) {
            (self.endpoints, self.version) = self.names.endpoints();
        }
        while self.next_begin_ns() <= now {
            let index = self.waiting.pop_front().expect("next_begin_ns says so");
            let Ok(outcome) = self.begin(index, now, shard, season) else {
                self.waiting.push_front(index);
                self.not_before_ns = now + BACKLOG_PAUSE_NS;
                return None;
            };
            if self.gap_ns > 0 {
                self.not_before_ns += self.gap_ns;
            }
            if outcome.is_some() {
                return outcome;
            }
            now = now_ns();
        }
        None
    }

    /// Take the next connection that was not opened in time.
    fn next_slow(&mut self, now_ns: u64, shard: &Shard) -> Option<(u32, Fault)> {
        while let Some(&(limit_ns, index, began_at_ns)) = self.limits.front() {
            let is_on_its_way = match shard.clients.connections[index as usize].link {
                Link::Connecting { began_ns } | Link::Opening { began_ns, .. } => {
                    began_ns == began_at_ns
                }
                Link::Down | Link::Up => false,
            };
            if is_on_its_way && limit_ns > now_ns {
                return None;
            }
            self.limits.pop_front();
            if is_on_its_way {
                return Some((index, Fault::TookTooLong(limit_ns - began_at_ns)));
            }
        }
        None
    }

    /// Handle the loss of an open connection; its client, if any, gets the error.
    pub(super) fn lost(&mut self, index: u32, shard: &mut Shard) {
        if self.is_idle(index) {
            self.counts.idle_up -= 1;
            return;
        }
        self.counts.up -= 1;
        self.counts.lost += 1;
        shard.clients.connections[index as usize].walk.is_after_loss = true;
    }

    /// Make a lost connection again, after a pause.
    pub(super) fn replace(&mut self, index: u32, shard: &mut Shard) {
        self.names.look_again();
        let walk = &mut shard.clients.connections[index as usize].walk;
        walk.begin(self.first_address(index));
        let at_ns = shard.now_ns + walk.pause_ns(index);
        shard.timers.set(at_ns, Wake::Connect(index));
    }

    /// Close the client's connection, if there is one.
    pub(super) fn disconnect(&mut self, index: u32, shard: &mut Shard) {
        if shard.clients.connections[index as usize].is_up() {
            shard.hang_up(index);
            shard.clients.connections[index as usize].disconnected();
            self.counts.up -= 1;
        }
    }

    /// True if every connection is open.
    pub(super) fn is_complete(&self) -> bool {
        self.counts.up + self.counts.idle_up == u64::from(self.all_connections)
    }

    #[inline]
    pub(super) fn counts(&self) -> ConnectionCounts {
        self.counts
    }

    /// Take the reason why a connection was not made during the load. Each is news once.
    pub(super) fn take_news(&mut self) -> Option<Box<Refusal>> {
        self.news.take()
    }

    /// Keep the reason, unless it was the last one, too.
    fn keep_news(&mut self, fault: &Fault, place: &Address) {
        let message = format!("could not connect to {place}: {fault}");
        if self.told.as_ref() != Some(&message) {
            self.told = Some(message.clone());
            self.news = Some(Box::new(Refusal { message, ..fault.refusal(self.plan) }));
        }
    }

    pub(super) fn take_durations(&mut self) -> Histogram {
        std::mem::take(&mut self.durations)
    }

    pub(super) fn take_opened_at(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.opened_at)
    }

    /// Return the address to which a connection was made.
    pub(super) fn endpoint_of(&self, index: u32, shard: &Shard) -> &Endpoint {
        &self.endpoints[shard.clients.connections[index as usize].walk.address]
    }

    fn is_idle(&self, index: u32) -> bool {
        index >= self.client_connections
    }

    /// The next instant at which a connection may begin, or reaches its time limit.
    pub(super) fn next_ns(&self) -> u64 {
        let limit_ns = self.limits.front().map_or(NEVER_NS, |limit| limit.0);
        limit_ns.min(self.next_begin_ns())
    }

    /// Return when the next connection may begin.
    fn next_begin_ns(&self) -> u64 {
        if self.waiting.is_empty() || self.in_flight >= MAX_IN_FLIGHT || self.is_parked {
            return NEVER_NS;
        }
        // A timer of 0 would mean "do not wait".
        self.not_before_ns.max(1)
    }

    /// The index of the address that a connection tries first.
    fn first_address(&self, index: u32) -> usize {
        match self.reach {
            Reach { in_turns: true, .. } => {
                // Connections are distributed over the threads round robin, as their clients are.
                let number = index as usize * self.plan.thread_count() as usize;
                let turn = number + self.thread as usize;
                let hosts = &self.plan.target.hosts;
                let host = &hosts[turn % hosts.len()];
                let at_host = self.endpoints.iter().position(|endpoint| endpoint.host == *host);
                at_host.unwrap_or(turn % self.endpoints.len())
            }
            Reach { load_balance: true, .. } => {
                let mixed = (now_ns() ^ u64::from(index)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                (mixed >> 32) as usize % self.endpoints.len()
            }
            // The other connections begin where the last one succeeded, and need no search.
            Reach { target_session_attrs: SessionAttrs::Any, .. } => 0,
            _ => self.good_address,
        }
    }

    /// The number of the host of an address, in the order of the job.
    fn host_number(&self, address: usize) -> usize {
        let host = &self.endpoints[address].host;
        self.plan.target.hosts.iter().position(|other| other == host).unwrap_or(0)
    }

    fn attrs(&self) -> SessionAttrs {
        self.reach.target_session_attrs
    }

    /// Return the time limit of one address.
    fn limit_ns(&self, is_loading: bool) -> Option<u64> {
        let has_alternative = is_loading || self.endpoints.len() > 1;
        self.reach.timeout_ns.or(has_alternative.then_some(TIMEOUT_NS))
    }

    /// True if a password command can give another password than the refused one of this number.
    fn asks_anew(&self, refused: u32) -> bool {
        match &self.passwords {
            None => false,
            Some(passwords) => {
                passwords.refuse(refused);
                true
            }
        }
    }

    /// Put the present password into `login`.
    ///
    /// Returns: false if the command is still running. Errors: the command's message.
    fn take_password(&mut self) -> Result<bool, String> {
        let Some(passwords) = &self.passwords else { return Ok(true) };
        self.is_parked = false;
        match passwords.offer(&self.waker) {
            Offer::Ready(password) => {
                if password.number != self.password_number {
                    self.login.password = Some(password.text);
                    self.password_number = password.number;
                    // The cached salted passwords were made from the old password.
                    self.salted = SaltedPasswords::default();
                }
                Ok(true)
            }
            Offer::Pending => {
                self.is_parked = true;
                Ok(false)
            }
            Offer::Failed(why) => Err(why),
        }
    }
}

/// User and password for a host; some hosts have a separate password.
fn login_at<'a>(host: &HostPort, login: &'a Login) -> Cow<'a, Login> {
    match &host.password {
        None => Cow::Borrowed(login),
        own => Cow::Owned(Login { password: own.clone(), ..login.clone() }),
    }
}
