//! `-l`: writes a line for each transaction, or with `--aggregate-interval` a line for each
//! interval.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use pgdyno_script::Prng;

use super::options::Options;
use super::say::{Fault, fault};
use super::stats::{Conclusion, FailureKind, SimpleStats, Stats};

/// The options that decide the form of a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    pub is_throttled: bool,
    pub has_latency_limit: bool,
    pub shows_retries: bool,
    pub failures_detailed: bool,
    /// A line has pgbench 19's column of other failures.
    pub shows_other_failures: bool,
    /// Length of an interval in seconds; 0 = one line for each transaction.
    pub aggregate_s: u64,
    /// Part of the transactions that is logged; 0 = all transactions.
    pub sampling_rate: f64,
}

impl Form {
    pub(super) fn of(options: &Options) -> Form {
        Form {
            is_throttled: options.rate_tps > 0.0,
            has_latency_limit: options.latency_limit_ms > 0.0,
            shows_retries: options.max_tries != 1,
            failures_detailed: options.failures_detailed,
            shows_other_failures: options.continues_on_error,
            aggregate_s: u64::from(options.aggregate_s),
            sampling_rate: options.sampling_rate,
        }
    }
}

/// The transaction of a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub client: u32,
    /// Number of the transaction within its client, from 1.
    pub number: u64,
    pub script: usize,
    pub result: Conclusion,
    pub retries: u64,
    /// The end of the transaction, Unix time.
    pub unix_us: u64,
}

/// The log of one thread.
#[derive(Debug)]
pub(super) struct Log<W: Write = File> {
    out: BufWriter<W>,
    form: Form,
    sample: Prng,
    interval: Stats,
    /// The largest number before the load begins.
    interval_began_us: u64,
}

impl Log {
    /// Create the log file of `thread`.
    pub(super) fn open(
        prefix: Option<&Path>,
        thread: u32,
        form: Form,
        sample: Prng,
    ) -> Result<Log, Fault> {
        let path = path(prefix, thread);
        let file = File::create(&path).map_err(|error| {
            let said = error.to_string();
            let reason = said.split(" (os error").next().unwrap_or_default();
            fault(format!("could not open logfile \"{}\": {reason}", path.display()))
        })?;
        Ok(Log::new(file, form, sample))
    }
}

/// Name of the log file: `PREFIX.PID` for the first thread, `PREFIX.PID.THREAD` for the others.
fn path(prefix: Option<&Path>, thread: u32) -> PathBuf {
    let mut path = prefix.unwrap_or(Path::new("pgbench_log")).as_os_str().to_owned();
    path.push(format!(".{}", std::process::id()));
    if thread > 0 {
        path.push(format!(".{thread}"));
    }
    path.into()
}

impl<W: Write> Log<W> {
    fn new(out: W, form: Form, sample: Prng) -> Log<W> {
        let out = BufWriter::with_capacity(1 << 16, out);
        Log { out, form, sample, interval: Stats::default(), interval_began_us: u64::MAX }
    }

    /// Begin the first interval. As in pgbench, it begins with the whole second.
    pub(super) fn begin(&mut self, now_us: u64) {
        self.interval_began_us = now_us / 1_000_000 * 1_000_000;
    }

    /// Log a transaction.
    pub(super) fn add(&mut self, entry: &Entry) {
        // As in pgbench, an error of writing does not stop the run.
        let _ = match self.form.aggregate_s {
            0 => self.line(entry),
            _ => self.aggregate(entry),
        };
    }

    /// Write the intervals that have ended. As in pgbench, the last, incomplete interval is
    /// dropped.
    pub(super) fn finish(&mut self, now_us: u64) {
        let _ = self.close_intervals(now_us);
        let _ = self.out.flush();
    }

    fn line(&mut self, entry: &Entry) -> std::io::Result<()> {
        let Form { sampling_rate, failures_detailed, .. } = self.form;
        if sampling_rate > 0.0 && self.sample.unit() > sampling_rate {
            return Ok(());
        }
        let Entry { client, number, script, result, retries, unix_us } = *entry;
        let (seconds, micros) = (unix_us / 1_000_000, unix_us % 1_000_000);
        write!(self.out, "{client} {number} ")?;
        let mut lag = 0.0;
        match result {
            Conclusion::Completed { latency_us, lag_us } => {
                lag = lag_us;
                write!(self.out, "{latency_us:.0}")?;
            }
            Conclusion::Skipped => self.out.write_all(b"skipped")?,
            Conclusion::Failed(_) if !failures_detailed => self.out.write_all(b"failed")?,
            Conclusion::Failed(FailureKind::Serialization) => {
                self.out.write_all(b"serialization")?
            }
            Conclusion::Failed(FailureKind::Deadlock) => self.out.write_all(b"deadlock")?,
            Conclusion::Failed(FailureKind::Other) => self.out.write_all(b"other")?,
        }
        write!(self.out, " {script} {seconds} {micros}")?;
        if self.form.is_throttled {
            write!(self.out, " {lag:.0}")?;
        }
        if self.form.shows_retries {
            write!(self.out, " {retries}")?;
        }
        self.out.write_all(b"\n")
    }

    fn aggregate(&mut self, entry: &Entry) -> std::io::Result<()> {
        self.close_intervals(entry.unix_us)?;
        self.interval.add(entry.result, entry.retries);
        Ok(())
    }

    fn close_intervals(&mut self, now_us: u64) -> std::io::Result<()> {
        let length_us = self.form.aggregate_s * 1_000_000;
        while length_us > 0 && self.interval_began_us.saturating_add(length_us) <= now_us {
            self.interval_line()?;
            self.interval = Stats::default();
            self.interval_began_us += length_us;
        }
        Ok(())
    }

    fn interval_line(&mut self) -> std::io::Result<()> {
        let Stats { latency, lag, completed, skipped, retried, retries, .. } = &self.interval;
        let only_if = |is_on: bool, count: u64| if is_on { count } else { 0 };
        let Form { is_throttled, has_latency_limit, shows_retries, .. } = self.form;
        write!(self.out, "{} {completed} {}", self.interval_began_us / 1_000_000, sums(latency))?;
        let lag = if is_throttled { *lag } else { SimpleStats::default() };
        write!(self.out, " {} {}", sums(&lag), only_if(has_latency_limit, *skipped))?;
        let (retried, retries) =
            (only_if(shows_retries, *retried), only_if(shows_retries, *retries));
        let detailed = self.form.failures_detailed;
        let serialization = only_if(detailed, self.interval.serialization_failures);
        let deadlock = only_if(detailed, self.interval.deadlock_failures);
        write!(self.out, " {retried} {retries} {serialization} {deadlock}")?;
        if self.form.shows_other_failures {
            write!(self.out, " {}", only_if(detailed, self.interval.other_failures))?;
        }
        self.out.write_all(b"\n")
    }
}

/// Format sum, sum of squares, smallest and largest value.
fn sums(stats: &SimpleStats) -> String {
    format!("{:.0} {:.0} {:.0} {:.0}", stats.sum, stats.sum2, stats.min, stats.max)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Form = Form {
        is_throttled: false,
        has_latency_limit: false,
        shows_retries: false,
        failures_detailed: false,
        shows_other_failures: false,
        aggregate_s: 0,
        sampling_rate: 0.0,
    };

    fn entry(result: Conclusion, unix_us: u64) -> Entry {
        Entry { client: 3, number: 7, script: 1, result, retries: 2, unix_us }
    }

    fn written(form: Form, entries: &[Entry], end_us: u64) -> String {
        let mut log = Log::new(Vec::new(), form, Prng::from_seed(1));
        log.begin(900_000);
        entries.iter().for_each(|entry| log.add(entry));
        log.finish(end_us);
        String::from_utf8(log.out.into_inner().expect("a vector")).expect("ASCII")
    }

    #[test]
    fn a_line_has_the_columns_its_options_ask_for() {
        let done = entry(Conclusion::Completed { latency_us: 1234.4, lag_us: 5.0 }, 17_000_042);
        assert_eq!(written(PLAIN, &[done], 0), "3 7 1234 1 17 42\n");
        let full = Form { is_throttled: true, shows_retries: true, ..PLAIN };
        assert_eq!(written(full, &[done], 0), "3 7 1234 1 17 42 5 2\n");
        let failed = entry(Conclusion::Failed(FailureKind::Deadlock), 0);
        assert_eq!(written(PLAIN, &[failed], 0), "3 7 failed 1 0 0\n");
        let detailed = Form { failures_detailed: true, ..PLAIN };
        assert_eq!(written(detailed, &[failed], 0), "3 7 deadlock 1 0 0\n");
        let other = entry(Conclusion::Failed(FailureKind::Other), 0);
        assert_eq!(written(detailed, &[other], 0), "3 7 other 1 0 0\n");
        assert_eq!(written(full, &[entry(Conclusion::Skipped, 0)], 0), "3 7 skipped 1 0 0 0 2\n");
    }

    #[test]
    fn intervals_have_fifteen_columns_and_the_unfinished_one_is_dropped() {
        let form = Form { aggregate_s: 1, ..PLAIN };
        let done = |at_us| entry(Conclusion::Completed { latency_us: 10.0, lag_us: 0.0 }, at_us);
        let text = written(form, &[done(1), done(2), done(2_500_000)], 2_900_000);
        assert_eq!(text, "0 2 20 200 10 10 0 0 0 0 0 0 0 0 0\n1 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n");
        let form = Form { shows_other_failures: true, failures_detailed: true, ..form };
        let text = written(form, &[entry(Conclusion::Failed(FailureKind::Other), 1)], 1_000_000);
        assert_eq!(text, "0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1\n");
    }

    #[test]
    fn about_the_asked_share_of_transactions_is_logged() {
        let form = Form { sampling_rate: 0.25, ..PLAIN };
        let entries = vec![entry(Conclusion::Completed { latency_us: 1.0, lag_us: 0.0 }, 0); 4000];
        let lines = written(form, &entries, 0).lines().count();
        assert!((900..1100).contains(&lines), "{lines}");
    }
}
