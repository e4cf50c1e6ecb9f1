//! The histograms of one thread: durations of transactions by script, and of statements.
//!
//! `Layout` gives each of them a fixed index for the run. `HistogramSet` has the histograms.

use crate::contract::record::{Measured, TimeDistribution};
use crate::histogram::Histogram;
use crate::outcome::Ended;

/// The scripts and statements of a run, and the index of each histogram. Fixed for the run.
#[derive(Clone, Debug)]
pub struct Layout {
    script_count: usize,
    /// Index of the first statement of each script, then the number of all statements.
    statement_offsets: Vec<usize>,
    is_open_loop: bool,
    /// By script; empty if no script is background work.
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

    /// Return the layout with background work, which is in no total over all scripts.
    ///
    /// Args: for each script, whether it is background work.
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

    /// The durations that are measured by script. Each is a block of `script_count` histograms.
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

    /// Index of a statement among the statements of all scripts.
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

/// The histograms of one owner. Each is created at its first value.
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
        // Deferred work waits for its start, also in a closed loop.
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

    /// Return all histograms with a value, in the form of records: over all scripts; if there are
    /// several, by script; then by statement.
    ///
    /// Args: `sum`, memory for the sums over all scripts. The allocator would clear new memory for
    /// each of them: 256 KiB, several times a second.
    pub fn distributions(&self, layout: &Layout, sum: &mut Histogram) -> Vec<TimeDistribution> {
        let mut distributions = Vec::new();
        let counted = |index: usize| self.0[index].as_ref().filter(|h| h.count() > 0);
        for measured in Layout::BY_SCRIPT {
            let block = layout.block(measured);
            let by_script: Vec<_> = (0..layout.script_count)
                .filter_map(|script| Some((script, counted(block + script)?)))
                .collect();
            sum.clear();
            let foreground = by_script.iter().filter(|(script, _)| !layout.is_background(*script));
            foreground.for_each(|(_, histogram)| sum.merge(histogram));
            if sum.count() > 0 {
                distributions.push(sum.distribution(measured, None, None));
            }
            if layout.script_count > 1 {
                distributions.extend(by_script.iter().map(|(script, histogram)| {
                    histogram.distribution(measured, Some(*script as u32), None)
                }));
            }
        }
        for script in 0..layout.script_count {
            let (begin, end) =
                (layout.statement_offsets[script], layout.statement_offsets[script + 1]);
            distributions.extend((begin..end).filter_map(|index| {
                let histogram = counted(layout.statements_begin() + index)?;
                let statement = Some((index - begin) as u32);
                Some(histogram.distribution(Measured::Statement, Some(script as u32), statement))
            }));
        }
        distributions
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
        let sums: Vec<_> = set
            .distributions(&layout, &mut Histogram::default())
            .iter()
            .map(|d| (d.measured, d.sum_ns))
            .collect();
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
            .distributions(&layout, &mut Histogram::default())
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
        assert_eq!(sum.distributions(&layout, &mut Histogram::default())[0].count, 4);
        sum.clear();
        assert!(sum.is_empty());
    }

    #[test]
    fn background_work_has_a_lag_and_is_in_no_histogram_over_all_scripts() {
        let layout = Layout::new(&[0, 0], false).with_background(vec![false, true]);
        let mut set = HistogramSet::new(&layout);
        set.transaction(&layout, 0, &ended(0, 0, 100));
        set.transaction(&layout, 1, &ended(0, 700, 900));
        let distributions = set.distributions(&layout, &mut Histogram::default());
        let sum = |measured, script| {
            let found = distributions.iter().find(|d| (d.measured, d.script) == (measured, script));
            found.map(|d| d.sum_ns)
        };
        assert_eq!(sum(Measured::Latency, None), Some(100));
        assert_eq!(sum(Measured::Latency, Some(1)), Some(900));
        assert_eq!(sum(Measured::Service, Some(1)), Some(200));
        assert_eq!(sum(Measured::Service, None), None);
    }
}
