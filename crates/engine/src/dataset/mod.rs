//! Datasets: the pgbench tables, made and filled as fast as the server takes them.
//!
//! The tables are created in one transaction. Then sessions take one table, or leaf, after another:
//! TRUNCATE and COPY with FREEZE in one transaction (so that rows arrive frozen and visible),
//! VACUUM ANALYZE, primary key. Foreign keys come last. The result is, page for page, what
//! `pgbench -i` leaves; the leaves of a partitioned table are frozen here, which they are not
//! there. In ranges, all sessions copy into one table; VACUUM freezes it afterwards.
//!
//! What is done is entered in a journal in the database, so that a load can go on after anything.

pub mod ddl;
mod distribute;
mod ending;
mod journal;
mod opening;
mod partition_hash;
mod piece;
mod plan;
mod rows;
mod steps;
mod steps_asked;
mod trouble;
mod worker;

use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

pub use self::plan::{account_rows, row_totals};
pub use self::rows::Rows;

use self::ddl::FILLED;
use self::journal::Done;
use self::piece::{Stage, Work, pieces};
use self::steps::{StepEvent, Steps};
use self::trouble::{Trouble, run_statement};
use self::worker::{Sent, Shared, Worker};
use crate::clock::now_ns;
use crate::contract::job::{InitWork, Job};
use crate::contract::record::{Ending, InitFacts, Notice, Progress, Record};
use crate::session::{Session, StopFlag};

const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// How the job ended, and what it did.
#[derive(Debug)]
pub struct Outcome {
    pub ending: Ending,
    pub facts: InitFacts,
}

/// Do the job: create and fill the pgbench tables, or go on with it.
///
/// Writes `phase`, `progress`, `warning` and `error` records to `out`. When `stop` becomes true, or
/// something fails, running statements are cancelled; what the job created is dropped then, or
/// kept to be resumed, as the job wants. `stop` is true afterwards.
pub fn run(job: &Job, init: &InitWork, stop: &StopFlag, out: &mut dyn FnMut(Record)) -> Outcome {
    run_narrowed(job, init, stop, out, |stages| stages)
}

/// Every statement that `init` may send to a server of this version, in order.
pub fn statements(init: &InitWork, server_major: u32) -> Vec<String> {
    plan::statements(init, server_major)
}

/// Do the job with only those accounts whose number is at most `last`.
///
/// For tests of scales whose every row would take hours: tables and values are those of the scale.
pub fn run_first_accounts(
    job: &Job,
    init: &InitWork,
    last: u64,
    out: &mut dyn FnMut(Record),
) -> Outcome {
    run_narrowed(job, init, &StopFlag::default(), out, |stages| plan::narrowed(stages, last))
}

fn run_narrowed(
    job: &Job,
    init: &InitWork,
    stop: &StopFlag,
    out: &mut dyn FnMut(Record),
    narrow: impl FnOnce(Vec<Stage>) -> Vec<Stage>,
) -> Outcome {
    let mut loading = Loading {
        job,
        init,
        stop,
        out,
        steps: Steps::new(job.clock),
        sent: Arc::default(),
        is_begun: false,
    };
    let result = loading.load(narrow);
    let ending = match result {
        Ok(()) => Ending::Completed,
        Err(trouble) => loading.give_up(&trouble),
    };
    let facts = InitFacts {
        rows: loading.sent.rows.iter().map(|rows| rows.load(Ordering::Relaxed)).sum(),
        bytes_sent: loading.sent.bytes.load(Ordering::Relaxed),
        steps: loading.steps.spans(),
    };
    Outcome { ending, facts }
}

struct Loading<'a> {
    job: &'a Job,
    init: &'a InitWork,
    stop: &'a StopFlag,
    out: &'a mut dyn FnMut(Record),
    steps: Steps,
    sent: Arc<Sent>,
    /// No other load is at work, and what is in the journal is this one's.
    is_begun: bool,
}

impl Loading<'_> {
    fn load(&mut self, narrow: impl FnOnce(Vec<Stage>) -> Vec<Stage>) -> Result<(), Trouble> {
        let mut first = self.open_session()?;
        if let Some(distribute) = self.init.distribute {
            distribute::refuse_unfit(&mut first, distribute)?;
        }
        journal::lock(&mut first, self.stop, || self.tell_waiting())?;
        let all = narrow(plan::stages(self.init, first.server_major()));
        let done = match self.init.resume {
            true => journal::read(&mut first, self.init)?,
            false => Done::new(),
        };
        self.is_begun = true;
        self.count_done(&all, &done);
        let stages = plan::left(all, &done);
        self.expect(&stages);

        let chain_count = stages.iter().map(Vec::len).max().unwrap_or(1);
        let mut sessions = vec![first];
        for stage in stages {
            if stage.len() > sessions.len() {
                self.open_more(&mut sessions, chain_count)?;
            }
            self.work_off(&mut sessions, stage)?;
        }
        run_statement(&mut sessions[0], journal::CLOSE)
    }

    fn expect(&mut self, stages: &[Stage]) {
        for piece in pieces(stages) {
            self.steps.expect(piece.phase, 1);
        }
    }

    /// Count what an interrupted load had done, and tell it.
    fn count_done(&mut self, all: &[Stage], done: &Done) {
        for piece in pieces(all) {
            if let (Work::Copy(copy), Some(rows)) = (&piece.work, done.get(&piece.name)) {
                self.sent.rows[copy.counter].fetch_add(*rows, Ordering::Relaxed);
            }
        }
        self.sent.pieces.store(done.len(), Ordering::Relaxed);
        if self.init.resume {
            let total = pieces(all).count();
            let rows = self.sent.rows[0].load(Ordering::Relaxed);
            let count = plan::row_totals(self.init)[0];
            self.warn(
                "resumed",
                format!(
                    "an interrupted load goes on: {} of its {total} pieces were done, with {rows} \
                     of {count} accounts",
                    done.len()
                ),
                String::new(),
            );
            self.tell_progress(&mut [0; 3]);
        }
    }

    /// Do all of `stage` with all sessions, telling the progress meanwhile.
    fn work_off(&mut self, sessions: &mut [Session], stage: Stage) -> Result<(), Trouble> {
        let sent = self.sent.clone();
        let nudges_wal = !self.init.unlogged
            && sessions.len() > 1
            && stage.iter().flatten().any(|piece| matches!(piece.work, Work::Copy(_)))
            && writes_plain_wal(&mut sessions[0])?;
        let shared = Shared::new(stage, nudges_wal, &sent);
        let first_trouble = Mutex::new(None);
        let (events, inbox) = mpsc::channel();
        thread::scope(|scope| {
            for session in sessions {
                let (shared, first_trouble) = (&shared, &first_trouble);
                let (events, stop) = (events.clone(), self.stop.clone());
                scope.spawn(move || {
                    if let Err(trouble) = (Worker { session, shared, events }).work() {
                        // What follows from stopping the others is not the reason.
                        first_trouble.lock().expect("no panic while held").get_or_insert(trouble);
                        stop.store(true, Ordering::Relaxed);
                    }
                });
            }
            drop(events);
            let mut told = [0; 3];
            let mut next = Instant::now() + PROGRESS_EVERY;
            loop {
                match inbox.recv_timeout(next.saturating_duration_since(Instant::now())) {
                    Ok(event) => self.note(event),
                    Err(RecvTimeoutError::Timeout) => {
                        self.tell_progress(&mut told);
                        next += PROGRESS_EVERY;
                    }
                    Err(RecvTimeoutError::Disconnected) => break,
                }
            }
            self.tell_progress(&mut told);
        });
        match first_trouble.into_inner().expect("no panic while held") {
            Some(trouble) => Err(trouble),
            None => Ok(()),
        }
    }

    /// One record for each table that has more rows than when last told.
    fn tell_progress(&mut self, told: &mut [u64; 3]) {
        let time_ns = self.now_unix_ns();
        let totals = plan::row_totals(self.init);
        for (index, table) in FILLED.iter().enumerate() {
            let rows_done = self.sent.rows[index].load(Ordering::Relaxed).min(totals[index]);
            if rows_done > told[index] {
                told[index] = rows_done;
                (self.out)(Record::Progress(Progress {
                    time_ns,
                    table: table.to_string(),
                    rows_done,
                    rows_total: totals[index],
                }));
            }
        }
    }

    fn tell_waiting(&mut self) {
        self.warn(
            "waiting",
            "another load is at work in this schema, or a killed one has not ended yet".into(),
            "waiting for at most 30 s".into(),
        );
    }

    fn note(&mut self, event: StepEvent) {
        if let Some(record) = self.steps.note(event) {
            (self.out)(record);
        }
    }

    fn warn(&mut self, kind: &str, message: String, hint: String) {
        let time_ns = self.now_unix_ns();
        (self.out)(Record::Warning(Notice { time_ns, kind: kind.into(), message, hint }));
    }

    fn now_unix_ns(&self) -> u64 {
        self.job.clock.unix_ns(now_ns())
    }
}

/// True when WAL is written and nobody can be decoding it.
fn writes_plain_wal(session: &mut Session) -> Result<bool, Trouble> {
    let doing = "show wal_level";
    let rows = session.query(doing).map_err(|error| Trouble::of_session(doing, error))?;
    Ok(rows.first().and_then(|row| row[0].as_deref()) == Some("replica"))
}
