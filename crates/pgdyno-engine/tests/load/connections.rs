//! Connections in addition to the clients', shared by them, or made for each transaction.

use std::collections::BTreeSet;

use crate::fake::job::{MS, load, load_until, open, work};
use crate::fake::{Answer, Server};
use pgdyno_engine::contract::job::{Arrivals, ClosedLoop, LoadWork, Measure, Protocol};
use pgdyno_engine::contract::record::{Connecting, Ending, IdleFacts, Measured, Record};

const TRANSFER: &str = "BEGIN;\nUPDATE t SET a = :client_id;\nEND;\n";

fn sharing(clients: u32, active: u32, transaction_count: u64) -> LoadWork {
    let mut work = work(TRANSFER);
    work.arrivals = Arrivals::Closed(ClosedLoop { clients });
    work.connect.active_connections = Some(active);
    work.measure = Measure::TransactionsPerClient(transaction_count);
    work
}

#[test]
fn idle_connections_are_opened_after_the_others_and_asked_in_the_end_whether_they_live() {
    let server = Server::start(|_| Answer::Done);
    let mut work = work(TRANSFER);
    work.threads = 2;
    work.arrivals = Arrivals::Closed(ClosedLoop { clients: 2 });
    work.connect.idle_connections = 5;
    work.measure = Measure::TransactionsPerClient(20);
    let run = load(&server, work);
    assert_eq!(run.summary().connections.idle, Some(IdleFacts { opened_count: 5, alive_count: 5 }));
    assert_eq!((run.counts().completed, run.summary().connections.lost_count), (40, 0));
    server.await_terminates(7);
    assert_eq!((server.connection_count(), server.seen().terminates), (7, 7));
    assert_eq!(run.distribution(Measured::Connect).count, 7);
    let working: BTreeSet<_> = server.seen().connections.iter().copied().collect();
    assert_eq!(working.len(), 2);
    // Each thread opens the one that works before its idle ones.
    assert!(working.last() < Some(&5), "{working:?}");
}

#[test]
fn connecting_may_take_any_time_while_it_gets_on_and_is_told_every_second() {
    let server = Server::start(|_| Answer::Done);
    let mut work = work(TRANSFER);
    work.arrivals = Arrivals::Closed(ClosedLoop { clients: 6 });
    work.connect.idle_connections = 4;
    // Ten connections in 2.25 s: longer than the limit, which is for the next one.
    work.connect.rate_per_second = Some(4.0);
    work.connect.timeout_ns = 1_000 * MS;
    work.measure = Measure::TransactionsPerClient(1);
    let run = load(&server, work);
    assert_eq!((run.ending, server.connection_count()), (Ending::Completed, 10));
    let told: Vec<_> = run
        .records
        .iter()
        .filter_map(|record| match record {
            Record::Connecting(Connecting { made_count, wanted_count, .. }) => {
                assert_eq!(*wanted_count, 10);
                Some(*made_count)
            }
            _ => None,
        })
        .collect();
    assert!(told.len() >= 2 && told.is_sorted() && told[0] >= 1, "{told:?}");
}

#[test]
fn when_no_further_connection_is_made_the_run_ends_and_says_how_many_there_are() {
    // The third client is refused as by a server that is starting up, so it tries again for ever.
    let server =
        Server::start_admitting(|_| Answer::Done, |number| (number >= 2).then_some("57P03"));
    let mut work = work(TRANSFER);
    work.arrivals = Arrivals::Closed(ClosedLoop { clients: 3 });
    work.connect.timeout_ns = 700 * MS;
    let run = load(&server, work);
    assert_eq!(run.ending, Ending::Aborted);
    let error = run.error().expect("an error");
    assert_eq!(error.message, "2 of 3 connections were made, then none for 0.7 s");
    assert!(error.hint.contains("connect_timeout"), "{}", error.hint);
}

#[test]
fn an_idle_connection_that_was_lost_is_missing_in_the_end_and_not_opened_again() {
    let server = Server::start(|statement| match statement.number {
        30 => Answer::Cut(1),
        _ => Answer::Done,
    });
    let mut work = work(TRANSFER);
    work.connect.idle_connections = 3;
    work.measure = Measure::TransactionsPerClient(20);
    let run = load(&server, work);
    assert_eq!(run.summary().connections.idle, Some(IdleFacts { opened_count: 3, alive_count: 2 }));
    assert_eq!((run.summary().connections.lost_count, server.connection_count()), (0, 4));
}

#[test]
fn clients_share_connections_one_transaction_at_a_time_and_keep_their_variables() {
    for protocol in [Protocol::Simple, Protocol::Prepared] {
        let server = Server::start(|_| Answer::Done);
        let mut work = sharing(7, 3, 10);
        work.threads = 2;
        work.protocol = protocol;
        let run = load(&server, work);
        assert_eq!((run.counts().completed, server.seen().commits), (70, 70));
        assert_eq!(server.connection_count(), 3);
        assert_eq!(
            run.summary().engine.threads.iter().map(|thread| thread.clients).sum::<u32>(),
            7
        );
        let wait = run.distribution(Measured::ConnectionWait);
        assert_eq!(wait.count, 70);
        assert!(wait.sum_ns < run.distribution(Measured::Latency).sum_ns, "it is a part of it");
        let seen = server.seen();
        if protocol == Protocol::Simple {
            let clients: BTreeSet<_> =
                seen.statements.iter().filter(|sql| sql.starts_with("UPDATE")).collect();
            assert_eq!(clients.len(), 7, "{clients:?}");
        } else {
            // A connection has its statements prepared, whichever client uses it.
            assert_eq!(seen.parses, 3 * 3);
        }
        let mut open = BTreeSet::new();
        for (sql, connection) in seen.statements.iter().zip(&seen.connections) {
            match sql.as_str() {
                "BEGIN;" => assert!(open.insert(*connection), "one at a time"),
                "END;" => assert!(open.remove(connection)),
                _ => assert!(open.contains(connection)),
            }
        }
    }
}

#[test]
fn who_asks_first_gets_the_connection_first() {
    let server = Server::start(|_| Answer::Done);
    load(&server, sharing(4, 1, 6));
    let seen = server.seen();
    let order: Vec<_> = seen.statements.iter().filter(|sql| sql.starts_with("UPDATE")).collect();
    let turn = &order[..4];
    assert_eq!(turn.iter().collect::<BTreeSet<_>>().len(), 4, "{turn:?}");
    assert!(order.chunks(4).all(|chunk| chunk == turn), "{order:?}");
}

#[test]
fn the_wait_for_a_connection_is_part_of_the_latency_in_an_open_loop_too() {
    let server = Server::start(|_| Answer::Done);
    let mut work = sharing(8, 2, 25);
    work.arrivals = open(8, 20_000.0);
    let run = load(&server, work);
    assert_eq!(run.counts().completed, 200);
    let [wait, service, lag, latency] =
        [Measured::ConnectionWait, Measured::Service, Measured::Lag, Measured::Latency]
            .map(|measured| run.distribution(measured));
    assert_eq!((wait.count, latency.count), (200, 200));
    assert!(wait.sum_ns < service.sum_ns);
    assert_eq!(service.sum_ns + lag.sum_ns, latency.sum_ns);
}

#[test]
fn a_transaction_that_still_waits_for_a_connection_in_the_end_is_unfinished() {
    let mut work = sharing(3, 1, 1);
    work.drain_ns = 100 * MS;
    let (_, run) = load_until(1, work, |statement| match statement.number {
        1 => Answer::UntilCancelled,
        _ => Answer::Done,
    });
    assert_eq!((run.counts().started, run.counts().unfinished), (3, 3));
    assert_eq!(run.ending, Ending::Stopped);
    assert_eq!(run.summary().unfinished_ages_ns.len(), 3);
    assert!(run.summary().unfinished_ages_ns.iter().all(|&age_ns| age_ns >= 100 * MS));
}

#[test]
fn a_shared_connection_that_is_lost_fails_one_transaction_and_comes_back() {
    let server = Server::start(|statement| match statement.number {
        8 => Answer::Close,
        _ => Answer::Done,
    });
    let run = load(&server, sharing(5, 1, 10));
    assert_eq!((run.counts().completed, run.counts().failed), (49, 1));
    assert_eq!(
        (run.summary().connections.lost_count, run.summary().connections.reconnect_count),
        (1, 1)
    );
    assert_eq!(server.seen().commits, 49);
}

#[test]
fn a_retry_keeps_the_connection_it_has() {
    let server = Server::start(|statement| match statement.number {
        2 => Answer::Error("40001"),
        _ => Answer::Done,
    });
    let mut work = sharing(2, 1, 1);
    work.max_tries = 3;
    let run = load(&server, work);
    assert_eq!((run.counts().completed, run.counts().retries), (2, 1));
    let seen = server.seen();
    let updates: Vec<_> = seen.statements.iter().filter(|sql| sql.starts_with("UPDATE")).collect();
    assert_eq!(updates[0], updates[1]);
    assert_ne!(updates[1], updates[2]);
}

#[test]
fn every_transaction_has_a_connection_of_its_own_where_that_is_asked_for() {
    for (protocol, is_open) in
        [(Protocol::Simple, false), (Protocol::Prepared, false), (Protocol::Extended, true)]
    {
        let server = Server::start(|_| Answer::Done);
        let mut work = work(TRANSFER);
        work.threads = 2;
        work.protocol = protocol;
        work.connect.each_transaction = true;
        work.arrivals = match is_open {
            false => Arrivals::Closed(ClosedLoop { clients: 3 }),
            true => open(3, 1_000.0),
        };
        work.measure = Measure::TransactionsPerClient(8);
        let run = load(&server, work);
        assert_eq!((run.counts().completed, server.seen().commits), (24, 24));
        assert_eq!(
            (run.summary().connections.lost_count, run.summary().connections.reconnect_count),
            (0, 0)
        );
        let connects = run.distribution(Measured::Connect).count;
        assert!((24..=27).contains(&connects), "{connects}");
        let used: BTreeSet<_> = server.seen().connections.iter().copied().collect();
        assert_eq!(used.len(), 24);
    }
}

#[test]
fn a_loss_between_two_connections_of_a_client_is_one_loss() {
    let server = Server::start(|statement| match statement.number {
        5 => Answer::Close,
        _ => Answer::Done,
    });
    let mut work = work(TRANSFER);
    work.connect.each_transaction = true;
    work.measure = Measure::TransactionsPerClient(6);
    let run = load(&server, work);
    assert_eq!((run.counts().completed, run.counts().failed), (5, 1));
    assert_eq!(
        (run.summary().connections.lost_count, run.summary().connections.reconnect_count),
        (1, 1)
    );
}
