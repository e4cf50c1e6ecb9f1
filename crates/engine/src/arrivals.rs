//! When transactions are due in an open loop: pure arithmetic, no clock.
//!
//! The offered rate is a piecewise linear function of time. Its integral is the number of
//! transactions that are due so far. Arrival k is where the integral reaches k (uniform), or where
//! it reaches the sum of k exponential gaps (Poisson). So ramps are exact, and a late engine needs
//! no queue of arrivals. Each thread has one stream. The streams add up to the schedule: uniform
//! streams interleave, and the sum of Poisson streams is a Poisson stream.

use std::sync::Arc;

use pgdyno_script::Prng;

use crate::contract::job::{ArrivalProcess, RateStep};

/// An iterator over the instants of one stream, ascending, in nanoseconds after the begin of the
/// load.
#[derive(Clone, Debug)]
pub struct Schedule {
    steps: Vec<Segment>,
    process: Process,
    /// Number of transactions of all streams that are due before the next one of this stream.
    due_count: f64,
    stream_count: f64,
    /// Index of the step of the last arrival, or of the next known instant. It only grows.
    current: usize,
}

#[derive(Clone, Debug)]
enum Process {
    Uniform,
    Poisson(Prng),
    /// These instants, and no others.
    Known(Arc<[u64]>),
}

/// One step of the rate, with the time and the count at which it begins.
#[derive(Clone, Copy, Debug)]
struct Segment {
    begin_ns: u64,
    /// None if the step lasts to the end.
    duration_ns: Option<u64>,
    from_per_ns: f64,
    to_per_ns: f64,
    /// Integral of the rate before this step; `count` is the integral within the step.
    before_count: f64,
    count: f64,
}

impl Schedule {
    /// Args: `steps`, rates over all streams; `stream < stream_count`; `random` must differ between
    /// streams.
    pub fn new(
        process: ArrivalProcess,
        steps: &[RateStep],
        stream: u32,
        stream_count: u32,
        random: Prng,
    ) -> Schedule {
        let mut schedule = Schedule {
            steps: place(steps),
            process: Process::Uniform,
            due_count: f64::from(stream),
            stream_count: f64::from(stream_count),
            current: 0,
        };
        if process == ArrivalProcess::Poisson {
            schedule.process = Process::Poisson(random);
            schedule.due_count = 0.0;
            schedule.step_forward();
        }
        schedule
    }

    /// Return a stream of known instants, which ascend.
    pub fn of_instants(known_ns: Vec<u64>) -> Schedule {
        Schedule {
            steps: Vec::new(),
            process: Process::Known(known_ns.into()),
            due_count: 0.0,
            stream_count: 1.0,
            current: 0,
        }
    }

    fn step_forward(&mut self) {
        self.due_count += match &mut self.process {
            Process::Uniform => self.stream_count,
            // unit() is below 1, so the logarithm is finite.
            Process::Poisson(random) => -(1.0 - random.unit()).ln() * self.stream_count,
            Process::Known(_) => 0.0,
        };
    }
}

impl Iterator for Schedule {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        if let Process::Known(known_ns) = &self.process {
            self.current += 1;
            return known_ns.get(self.current - 1).copied();
        }
        let segment = loop {
            let segment = self.steps.get(self.current)?;
            if self.due_count < segment.before_count + segment.count {
                break segment;
            }
            self.current += 1;
        };
        let within = segment.time_of(self.due_count - segment.before_count);
        let at_ns = segment.begin_ns + within.round() as u64;
        self.step_forward();
        Some(at_ns)
    }
}

impl Segment {
    /// Return when `count` transactions of this step are due, in nanoseconds after its begin.
    fn time_of(&self, count: f64) -> f64 {
        let Some(duration_ns) = self.duration_ns else { return count / self.from_per_ns };
        // The root of from * t + slope * t^2 / 2 = count that is finite when the slope is 0.
        let slope = (self.to_per_ns - self.from_per_ns) / duration_ns as f64;
        let root = (self.from_per_ns * self.from_per_ns + 2.0 * slope * count).max(0.0).sqrt();
        2.0 * count / (self.from_per_ns + root)
    }
}

/// Place the steps one after another. The last rate lasts to the end.
fn place(steps: &[RateStep]) -> Vec<Segment> {
    let mut segments = Vec::new();
    let (mut begin_ns, mut before_count) = (0, 0.0);
    for step in steps.iter().filter(|step| step.duration_ns > 0) {
        let (from_per_ns, to_per_ns) = (step.from_tps / 1e9, step.to_tps / 1e9);
        let count = (from_per_ns + to_per_ns) / 2.0 * step.duration_ns as f64;
        let duration_ns = Some(step.duration_ns);
        segments.push(Segment {
            begin_ns,
            duration_ns,
            from_per_ns,
            to_per_ns,
            before_count,
            count,
        });
        begin_ns += step.duration_ns;
        before_count += count;
    }
    let last_per_ns = steps.last().map_or(0.0, |step| step.to_tps / 1e9);
    if last_per_ns > 0.0 {
        segments.push(Segment {
            begin_ns,
            duration_ns: None,
            from_per_ns: last_per_ns,
            to_per_ns: last_per_ns,
            before_count,
            count: f64::INFINITY,
        });
    }
    segments
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn step(seconds: u64, from_tps: f64, to_tps: f64) -> RateStep {
        RateStep { duration_ns: seconds * SECOND, from_tps, to_tps }
    }

    fn streams(process: ArrivalProcess, steps: &[RateStep], count: u32, until_ns: u64) -> Vec<u64> {
        let mut all: Vec<u64> = (0..count)
            .flat_map(|stream| {
                let random = Prng::from_seed(1000 + u64::from(stream));
                Schedule::new(process, steps, stream, count, random)
                    .take_while(|&at_ns| at_ns < until_ns)
                    .collect::<Vec<_>>()
            })
            .collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn uniform_arrivals_are_exact_and_streams_interleave() {
        let due = streams(ArrivalProcess::Uniform, &[step(0, 500.0, 500.0)], 3, 10 * SECOND);
        assert_eq!(due.len(), 5_000);
        for (number, at_ns) in due.iter().enumerate() {
            assert!(at_ns.abs_diff(number as u64 * 2_000_000) <= 1, "{number}: {at_ns}");
        }
    }

    #[test]
    fn an_hour_of_a_high_rate_loses_nothing_to_rounding() {
        let mut schedule = Schedule::new(
            ArrivalProcess::Uniform,
            &[step(0, 300_000.0, 300_000.0)],
            0,
            1,
            Prng::from_seed(1),
        );
        schedule.due_count = 300_000.0 * 86_400.0;
        assert_eq!(schedule.next(), Some(86_400 * SECOND));
    }

    #[test]
    fn a_ramp_holds_its_integral_and_the_last_rate_lasts() {
        let steps = [step(10, 0.0, 100.0), step(0, 100.0, 20.0), step(5, 20.0, 20.0)];
        let due = streams(ArrivalProcess::Uniform, &steps, 2, 30 * SECOND);
        let until = |seconds: u64| due.iter().filter(|&&at| at < seconds * SECOND).count();
        assert_eq!(until(10), 500);
        // Half of the time, a quarter of the area.
        assert_eq!(until(5), 125);
        assert_eq!(until(15), 600);
        assert_eq!(until(30), 900);
    }

    #[test]
    fn a_rate_that_ends_at_zero_ends_the_schedule() {
        let due = streams(ArrivalProcess::Uniform, &[step(10, 100.0, 0.0)], 1, u64::MAX);
        assert_eq!(due.len(), 500);
        assert!(due.last().is_some_and(|&at| at <= 10 * SECOND));
    }

    #[test]
    fn a_pause_between_two_steps_is_empty() {
        let steps = [step(1, 50.0, 50.0), step(3, 0.0, 0.0), step(1, 50.0, 50.0)];
        let due = streams(ArrivalProcess::Uniform, &steps, 1, 5 * SECOND);
        assert_eq!(due.len(), 100);
        assert!(!due.iter().any(|at| (SECOND + 1..4 * SECOND).contains(at)));
    }

    #[test]
    fn poisson_counts_have_the_mean_and_variance_of_poisson() {
        let due = streams(ArrivalProcess::Poisson, &[step(0, 1000.0, 1000.0)], 4, 200 * SECOND);
        let expected = 200_000.0_f64;
        assert!((due.len() as f64 - expected).abs() < 3.3 * expected.sqrt(), "{}", due.len());
        // Counts in 2,000 windows of 100 ms: variance over mean is 1, its standard error 0.032.
        let mut counts = vec![0.0; 2_000];
        due.iter().for_each(|at| counts[(at / 100_000_000) as usize] += 1.0);
        let mean = counts.iter().sum::<f64>() / 2_000.0;
        let variance = counts.iter().map(|c| (c - mean) * (c - mean)).sum::<f64>() / 1_999.0;
        assert!((variance / mean - 1.0).abs() < 0.11, "{}", variance / mean);
    }

    #[test]
    fn gaps_of_superposed_poisson_streams_pass_a_kolmogorov_smirnov_test() {
        let due = streams(ArrivalProcess::Poisson, &[step(0, 1000.0, 1000.0)], 4, 10 * SECOND);
        let mut gaps: Vec<f64> = due.windows(2).map(|w| (w[1] - w[0]) as f64 / 1e6).collect();
        gaps.sort_unstable_by(f64::total_cmp);
        let n = gaps.len() as f64;
        let distance = gaps
            .iter()
            .enumerate()
            .map(|(rank, gap)| {
                let expected = 1.0 - (-gap).exp();
                (expected - rank as f64 / n).abs().max((expected - (rank + 1) as f64 / n).abs())
            })
            .fold(0.0, f64::max);
        // Critical value at 0.1 %.
        assert!(distance < 1.95 / n.sqrt(), "{distance}");
    }

    #[test]
    fn a_poisson_ramp_keeps_its_integral() {
        let due = streams(ArrivalProcess::Poisson, &[step(100, 0.0, 1000.0)], 2, 100 * SECOND);
        let first = due.iter().filter(|&&at| at < 50 * SECOND).count() as f64;
        assert!((first - 12_500.0).abs() < 3.3 * 12_500_f64.sqrt(), "{first}");
        assert!((due.len() as f64 - 50_000.0).abs() < 3.3 * 50_000_f64.sqrt());
    }
}
