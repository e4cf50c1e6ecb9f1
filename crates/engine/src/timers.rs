//! What is to be done at an instant, for one thread.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::clock::NEVER_NS;

/// What a timer is for. Small and copied: a hundred thousand waiting terminals are data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wake {
    /// The client's transaction sleeps until then.
    Client(u32),
    /// The client shall connect, or connect again.
    Connect(u32),
    /// The terminal has thought, and keyed in its next transaction.
    Terminal(u32),
}

/// A heap of timers; equal instants come in the order of `Wake`.
#[derive(Debug, Default)]
pub struct Timers(BinaryHeap<Reverse<(u64, Wake)>>);

impl Timers {
    pub fn set(&mut self, at_ns: u64, wake: Wake) {
        self.0.push(Reverse((at_ns, wake)));
    }

    /// When the earliest is due; `NEVER_NS` when there is none.
    #[inline]
    pub fn next_ns(&self) -> u64 {
        self.0.peek().map_or(NEVER_NS, |Reverse((at_ns, _))| *at_ns)
    }

    /// Take the earliest if it is due.
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
