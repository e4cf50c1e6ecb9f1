//! The ledger on a fake server: which fate the journal records for each commit, and that a load
//! that outlasts crashes goes on.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use pgdyno_engine::contract::job::*;
use pgdyno_engine::contract::record::Ending;

use crate::fake::job::{MS, Run, load, load_until, work};
use crate::fake::{Answer, Server, Statement};

const ACKNOWLEDGED: u32 = 1;
const IN_DOUBT: u32 = 2;
const ABORTED: u32 = 3;
const THREAD_ENDED: u32 = 4;

/// A file name for a journal, removed at the end.
struct Journal(PathBuf);

impl Journal {
    fn new() -> Journal {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("pgdjournal{}-{number}", std::process::id());
        Journal(std::env::temp_dir().join(name))
    }

    /// Fate and number of each commit, and number of the transaction.
    fn commits(&self) -> Vec<(u32, u64, u64)> {
        let bytes = std::fs::read(&self.0).expect("a journal");
        let records: Vec<_> = bytes[40..].chunks_exact(40).collect();
        let fate = |record: &[u8]| u32::from_le_bytes(record[4..8].try_into().unwrap());
        let word =
            |record: &[u8], at: usize| u64::from_le_bytes(record[at..at + 8].try_into().unwrap());
        let (last, commits) = records.split_last().expect("the thread has ended");
        assert_eq!(fate(last), THREAD_ENDED);
        for record in commits {
            assert!(word(record, 24) <= word(record, 32), "sent before its answer");
        }
        commits.iter().map(|record| (fate(record), word(record, 8), word(record, 16))).collect()
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn ledger(journal: &Journal, transactions: u64) -> LoadWork {
    let mut work = work("");
    work.protocol = Protocol::Prepared;
    work.scripts[0].name = "ledger".into();
    work.scripts[0].source = ScriptText::Builtin("ledger".into());
    work.measure = Measure::TransactionsPerClient(transactions);
    work.journal = Some(journal.0.to_str().expect("text").into());
    work
}

/// The answers of a server whose table ends at number 4; `commit` answers to COMMIT.
fn answer(statement: &Statement, commit: impl FnOnce() -> Answer) -> Answer {
    match statement.sql.split(' ').next() {
        Some("SELECT") => Answer::Value("4"),
        Some("INSERT") => Answer::Value("77"),
        Some("UPDATE") => Answer::Tag("UPDATE 1"),
        Some("COMMIT") => commit(),
        _ => Answer::Done,
    }
}

/// Run ten transactions; the third COMMIT gets this answer.
fn with_third_commit(third: Answer) -> (Vec<(u32, u64, u64)>, Run) {
    let (journal, count) = (Journal::new(), AtomicU32::new(0));
    let server = Server::start(move |statement| {
        answer(statement, || match count.fetch_add(1, Ordering::Relaxed) {
            2 => third,
            _ => Answer::Done,
        })
    });
    let mut work = ledger(&journal, 10);
    work.connect.outlasts_crashes = true;
    let run = load(&server, work);
    (journal.commits(), run)
}

fn expected(third: u32) -> Vec<(u32, u64, u64)> {
    (5..15).map(|number| (if number == 7 { third } else { ACKNOWLEDGED }, number, 77)).collect()
}

#[test]
fn a_commit_is_acknowledged_when_its_answer_came() {
    let (commits, run) = with_third_commit(Answer::Done);
    assert_eq!(commits, expected(ACKNOWLEDGED));
    assert_eq!(run.counts().completed, 10);
}

#[test]
fn a_commit_without_an_answer_is_in_doubt_and_the_client_goes_on_with_the_next_number() {
    let (commits, run) = with_third_commit(Answer::Close);
    assert_eq!(commits, expected(IN_DOUBT));
    assert_eq!((run.counts().completed, run.summary().commits_in_doubt), (9, 1));
}

#[test]
fn a_commit_that_the_server_rolled_back_is_aborted() {
    for (third, failure) in [(Answer::Error("23514"), "23514"), (Answer::Tag("ROLLBACK"), "XXun")] {
        let (commits, run) = with_third_commit(third);
        assert_eq!(commits, expected(ABORTED));
        let failures = &run.summary().failures;
        assert!(failures.keys().any(|name| name.starts_with(failure)), "{failures:?}");
    }
}

#[test]
fn a_commit_that_is_answered_after_it_was_cancelled_is_in_doubt() {
    // As a server that waits for its standby: it gives up waiting and answers COMMIT.
    let journal = Journal::new();
    let count = AtomicU32::new(0);
    let mut work = ledger(&journal, 10);
    work.drain_ns = 0;
    // Parses are no statements: SELECT, then four statements for each transaction.
    let (_server, run) = load_until(1 + 4 * 3, work, move |statement| {
        answer(statement, || match count.fetch_add(1, Ordering::Relaxed) {
            2 => Answer::DoneWhenCancelled,
            _ => Answer::Done,
        })
    });
    assert_eq!(run.ending, Ending::Stopped);
    assert_eq!(journal.commits(), expected(IN_DOUBT)[..3]);
}

#[test]
fn clients_of_a_load_that_outlasts_crashes_pause_after_a_failure() {
    const FAILURES: u32 = 3;
    let (journal, count) = (Journal::new(), AtomicU32::new(0));
    let server = Server::start(move |statement| {
        let is_insert = statement.sql.starts_with("INSERT");
        if is_insert && count.fetch_add(1, Ordering::Relaxed) < FAILURES {
            return Answer::Error("53100");
        }
        answer(statement, || Answer::Done)
    });
    let mut work = ledger(&journal, u64::from(FAILURES) + 5);
    work.connect.outlasts_crashes = true;
    let run = load(&server, work);
    assert_eq!(run.ending, Ending::Completed);
    assert_eq!(run.counts().failed, u64::from(FAILURES));
    // A transaction that failed before its COMMIT uses up no number.
    let numbers: Vec<_> = journal.commits().iter().map(|commit| commit.1).collect();
    assert_eq!(numbers, [5, 6, 7, 8, 9]);
    // The pauses between failures.
    let phases = &run.summary().phases[3];
    assert!(phases.ended_ns - phases.began_ns >= u64::from(FAILURES) * 100 * MS);
}
