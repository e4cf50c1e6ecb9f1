//! `-P`: prints a progress line every few seconds.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use super::options::Options;
use super::stats::{SimpleStats, Stats};
use super::witness::{SharedCounts, locked};
use pgdyno_engine::clock::now_ns;
use pgdyno_engine::contract::job::ClockPair;

/// The options that decide the form of a line.
#[derive(Clone, Debug)]
pub(super) struct Progress {
    pub interval_ns: u64,
    pub has_timestamp: bool,
    pub is_throttled: bool,
    pub has_latency_limit: bool,
    pub shows_retries: bool,
    pub clock: ClockPair,
    pub counts: Vec<SharedCounts>,
}

/// When the load began, when the last line was printed (at first: the begin), and now.
struct Instants {
    began_ns: u64,
    last_ns: u64,
    now_ns: u64,
}

impl Progress {
    pub(super) fn of(options: &Options, clock: ClockPair, counts: Vec<SharedCounts>) -> Progress {
        Progress {
            interval_ns: u64::from(options.progress_s) * 1_000_000_000,
            has_timestamp: options.progress_timestamp,
            is_throttled: options.rate_tps > 0.0,
            has_latency_limit: options.latency_limit_ms > 0.0,
            shows_retries: options.max_tries != 1,
            clock,
            counts,
        }
    }

    /// Print lines until the sender is dropped.
    ///
    /// Args: begins, the begin of the load, once. Its sender is dropped when the load ends.
    pub(super) fn run(&self, begins: &Receiver<u64>) {
        let Ok(began_ns) = begins.recv() else { return };
        let mut last = Stats::default();
        let mut at = Instants { began_ns, last_ns: began_ns, now_ns: began_ns };
        let mut next_ns = began_ns + self.interval_ns;
        loop {
            let wait = Duration::from_nanos(next_ns.saturating_sub(now_ns()));
            match begins.recv_timeout(wait) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(_) => continue,
                // The load has ended. If a line is due, print it.
                Err(RecvTimeoutError::Disconnected) if now_ns() < next_ns => return,
                Err(RecvTimeoutError::Disconnected) => {}
            }
            at.now_ns = now_ns();
            let mut all = Stats::default();
            self.counts.iter().for_each(|counts| all.merge(&locked(counts).total));
            eprintln!("{}", self.line(&all, &last, &at));
            (last, at.last_ns) = (all, at.now_ns);
            while next_ns <= at.now_ns {
                next_ns += self.interval_ns;
            }
        }
    }

    /// Return the line for the time since the last line: `all` minus `last`.
    fn line(&self, all: &Stats, last: &Stats, at: &Instants) -> String {
        let completed = all.completed - last.completed;
        let tps = completed as f64 / ((at.now_ns - at.last_ns) as f64 / 1e9);
        let latency = since(&all.latency, &last.latency);
        let (mean, deviation) = if latency.count > 0 { latency.moments() } else { (0.0, 0.0) };
        let time = match self.has_timestamp {
            true => format!("{:.3} s", self.clock.unix_ns(at.now_ns) as f64 / 1e9),
            false => format!("{:.1} s", (at.now_ns - at.began_ns) as f64 / 1e9),
        };
        let mut line = format!(
            "progress: {time}, {tps:.1} tps, lat {:.3} ms stddev {:.3}, {} failed",
            mean / 1e3,
            deviation / 1e3,
            all.failures() - last.failures()
        );
        if self.is_throttled {
            let lag = since(&all.lag, &last.lag);
            let mean = if lag.count > 0 { lag.moments().0 } else { 0.0 };
            line.push_str(&format!(", lag {:.3} ms", mean / 1e3));
            if self.has_latency_limit {
                line.push_str(&format!(", {} skipped", all.skipped - last.skipped));
            }
        }
        if self.shows_retries {
            line.push_str(&format!(
                ", {} retried, {} retries",
                all.retried - last.retried,
                all.retries - last.retries
            ));
        }
        line
    }
}

fn since(all: &SimpleStats, last: &SimpleStats) -> SimpleStats {
    SimpleStats {
        count: all.count - last.count,
        sum: all.sum - last.sum,
        sum2: all.sum2 - last.sum2,
        ..*all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Conclusion;

    #[test]
    fn a_line_tells_what_happened_since_the_last() {
        let progress = Progress {
            interval_ns: 1,
            has_timestamp: false,
            is_throttled: true,
            has_latency_limit: true,
            shows_retries: true,
            clock: ClockPair { monotonic_ns: 0, unix_ns: 0 },
            counts: Vec::new(),
        };
        let mut all = Stats::default();
        all.add(Conclusion::Completed { latency_us: 9_000.0, lag_us: 0.0 }, 0);
        let last = all.clone();
        all.add(Conclusion::Completed { latency_us: 2_000.0, lag_us: 500.0 }, 1);
        all.add(Conclusion::Completed { latency_us: 4_000.0, lag_us: 500.0 }, 0);
        all.add(Conclusion::Skipped, 0);
        let at = Instants { began_ns: 0, last_ns: 3_000_000_000, now_ns: 5_000_000_000 };
        assert_eq!(
            progress.line(&all, &last, &at),
            "progress: 5.0 s, 1.0 tps, lat 3.000 ms stddev 1.000, 0 failed, lag 0.500 ms, \
             1 skipped, 1 retried, 1 retries"
        );
    }
}
