//! The counts of one thread: transactions by script and by phase. `histogram_set` has the
//! durations.
//!
//! Counts are handed over by epoch, without a lock. All threads share a grid of instants at which
//! an epoch ends. There a thread gives all its counts away and continues with empty ones. So the
//! hot path never waits for a reader, and a reader never sees half a count.

use std::collections::BTreeMap;

use crate::contract::record::{Counts, Served};
use crate::histogram_set::Layout;
use crate::outcome::FailureCode;
use crate::program::Counted;

/// The phase that a transaction belongs to: by its end in a closed loop, by its schedule in an open
/// loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    Warm,
    Measure,
    Drain,
}

pub const OWNERS: [Owner; 3] = [Owner::Warm, Owner::Measure, Owner::Drain];

/// Counts of one script.
#[derive(Clone, Debug, Default)]
pub struct ScriptTally {
    pub started: u64,
    pub completed: u64,
    /// Of the completed: rolled back on purpose.
    pub rolled_back: u64,
    pub failed: u64,
    pub unfinished: u64,
    pub late: u64,
    pub retried: u64,
    pub retries: u64,
    /// Of the unfinished: the commit was sent and never answered.
    pub in_doubt: u64,
    /// Background work that had not started when the drain ended.
    pub not_started: u64,
    pub latency_sum_ns: u64,
    pub failures: BTreeMap<FailureCode, u64>,
    /// The counters of a native program, from completed transactions.
    pub counted: Counted,
    /// By the phase in which transactions ended, also in an open loop.
    pub served: Served,
}

impl ScriptTally {
    fn merge(&mut self, other: &ScriptTally) {
        self.started += other.started;
        self.completed += other.completed;
        self.rolled_back += other.rolled_back;
        self.failed += other.failed;
        self.unfinished += other.unfinished;
        self.late += other.late;
        self.retried += other.retried;
        self.retries += other.retries;
        self.in_doubt += other.in_doubt;
        self.not_started += other.not_started;
        self.latency_sum_ns += other.latency_sum_ns;
        self.served.ended_count += other.served.ended_count;
        self.served.held_ns += other.served.held_ns;
        self.served.round_trips += other.served.round_trips;
        for (mine, theirs) in self.counted.iter_mut().zip(other.counted) {
            *mine += theirs;
        }
        for (code, count) in &other.failures {
            *self.failures.entry(*code).or_default() += count;
        }
    }

    /// Return the counts in the form of a record. Transactions that started, and deferred work that
    /// did not, count as scheduled.
    pub fn counts(&self) -> Counts {
        Counts {
            scheduled: self.started + self.not_started,
            started: self.started,
            completed: self.completed,
            failed: self.failed,
            skipped: 0,
            not_started: self.not_started,
            unfinished: self.unfinished,
            late: self.late,
            retried: self.retried,
            retries: self.retries,
            in_doubt: self.in_doubt,
            rolled_back: self.rolled_back,
        }
    }
}

/// Counts of the transactions of one owner in one epoch, or summed over epochs.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Open loop only. In a closed loop all started transactions count as scheduled.
    pub scheduled: u64,
    pub skipped: u64,
    pub not_started: u64,
    /// Closed loop only: time from the end of each transaction to the begin of its client's next
    /// one.
    pub between_transactions_ns: u64,
    /// Time inside transactions: in `\sleep`; `shell_ns` in `\shell` and `\setshell`.
    pub sleep_ns: u64,
    pub shell_ns: u64,
    /// Keying and think time, the sum over all terminals.
    pub think_time_ns: u64,
    pub scripts: Vec<ScriptTally>,
}

impl Tally {
    pub fn new(script_count: usize) -> Tally {
        Tally { scripts: vec![ScriptTally::default(); script_count], ..Tally::default() }
    }

    pub fn merge(&mut self, other: &Tally) {
        self.scheduled += other.scheduled;
        self.skipped += other.skipped;
        self.not_started += other.not_started;
        self.between_transactions_ns += other.between_transactions_ns;
        self.sleep_ns += other.sleep_ns;
        self.shell_ns += other.shell_ns;
        self.think_time_ns += other.think_time_ns;
        for (mine, theirs) in self.scripts.iter_mut().zip(&other.scripts) {
            mine.merge(theirs);
        }
    }

    /// The tallies of scripts that clients choose, without background work.
    pub fn foreground<'a>(&'a self, layout: &'a Layout) -> impl Iterator<Item = &'a ScriptTally> {
        let scripts = self.scripts.iter().enumerate();
        scripts.filter(|(script, _)| !layout.is_background(*script)).map(|(_, tally)| tally)
    }

    /// Return the sums over all scripts, without background work.
    pub fn counts(&self, layout: &Layout) -> Counts {
        let mut sum = ScriptTally::default();
        self.foreground(layout).for_each(|script| sum.merge(script));
        let scheduled = if layout.is_open_loop() { self.scheduled } else { sum.started };
        let Tally { skipped, not_started, .. } = *self;
        Counts { scheduled, skipped, not_started, ..sum.counts() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_scheduled_is_what_started_only_in_a_closed_loop() {
        let mut tally = Tally::new(1);
        tally.scheduled = 10;
        tally.skipped = 2;
        tally.not_started = 1;
        tally.scripts[0].started = 7;
        tally.scripts[0].completed = 7;
        let layout = |is_open_loop| Layout::new(&[1], is_open_loop);
        let open = tally.counts(&layout(true));
        assert_eq!(open.scheduled, open.started + open.skipped + open.not_started);
        assert_eq!(tally.counts(&layout(false)).scheduled, 7);
    }

    #[test]
    fn background_work_is_in_no_total_of_counts() {
        let layout = Layout::new(&[0, 0], false).with_background(vec![false, true]);
        let mut tally = Tally::new(2);
        (tally.scripts[0].started, tally.scripts[0].completed) = (3, 3);
        (tally.scripts[1].started, tally.scripts[1].completed) = (2, 2);
        tally.scripts[1].not_started = 4;
        assert_eq!((tally.counts(&layout).started, tally.counts(&layout).not_started), (3, 0));
        assert_eq!(tally.scripts[1].counts().scheduled, 6);
    }
}
