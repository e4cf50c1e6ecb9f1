//! Where a connection is tried next: the ways of sslmode at one address, the addresses of all
//! hosts, and from the first again. Pure.

use crate::contract::job::SessionAttrs;

/// First pause before walking the addresses again; each further one is twice as long.
const BACKOFF_NS: u64 = 50_000_000;
const MAX_BACKOFF_NS: u64 = 1_000_000_000;

/// How far one connection's search has come.
#[derive(Debug, Default)]
pub struct Walk {
    /// The address that is tried, or connected to, of the list of all.
    pub address: usize,
    /// Number of the attempt at this address: with TLS and without, as sslmode says.
    pub attempt: usize,
    /// Why the attempt before failed.
    pub first_fault: Option<String>,
    /// Number of the password that is used, and whether another one was asked for.
    pub password: u32,
    pub is_password_new: bool,
    /// The session was lost: the next one is a reconnect.
    pub is_after_loss: bool,
    /// An address said that it will soon let us in.
    pub is_awaited: bool,
    /// Addresses tried in vain since the walk began.
    tried: usize,
    /// Walks in vain in a row.
    rounds: u32,
    /// No host is a standby: any will do.
    takes_any: bool,
}

/// What follows an address that was tried in vain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Another address, or the same hosts with less to ask for.
    AtOnce,
    /// All were tried.
    Over,
}

impl Walk {
    /// Begin at an address.
    pub fn begin(&mut self, address: usize) {
        *self = Walk { address, is_after_loss: self.is_after_loss, ..Walk::default() };
    }

    /// Begin again where the connection was, as its session is open.
    pub fn arrive(&mut self) {
        *self = Walk { address: self.address, ..Walk::default() };
    }

    /// What a session must be for this walk to end with it.
    pub fn attrs(&self, asked: SessionAttrs) -> SessionAttrs {
        if self.takes_any { SessionAttrs::Any } else { asked }
    }

    /// The same address, another way.
    pub fn try_another_way(&mut self, fault: String) {
        self.attempt += 1;
        self.first_fault = Some(fault);
    }

    /// Leave the address.
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

    /// The pause before the addresses are walked again: longer each time, and not the same for all.
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
        let (one, other) = (pauses(1), pauses(2));
        assert!(one.iter().zip(&other).all(|(a, b)| a != b));
        assert!(one[0] < 50_000_000 && one[11] >= 500_000_000 && one[11] < 1_000_000_000);
    }
}
