//! Reads clocks, in integer nanoseconds. The engine uses monotonic time; records have Unix time.

use rustix::time::{ClockId, clock_gettime};

use crate::contract::job::ClockPair;

/// An instant that never comes.
pub const NEVER_NS: u64 = u64::MAX;

/// The present instant on CLOCK_MONOTONIC.
#[inline]
pub fn now_ns() -> u64 {
    read(ClockId::Monotonic)
}

/// CPU time of the calling thread.
pub fn thread_cpu_ns() -> u64 {
    read(ClockId::ThreadCPUTime)
}

/// CPU time of the process, user and system.
pub fn process_cpu_ns() -> u64 {
    read(ClockId::ProcessCPUTime)
}

#[inline]
fn read(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

impl ClockPair {
    /// Read both clocks now.
    pub fn now() -> ClockPair {
        ClockPair { monotonic_ns: now_ns(), unix_ns: read(ClockId::Realtime) }
    }

    /// Convert a monotonic instant to Unix time.
    pub fn unix_ns(&self, monotonic_ns: u64) -> u64 {
        monotonic_ns.wrapping_sub(self.monotonic_ns).wrapping_add(self.unix_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_before_and_after_the_pair_are_converted() {
        let pair = ClockPair { monotonic_ns: 1_000, unix_ns: 5_000 };
        assert_eq!(pair.unix_ns(1_250), 5_250);
        assert_eq!(pair.unix_ns(400), 4_400);
    }
}
