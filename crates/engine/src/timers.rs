//! The timers of one thread: a heap of instants, each with the client or terminal to wake.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::clock::NEVER_NS;

/// What a timer wakes. It is small, because a hundred thousand terminals may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wake {
    /// The client's transaction, which sleeps.
    Client(u32),
    /// The client, which connects or connects again.
    Connect(u32),
    /// The terminal, at the end of its think and keying time.
    Terminal(u32),
}

/// A heap of timers. At equal instants the order is that of `Wake`.
#[derive(Debug, Default)]
pub struct Timers(BinaryHeap<Reverse<(u64, Wake)>>);

impl Timers {
    pub fn set(&mut self, at_ns: u64, wake: Wake) {
        self.0.push(Reverse((at_ns, wake)));
    }

    /// Return when the earliest timer is due; `NEVER_NS` if there is no timer.
    #[inline]
    pub fn next_ns(&self) -> u64 {
        self.0.peek().map_or(NEVER_NS, |Reverse((at_ns, _))| *at_ns)
    }

    /// Remove and return the earliest timer, if it is due.
    #[inline]
    pub fn pop_due(&mut self, now_ns: u64) -> Option<(u64, Wake)> {
        if self.next_ns() > now_ns {
            return None;
        }
        self.0.pop().map(|Reverse(timer)| timer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_are_due_in_order_and_not_before() {
        let mut timers = Timers::default();
        assert_eq!(timers.next_ns(), NEVER_NS);
        timers.set(30, Wake::Client(3));
        timers.set(10, Wake::Connect(1));
        timers.set(20, Wake::Client(2));
        assert_eq!(timers.pop_due(9), None);
        assert_eq!(timers.pop_due(25), Some((10, Wake::Connect(1))));
        assert_eq!(timers.pop_due(25), Some((20, Wake::Client(2))));
        assert_eq!(timers.pop_due(25), None);
        assert_eq!(timers.next_ns(), 30);
    }
}
