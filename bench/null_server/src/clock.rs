//! CLOCK_MONOTONIC in nanoseconds, the clock every stamp is in.

use rustix::time::{ClockId, Timespec, clock_gettime};

/// The present.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// `time_ns` as the kernel takes it.
pub fn timespec(time_ns: u64) -> Timespec {
    Timespec { tv_sec: (time_ns / 1_000_000_000) as i64, tv_nsec: (time_ns % 1_000_000_000) as i64 }
}
