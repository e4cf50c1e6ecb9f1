//! What a thread used in the measured phase: whether it was the bottleneck.

use super::reply_wait::Looked;
use crate::clock::thread_cpu_ns;
use crate::schedstat::Schedstat;
use crate::timeline::Timeline;

/// Counters of a thread at the start and the end of the measured phase.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    begin: Counters,
    end: Counters,
}

/// CPU time, time runnable without a core, and waits of replies, since the thread began.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    cpu_ns: u64,
    starved_ns: u64,
    looked: Looked,
}

impl Usage {
    /// Read the counters when a boundary is one of the measured phase's ends.
    pub(super) fn at_boundary(&mut self, boundary_ns: u64, timeline: &Timeline, looked: Looked) {
        if boundary_ns == timeline.measure_ns {
            self.begin = read(looked);
        }
        if boundary_ns == timeline.drain_ns {
            self.end = read(looked);
        }
    }

    /// Mean wait of a reply for the thread in the measured phase; None if no reply was sampled, or
    /// the phase did not end.
    pub fn reply_wait_ns_mean(&self) -> Option<u64> {
        // A thread has used CPU time when the phase ends.
        if self.end.cpu_ns == 0 { None } else { self.end.looked.since(self.begin.looked).mean_ns() }
    }

    /// Shares of the measured phase: on a core, and runnable without one.
    pub fn ratios(&self, measured_ns: u64) -> (f64, f64) {
        let share = |end: u64, begin: u64| match measured_ns {
            0 => 0.0,
            measured_ns => end.saturating_sub(begin) as f64 / measured_ns as f64,
        };
        (
            share(self.end.cpu_ns, self.begin.cpu_ns),
            share(self.end.starved_ns, self.begin.starved_ns),
        )
    }
}

/// The counters now. If the kernel has no schedstat, the time without a core stays 0.
fn read(looked: Looked) -> Counters {
    let scheduled = Schedstat::of_this_thread().and_then(|schedstat| schedstat.read());
    let starved_ns = scheduled.map_or(0, |scheduled| scheduled.starved_ns);
    Counters { cpu_ns: thread_cpu_ns(), starved_ns, looked }
}
