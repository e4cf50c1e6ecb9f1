//! Times and numbers against what the server's own clock says.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::fake::job::{MS, load, load_by_program, load_until, open, work};
use crate::fake::{Answer, Server, bare};
use crate::stillness::Stillness;
use pgdyno_engine::clock::now_ns;
use pgdyno_engine::contract::bucket::bucket_range;
use pgdyno_engine::contract::job::{Arrivals, ClosedLoop, Measure};
use pgdyno_engine::contract::record::{Measured, PhaseName, TimeDistribution};

fn quantile_ns(distribution: &TimeDistribution, ratio: f64) -> u64 {
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

fn slower_than(distribution: &TimeDistribution, limit_ns: u64) -> u64 {
    let slow =
        distribution.buckets.iter().filter(|(bucket, _)| bucket_range(*bucket).0 >= limit_ns);
    slow.map(|(_, count)| count).sum()
}

/// One quantile of one load: how far what a client saw lies from what the server's own clock says.
struct Error {
    quantile: f64,
    server_ns: u64,
    engine_ns: u64,
    /// Of a bare blocking client, right before.
    bare_ns: u64,
}

impl Error {
    /// Within 1 % or 20 us, where the host lets any client see that; else half as much beyond what
    /// it lets a bare one see.
    fn is_small(&self) -> bool {
        let bound_ns = (self.server_ns / 100).max(20_000);
        self.engine_ns <= bound_ns.max(self.bare_ns + bound_ns / 2)
    }

    fn said(&self) -> String {
        let Error { quantile, server_ns, engine_ns, bare_ns } = self;
        format!("p{quantile}: server {server_ns} ns, engine off by {engine_ns}, bare by {bare_ns}")
    }
}

fn errors(service: Duration, count: usize) -> [Error; 2] {
    let server = Server::start(move |_| {
        std::thread::sleep(service);
        Answer::Done
    });
    let mut bare = bare::latencies_ns(&server, count);
    let mut work = work("SELECT 1;\n");
    work.measure = Measure::TransactionsPerClient(count as u64);
    let run = load_by_program(&server, work);
    let latency = run.distribution(Measured::Latency);
    let seen = server.seen();
    let mut took: Vec<u64> = seen.stamps.iter().map(|(from, to)| to - from).collect();
    let mut took_engine = took.split_off(count);
    assert!(latency.sum_ns > took_engine.iter().sum(), "no answer is older than its question");
    for latencies in [&mut bare, &mut took, &mut took_engine] {
        latencies.sort_unstable();
    }
    [0.5, 0.9].map(|quantile| {
        let at = (quantile * count as f64).ceil() as usize - 1;
        Error {
            quantile,
            server_ns: took_engine[at],
            engine_ns: quantile_ns(latency, quantile).abs_diff(took_engine[at]),
            bare_ns: bare[at].abs_diff(took[at]),
        }
    })
}

/// Whatever else the machine does only adds to the way there and back: of some loads the one that
/// was disturbed least says what the engine itself adds.
#[test]
fn latency_is_what_the_server_took_within_a_hundredth_or_20_us() {
    for (service, count) in [(MS / 10, 400), (MS, 200), (10 * MS, 50)] {
        let mut seen = Vec::new();
        let is_right = (0..10).any(|_| {
            let errors = errors(Duration::from_nanos(service), count);
            seen.extend(errors.iter().map(Error::said));
            errors.iter().all(Error::is_small)
        });
        assert!(is_right, "{} us: {seen:#?}", service / 1_000);
    }
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
    let stillness = Stillness::watch();
    let run = load(&server, work);
    let gaps_ns = stillness.gaps_ns();
    assert_eq!((run.counts().scheduled, run.counts().completed), (500, 500));
    let latency = run.distribution(Measured::Latency);
    // 280 arrivals were due in the stall; those due in its first half waited for half of it. While
    // the host stands still others wait: those due then, and in as long again that makes up for it.
    let (slow, half) = (slower_than(latency, 20 * MS), slower_than(latency, 700 * MS));
    let kept: u64 = gaps_ns.iter().map(|gap_ns| 2 + 2 * gap_ns * 200 / (1_000 * MS)).sum();
    assert!((265..=300 + kept).contains(&slow), "{slow} of about 280 waited, gaps {gaps_ns:?}");
    assert!((130..=150 + kept).contains(&half), "{half} of about 140, gaps {gaps_ns:?}");
    // Two clients sent a statement into it; the others waited to start.
    let served_slowly = slower_than(run.distribution(Measured::Service), 20 * MS);
    let sent = 10 + 2 * gaps_ns.len() as u64;
    assert!(served_slowly <= sent, "{served_slowly} were sent into it, gaps {gaps_ns:?}");
}

#[test]
fn a_stall_is_one_slow_transaction_a_client_of_a_closed_loop() {
    let server = stalling();
    let mut work = work("SELECT 1;\n");
    work.arrivals = Arrivals::Closed(ClosedLoop { clients: 2 });
    work.measure = Measure::TransactionsPerClient(150);
    let stillness = Stillness::watch();
    let run = load(&server, work);
    let gaps_ns = stillness.gaps_ns();
    let slow = slower_than(run.distribution(Measured::Latency), 700 * MS);
    let still = gaps_ns.iter().filter(|gap_ns| **gap_ns > 500 * MS).count() as u64;
    assert!((2..=2 + 2 * still).contains(&slow), "{slow} transactions, gaps {gaps_ns:?}");
}

/// A client is in a transaction or between two of them: no time is lost, and none is in both. Its
/// first and its last statement were sent in that time, which is no more than the run's.
#[test]
fn latencies_and_the_time_between_transactions_are_all_of_a_clients_time() {
    let came_ns = Arc::new(Mutex::new(Vec::new()));
    let seen_ns = Arc::clone(&came_ns);
    let server = Server::start(move |_| {
        seen_ns.lock().unwrap().push(now_ns());
        Answer::Done
    });
    let mut work = work("SELECT 1;\n");
    work.measure = Measure::TransactionsPerClient(2_000);
    let run = load(&server, work);
    let summary = run.summary();
    let between_ns =
        summary.clients.between_transactions_ns.expect("a closed loop without connecting");
    assert!(between_ns > 0);
    let whole_ns = run.distribution(Measured::Latency).sum_ns + between_ns;
    let came_ns = came_ns.lock().unwrap();
    let sending_ns = came_ns[came_ns.len() - 1] - came_ns[came_ns.len() - 2_000];
    assert!(whole_ns >= sending_ns, "{whole_ns} of a client, statements for {sending_ns}");
    let span = summary.phases.iter().find(|span| span.phase == PhaseName::Measure).unwrap();
    let measured_ns = span.ended_ns - span.began_ns;
    assert!(whole_ns <= measured_ns, "{whole_ns} of a client, measured for {measured_ns}");
}

#[test]
fn clients_that_share_a_connection_are_between_transactions_for_less_than_the_run() {
    let server = Server::start(|_| Answer::Done);
    let mut work = work("SELECT 1;\n");
    work.arrivals = Arrivals::Closed(ClosedLoop { clients: 3 });
    work.connect.active_connections = Some(1);
    work.warm_ns = 100 * MS;
    let run = load(&server, work);
    let summary = run.summary();
    let between_ns =
        summary.clients.between_transactions_ns.expect("a closed loop without connecting");
    assert!(between_ns > 0);
    let span = summary.phases.iter().find(|span| span.phase == PhaseName::Measure).unwrap();
    // Of the time before measuring, each may have the end of a transaction and what came after.
    let latency = run.distribution(Measured::Latency);
    let most_ns = 3 * (span.ended_ns - span.began_ns + 2 * latency.max_ns);
    assert!(latency.sum_ns + between_ns <= most_ns, "{} + {between_ns}", latency.sum_ns);
}

#[test]
fn time_between_transactions_is_not_told_where_clients_wait_for_what_is_due_or_connect() {
    let server = Server::start(|_| Answer::Done);
    let mut offered = work("SELECT 1;\n");
    offered.arrivals = open(1, 100.0);
    let mut connecting = work("SELECT 1;\n");
    connecting.connect.each_transaction = true;
    for work in [offered, connecting] {
        assert_eq!(load(&server, work).summary().clients.between_transactions_ns, None);
    }
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
    let mut work = work("SELECT 1;\n");
    let Arrivals::Open(mut arrivals) = open(1, 1_000.0) else { unreachable!() };
    arrivals.latency_limit_ns = Some(20 * MS);
    work.arrivals = Arrivals::Open(arrivals);
    // In the time of 100 statements, however long that is, five times as many are due.
    let (_, run) = load_until(100, work, |_| {
        std::thread::sleep(Duration::from_millis(5));
        Answer::Done
    });
    let counts = run.counts();
    assert!(counts.skipped > 300 && counts.late > 0, "{counts:?}");
    assert!(run.distribution(Measured::Lag).max_ns <= 20 * MS);
    assert_eq!(run.distribution(Measured::Latency).count, counts.completed);
}
