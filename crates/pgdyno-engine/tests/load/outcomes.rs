//! What becomes of transactions: retries, failures, cancels, lost connections. Against a server
//! that does what the test says.

use crate::fake::job::{MS, Run, load, load_until, open, work};
use crate::fake::{Answer, Server, Statement};
use pgdyno_engine::contract::job::{Arrivals, ClosedLoop, Measure, Protocol};
use pgdyno_engine::contract::record::{Ending, ErrorKind, Measured, WarningKind};

const TRANSFER: &str = "BEGIN;\nUPDATE t SET a = 1;\nEND;\n";

fn once(script: &str) -> pgdyno_engine::contract::job::LoadWork {
    let mut work = work(script);
    work.measure = Measure::TransactionsPerClient(1);
    work
}

#[test]
fn a_serialization_failure_is_retried_rolled_back_and_counted_once() {
    let server = Server::start(|statement| match (statement.sql.as_str(), statement.number) {
        ("UPDATE t SET a = 1;", 2 | 5) => Answer::Error("40001"),
        _ => Answer::Done,
    });
    let mut work = once(TRANSFER);
    work.max_tries = 5;
    let run = load(&server, work);
    let counts = run.counts();
    assert_eq!((counts.completed, counts.failed), (1, 0));
    assert_eq!((counts.retried, counts.retries), (1, 2));
    assert_eq!(run.distribution(Measured::Attempt).count, 3);
    let latency = run.distribution(Measured::Latency);
    assert!(latency.sum_ns > run.distribution(Measured::Attempt).sum_ns, "pauses are part of it");
    let rolled_back = server.seen().statements.iter().filter(|sql| *sql == "ROLLBACK").count();
    assert_eq!((rolled_back, server.seen().commits), (2, 1));
}

#[test]
fn a_retry_draws_the_same_random_numbers_again() {
    let server = Server::start(|statement| match statement.number {
        1 => Answer::Error("40P01"),
        _ => Answer::Done,
    });
    let mut work = once("\\set x random(1, 1000000000)\nSELECT :x;\n");
    work.max_tries = 2;
    assert_eq!(load(&server, work).counts().retries, 1);
    let seen = server.seen();
    assert_eq!(seen.statements[0], seen.statements[1]);
}

#[test]
fn other_errors_and_too_many_tries_fail_the_transaction_under_their_sqlstate() {
    let server = Server::start(|statement| match statement.sql.as_str() {
        "UPDATE t SET a = 1;" if statement.number < 5 => Answer::Error("40001"),
        "UPDATE t SET a = 1;" => Answer::Error("23505"),
        _ => Answer::Done,
    });
    let mut work = work(TRANSFER);
    work.measure = Measure::TransactionsPerClient(3);
    let run = load(&server, work);
    assert_eq!(run.counts().failed, 3);
    let failures: Vec<_> = run.summary().failures.clone().into_iter().collect();
    assert_eq!(failures, [("23505".to_owned(), 2), ("40001".to_owned(), 1)]);
    assert_eq!(run.summary().transactions_committed_all_phases, 0);
}

#[test]
fn a_script_that_leaves_its_block_open_fails_and_is_rolled_back() {
    let server = Server::start(|_| Answer::Done);
    let run = load(&server, once("BEGIN;\nSELECT 1;\n"));
    assert_eq!(run.summary().failures.get("XXopen_block"), Some(&1));
    assert_eq!(server.seen().statements.last().map(String::as_str), Some("ROLLBACK"));
}

#[test]
fn an_expression_that_fails_ends_the_run_with_its_line() {
    let server = Server::start(|_| Answer::Done);
    let run = load(&server, work("SELECT 1;\n\\set x 1 / 0\nSELECT :x;\n"));
    let error = run.error().expect("an error");
    assert_eq!((error.kind, error.line), (ErrorKind::Evaluation, Some(2)));
    assert_eq!(run.ending, Ending::Aborted);
}

#[test]
fn a_statement_that_the_server_cannot_parse_stops_the_run_before_the_load() {
    for protocol in [Protocol::Simple, Protocol::Extended, Protocol::Prepared] {
        let server = Server::start(|_| Answer::Done);
        let mut work = work("SELECT 1;\nSELECT a FROM missing_table;\n");
        work.protocol = protocol;
        work.arrivals = Arrivals::Closed(ClosedLoop { clients: 4 });
        let run = load(&server, work);
        let error = run.error().expect("an error");
        assert_eq!(error.kind, ErrorKind::Prepare);
        assert_eq!(error.sqlstate.as_deref(), Some("42P01"));
        assert_eq!((error.script.as_deref(), error.line), (Some("test.sql"), Some(2)));
        assert!(server.seen().statements.is_empty(), "nothing was executed");
    }
}

#[test]
fn every_protocol_commits_what_it_counts() {
    for protocol in [Protocol::Simple, Protocol::Extended, Protocol::Prepared] {
        let server = Server::start(|_| Answer::Done);
        let mut work = work(TRANSFER);
        work.protocol = protocol;
        work.threads = 2;
        work.warm_ns = 60 * MS;
        work.measure = Measure::DurationNs(130 * MS);
        work.arrivals = Arrivals::Closed(ClosedLoop { clients: 5 });
        let run = load(&server, work);
        assert_eq!(run.ending, Ending::Completed);
        assert_eq!(run.summary().transactions_committed_all_phases, server.seen().commits);
        server.await_terminates(5);
        assert_eq!(server.seen().terminates, 5);
        assert_eq!(run.summary().engine.threads.iter().map(|t| t.clients).sum::<u32>(), 5);
    }
}

#[test]
fn a_number_of_transactions_is_done_exactly() {
    let server = Server::start(|_| Answer::Done);
    let mut work = work(TRANSFER);
    work.measure = Measure::TransactionsPerClient(50);
    work.threads = 2;
    work.arrivals = Arrivals::Closed(ClosedLoop { clients: 3 });
    let run = load(&server, work.clone());
    assert_eq!((run.counts().completed, run.ending), (150, Ending::Completed));
    assert_eq!(server.seen().commits, 150);
    work.arrivals = open(3, 5_000.0);
    assert_eq!(load(&server, work).counts().completed, 150);
}

/// Stops the load with a statement, known by its number, and then waits for so long.
fn stop_at(
    number: usize,
    clients: u32,
    drain_ns: u64,
    answer: impl Fn(&Statement) -> Answer + Send + Sync + 'static,
) -> (Server, Run) {
    let mut work = work(TRANSFER);
    work.drain_ns = drain_ns;
    work.arrivals = Arrivals::Closed(ClosedLoop { clients });
    load_until(number, work, answer)
}

#[test]
fn a_stop_drains_what_is_in_flight_and_counts_every_commit() {
    let (server, run) = stop_at(40, 4, 5_000 * MS, |_| Answer::Done);
    assert_eq!(run.ending, Ending::Stopped);
    assert_eq!(run.summary().transactions_committed_all_phases, server.seen().commits);
    assert_eq!(server.seen().cancels, 0);
}

#[test]
fn what_the_drain_does_not_see_end_is_cancelled_and_its_age_kept() {
    let (server, run) = stop_at(8, 1, 30 * MS, |statement| match statement.number {
        8 => Answer::UntilCancelled,
        _ => Answer::Done,
    });
    assert_eq!(server.seen().statements[7], "UPDATE t SET a = 1;");
    assert_eq!((run.counts().unfinished, run.ending), (1, Ending::Stopped));
    let ages = &run.summary().unfinished_ages_ns;
    assert!(ages.len() == 1 && ages[0] > 30 * MS, "{ages:?}");
    assert_eq!(server.seen().cancels, 1);
    assert_eq!(run.summary().transactions_committed_all_phases, server.seen().commits);
}

#[test]
fn a_commit_that_outlives_the_drain_is_waited_for() {
    let (server, run) = stop_at(9, 1, 10 * MS, |statement| match statement.number {
        9 => Answer::DoneWhenCancelled,
        _ => Answer::Done,
    });
    assert_eq!(run.counts().unfinished, 1);
    assert_eq!((run.summary().transactions_committed_all_phases, server.seen().commits), (3, 3));
    assert!(run.warning(WarningKind::CommitInDoubt).is_none());
}

#[test]
fn a_connection_that_dies_with_a_commit_in_flight_leaves_it_in_doubt() {
    let server = Server::start(|statement| match statement.number {
        6 => Answer::Close,
        _ => Answer::Done,
    });
    let mut work = work(TRANSFER);
    work.measure = Measure::TransactionsPerClient(3);
    let run = load(&server, work);
    assert_eq!((run.counts().failed, run.counts().unfinished, run.counts().in_doubt), (0, 1, 1));
    assert_eq!((run.summary().commits_in_doubt, run.summary().unfinished_ages_ns.len()), (1, 1));
    assert!(
        run.warning(WarningKind::CommitInDoubt)
            .is_some_and(|notice| notice.message.contains(": 1;"))
    );
    assert_eq!(
        (run.summary().connections.lost_count, run.summary().connections.reconnect_count),
        (1, 1)
    );
    assert_eq!(run.counts().completed, 2);
}

#[test]
fn a_connection_that_dies_elsewhere_leaves_nothing_in_doubt() {
    let server = Server::start(|statement| match statement.number {
        5 => Answer::Close,
        _ => Answer::Done,
    });
    let mut work = work(TRANSFER);
    work.measure = Measure::TransactionsPerClient(3);
    let run = load(&server, work);
    assert_eq!(run.counts().failed, 1);
    assert!(run.warning(WarningKind::CommitInDoubt).is_none());
}

#[test]
fn counts_add_up_when_the_server_dies() {
    let server = Server::start(|statement| match statement.number {
        50.. => Answer::Crash,
        _ => Answer::Done,
    });
    let mut work = work(TRANSFER);
    work.arrivals = Arrivals::Closed(ClosedLoop { clients: 4 });
    // Until every connection is lost, whenever that is.
    work.measure = Measure::DurationNs(600_000 * MS);
    work.connect.patience_ns = Some(200 * MS);
    let run = load(&server, work);
    assert_eq!(run.summary().connections.lost_count, 4);
    assert!(run.counts().completed > 0);
    let in_doubt = run.summary().commits_in_doubt;
    let committed = run.summary().transactions_committed_all_phases;
    assert!(committed <= server.seen().commits && server.seen().commits <= committed + in_doubt);
}

#[test]
fn copy_from_stdin_in_a_script_is_refused_and_the_connection_lives() {
    let server = Server::start(|statement| match statement.sql.as_str() {
        "COPY t FROM STDIN;" => Answer::CopyIn,
        _ => Answer::Done,
    });
    let mut work = work("COPY t FROM STDIN;\n");
    work.measure = Measure::TransactionsPerClient(2);
    let run = load(&server, work);
    assert_eq!(run.summary().failures.get("57014"), Some(&2));
    assert_eq!((server.seen().copy_fails, run.summary().connections.lost_count), (2, 0));
}

#[test]
fn a_server_that_is_starting_up_is_waited_for_and_a_full_one_is_not() {
    let starting = |number| (number == 0).then_some("57P03");
    let server = Server::start_admitting(|_| Answer::Done, starting);
    assert_eq!(load(&server, once("SELECT 1;\n")).counts().completed, 1);

    let full = |number| (number > 1).then_some("53300");
    let server = Server::start_admitting(|_| Answer::Done, full);
    let mut work = work("SELECT 1;\n");
    work.arrivals = Arrivals::Closed(ClosedLoop { clients: 4 });
    let run = load(&server, work);
    let error = run.error().expect("an error");
    assert_eq!((error.kind, run.ending), (ErrorKind::TooManyConnections, Ending::Aborted));
    assert!(error.hint.contains('4'), "{}", error.hint);
}

#[test]
fn a_load_whose_first_hundred_transactions_fail_alike_ends_with_the_servers_words() {
    let server = Server::start(|_| Answer::Error("22012"));
    let mut work = work("SELECT 1 / 0;\n");
    work.threads = 2;
    work.arrivals = Arrivals::Closed(ClosedLoop { clients: 4 });
    work.measure = Measure::DurationNs(600_000 * MS);
    let run = load(&server, work);
    let error = run.error().expect("an error");
    assert_eq!(error.kind, ErrorKind::TooManyFailures);
    assert_eq!(error.sqlstate.as_deref(), Some("22012"));
    assert_eq!(error.script.as_deref(), Some("test.sql"));
    let begin = "the first 100 transactions all failed in script test.sql, line 1: ERROR: ";
    assert!(error.message.starts_with(begin), "{}", error.message);
    assert!(run.summary().failure_messages["22012"].contains("22012"));
}

#[test]
fn a_load_with_one_success_among_its_first_transactions_goes_on() {
    let server = Server::start(|statement| match statement.number {
        7 => Answer::Done,
        _ => Answer::Error("22012"),
    });
    let mut work = work("SELECT 1 / 0;\n");
    work.measure = Measure::TransactionsPerClient(300);
    let run = load(&server, work);
    assert!(run.error().is_none());
    assert_eq!((run.counts().completed, run.counts().failed), (1, 299));
}
