//! A thread's plan for its connections: which to make next, when, and as which user.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use pgdyno_wire::{Login, SaltedPasswords};

use crate::clock::{NEVER_NS, now_ns};
use crate::contract::job::{HostPort, Reach, SessionAttrs};
use crate::histogram::Histogram;
use crate::names::Names;
use crate::password::{Offer, Passwords};
use crate::plan::Plan;
use crate::poller::Waker;
use crate::tls::Endpoint;

const MAX_IN_FLIGHT: u32 = 128;
/// Time limit of one address if the job has none, and either the load is running or there is
/// another address to try.
const TIMEOUT_NS: u64 = 10_000_000_000;

/// Queue, pace, addresses and login of the connections of one thread.
#[derive(Debug)]
pub(super) struct Connector {
    pub(super) endpoints: Arc<[Endpoint]>,
    names: Arc<Names>,
    version: u64,
    /// User and present password.
    pub(super) login: Login,
    passwords: Option<Arc<Passwords>>,
    pub(super) password_number: u32,
    /// The password command is running: no connection begins until it wakes the thread.
    is_parked: bool,
    waker: Waker,
    reach: Reach,
    /// The address where the last session was opened.
    pub(super) good_address: usize,
    /// Clients that wait to connect.
    pub(super) waiting: VecDeque<u32>,
    pub(super) in_flight: u32,
    /// Connections with a time limit, oldest first: end of the limit, client, begin.
    pub(super) limits: VecDeque<(u64, u32, u64)>,
    /// The next connection must not begin before this instant.
    pub(super) not_before_ns: u64,
    /// Time between the begins of two connections; 0 = no pause.
    pub(super) gap_ns: u64,
    pub(super) salted: SaltedPasswords,
    /// Open connections of clients; idle ones are counted separately.
    pub(super) up_count: u64,
    pub(super) idle_up_count: u64,
    pub(super) lost_count: u64,
    pub(super) reconnect_count: u64,
    /// From socket to ReadyForQuery.
    pub(super) durations: Histogram,
}

/// When the first connection of a thread may begin, and the time between two.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    pub first_ns: u64,
    /// 0 = no pause.
    pub gap_ns: u64,
}

impl Connector {
    pub(super) fn new(plan: &Plan, names: Arc<Names>, waker: Waker, pace: Pace) -> Self {
        let command = plan.target.password_command.as_deref();
        let first = plan.target.password.as_deref();
        let (endpoints, version) = names.endpoints();
        Connector {
            endpoints,
            names,
            version,
            login: plan.login.clone(),
            passwords: command.map(|command| Passwords::of(command, first)),
            password_number: 0,
            is_parked: false,
            waker,
            reach: plan.target.reach.clone(),
            good_address: 0,
            waiting: VecDeque::new(),
            in_flight: 0,
            limits: VecDeque::new(),
            not_before_ns: pace.first_ns,
            gap_ns: pace.gap_ns,
            salted: SaltedPasswords::default(),
            up_count: 0,
            idle_up_count: 0,
            lost_count: 0,
            reconnect_count: 0,
            durations: Histogram::default(),
        }
    }

    /// Look names up again: a connection was lost or could not be made, so addresses may have
    /// changed.
    pub(super) fn look_again(&self) {
        self.names.look_again();
    }

    /// Use the addresses of the last lookup.
    pub(super) fn follow_names(&mut self) {
        if self.names.has_changed(self.version) {
            (self.endpoints, self.version) = self.names.endpoints();
        }
    }

    /// The next instant at which a connection may begin, or reaches its time limit.
    pub(super) fn next_ns(&self) -> u64 {
        let limit_ns = self.limits.front().map_or(NEVER_NS, |limit| limit.0);
        limit_ns.min(self.next_begin_ns())
    }

    /// Return when the next connection may begin.
    pub(super) fn next_begin_ns(&self) -> u64 {
        if self.waiting.is_empty() || self.in_flight >= MAX_IN_FLIGHT || self.is_parked {
            return NEVER_NS;
        }
        // A timer of 0 would mean "do not wait".
        self.not_before_ns.max(1)
    }

    /// The index of the address that a connection tries first.
    pub(super) fn first_address(&self, index: u32) -> usize {
        match self.reach {
            Reach { load_balance: true, .. } => {
                let mixed = (now_ns() ^ u64::from(index)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                (mixed >> 32) as usize % self.endpoints.len()
            }
            // The other connections begin where the last one succeeded, and need no search.
            Reach { target_session_attrs: SessionAttrs::Any, .. } => 0,
            _ => self.good_address,
        }
    }

    pub(super) fn attrs(&self) -> SessionAttrs {
        self.reach.target_session_attrs
    }

    /// Return the time limit of one address.
    pub(super) fn limit_ns(&self, is_loading: bool) -> Option<u64> {
        let has_alternative = is_loading || self.endpoints.len() > 1;
        self.reach.timeout_ns.or(has_alternative.then_some(TIMEOUT_NS))
    }

    /// True if a password command can give another password than the refused one of this number.
    pub(super) fn asks_anew(&self, refused: u32) -> bool {
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
    pub(super) fn take_password(&mut self) -> Result<bool, String> {
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
pub(super) fn login_at<'a>(host: &HostPort, login: &'a Login) -> Cow<'a, Login> {
    match &host.password {
        None => Cow::Borrowed(login),
        own => Cow::Owned(Login { password: own.clone(), ..login.clone() }),
    }
}
