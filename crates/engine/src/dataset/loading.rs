//! Runs a load from beginning to end: opens sessions, does stage after stage, reports progress.
//!
//! The code is the same for all datasets. `load_session` does the pieces of a stage, and `ending`
//! cleans up after a failure.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use super::Dataset;
use super::journal::{self, Done};
use super::load_session::{LoadSession, Sent, Shared};
use super::opening::{open_session, refuse_unfit};
use super::piece::{Stage, Turn, Work, pieces, turns};
use super::steps::{StepEvent, Steps};
use super::trouble::{Trouble, run_statement};
use crate::clock::now_ns;
use crate::contract::job::{InitWork, Job};
use crate::contract::record::{Ending, InitFacts, Notice, Progress, Ready, Record, WarningKind};
use crate::dialect::Server;
use crate::session::{Session, StopFlag};

const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// How the job ended, and what it loaded.
#[derive(Debug)]
pub struct Outcome {
    pub ending: Ending,
    pub facts: InitFacts,
}

/// Create and fill the tables of `dataset`, or continue an interrupted load of them.
///
/// Args: `out` gets the `phase`, `progress`, `warning` and `error` records. If `stop` becomes true
/// or a statement fails, running statements are cancelled. The tables are then dropped, or kept for
/// a job that resumes, as the job says; and `stop` is true at the end.
pub fn load(
    job: &Job,
    how: &InitWork,
    dataset: &dyn Dataset,
    stop: &StopFlag,
    out: &mut dyn FnMut(Record),
) -> Outcome {
    let totals = dataset.row_totals();
    let sent = Sent {
        rows: totals.iter().map(|_| AtomicU64::default()).collect(),
        bytes: AtomicU64::default(),
        pieces: AtomicUsize::default(),
    };
    let mut loading = Loading {
        job,
        how,
        dataset,
        totals,
        stop,
        out,
        steps: Steps::new(job.clock),
        sent: Arc::new(sent),
        is_begun: false,
        sends_one_by_one: false,
        is_ready: false,
    };
    let result = loading.load();
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

pub(super) struct Loading<'a> {
    pub job: &'a Job,
    pub how: &'a InitWork,
    pub dataset: &'a dyn Dataset,
    totals: Vec<(&'a str, u64)>,
    pub stop: &'a StopFlag,
    pub out: &'a mut dyn FnMut(Record),
    pub steps: Steps,
    pub sent: Arc<Sent>,
    /// This load holds the lock, and the journal belongs to this load.
    pub is_begun: bool,
    sends_one_by_one: bool,
    /// The other engines that share the load know that they can begin.
    is_ready: bool,
}

impl Loading<'_> {
    fn load(&mut self) -> Result<(), Trouble> {
        let mut first = open_session(&self.job.target, self.dataset, self.stop)?;
        if let Some(server) = self.dataset.distributed_server() {
            refuse_unfit(&mut first, server)?;
        }
        match self.leads() {
            true => journal::lock(&mut first, self.stop, || self.tell_waiting())?,
            false => journal::share_lock(&mut first)?,
        }
        let server = self.recognise(&mut first)?;
        let all = self.dataset.stages(self.how, server);
        let done = match self.how.resume || !self.leads() {
            true => journal::read(&mut first, &super::title(self.dataset, self.how))?,
            false => Done::new(),
        };
        if self.leads() {
            self.is_begun = true;
            self.count_done(&all, &done);
        }
        let total = pieces(&all).count();
        let turns = turns(all, &done, self.how.share);
        self.expect(&turns);

        let chain_count = turns.iter().map(|turn| turn.stage.len()).max().unwrap_or(1);
        let mut sessions = vec![first];
        for Turn { after, stage } in turns {
            self.wait_for(&mut sessions[0], after)?;
            if stage.len() > sessions.len() {
                self.open_more(&mut sessions, chain_count)?;
            }
            self.work_off(&mut sessions, stage)?;
        }
        if !self.leads() {
            return Ok(());
        }
        self.wait_for(&mut sessions[0], total)?;
        run_statement(&mut sessions[0], journal::CLOSE)
    }

    /// Return whether this engine creates the tables and ends the load.
    fn leads(&self) -> bool {
        self.how.share.is_none_or(|share| share.place == 0)
    }

    /// If several engines share the load, wait until they have done the first `after` pieces.
    fn wait_for(&mut self, session: &mut Session, after: usize) -> Result<(), Trouble> {
        if self.how.share.is_none() || after == 0 {
            return Ok(());
        }
        if self.leads() && !self.is_ready {
            self.is_ready = true;
            let time_ns = self.now_unix_ns();
            (self.out)(Record::Ready(Ready { time_ns }));
        }
        journal::wait_for(session, after, self.stop)
    }

    /// Recognise the server. Warn if nobody tested a load of its kind.
    fn recognise(&mut self, session: &mut Session) -> Result<Server, Trouble> {
        let server = Server::of(session, self.dataset.distributed_server())
            .map_err(|error| Trouble::of_session("recognise the server", error))?;
        self.sends_one_by_one = server.dialect.sends_one_by_one;
        if let Some(caution) = server.dialect.caution() {
            let hint = "pgdyno was never tested on it: see the table of docs/distributed.md";
            self.warn(WarningKind::UntestedServer, caution, hint.into());
        }
        Ok(server)
    }

    /// Open sessions until there are as many as the job wants and the chains can use. If the server
    /// has no room, warn and go on with fewer.
    fn open_more(
        &mut self,
        sessions: &mut Vec<Session>,
        chain_count: usize,
    ) -> Result<(), Trouble> {
        let wanted = usize::from(self.how.jobs.max(1)).min(chain_count);
        while sessions.len() < wanted {
            match open_session(&self.job.target, self.dataset, self.stop) {
                Ok(mut session) => {
                    journal::share_lock(&mut session)?;
                    sessions.push(session);
                }
                // The stop flag is set: the next step of the load also sees it.
                Err(trouble) if trouble.is_stop() => break,
                Err(trouble) => {
                    let failure = trouble.failure(0);
                    self.warn(
                        WarningKind::FewerSessions,
                        format!("{} of {wanted} sessions: {}", sessions.len(), failure.message),
                        failure.hint,
                    );
                    break;
                }
            }
        }
        Ok(())
    }

    fn expect(&mut self, turns: &[Turn]) {
        for piece in turns.iter().flat_map(|turn| turn.stage.iter().flatten()) {
            self.steps.expect(piece.phase, 1);
        }
    }

    /// Count the pieces and rows that an interrupted load has done, and report them.
    fn count_done(&mut self, all: &[Stage], done: &Done) {
        for piece in pieces(all) {
            if let (Work::Copy(copy), Some(rows)) = (&piece.work, done.get(&piece.name)) {
                self.sent.rows[copy.counter].fetch_add(*rows, Ordering::Relaxed);
            }
        }
        self.sent.pieces.store(done.len(), Ordering::Relaxed);
        if self.how.resume {
            let total = pieces(all).count();
            let rows = self.sent.rows[0].load(Ordering::Relaxed);
            let (table, count) = self.totals[0];
            self.warn(
                WarningKind::Resumed,
                format!(
                    "an interrupted load continues: {} of its {total} pieces are done, with {rows} \
                     of {count} rows of {table}",
                    done.len()
                ),
                String::new(),
            );
            self.tell_progress(&mut vec![0; self.totals.len()]);
        }
    }

    /// Do all pieces of `stage` with all sessions, and report the progress.
    fn work_off(&mut self, sessions: &mut [Session], stage: Stage) -> Result<(), Trouble> {
        let sent = self.sent.clone();
        let nudges_wal = !self.dataset.is_unlogged()
            && sessions.len() > 1
            && stage.iter().flatten().any(|piece| matches!(piece.work, Work::Copy(_)))
            && writes_plain_wal(&mut sessions[0])?;
        let shared = Shared::new(stage, nudges_wal, self.sends_one_by_one, &sent);
        let first_trouble = Mutex::new(None);
        let (events, inbox) = mpsc::channel();
        thread::scope(|scope| {
            for session in sessions {
                let (shared, first_trouble) = (&shared, &first_trouble);
                let (events, stop) = (events.clone(), self.stop.clone());
                scope.spawn(move || {
                    if let Err(trouble) = (LoadSession { session, shared, events }).work() {
                        // Only the first error is the reason: stopping the other sessions causes
                        // more.
                        first_trouble.lock().expect("no panic while held").get_or_insert(trouble);
                        stop.store(true, Ordering::Relaxed);
                    }
                });
            }
            drop(events);
            let mut told = vec![0; self.totals.len()];
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

    /// Write a record for each table that has more rows than `told`, the rows reported last.
    fn tell_progress(&mut self, told: &mut [u64]) {
        let time_ns = self.now_unix_ns();
        self.steps.underway().into_iter().for_each(&mut *self.out);
        for (index, (table, total)) in self.totals.iter().enumerate() {
            let rows_done = self.sent.rows[index].load(Ordering::Relaxed).min(*total);
            if rows_done > told[index] {
                told[index] = rows_done;
                (self.out)(Record::Progress(Progress {
                    time_ns,
                    table: table.to_string(),
                    rows_done,
                    rows_total: *total,
                }));
            }
        }
    }

    fn tell_waiting(&mut self) {
        self.warn(
            WarningKind::Waiting,
            "another load is running in this schema, or a killed load has not ended yet".into(),
            "waiting for at most 30 s".into(),
        );
    }

    fn note(&mut self, event: StepEvent) {
        if let Some(record) = self.steps.note(event) {
            (self.out)(record);
        }
    }

    pub(super) fn warn(&mut self, kind: WarningKind, message: String, hint: String) {
        let time_ns = self.now_unix_ns();
        (self.out)(Record::Warning(Notice { time_ns, kind, message, hint }));
    }

    pub(super) fn now_unix_ns(&self) -> u64 {
        self.job.clock.unix_ns(now_ns())
    }
}

/// True if wal_level is `replica`: WAL is written, and no logical decoding reads it.
fn writes_plain_wal(session: &mut Session) -> Result<bool, Trouble> {
    let doing = "show wal_level";
    let rows = session.query(doing).map_err(|error| Trouble::of_session(doing, error))?;
    Ok(rows.first().and_then(|row| row[0].as_deref()) == Some("replica"))
}
