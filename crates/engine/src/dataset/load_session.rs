//! One session of a load: takes one chain after another, and does its pieces.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use super::journal;
use super::piece::{Chain, Copy, Piece, Stage, Work};
use super::steps::StepEvent;
use super::trouble::{Trouble, run_as, run_statement};
use crate::contract::record::PhaseEvent;
use crate::session::{Session, SessionError};

/// Writes an empty message into the WAL, and wakes the WAL writer.
const NUDGE: &str = "select pg_logical_emit_message(false, 'pgdyno', '')";

/// In this time one COPY makes about 1 MB of WAL, which the WAL writer writes at once.
const NUDGE_EVERY: Duration = Duration::from_millis(4);

/// Counters of what all sessions have sent, with the rows and pieces of an interrupted load.
#[derive(Debug)]
pub(super) struct Sent {
    /// In the order of `Dataset::row_totals`.
    pub rows: Vec<AtomicU64>,
    pub bytes: AtomicU64,
    /// Pieces with an entry in the journal.
    pub pieces: AtomicUsize,
}

/// What the sessions share while they do a stage.
#[derive(Debug)]
pub(super) struct Shared<'a> {
    queue: Mutex<VecDeque<Chain>>,
    /// COPYs that have not ended.
    copies_left: AtomicUsize,
    /// A session without work may nudge the WAL writer.
    nudges_wal: bool,
    /// Send the statements of a transaction one by one. A coordinator passes the text of a message
    /// on to its workers unchanged, and a worker accepts only a single statement.
    sends_one_by_one: bool,
    sent: &'a Sent,
}

impl Shared<'_> {
    pub(super) fn new(
        stage: Stage,
        nudges_wal: bool,
        sends_one_by_one: bool,
        sent: &Sent,
    ) -> Shared<'_> {
        let is_copy = |piece: &&Piece| matches!(piece.work, Work::Copy(_));
        let copies = stage.iter().flatten().filter(is_copy).count();
        let (queue, copies_left) = (Mutex::new(stage.into()), copies.into());
        Shared { queue, copies_left, nudges_wal, sends_one_by_one, sent }
    }
}

pub(super) struct LoadSession<'a> {
    pub session: &'a mut Session,
    pub shared: &'a Shared<'a>,
    pub events: Sender<StepEvent>,
}

impl LoadSession<'_> {
    /// Do chains until the queue is empty, then nudge the WAL writer for the other sessions.
    pub(super) fn work(&mut self) -> Result<(), Trouble> {
        loop {
            let next = self.shared.queue.lock().expect("no panic while held").pop_front();
            let Some(chain) = next else { break };
            chain.into_iter().try_for_each(|piece| self.do_piece(piece))?;
        }
        self.nudge_wal();
        Ok(())
    }

    fn do_piece(&mut self, piece: Piece) -> Result<(), Trouble> {
        let (phase, entry) = (piece.phase, piece.entry());
        // The receiver lives until every session has ended.
        let _ = self.events.send(StepEvent::now(phase, PhaseEvent::Begin));
        match piece.work {
            Work::Copy(copy) => {
                self.copy(copy, &piece.name)?;
                self.shared.copies_left.fetch_sub(1, Ordering::Relaxed);
            }
            Work::Transaction(statements) => {
                self.transaction(&piece.name, &[statements, vec![entry]].concat())?;
            }
            Work::Alone(sql) => {
                run_statement(self.session, &sql)?;
                run_as(self.session, &sql, &entry)?;
            }
        }
        self.shared.sent.pieces.fetch_add(1, Ordering::Relaxed);
        let _ = self.events.send(StepEvent::now(phase, PhaseEvent::End));
        Ok(())
    }

    /// Run the statements as one transaction: in one message, or between BEGIN and COMMIT.
    ///
    /// An error names the statement, or `name` if it may be any of several.
    fn transaction(&mut self, name: &str, statements: &[String]) -> Result<(), Trouble> {
        if !self.shared.sends_one_by_one {
            let doing = match statements {
                [own, _entry] => own,
                _ => name,
            };
            return run_as(self.session, doing, &statements.join(";\n"));
        }
        run_statement(self.session, "begin")?;
        statements.iter().try_for_each(|sql| run_statement(self.session, sql))?;
        run_statement(self.session, "commit")
    }

    /// Copy the rows and write their entry in the journal. One simple query is one transaction.
    ///
    /// What the server refuses is copied in another form, if the piece has one.
    fn copy(&mut self, copy: Copy, name: &str) -> Result<(), Trouble> {
        let mut otherwise = None;
        let mut next = copy;
        loop {
            let entry = journal::entry(name, next.rows.count());
            let sql = [next.statements(), vec![entry]].concat().join("; ");
            let Copy { table, mut rows, counter, otherwise: own, .. } = next;
            otherwise = own.or(otherwise);
            let Sent { rows: row_counters, bytes, .. } = self.shared.sent;
            let (row_count, total) = (Cell::new(0), Cell::new(0));
            let fill = |message: &mut Vec<u8>, size| row_count.set(rows.fill(message, size));
            let result = self.session.copy_in(&sql, fill, |byte_count| {
                bytes.fetch_add(byte_count, Ordering::Relaxed);
                row_counters[counter].fetch_add(row_count.get(), Ordering::Relaxed);
                total.set(total.get() + row_count.get());
            });
            let Err(error) = result else { return Ok(()) };
            let another = match (&error, otherwise.as_mut()) {
                (SessionError::Server(error), Some(otherwise)) => otherwise.after(error),
                _ => None,
            };
            let Some(another) = another else {
                return Err(Trouble::of_session(&format!("copy {table}"), error));
            };
            row_counters[counter].fetch_sub(total.get(), Ordering::Relaxed);
            next = another;
        }
    }

    /// Wake the WAL writer again and again while other sessions copy. So the WAL writer writes the
    /// WAL and COPY does not, which takes a sixth off the time of COPY (measured on 15 and 18). The
    /// WAL only grows by the messages.
    ///
    /// Without commits the WAL writer sleeps for 200 ms. In this time one COPY fills the WAL
    /// buffers many times, and must write them itself.
    fn nudge_wal(&mut self) {
        while self.shared.nudges_wal && self.shared.copies_left.load(Ordering::Relaxed) > 0 {
            match self.session.query(NUDGE) {
                Ok(_) => thread::sleep(NUDGE_EVERY),
                // If the user lacks the privilege, the load is a little slower. If the session
                // is lost, its next statement fails with its own name.
                Err(_) => break,
            }
        }
    }
}
