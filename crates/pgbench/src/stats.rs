//! pgbench's statistics: counts, sums and sums of squares, in microseconds.

use pgdyno_engine::histogram::Histogram;

/// Count, extremes, sum and sum of squares.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SimpleStats {
    pub count: u64,
    pub min: f64,
    pub max: f64,
    pub sum: f64,
    pub sum2: f64,
}

impl SimpleStats {
    pub(super) fn add(&mut self, value: f64) {
        if self.count == 0 || value < self.min {
            self.min = value;
        }
        if self.count == 0 || value > self.max {
            self.max = value;
        }
        self.count += 1;
        self.sum += value;
        self.sum2 += value * value;
    }

    pub(super) fn merge(&mut self, other: &SimpleStats) {
        if other.count == 0 {
            return;
        }
        if self.count == 0 || other.min < self.min {
            self.min = other.min;
        }
        if self.count == 0 || other.max > self.max {
            self.max = other.max;
        }
        self.count += other.count;
        self.sum += other.sum;
        self.sum2 += other.sum2;
    }

    /// Return mean and standard deviation of the values.
    pub(super) fn moments(&self) -> (f64, f64) {
        let mean = self.sum / self.count as f64;
        // Rounding may give a variance just below zero.
        let variance = (self.sum2 / self.count as f64 - mean * mean).max(0.0);
        (mean, variance.sqrt())
    }
}

/// Why a transaction failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FailureKind {
    Serialization,
    Deadlock,
    /// Any other error of a statement, with `--continue-on-error`.
    Other,
}

/// How a transaction ended, for statistics and log.
#[derive(Clone, Copy, Debug)]
pub(super) enum Conclusion {
    Completed { latency_us: f64, lag_us: f64 },
    Failed(FailureKind),
    Skipped,
}

/// Counts of a run, a script, or an interval of the log.
#[derive(Clone, Debug, Default)]
pub(super) struct Stats {
    pub completed: u64,
    pub skipped: u64,
    pub retried: u64,
    pub retries: u64,
    pub serialization_failures: u64,
    pub deadlock_failures: u64,
    pub other_failures: u64,
    pub latency: SimpleStats,
    pub lag: SimpleStats,
}

impl Stats {
    pub(super) fn add(&mut self, result: Conclusion, retries: u64) {
        self.retries += retries;
        self.retried += u64::from(retries > 0);
        match result {
            Conclusion::Completed { latency_us, lag_us } => {
                self.completed += 1;
                self.latency.add(latency_us);
                self.lag.add(lag_us);
            }
            Conclusion::Failed(FailureKind::Serialization) => self.serialization_failures += 1,
            Conclusion::Failed(FailureKind::Deadlock) => self.deadlock_failures += 1,
            Conclusion::Failed(FailureKind::Other) => self.other_failures += 1,
            Conclusion::Skipped => self.skipped += 1,
        }
    }

    pub(super) fn merge(&mut self, other: &Stats) {
        self.completed += other.completed;
        self.skipped += other.skipped;
        self.retried += other.retried;
        self.retries += other.retries;
        self.serialization_failures += other.serialization_failures;
        self.deadlock_failures += other.deadlock_failures;
        self.other_failures += other.other_failures;
        self.latency.merge(&other.latency);
        self.lag.merge(&other.lag);
    }

    pub(super) fn failures(&self) -> u64 {
        self.serialization_failures + self.deadlock_failures + self.other_failures
    }

    pub(super) fn total(&self) -> u64 {
        self.completed + self.skipped + self.failures()
    }
}

/// The numbers of `-r` for one command of a script.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CommandCounts {
    /// Number of executions, and their total time.
    pub count: u64,
    pub sum_ns: u64,
    pub failures: u64,
    pub retries: u64,
}

/// All counts of one thread, or the sum of several threads.
#[derive(Clone, Debug, Default)]
pub(super) struct Counted {
    pub total: Stats,
    pub scripts: Vec<Stats>,
    /// By script and command.
    pub commands: Vec<Vec<CommandCounts>>,
    /// Transactions above the latency limit.
    pub late: u64,
    pub latency: Histogram,
    /// When the last transaction ended, on the monotonic clock.
    pub last_ns: u64,
    pub has_aborted: bool,
}

impl Counted {
    /// Args: the number of commands of each script.
    pub(super) fn new(command_counts: &[usize]) -> Counted {
        Counted {
            scripts: vec![Stats::default(); command_counts.len()],
            commands: command_counts.iter().map(|&n| vec![CommandCounts::default(); n]).collect(),
            ..Counted::default()
        }
    }

    pub(super) fn merge(&mut self, other: &Counted) {
        self.total.merge(&other.total);
        self.scripts.iter_mut().zip(&other.scripts).for_each(|(mine, theirs)| mine.merge(theirs));
        let theirs = other.commands.iter().flatten();
        for (mine, theirs) in self.commands.iter_mut().flatten().zip(theirs) {
            mine.count += theirs.count;
            mine.sum_ns += theirs.sum_ns;
            mine.failures += theirs.failures;
            mine.retries += theirs.retries;
        }
        self.late += other.late;
        self.latency.merge(&other.latency);
        self.last_ns = self.last_ns.max(other.last_ns);
        self.has_aborted |= other.has_aborted;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_those_of_the_values() {
        let mut stats = SimpleStats::default();
        [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0].into_iter().for_each(|value| stats.add(value));
        assert_eq!(stats.moments(), (5.0, 2.0));
        assert_eq!((stats.min, stats.max), (2.0, 9.0));
        let mut sum = SimpleStats::default();
        sum.merge(&stats);
        assert_eq!(sum.moments(), (5.0, 2.0));
    }

    #[test]
    fn failed_and_skipped_transactions_have_no_latency() {
        let mut stats = Stats::default();
        stats.add(Conclusion::Failed(FailureKind::Deadlock), 2);
        stats.add(Conclusion::Skipped, 0);
        stats.add(Conclusion::Completed { latency_us: 10.0, lag_us: 1.0 }, 0);
        assert_eq!((stats.total(), stats.failures(), stats.latency.count), (3, 1, 1));
        assert_eq!((stats.retried, stats.retries), (1, 2));
    }
}
