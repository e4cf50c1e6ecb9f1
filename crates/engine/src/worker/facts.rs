//! Facts of a thread that show whether it was the bottleneck.

use super::reply_wait::Looked;
use crate::client::RoundTrips;
use crate::clock::thread_cpu_ns;
use crate::histogram::Histogram;
use crate::schedstat::Schedstat;
use crate::tally::Owner;
use crate::timeline::Timeline;

/// How many ages of transactions without an end are kept; if there are more, evenly chosen ones.
pub(super) const MAX_AGES: usize = 10_000;

/// Times and counts of a thread in the measured phase.
#[derive(Debug, Default)]
pub struct Facts {
    /// CPU time and time runnable without a core, at the begin and end of the measured phase.
    begin: Usage,
    end: Usage,
    /// How late timers fired while a client was free.
    pub timer_lag: Histogram,
    pub round_trips: RoundTrips,
    pub commits_in_doubt: u64,
    /// Age of each transaction that had not ended when the drain ended, or is in doubt.
    pub unfinished_ages_ns: Vec<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    cpu_ns: u64,
    starved_ns: u64,
    looked: Looked,
}

impl Facts {
    /// Read the counters when a boundary is one of the measured phase's ends.
    pub(super) fn at_boundary(&mut self, boundary_ns: u64, timeline: &Timeline, looked: Looked) {
        if boundary_ns == timeline.measure_ns {
            self.begin = read(looked);
        }
        if boundary_ns == timeline.drain_ns {
            self.end = read(looked);
        }
    }

    /// Mean wait of a reply for the thread in the measured phase; None if none was looked at.
    pub fn reply_wait_ns_mean(&self) -> Option<u64> {
        if self.end.cpu_ns == 0 { None } else { self.end.looked.since(self.begin.looked).mean_ns() }
    }

    /// Keep the age of a measured transaction whose end will never be known.
    pub(super) fn add_unfinished(&mut self, owner: Owner, age_ns: u64) {
        if owner == Owner::Measure && self.unfinished_ages_ns.len() < MAX_AGES {
            self.unfinished_ages_ns.push(age_ns);
        }
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

/// The time on and without a core so far; without schedstat, the time without a core is 0.
fn read(looked: Looked) -> Usage {
    let scheduled = Schedstat::of_this_thread().and_then(|schedstat| schedstat.read());
    let starved_ns = scheduled.map_or(0, |scheduled| scheduled.starved_ns);
    Usage { cpu_ns: thread_cpu_ns(), starved_ns, looked }
}
