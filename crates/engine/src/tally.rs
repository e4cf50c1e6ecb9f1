//! What one thread counts, and how it is handed over: by epoch, without a lock.
//!
//! An epoch ends at every instant of a grid that all threads share. There the thread gives its
//! counts away whole and goes on with empty ones, so the hot path never waits for a reader and a
//! reader never sees half a count.

use std::collections::BTreeMap;

use crate::contract::record::{Counts, Distribution, Measured, Served};
use crate::histogram::Histogram;
use crate::outcome::{Ended, FailureCode};
use crate::program::Counted;

/// Which phase a transaction belongs to: by its end in a closed loop, by its schedule in an open.
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
    /// Of the completed.
    pub rolled_back: u64,
    pub failed: u64,
    pub unfinished: u64,
    pub late: u64,
    pub retried: u64,
    pub retries: u64,
    /// Of the unfinished.
    pub in_doubt: u64,
    /// Background work that was still put off when the drain ended.
    pub not_started: u64,
    pub latency_sum_ns: u64,
    pub failures: BTreeMap<FailureCode, u64>,
    /// By a native program, of the completed.
    pub counted: Counted,
    /// By the phase of the end, in an open loop too.
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

    /// As a record has it; what started, or was put off for ever, was scheduled.
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
    /// Open loop only; in a closed loop what started was scheduled.
    pub scheduled: u64,
    pub skipped: u64,
    pub not_started: u64,
    /// Closed loop only: from the end of each transaction to the begin of its client's next one.
    pub between_transactions_ns: u64,
    /// Inside transactions: in `\sleep`, and in `\shell` and `\setshell`.
    pub sleep_ns: u64,
    pub shell_ns: u64,
    /// Keying and thinking time of all terminals together.
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

    /// Scripts that clients choose, without background work.
    pub fn foreground<'a>(&'a self, layout: &'a Layout) -> impl Iterator<Item = &'a ScriptTally> {
        let scripts = self.scripts.iter().enumerate();
        scripts.filter(|(script, _)| !layout.is_background(*script)).map(|(_, tally)| tally)
    }

    /// Sums over the scripts, without background work.
    pub fn counts(&self, layout: &Layout) -> Counts {
        let mut sum = ScriptTally::default();
        self.foreground(layout).for_each(|script| sum.merge(script));
        let scheduled = if layout.is_open_loop { self.scheduled } else { sum.started };
        let Tally { skipped, not_started, .. } = *self;
        Counts { scheduled, skipped, not_started, ..sum.counts() }
    }
}

/// Where the histogram of what stands: fixed for a run.
#[derive(Clone, Debug)]
pub struct Layout {
    script_count: usize,
    /// Index of each script's first statement, and the number of all.
    statement_offsets: Vec<usize>,
    is_open_loop: bool,
    /// By script; none at all where no script is.
    background: Vec<bool>,
}

impl Layout {
    /// Args: the number of statements of each script.
    pub fn new(statement_counts: &[usize], is_open_loop: bool) -> Layout {
        let mut statement_offsets = vec![0];
        for count in statement_counts {
            statement_offsets.push(statement_offsets[statement_offsets.len() - 1] + count);
        }
        let script_count = statement_counts.len();
        Layout { script_count, statement_offsets, is_open_loop, background: Vec::new() }
    }

    /// Keep scripts out of what is over all scripts.
    ///
    /// Args: of each script, whether it is background work.
    pub fn with_background(self, background: Vec<bool>) -> Layout {
        Layout { background, ..self }
    }

    #[inline]
    pub fn is_background(&self, script: usize) -> bool {
        self.background.get(script).is_some_and(|is_background| *is_background)
    }

    pub fn script_count(&self) -> usize {
        self.script_count
    }

    pub fn is_open_loop(&self) -> bool {
        self.is_open_loop
    }

    /// What is measured by script: each block of `script_count` histograms is one of these.
    const BY_SCRIPT: [Measured; 5] = [
        Measured::Latency,
        Measured::Attempt,
        Measured::Service,
        Measured::Lag,
        Measured::ConnectionWait,
    ];

    fn block(&self, measured: Measured) -> usize {
        let place = Self::BY_SCRIPT.iter().position(|&m| m == measured);
        place.expect("measured by script") * self.script_count
    }

    /// Number of a statement among those of all scripts.
    #[inline]
    pub fn statement_index(&self, script: usize, statement: usize) -> usize {
        self.statement_offsets[script] + statement
    }

    /// Number of statements of all scripts.
    pub fn statement_count(&self) -> usize {
        self.statement_offsets[self.script_count]
    }

    fn statements_begin(&self) -> usize {
        Self::BY_SCRIPT.len() * self.script_count
    }

    fn len(&self) -> usize {
        self.statements_begin() + self.statement_count()
    }
}

/// The histograms of one owner, made when a first value comes.
#[derive(Clone, Debug, Default)]
pub struct HistogramSet(Vec<Option<Histogram>>);

impl HistogramSet {
    pub fn new(layout: &Layout) -> HistogramSet {
        HistogramSet(vec![None; layout.len()])
    }

    #[inline]
    fn record(&mut self, index: usize, value_ns: u64) {
        self.0[index].get_or_insert_default().record(value_ns);
    }

    /// Record the durations of a completed transaction.
    #[inline]
    pub fn transaction(&mut self, layout: &Layout, script: usize, ended: &Ended) {
        let service_ns = ended.ended_ns - ended.started_ns;
        // What was put off has an age, in a closed loop too.
        if layout.is_open_loop || layout.is_background(script) {
            let lag_ns = ended.started_ns - ended.scheduled_ns;
            self.record(layout.block(Measured::Latency) + script, service_ns + lag_ns);
            self.record(layout.block(Measured::Service) + script, service_ns);
            self.record(layout.block(Measured::Lag) + script, lag_ns);
        } else {
            self.record(script, service_ns);
        }
    }

    #[inline]
    pub fn statement(&mut self, layout: &Layout, script: usize, statement: usize, ns: u64) {
        let index = layout.statements_begin() + layout.statement_index(script, statement);
        self.record(index, ns);
    }

    pub fn connection_wait(&mut self, layout: &Layout, script: usize, ns: u64) {
        self.record(layout.block(Measured::ConnectionWait) + script, ns);
    }

    pub fn attempt(&mut self, layout: &Layout, script: usize, ns: u64) {
        self.record(layout.block(Measured::Attempt) + script, ns);
    }

    pub fn merge(&mut self, other: &HistogramSet) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            if let Some(theirs) = theirs.as_ref().filter(|theirs| theirs.count() > 0) {
                mine.get_or_insert_default().merge(theirs);
            }
        }
    }

    pub fn clear(&mut self) {
        self.0.iter_mut().flatten().for_each(Histogram::clear);
    }

    pub fn is_empty(&self) -> bool {
        self.0.iter().flatten().all(|histogram| histogram.count() == 0)
    }

    /// Everything counted, as records have it: over all scripts, then, when there are several, by
    /// script, then by statement.
    pub fn distributions(&self, layout: &Layout) -> Vec<Distribution> {
        let mut found = Vec::new();
        let counted = |index: usize| self.0[index].as_ref().filter(|h| h.count() > 0);
        for measured in Layout::BY_SCRIPT {
            let block = layout.block(measured);
            let by_script: Vec<_> = (0..layout.script_count)
                .filter_map(|script| Some((script, counted(block + script)?)))
                .collect();
            let mut all = Histogram::default();
            let foreground = by_script.iter().filter(|(script, _)| !layout.is_background(*script));
            foreground.for_each(|(_, histogram)| all.merge(histogram));
            if all.count() > 0 {
                found.push(all.distribution(measured, None, None));
            }
            if layout.script_count > 1 {
                found.extend(by_script.iter().map(|(script, histogram)| {
                    histogram.distribution(measured, Some(*script as u32), None)
                }));
            }
        }
        for script in 0..layout.script_count {
            let (begin, end) =
                (layout.statement_offsets[script], layout.statement_offsets[script + 1]);
            found.extend((begin..end).filter_map(|index| {
                let histogram = counted(layout.statements_begin() + index)?;
                let statement = Some((index - begin) as u32);
                Some(histogram.distribution(Measured::Statement, Some(script as u32), statement))
            }));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Outcome;

    fn ended(scheduled_ns: u64, started_ns: u64, ended_ns: u64) -> Ended {
        Ended { scheduled_ns, started_ns, ended_ns, retries: 0, outcome: Outcome::Completed }
    }

    #[test]
    fn an_open_loop_keeps_latency_service_and_lag_apart() {
        let layout = Layout::new(&[1], true);
        let mut set = HistogramSet::new(&layout);
        set.transaction(&layout, 0, &ended(1_000, 4_000, 9_000));
        let sums: Vec<_> =
            set.distributions(&layout).iter().map(|d| (d.measured, d.sum_ns)).collect();
        assert_eq!(
            sums,
            [(Measured::Latency, 8_000), (Measured::Service, 5_000), (Measured::Lag, 3_000)]
        );
    }

    #[test]
    fn scripts_and_statements_are_found_under_their_own_numbers() {
        let layout = Layout::new(&[2, 1], false);
        let mut set = HistogramSet::new(&layout);
        set.transaction(&layout, 0, &ended(0, 0, 100));
        set.transaction(&layout, 1, &ended(0, 0, 300));
        set.statement(&layout, 0, 1, 60);
        set.statement(&layout, 1, 0, 70);
        let found: Vec<_> = set
            .distributions(&layout)
            .iter()
            .map(|d| (d.measured, d.script, d.statement, d.sum_ns))
            .collect();
        assert_eq!(
            found,
            [
                (Measured::Latency, None, None, 400),
                (Measured::Latency, Some(0), None, 100),
                (Measured::Latency, Some(1), None, 300),
                (Measured::Statement, Some(0), Some(1), 60),
                (Measured::Statement, Some(1), Some(0), 70),
            ]
        );
        let mut sum = HistogramSet::new(&layout);
        sum.merge(&set);
        sum.merge(&set);
        assert_eq!(sum.distributions(&layout)[0].count, 4);
        sum.clear();
        assert!(sum.is_empty());
    }

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
    fn background_work_has_an_age_and_is_in_no_total() {
        let layout = Layout::new(&[0, 0], false).with_background(vec![false, true]);
        let mut set = HistogramSet::new(&layout);
        set.transaction(&layout, 0, &ended(0, 0, 100));
        set.transaction(&layout, 1, &ended(0, 700, 900));
        let distributions = set.distributions(&layout);
        let sum = |measured, script| {
            let found = distributions.iter().find(|d| (d.measured, d.script) == (measured, script));
            found.map(|d| d.sum_ns)
        };
        assert_eq!(sum(Measured::Latency, None), Some(100));
        assert_eq!(sum(Measured::Latency, Some(1)), Some(900));
        assert_eq!(sum(Measured::Service, Some(1)), Some(200));
        assert_eq!(sum(Measured::Service, None), None);
        let mut tally = Tally::new(2);
        (tally.scripts[0].started, tally.scripts[0].completed) = (3, 3);
        (tally.scripts[1].started, tally.scripts[1].completed) = (2, 2);
        tally.scripts[1].not_started = 4;
        assert_eq!((tally.counts(&layout).started, tally.counts(&layout).not_started), (3, 0));
        assert_eq!(tally.scripts[1].counts().scheduled, 6);
    }
}
