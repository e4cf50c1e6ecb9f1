//! Decides where a connection is tried next. Pure.
//!
//! At one address, sslmode may allow two attempts (with TLS and without). Then come the other
//! addresses of all hosts. After a pause the walk begins again.

use crate::contract::job::SessionAttrs;

/// First pause before the addresses are tried again. Each further pause is twice as long.
const BACKOFF_NS: u64 = 50_000_000;
const MAX_BACKOFF_NS: u64 = 1_000_000_000;

/// The state of the search of one connection.
#[derive(Debug, Default)]
pub struct Walk {
    /// Index of the address that is tried or connected, in the list of all addresses.
    pub address: usize,
    /// Number of the attempt at this address, from 0: with TLS or without, as sslmode says.
    pub attempt: usize,
    /// Why the previous attempt at this address failed.
    pub first_fault: Option<String>,
    /// Number of the password that is used; `is_password_new` is true if it replaced a refused one.
    pub password: u32,
    pub is_password_new: bool,
    /// A session was lost, so the next session is a reconnect.
    pub is_after_loss: bool,
    /// A server answered that it will accept connections soon, for example because it is starting.
    pub is_awaited: bool,
    /// Addresses that failed since the walk began.
    tried: usize,
    /// Walks that failed, one after another.
    rounds: u32,
    /// No host is a standby, so any host is accepted.
    takes_any: bool,
}

/// What follows after an address has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Try the next address, or all addresses again with any kind of server.
    AtOnce,
    /// All addresses have failed.
    Over,
}

impl Walk {
    /// Begin a walk at an address.
    pub fn begin(&mut self, address: usize) {
        *self = Walk { address, is_after_loss: self.is_after_loss, ..Walk::default() };
    }

    /// The session is open: the next walk begins at this address.
    pub fn arrive(&mut self) {
        *self = Walk { address: self.address, ..Walk::default() };
    }

    /// Return the kind of session that ends this walk.
    pub fn attrs(&self, asked: SessionAttrs) -> SessionAttrs {
        if self.takes_any { SessionAttrs::Any } else { asked }
    }

    /// Try the same address again, with the next attempt of sslmode.
    pub fn try_another_way(&mut self, fault: String) {
        self.attempt += 1;
        self.first_fault = Some(fault);
    }

    /// The address has failed: go to the next one.
    ///
    /// Args: `address_count`, number of all addresses; `asked`, the kind of session that is wanted.
    pub fn leave(&mut self, address_count: usize, asked: SessionAttrs) -> Next {
        self.attempt = 0;
        self.tried += 1;
        self.address = (self.address + 1) % address_count;
        if self.tried < address_count {
            return Next::AtOnce;
        }
        self.tried = 0;
        if asked == SessionAttrs::PreferStandby && !self.takes_any {
            self.takes_any = true;
            return Next::AtOnce;
        }
        self.takes_any = false;
        Next::Over
    }

    /// Return the pause before the next walk. It grows with each walk, and differs between
    /// connections so that they do not all come back together.
    ///
    /// Args: `index`, number of the connection.
    pub fn pause_ns(&mut self, index: u32) -> u64 {
        let longest = (BACKOFF_NS << self.rounds.min(10)).min(MAX_BACKOFF_NS);
        self.rounds += 1;
        self.is_awaited = false;
        self.is_password_new = false;
        longest / 2 + u64::from(index).wrapping_mul(0x9e37_79b9_7f4a_7c15) % (longest / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visited(walk: &mut Walk, count: usize, asked: SessionAttrs) -> Vec<(usize, SessionAttrs)> {
        let mut visited = vec![(walk.address, walk.attrs(asked))];
        while walk.leave(count, asked) == Next::AtOnce {
            visited.push((walk.address, walk.attrs(asked)));
        }
        visited
    }

    #[test]
    fn every_address_is_tried_once_in_a_walk_and_the_next_begins_where_this_did() {
        let asked = SessionAttrs::Primary;
        let mut walk = Walk::default();
        walk.begin(1);
        for _ in 0..2 {
            let addresses: Vec<_> = visited(&mut walk, 3, asked).iter().map(|v| v.0).collect();
            assert_eq!(addresses, [1, 2, 0]);
        }
    }

    #[test]
    fn a_standby_is_looked_for_everywhere_before_any_server_will_do() {
        let asked = SessionAttrs::PreferStandby;
        let mut walk = Walk::default();
        let expected = [(0, asked), (1, asked), (0, SessionAttrs::Any), (1, SessionAttrs::Any)];
        assert_eq!(visited(&mut walk, 2, asked), expected);
        assert_eq!(visited(&mut walk, 2, asked), expected);
    }

    #[test]
    fn pauses_grow_and_differ_between_connections() {
        let pauses = |index| {
            let mut walk = Walk::default();
            (0..12).map(|_| walk.pause_ns(index)).collect::<Vec<_>>()
        };
        let (first, second) = (pauses(1), pauses(2));
        assert!(first.iter().zip(&second).all(|(a, b)| a != b));
        assert!(first[0] < 50_000_000 && first[11] >= 500_000_000 && first[11] < 1_000_000_000);
    }
}
