//! One session at work: it takes one table after another, fills it, vacuums it, adds its key.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use super::plan::Unit;
use super::rows::Rows;
use super::steps::StepEvent;
use super::trouble::{Trouble, run_statement};
use crate::contract::record::{PhaseEvent, PhaseName};
use crate::session::{Session, SessionError};

/// Puts an empty message into the WAL, and wakes the WAL writer.
const NUDGE: &str = "select pg_logical_emit_message(false, 'pgdyno', '')";

/// One COPY makes about 1 MB of WAL in this time: what the WAL writer takes at once.
const NUDGE_EVERY: Duration = Duration::from_millis(4);

/// What went out so far, by all sessions.
#[derive(Debug, Default)]
pub(super) struct Sent {
    /// In the order of `FILLED`.
    pub rows: [AtomicU64; 3],
    pub bytes: AtomicU64,
}

/// What the sessions share while they fill the tables.
#[derive(Debug)]
pub(super) struct Shared<'a> {
    pub queue: Mutex<VecDeque<Unit>>,
    /// Tables that are not yet filled.
    pub copies_left: AtomicUsize,
    /// A session without work may nudge the WAL writer.
    pub nudges_wal: bool,
    pub sent: &'a Sent,
}

impl Shared<'_> {
    pub(super) fn new(units: VecDeque<Unit>, nudges_wal: bool, sent: &Sent) -> Shared<'_> {
        let copies = units.iter().filter(|unit| unit.rows.is_some()).count();
        Shared { queue: Mutex::new(units), copies_left: copies.into(), nudges_wal, sent }
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
            let Some(unit) = next else { return self.nudge_wal() };
            if let Some((rows, counter)) = unit.rows {
                self.step(PhaseName::Load, |worker| worker.copy(&unit.table, rows, counter))?;
                self.shared.copies_left.fetch_sub(1, Ordering::Relaxed);
            }
            self.step(PhaseName::Vacuum, |worker| run_statement(worker.session, &unit.vacuum))?;
            if let Some(sql) = &unit.key {
                self.step(PhaseName::Index, |worker| run_statement(worker.session, sql))?;
            }
        }
    }

    fn step(
        &mut self,
        phase: PhaseName,
        work: impl FnOnce(&mut Self) -> Result<(), Trouble>,
    ) -> Result<(), Trouble> {
        // The receiver lives until every worker has ended.
        let _ = self.events.send(StepEvent::now(phase, PhaseEvent::Begin));
        work(self)?;
        let _ = self.events.send(StepEvent::now(phase, PhaseEvent::End));
        Ok(())
    }

    /// Subtle: TRUNCATE in the same transaction is what allows FREEZE, and with `wal_level =
    /// minimal` spares the WAL.
    fn copy(&mut self, table: &str, mut rows: Rows, counter: usize) -> Result<(), Trouble> {
        let sql = format!("truncate {table}; copy {table} from stdin with (freeze on)");
        let Sent { rows: row_counters, bytes } = self.shared.sent;
        let row_count = Cell::new(0);
        let fill = |message: &mut Vec<u8>, size| row_count.set(rows.fill(message, size));
        let result = self.session.copy_in(&sql, fill, |byte_count| {
            bytes.fetch_add(byte_count, Ordering::Relaxed);
            row_counters[counter].fetch_add(row_count.get(), Ordering::Relaxed);
        });
        result.map_err(|error| Trouble { doing: format!("copy {table}"), error })
    }

    /// Keep the WAL writer busy while others copy, so that WAL is written beside the COPY and not
    /// by it: a sixth off its time (measured on 15 and 18), and the same WAL but for the messages.
    ///
    /// The WAL writer sleeps 200 ms unless commits wake it, in which time one COPY fills the WAL
    /// buffers many times over and has to write them itself.
    fn nudge_wal(&mut self) -> Result<(), Trouble> {
        while self.shared.nudges_wal && self.shared.copies_left.load(Ordering::Relaxed) > 0 {
            match self.session.query(NUDGE) {
                // A user who may not is a user who loads a little slower.
                Err(SessionError::Server(_)) => break,
                Err(error) => return Err(Trouble { doing: NUDGE.into(), error }),
                Ok(_) => thread::sleep(NUDGE_EVERY),
            }
        }
        Ok(())
    }
}
