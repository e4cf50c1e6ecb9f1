//! One session at work: it takes one chain after another and does its pieces.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use super::piece::{Chain, Copy, Piece, Stage, Work};
use super::steps::StepEvent;
use super::trouble::{Trouble, run_as, run_statement};
use crate::contract::record::PhaseEvent;
use crate::session::Session;

/// Puts an empty message into the WAL, and wakes the WAL writer.
const NUDGE: &str = "select pg_logical_emit_message(false, 'pgdyno', '')";

/// One COPY makes about 1 MB of WAL in this time: what the WAL writer takes at once.
const NUDGE_EVERY: Duration = Duration::from_millis(4);

/// What went out so far, by all sessions, and what an interrupted load had sent before.
#[derive(Debug)]
pub(super) struct Sent {
    /// In the order of `Dataset::row_totals`.
    pub rows: Vec<AtomicU64>,
    pub bytes: AtomicU64,
    /// Pieces that are entered in the journal.
    pub pieces: AtomicUsize,
}

/// What the sessions share while they work off a stage.
#[derive(Debug)]
pub(super) struct Shared<'a> {
    queue: Mutex<VecDeque<Chain>>,
    /// COPYs that have not ended.
    copies_left: AtomicUsize,
    /// A session without work may nudge the WAL writer.
    nudges_wal: bool,
    /// Statements of a transaction go one by one: a coordinator passes the text of a message on
    /// to its workers as it is, and there it must be a single statement.
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

pub(super) struct Worker<'a> {
    pub session: &'a mut Session,
    pub shared: &'a Shared<'a>,
    pub events: Sender<StepEvent>,
}

impl Worker<'_> {
    /// Do what is left in the queue, then help the others.
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
        // The receiver lives until every worker has ended.
        let _ = self.events.send(StepEvent::now(phase, PhaseEvent::Begin));
        match piece.work {
            Work::Copy(copy) => {
                self.copy(copy, entry)?;
                self.shared.copies_left.fetch_sub(1, Ordering::Relaxed);
            }
            Work::Transaction(statements) => {
                self.transaction(&[statements, vec![entry]].concat())?;
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

    /// All statements or none: in one message, or between BEGIN and COMMIT.
    fn transaction(&mut self, statements: &[String]) -> Result<(), Trouble> {
        if !self.shared.sends_one_by_one {
            let doing = statements.first().map_or("", String::as_str);
            return run_as(self.session, doing, &statements.join(";\n"));
        }
        run_statement(self.session, "begin")?;
        statements.iter().try_for_each(|sql| run_statement(self.session, sql))?;
        run_statement(self.session, "commit")
    }

    /// One simple query, and so one transaction: the rows and their entry in the journal.
    fn copy(&mut self, copy: Copy, entry: String) -> Result<(), Trouble> {
        let sql = [copy.statements(), vec![entry]].concat().join("; ");
        let Copy { table, mut rows, counter, .. } = copy;
        let Sent { rows: row_counters, bytes, .. } = self.shared.sent;
        let row_count = Cell::new(0);
        let fill = |message: &mut Vec<u8>, size| row_count.set(rows.fill(message, size));
        let result = self.session.copy_in(&sql, fill, |byte_count| {
            bytes.fetch_add(byte_count, Ordering::Relaxed);
            row_counters[counter].fetch_add(row_count.get(), Ordering::Relaxed);
        });
        result.map_err(|error| Trouble::of_session(&format!("copy {table}"), error))
    }

    /// Keep the WAL writer busy while others copy, so that WAL is written during the COPY and not
    /// by it: a sixth off its time (measured on 15 and 18), and the same WAL but for the messages.
    ///
    /// The WAL writer sleeps 200 ms unless commits wake it, in which time one COPY fills the WAL
    /// buffers many times over and has to write them itself.
    fn nudge_wal(&mut self) {
        while self.shared.nudges_wal && self.shared.copies_left.load(Ordering::Relaxed) > 0 {
            match self.session.query(NUDGE) {
                Ok(_) => thread::sleep(NUDGE_EVERY),
                // A user who may not loads a little slower; a session that is lost fails at its
                // next step, by the step's name.
                Err(_) => break,
            }
        }
    }
}
