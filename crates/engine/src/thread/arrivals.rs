//! The open loop of one thread: which arrival is next, and how many wait.
//!
//! Nothing is queued. Two cursors run over the same schedule: one at the oldest arrival that has
//! not been started, one that counts what is due.

use crate::arrivals::Schedule;
use crate::clock::NEVER_NS;
use crate::recorder::{Recorder, owner_at};
use crate::timeline::Timeline;

/// The open-loop arrivals of one thread; see the top of this file.
#[derive(Debug)]
pub struct OpenArrivals {
    next: Cursor,
    due: Cursor,
    due_count: u64,
    taken_count: u64,
    /// A later start than this is skipped.
    limit_ns: u64,
}

#[derive(Clone, Debug)]
struct Cursor {
    schedule: Schedule,
    /// After the start of the load; `NEVER_NS` when there are no more.
    offset_ns: u64,
    load_ns: u64,
    measure_ns: u64,
    /// Arrivals the measured phase may still have.
    measured_left: u64,
}

impl Cursor {
    #[inline]
    fn at_ns(&self) -> u64 {
        self.load_ns.saturating_add(self.offset_ns)
    }

    #[inline]
    fn step(&mut self) {
        if self.at_ns() >= self.measure_ns {
            self.measured_left -= 1;
        }
        self.offset_ns = match self.measured_left {
            0 => NEVER_NS,
            _ => self.schedule.next().unwrap_or(NEVER_NS),
        };
    }
}

impl OpenArrivals {
    /// Args: `measured_limit`, how many arrivals the measured phase has at most, above 0.
    pub fn new(
        mut schedule: Schedule,
        latency_limit_ns: Option<u64>,
        measured_limit: Option<u64>,
    ) -> OpenArrivals {
        let next = Cursor {
            offset_ns: schedule.next().unwrap_or(NEVER_NS),
            schedule,
            load_ns: NEVER_NS,
            measure_ns: NEVER_NS,
            measured_left: measured_limit.unwrap_or(u64::MAX),
        };
        let limit_ns = latency_limit_ns.unwrap_or(u64::MAX);
        OpenArrivals { due: next.clone(), next, due_count: 0, taken_count: 0, limit_ns }
    }

    pub(super) fn set_timeline(&mut self, timeline: &Timeline) {
        for cursor in [&mut self.next, &mut self.due] {
            cursor.load_ns = timeline.warm_ns;
            cursor.measure_ns = timeline.measure_ns;
        }
    }

    /// The due time of the oldest arrival not yet taken, which may be in the past.
    /// `NEVER_NS` if that time is `end_ns` or later.
    #[inline]
    pub(super) fn next_ns(&self, end_ns: u64) -> u64 {
        let at_ns = self.next.at_ns();
        if at_ns < end_ns { at_ns } else { NEVER_NS }
    }

    #[inline]
    pub(super) fn limit_ns(&self) -> u64 {
        self.limit_ns
    }

    /// Take the next arrival.
    #[inline]
    pub(super) fn take(&mut self) {
        self.taken_count += 1;
        self.next.step();
    }

    /// Arrivals due and not taken, as of the last count.
    pub(super) fn backlog(&self) -> u64 {
        self.due_count.saturating_sub(self.taken_count)
    }

    /// No arrival will become due again.
    pub(super) fn is_exhausted(&self) -> bool {
        self.next.offset_ns == NEVER_NS
    }

    /// Count arrivals that became due since the last count and before `until_ns`. All count for
    /// one phase, so `until_ns` must not be later than the end of that phase.
    pub(super) fn count_until(
        &mut self,
        until_ns: u64,
        timeline: &Timeline,
        recorder: &mut Recorder,
    ) {
        let until_ns = until_ns.min(timeline.drain_ns);
        let mut count = 0;
        while self.due.at_ns() < until_ns {
            count += 1;
            self.due.step();
        }
        if count > 0 {
            self.due_count += count;
            recorder.scheduled(owner_at(timeline, until_ns - 1), count);
        }
    }
}
