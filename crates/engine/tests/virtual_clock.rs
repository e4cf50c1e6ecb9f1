//! Percentiles of an open loop on a virtual clock: every instant is computed, so the truth is known
//! to the nanosecond, and no machine can disturb it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use pgdyno_engine::arrivals::Schedule;
use pgdyno_engine::contract::bucket::bucket_range;
use pgdyno_engine::contract::job::{ArrivalProcess, RateStep};
use pgdyno_engine::contract::record::{Measured, TimeDistribution};
use pgdyno_engine::histogram::Histogram;
use pgdyno_engine::histogram_set::{HistogramSet, Layout};
use pgdyno_engine::outcome::{Ended, Outcome};
use pgdyno_script::Prng;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;
/// The server answers nothing for so long from its tenth second on.
const STALL: std::ops::Range<u64> = 10 * SECOND..11 * SECOND + 400 * MS;

type Of = fn(&Ended) -> u64;

/// Service times with a tail: 1 to 3 ms, one in a hundred ten times that, one in 5,000 0.5 s.
fn service_ns(random: &mut Prng) -> u64 {
    let base = MS + (random.unit() * 2.0 * MS as f64) as u64;
    match random.unit() {
        draw if draw < 0.0002 => 500 * MS,
        draw if draw < 0.0102 => 10 * base,
        _ => base,
    }
}

/// Clients that serve arrivals in order: each transaction's instants.
fn simulate(process: ArrivalProcess, clients: usize) -> Vec<Ended> {
    let steps = [RateStep { duration_ns: 0, from_tps: 1000.0, to_tps: 1000.0 }];
    let schedule = Schedule::new(process, &steps, 0, 1, Prng::from_seed(7));
    let mut random = Prng::from_seed(8);
    let mut free: BinaryHeap<Reverse<u64>> = (0..clients).map(|_| Reverse(0)).collect();
    let due = schedule.take_while(|&at_ns| at_ns < 120 * SECOND);
    due.map(|scheduled_ns| {
        let Reverse(free_ns) = free.pop().expect("a client");
        let started_ns = scheduled_ns.max(free_ns);
        let answered_ns = if STALL.contains(&started_ns) { STALL.end } else { started_ns };
        let ended_ns = answered_ns + service_ns(&mut random);
        free.push(Reverse(ended_ns));
        Ended { scheduled_ns, started_ns, ended_ns, retries: 0, outcome: Outcome::Completed }
    })
    .collect()
}

fn quantile_ns(distribution: &TimeDistribution, ratio: f64) -> f64 {
    let mut left = (ratio * distribution.count as f64).ceil() as u64;
    for &(bucket, count) in &distribution.buckets {
        if left <= count {
            let (low, width) = bucket_range(bucket);
            return low as f64 + width as f64 / 2.0;
        }
        left -= count;
    }
    panic!("{ratio} of {} values", distribution.count)
}

#[test]
fn p99_and_beyond_are_those_of_the_computed_instants() {
    for process in [ArrivalProcess::Uniform, ArrivalProcess::Poisson] {
        let all = simulate(process, 8);
        let layout = Layout::new(&[1], true);
        let mut set = HistogramSet::new(&layout);
        all.iter().for_each(|ended| set.transaction(&layout, 0, ended));
        let found = set.distributions(&layout, &mut Histogram::default());
        let durations: [(Measured, Of); 3] = [
            (Measured::Latency, |e| e.ended_ns - e.scheduled_ns),
            (Measured::Service, |e| e.ended_ns - e.started_ns),
            (Measured::Lag, |e| e.started_ns - e.scheduled_ns),
        ];
        for (measured, of) in durations {
            let distribution = found.iter().find(|d| d.measured == measured).expect("measured");
            let mut truth: Vec<u64> = all.iter().map(of).collect();
            truth.sort_unstable();
            assert_eq!(distribution.count, truth.len() as u64);
            assert_eq!(distribution.sum_ns, truth.iter().sum::<u64>());
            assert_eq!(distribution.max_ns, truth[truth.len() - 1]);
            for ratio in [0.5, 0.9, 0.99, 0.999, 0.9999] {
                let rank = (ratio * truth.len() as f64).ceil() as usize;
                let (found_ns, truth_ns) =
                    (quantile_ns(distribution, ratio), truth[rank - 1] as f64);
                // Three digits, and 64 ns where that is less.
                let error_ns = (found_ns - truth_ns).abs();
                assert!(
                    error_ns <= (truth_ns / 1000.0).max(64.0),
                    "{process:?} {measured:?} {ratio}: {found_ns} for {truth_ns}"
                );
            }
        }
    }
}

#[test]
fn a_stall_reaches_the_percentiles_as_far_as_it_reaches_the_arrivals() {
    let all = simulate(ArrivalProcess::Uniform, 8);
    let waited = all.iter().filter(|e| STALL.contains(&e.scheduled_ns));
    let (count, least) = waited.fold((0, u64::MAX), |(count, least), e| {
        let left_ns = STALL.end - e.scheduled_ns;
        (count + 1, least.min((e.ended_ns - e.scheduled_ns).saturating_sub(left_ns)))
    });
    assert_eq!(count, 1400, "1.4 s at 1,000 a second");
    assert!(least >= MS, "each was answered after the stall, and not before");
    let slow = all.iter().filter(|e| e.ended_ns - e.started_ns > 400 * MS).count();
    assert!(slow < 60, "the service times alone would have hidden it: {slow}");
}
