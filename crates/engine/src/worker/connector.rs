//! What a thread knows of its connections: which are to be made, when, and as whom.

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
/// For one address, where nobody said otherwise and waiting longer would be a loss.
const TIMEOUT_NS: u64 = 10_000_000_000;

/// See the module's text.
#[derive(Debug)]
pub(super) struct Connector {
    pub(super) endpoints: Arc<[Endpoint]>,
    names: Arc<Names>,
    version: u64,
    /// As whom; with the password of now.
    pub(super) login: Login,
    passwords: Option<Arc<Passwords>>,
    pub(super) password_number: u32,
    /// The password command runs: nothing is begun until the waker says so.
    is_parked: bool,
    waker: Waker,
    reach: Reach,
    /// The address where the last session was opened.
    pub(super) good_address: usize,
    /// Clients that shall connect.
    pub(super) waiting: VecDeque<u32>,
    pub(super) in_flight: u32,
    /// Connections begun under a time limit, oldest first: its end, the client, when it began.
    pub(super) limits: VecDeque<(u64, u32, u64)>,
    /// Not before this instant.
    pub(super) not_before_ns: u64,
    /// Between two connections; 0 = none.
    pub(super) gap_ns: u64,
    pub(super) salted: SaltedPasswords,
    /// Open ones of clients, and the idle ones.
    pub(super) up_count: u64,
    pub(super) idle_up_count: u64,
    pub(super) lost_count: u64,
    pub(super) reconnect_count: u64,
    /// From socket to ReadyForQuery.
    pub(super) durations: Histogram,
}

/// When the first connection of a thread may be begun, and what lies between two.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    pub first_ns: u64,
    /// 0 = nothing.
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

    /// A connection was lost, or could not be made anywhere: a name may lead elsewhere by now.
    pub(super) fn look_again(&self) {
        self.names.look_again();
    }

    /// Take the addresses that were found since.
    pub(super) fn follow_names(&mut self) {
        if self.names.has_changed(self.version) {
            (self.endpoints, self.version) = self.names.endpoints();
        }
    }

    /// When something is to be begun, or has taken too long.
    pub(super) fn next_ns(&self) -> u64 {
        let limit_ns = self.limits.front().map_or(NEVER_NS, |limit| limit.0);
        limit_ns.min(self.next_begin_ns())
    }

    /// When the next connection may be begun.
    pub(super) fn next_begin_ns(&self) -> u64 {
        if self.waiting.is_empty() || self.in_flight >= MAX_IN_FLIGHT || self.is_parked {
            return NEVER_NS;
        }
        // 0 would mean not to wait at all.
        self.not_before_ns.max(1)
    }

    /// Where a connection looks first.
    pub(super) fn first_address(&self, index: u32) -> usize {
        match self.reach {
            Reach { load_balance: true, .. } => {
                let mixed = (now_ns() ^ u64::from(index)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                (mixed >> 32) as usize % self.endpoints.len()
            }
            // One that found it spares the others the search.
            Reach { target_session_attrs: SessionAttrs::Any, .. } => 0,
            _ => self.good_address,
        }
    }

    pub(super) fn attrs(&self) -> SessionAttrs {
        self.reach.target_session_attrs
    }

    /// How long an address may take.
    pub(super) fn limit_ns(&self, is_loading: bool) -> Option<u64> {
        let has_alternative = is_loading || self.endpoints.len() > 1;
        self.reach.timeout_ns.or(has_alternative.then_some(TIMEOUT_NS))
    }

    /// True when there is another password to try than the refused one of this number, or will be.
    pub(super) fn asks_anew(&self, refused: u32) -> bool {
        match &self.passwords {
            None => false,
            Some(passwords) => {
                passwords.refuse(refused);
                true
            }
        }
    }

    /// Have the password of now.
    ///
    /// Returns: false when the command is still running. Errors: what it said.
    pub(super) fn take_password(&mut self) -> Result<bool, String> {
        let Some(passwords) = &self.passwords else { return Ok(true) };
        self.is_parked = false;
        match passwords.offer(&self.waker) {
            Offer::Ready(password) => {
                if password.number != self.password_number {
                    self.login.password = Some(password.text);
                    self.password_number = password.number;
                    // They are salted with the old one.
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
