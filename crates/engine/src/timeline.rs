//! When each phase of a run begins, and when each epoch ends.
//!
//! `Timeline` is pure arithmetic. `Shared` publishes it: the coordinator changes it, and all
//! threads read it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::clock::NEVER_NS;
use crate::contract::record::PhaseName;
use crate::poller::Waker;

/// When each phase begins, on the monotonic clock; `NEVER_NS` while that is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeline {
    pub connect_ns: u64,
    pub prepare_ns: u64,
    pub warm_ns: u64,
    pub measure_ns: u64,
    pub drain_ns: u64,
    /// At this instant, running transactions are cancelled.
    pub drain_end_ns: u64,
}

impl Timeline {
    pub fn begin(connect_ns: u64) -> Timeline {
        Timeline {
            connect_ns,
            prepare_ns: NEVER_NS,
            warm_ns: NEVER_NS,
            measure_ns: NEVER_NS,
            drain_ns: NEVER_NS,
            drain_end_ns: NEVER_NS,
        }
    }

    /// Return the phases in order, each with its begin.
    pub fn phases(&self) -> [(PhaseName, u64); 5] {
        [
            (PhaseName::Connect, self.connect_ns),
            (PhaseName::Prepare, self.prepare_ns),
            (PhaseName::Warm, self.warm_ns),
            (PhaseName::Measure, self.measure_ns),
            (PhaseName::Drain, self.drain_ns),
        ]
    }

    /// Return the phase at an instant, and its begin. If several phases begin together, it is the
    /// last of them.
    pub fn phase_at(&self, at_ns: u64) -> (PhaseName, u64) {
        let mut phases = self.phases().into_iter().rev();
        phases.find(|(_, begin_ns)| *begin_ns <= at_ns).unwrap_or(self.phases()[0])
    }

    /// End the load early: from `at_ns` on the load drains, for at most `drain_ns`.
    pub fn stop(&mut self, at_ns: u64, drain_ns: u64) {
        for instant in [&mut self.prepare_ns, &mut self.warm_ns, &mut self.measure_ns] {
            *instant = at_ns.min(*instant);
        }
        self.drain_ns = at_ns.min(self.drain_ns);
        self.drain_end_ns = self.drain_end_ns.min(self.drain_ns.saturating_add(drain_ns));
    }

    /// Return the end of the epoch that contains `after_ns`.
    ///
    /// Epochs end every `interval_ns` after the begin of a phase, and at the begin of the next
    /// phase.
    pub fn next_boundary(&self, after_ns: u64, interval_ns: u64) -> u64 {
        let (_, begin_ns) = self.phase_at(after_ns);
        let passed = after_ns.saturating_sub(begin_ns) / interval_ns;
        let on_grid = begin_ns + (passed + 1) * interval_ns;
        let phases = self.phases().into_iter().map(|(_, begin_ns)| begin_ns);
        phases.filter(|&begin_ns| begin_ns > after_ns).fold(on_grid, u64::min)
    }

    /// Return true if histograms are handed over at this boundary: every `interval_ns` after the
    /// begin of a phase, and at its end.
    pub fn is_histogram_boundary(&self, boundary_ns: u64, interval_ns: u64) -> bool {
        let (_, begin_ns) = self.phase_at(boundary_ns - 1);
        (boundary_ns - begin_ns).is_multiple_of(interval_ns)
            || self.phases().iter().any(|(_, begin_ns)| *begin_ns == boundary_ns)
    }
}

/// The timeline that the coordinator publishes to the threads.
#[derive(Debug)]
pub struct Shared {
    timeline: Mutex<Timeline>,
    /// Changes with the timeline, so that a thread needs to read only this number in each turn of
    /// its loop.
    generation: AtomicU32,
    wakers: Mutex<Vec<Waker>>,
}

impl Shared {
    pub fn new(timeline: Timeline) -> Shared {
        Shared {
            timeline: Mutex::new(timeline),
            generation: AtomicU32::new(1),
            wakers: Mutex::new(Vec::new()),
        }
    }

    pub fn add_waker(&self, waker: Waker) {
        self.wakers.lock().unwrap_or_else(PoisonError::into_inner).push(waker);
    }

    /// Change the timeline and wake every thread.
    pub fn change(&self, change: impl FnOnce(&mut Timeline)) -> Timeline {
        let mut timeline = self.timeline.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut timeline);
        // Subtle: the timeline changes first. A thread that sees the new generation then waits for
        // the lock, and gets the new timeline.
        self.generation.fetch_add(1, Ordering::Release);
        for waker in &*self.wakers.lock().unwrap_or_else(PoisonError::into_inner) {
            waker.wake();
        }
        *timeline
    }

    /// Return the timeline if it has changed since generation `seen`, which is updated.
    #[inline]
    pub fn if_changed(&self, seen: &mut u32) -> Option<Timeline> {
        let generation = self.generation.load(Ordering::Acquire);
        if generation == *seen {
            return None;
        }
        *seen = generation;
        Some(*self.timeline.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeline() -> Timeline {
        Timeline {
            connect_ns: 1_000,
            prepare_ns: 1_130,
            warm_ns: 1_200,
            measure_ns: 1_450,
            drain_ns: 1_900,
            drain_end_ns: 2_000,
        }
    }

    #[test]
    fn the_grid_begins_anew_with_each_phase() {
        let mut boundaries = vec![1_000];
        while boundaries[boundaries.len() - 1] < 2_000 {
            boundaries.push(timeline().next_boundary(boundaries[boundaries.len() - 1], 100));
        }
        assert_eq!(
            boundaries,
            [
                1_000, 1_100, 1_130, 1_200, 1_300, 1_400, 1_450, 1_550, 1_650, 1_750, 1_850, 1_900,
                2_000
            ]
        );
    }

    #[test]
    fn histograms_are_handed_over_on_their_grid_and_at_the_end_of_a_phase() {
        let at = |boundary_ns| timeline().is_histogram_boundary(boundary_ns, 200);
        assert!(!at(1_550) && at(1_650) && !at(1_750) && at(1_850) && at(1_900));
    }

    #[test]
    fn of_phases_that_begin_together_the_last_counts() {
        let mut timeline = Timeline { warm_ns: 1_450, ..timeline() };
        assert_eq!(timeline.phase_at(1_449).0, PhaseName::Prepare);
        assert_eq!(timeline.phase_at(1_450), (PhaseName::Measure, 1_450));
        timeline.stop(1_500, 300);
        assert_eq!(timeline.phase_at(1_500).0, PhaseName::Drain);
        assert_eq!(timeline.drain_end_ns, 1_800);
    }

    #[test]
    fn a_stop_while_connecting_leaves_no_load() {
        let mut timeline = Timeline::begin(1_000);
        timeline.stop(1_040, 0);
        assert_eq!(timeline.phase_at(1_040).0, PhaseName::Drain);
        assert_eq!(timeline.phase_at(1_039).0, PhaseName::Connect);
        assert_eq!(timeline.next_boundary(1_000, 100), 1_040);
    }
}
