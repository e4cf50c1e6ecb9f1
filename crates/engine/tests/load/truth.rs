//! Times and numbers against what the server's own clock says.

use std::time::Duration;

use crate::fake::job::{MS, load, open, work};
use crate::fake::{Answer, Server};
use pgdyno_engine::clock::now_ns;
use pgdyno_engine::contract::bucket::bucket_range;
use pgdyno_engine::contract::job::{Arrivals, ClosedLoop, Measure};
use pgdyno_engine::contract::record::{Distribution, Measured};

fn quantile_ns(distribution: &Distribution, ratio: f64) -> u64 {
    let mut left = (ratio * distribution.count as f64).ceil() as u64;
    for &(bucket, count) in &distribution.buckets {
        if left <= count {
            let (low, width) = bucket_range(bucket);
            return low + width / 2;
        }
        left -= count;
    }
    panic!("{ratio} of {distribution:?}")
}

fn slower_than(distribution: &Distribution, limit_ns: u64) -> u64 {
    let slow =
        distribution.buckets.iter().filter(|(bucket, _)| bucket_range(*bucket).0 >= limit_ns);
    slow.map(|(_, count)| count).sum()
}

#[test]
fn latency_is_what_the_server_took_and_the_way_there_and_back() {
    let server = Server::start(|_| {
        std::thread::sleep(Duration::from_millis(10));
        Answer::Done
    });
    let mut work = work("SELECT 1;\n");
    work.measure = Measure::TransactionsPerClient(60);
    let run = load(&server, work);
    let mut took: Vec<u64> = server.seen().stamps.iter().map(|(from, to)| to - from).collect();
    took.sort_unstable();
    let latency = run.distribution(Measured::Latency);
    assert!(latency.sum_ns > took.iter().sum(), "no answer is older than its question");
    let truth_ns = took[took.len() / 2];
    let error_ns = quantile_ns(latency, 0.5).abs_diff(truth_ns);
    // 1 % for the way there and back, and as much again for a busy machine.
    assert!(error_ns < truth_ns / 50, "median {truth_ns} ns, off by {error_ns} ns");
}

/// A server that answers nothing for 1.4 s from its 100th statement on.
fn stalling() -> Server {
    let stall_end_ns = std::sync::OnceLock::new();
    Server::start(move |statement| {
        if statement.number >= 100 {
            let end_ns = *stall_end_ns.get_or_init(|| now_ns() + 1_400 * MS);
            std::thread::sleep(Duration::from_nanos(end_ns.saturating_sub(now_ns())));
        }
        Answer::Done
    })
}

#[test]
fn a_stall_is_in_every_latency_of_an_open_loop_that_waited() {
    let server = stalling();
    let mut work = work("SELECT 1;\n");
    work.arrivals = open(2, 200.0);
    work.measure = Measure::DurationNs(2_500 * MS);
    let run = load(&server, work);
    assert_eq!((run.counts().scheduled, run.counts().completed), (500, 500));
    let latency = run.distribution(Measured::Latency);
    // 280 arrivals were due in the stall; those due in its first half waited for half of it.
    let (slow, half) = (slower_than(latency, 20 * MS), slower_than(latency, 700 * MS));
    // A host that stands still adds to them, and never takes any away.
    assert!(slow >= 265, "{slow} of about 280 waited");
    assert!(half >= 130, "{half} of about 140 waited for half of it");
    // Two clients sent a statement into it; the others waited to start.
    assert!(slower_than(run.distribution(Measured::Service), 20 * MS) <= 100);
}

#[test]
fn a_stall_is_one_slow_transaction_a_client_of_a_closed_loop() {
    let server = stalling();
    let mut work = work("SELECT 1;\n");
    work.arrivals = Arrivals::Closed(ClosedLoop { clients: 2 });
    work.measure = Measure::DurationNs(2_000 * MS);
    let run = load(&server, work);
    // As often again where the host itself stands still for so long.
    let slow = slower_than(run.distribution(Measured::Latency), 700 * MS);
    assert!((2..=8).contains(&slow), "{slow} transactions");
}

#[test]
fn an_overload_is_neither_cut_off_nor_hidden() {
    let server = Server::start(|_| {
        std::thread::sleep(Duration::from_millis(5));
        Answer::Done
    });
    let mut work = work("SELECT 1;\n");
    work.arrivals = open(1, 1_000.0);
    work.warm_ns = 100 * MS;
    work.measure = Measure::DurationNs(500 * MS);
    work.drain_ns = 100 * MS;
    let run = load(&server, work);
    let counts = run.counts();
    assert_eq!(counts.scheduled, 500);
    assert!(counts.not_started > 300 && counts.unfinished <= 1, "{counts:?}");
    let ages = &run.summary().unfinished_ages_ns;
    assert_eq!(ages.len() as u64, counts.not_started + counts.unfinished);
    assert!(ages.iter().all(|age| *age >= 100 * MS), "what is left is older than the drain");
    assert!(run.intervals().any(|interval| interval.backlog > 200));
}

#[test]
fn arrivals_that_cannot_keep_the_limit_are_skipped_and_not_timed() {
    let server = Server::start(|_| {
        std::thread::sleep(Duration::from_millis(5));
        Answer::Done
    });
    let mut work = work("SELECT 1;\n");
    let Arrivals::Open(mut arrivals) = open(1, 1_000.0) else { unreachable!() };
    arrivals.latency_limit_ns = Some(20 * MS);
    work.arrivals = Arrivals::Open(arrivals);
    let run = load(&server, work);
    let counts = run.counts();
    assert!(counts.skipped > 300 && counts.late > 0, "{counts:?}");
    assert!(run.distribution(Measured::Lag).max_ns <= 20 * MS);
    assert_eq!(run.distribution(Measured::Latency).count, counts.completed);
}
