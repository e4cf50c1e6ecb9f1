//! A read-only load ends before a transaction that could write.

use crate::fake::job::{Run, load, work};
use crate::fake::{Answer, Server};
use pgdyno_engine::contract::job::Protocol;
use pgdyno_engine::contract::record::{Ending, ErrorKind};

const READ_ONLY: &str = "default_transaction_read_only";
const ASKS: &str = "SHOW default_transaction_read_only";
const SWITCH: &str = "SELECT switch();\nSELECT write();\n";

/// A load on a server that reports, where `switch()` switches to read-write.
fn run_on_reporting(script: &str, protocol: Protocol, read_only: bool) -> (Server, Run) {
    let server = Server::start(|statement| match statement.sql.contains("switch") {
        true => Answer::Tells(READ_ONLY, "off"),
        false => Answer::Done,
    });
    server.tell(READ_ONLY, if read_only { "on" } else { "off" });
    let mut work = work(script);
    (work.read_only, work.protocol) = (read_only, protocol);
    let run = load(&server, work);
    (server, run)
}

fn is_sent(server: &Server, text: &str) -> bool {
    server.seen().statements.iter().any(|sql| sql.contains(text))
}

fn assert_ended(run: &Run) {
    let error = run.error().expect("an error");
    assert_eq!((error.kind, run.ending), (ErrorKind::ReadOnlyLost, Ending::Aborted));
    assert!(error.hint.contains("--allow-write"), "{}", error.hint);
    assert_eq!(error.script.as_deref(), Some("test.sql"));
}

#[test]
fn a_read_only_load_ends_before_the_transaction_after_the_switch() {
    for protocol in [Protocol::Simple, Protocol::Extended, Protocol::Prepared] {
        let (server, run) = run_on_reporting(SWITCH, protocol, true);
        assert_ended(&run);
        assert!(is_sent(&server, "switch") && !is_sent(&server, "write"), "{protocol:?}");
    }
}

#[test]
fn a_load_that_may_write_goes_on_after_the_switch() {
    let (server, run) = run_on_reporting(SWITCH, Protocol::Simple, false);
    assert!(run.error().is_none() && is_sent(&server, "write"));
}

#[test]
fn a_pipeline_of_a_read_only_load_waits_where_its_transaction_may_end() {
    for end in ["\\syncpipeline", "COMMIT;", "CALL p();"] {
        let script =
            format!("\\startpipeline\nSELECT switch();\n{end}\nSELECT write();\n\\endpipeline\n");
        let (server, run) = run_on_reporting(&script, Protocol::Extended, true);
        assert_ended(&run);
        assert!(is_sent(&server, "switch") && !is_sent(&server, "write"), "{end}");
    }
}

#[test]
fn a_server_that_does_not_report_is_asked_before_every_transaction() {
    let server = Server::start(|statement| match statement.sql.as_str() {
        ASKS if statement.number < 5 => Answer::Value("on"),
        ASKS => Answer::Value("off"),
        _ => Answer::Done,
    });
    let mut work = work("BEGIN;\nSELECT 1;\nEND;\nSELECT 2;\n");
    work.read_only = true;
    let run = load(&server, work);
    assert_ended(&run);
    let seen = server.seen().statements.clone();
    assert_eq!(seen, [ASKS, "BEGIN;", "SELECT 1;", "END;", ASKS]);
}

#[test]
fn a_session_that_begins_read_write_sends_nothing_of_a_read_only_load() {
    let server = Server::start(|statement| match statement.sql.as_str() {
        ASKS => Answer::Value("off"),
        _ => Answer::Done,
    });
    server.tell(READ_ONLY, "off");
    let mut work = work("SELECT write();\n");
    work.read_only = true;
    assert_ended(&load(&server, work));
    assert!(!is_sent(&server, "write"));
}
