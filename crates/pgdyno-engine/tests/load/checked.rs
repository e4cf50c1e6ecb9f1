//! What is found before the load, and the statements of a pipeline.

use std::time::Duration;

use crate::fake::job::{MS, Run, load, work};
use crate::fake::{Answer, Server};
use pgdyno_engine::contract::job::{LoadWork, Measure, Protocol};
use pgdyno_engine::contract::record::{Ending, ErrorKind, Measured};

const PROTOCOLS: [Protocol; 3] = [Protocol::Simple, Protocol::Extended, Protocol::Prepared];

/// A run that must end before its load: nothing was sent for a transaction.
fn refused(work: LoadWork) -> Run {
    let server = Server::start(|_| Answer::Done);
    let run = load(&server, work);
    assert_eq!(run.ending, Ending::Aborted);
    assert_eq!(run.error().expect("an error").kind, ErrorKind::Prepare);
    assert!(server.seen().statements.is_empty(), "{:?}", server.seen().statements);
    assert_eq!(run.counts().started, 0);
    run
}

#[test]
fn a_statement_the_server_does_not_take_ends_every_protocol_before_the_load() {
    for protocol in PROTOCOLS {
        let mut work = work("SELECT 1;\nSELECT 2\n  FROM missing_table;\n");
        work.protocol = protocol;
        let run = refused(work);
        let error = run.error().expect("an error");
        assert_eq!((error.line, error.sqlstate.as_deref()), (Some(3), Some("42P01")));
        assert!(error.message.starts_with("test.sql, line 3: "), "{}", error.message);
        assert!(error.message.contains("\nLINE 2:   FROM missing_table"), "{}", error.message);
        assert!(error.message.ends_with("       ^"), "{}", error.message);
        assert!(error.hint.contains("search_path"), "{}", error.hint);
    }
}

#[test]
fn a_variable_without_a_value_is_named_before_the_load() {
    let run = refused(work("SELECT 1;\nSELECT :nosuch;\n"));
    let error = run.error().expect("an error");
    assert_eq!(error.line, Some(2));
    assert!(error.message.contains("SELECT :nosuch;"), "{}", error.message);
    assert!(error.hint.contains("variable nosuch has no value"), "{}", error.hint);
}

#[test]
fn statements_are_checked_with_their_values_in_place() {
    let mut work = work("\\set n 5\nSELECT :n FROM :place;\n");
    work.variables.insert("place".into(), "missing_table".into());
    let message = refused(work.clone()).error().expect("an error").message.clone();
    assert!(message.contains("SELECT 5 FROM missing_table;"), "{message}");
    work.variables.insert("place".into(), "there".into());
    work.measure = Measure::TransactionsPerClient(2);
    let server = Server::start(|_| Answer::Done);
    assert_eq!(load(&server, work).counts().completed, 2);
}

#[test]
fn a_value_that_comes_with_a_row_is_not_missed_before_the_load() {
    let server = Server::start(|_| Answer::Done);
    let mut work = work("SELECT 1 AS one \\gset\nSELECT :one;\n");
    work.measure = Measure::TransactionsPerClient(2);
    let run = load(&server, work);
    assert_eq!((run.counts().completed, run.error()), (2, None));
    assert_eq!(server.seen().statements[1], "SELECT 1;");
}

#[test]
fn statements_of_a_pipeline_are_timed_until_their_own_results_came() {
    let server = Server::start(|statement| {
        if statement.sql.contains("slow") {
            std::thread::sleep(Duration::from_millis(30));
        }
        Answer::Done
    });
    let mut work = work(
        "\\startpipeline\nSELECT 'quick';\n\\syncpipeline\nSELECT 'slow';\nSELECT 'after';\n\
         \\endpipeline\nSELECT 'alone';\n",
    );
    work.protocol = Protocol::Prepared;
    work.measure = Measure::TransactionsPerClient(10);
    let run = load(&server, work);
    assert_eq!(run.counts().completed, 10);
    let of_statement = |number: u32| {
        let mut all = run.summary().distributions.iter();
        let found = all.find(|d| d.measured == Measured::Statement && d.statement == Some(number));
        found.unwrap_or_else(|| panic!("statement {number} was timed"))
    };
    let counts = [0, 1, 2, 3].map(|number| of_statement(number).count);
    assert_eq!(counts, [10, 10, 10, 10]);
    assert!(of_statement(1).min_ns >= 30 * MS, "its own time is part of it");
    assert!(of_statement(2).min_ns >= 30 * MS, "it waited for the one before");
    // Its result came with the first Sync, before the slow one was begun.
    assert!(of_statement(0).min_ns < of_statement(1).min_ns);
    let latency = run.distribution(Measured::Latency);
    assert!(of_statement(2).max_ns <= latency.max_ns);
}
