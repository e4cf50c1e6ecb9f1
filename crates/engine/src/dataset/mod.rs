//! Datasets: the pgbench tables, made and filled as fast as the server takes them.
//!
//! The tables are created in one transaction. Then sessions take one table, or leaf, after another:
//! TRUNCATE and COPY with FREEZE in one transaction (so that rows arrive frozen and visible),
//! VACUUM ANALYZE, primary key. Foreign keys come last. The result is, page for page, what
//! `pgbench -i` leaves; the leaves of a partitioned table are frozen here, which they are not
//! there.

pub mod ddl;
mod partition_hash;
mod plan;
mod rows;
mod steps;
mod trouble;
mod worker;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

pub use self::plan::{account_rows, row_totals};
pub use self::rows::Rows;

use self::plan::{FILLED, Unit};
use self::steps::{StepEvent, Steps};
use self::trouble::{Trouble, run_as, run_statement};
use self::worker::{Sent, Shared, Worker};
use crate::clock::now_ns;
use crate::contract::job::{InitWork, Job};
use crate::contract::record::{Ending, InitFacts, Notice, PhaseEvent, PhaseName, Progress, Record};
use crate::session::{Session, SessionError, StopFlag};

const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// Leaves created in one transaction: each takes a few locks, of which the server has a limit.
const LEAVES_PER_TRANSACTION: usize = 100;

/// How long a server that restarts after a crash is waited for, to remove what was begun.
const REMOVAL_PATIENCE: Duration = Duration::from_secs(5);

/// Sent on every session. Timeouts are for queries, not for loads; commits need not wait for the
/// disk, because the last one of the job does, and with it all before.
const SESSION_SETTINGS: &str = "set client_min_messages = warning; set statement_timeout = 0; \
     set idle_in_transaction_session_timeout = 0; set synchronous_commit = off";

/// A transaction of its own, with a number: it waits until all WAL before it is on disk.
const FLUSH: &str = "set synchronous_commit = on; select txid_current()";

/// How the job ended, and what it did.
#[derive(Debug)]
pub struct Outcome {
    pub ending: Ending,
    pub facts: InitFacts,
}

/// Do the job: create and fill the pgbench tables.
///
/// Writes `phase`, `progress`, `warning` and `error` records to `out`. When `stop` becomes true, or
/// something fails, running statements are cancelled and what the job created is dropped; `stop` is
/// true afterwards.
pub fn run(job: &Job, init: &InitWork, stop: &StopFlag, out: &mut dyn FnMut(Record)) -> Outcome {
    let mut loading = Loading {
        job,
        init,
        stop,
        out,
        steps: Steps::new(job.clock),
        sent: Arc::default(),
        is_created: false,
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

struct Loading<'a> {
    job: &'a Job,
    init: &'a InitWork,
    stop: &'a StopFlag,
    out: &'a mut dyn FnMut(Record),
    steps: Steps,
    sent: Arc<Sent>,
    /// The transaction that makes the tables was committed.
    is_created: bool,
}

impl Loading<'_> {
    fn load(&mut self) -> Result<(), Trouble> {
        let mut first = self.open_session()?;
        let server_major = first.server_major();
        let units = plan::units(self.init, server_major);
        let conclusion = plan::conclusion(self.init, server_major);
        self.expect(&units, &conclusion);

        self.begin(PhaseName::Create);
        self.create(&mut first)?;
        self.end(PhaseName::Create);

        let mut sessions = self.open_more(first, units.len());
        self.fill(&mut sessions, units)?;

        let session = &mut sessions[0];
        for (phase, sql) in &conclusion {
            self.begin(*phase);
            run_statement(session, sql)?;
            self.end(*phase);
        }
        run_statement(session, FLUSH)
    }

    fn expect(&mut self, units: &VecDeque<Unit>, conclusion: &[(PhaseName, String)]) {
        self.steps.expect(PhaseName::Create, 1);
        self.steps.expect(PhaseName::Load, units.iter().filter(|u| u.rows.is_some()).count());
        self.steps.expect(PhaseName::Vacuum, units.len());
        self.steps.expect(PhaseName::Index, units.iter().filter(|u| u.key.is_some()).count());
        for (phase, _) in conclusion {
            self.steps.expect(*phase, 1);
        }
    }

    fn open_session(&self) -> Result<Session, Trouble> {
        let doing = || "connect".to_string();
        let mut session = Session::connect(&self.job.target, self.stop)
            .map_err(|error| Trouble { doing: doing(), error })?;
        run_statement(&mut session, SESSION_SETTINGS)?;
        Ok(session)
    }

    /// As many sessions as the job wants and the units can use; fewer if the server has no room.
    fn open_more(&mut self, first: Session, unit_count: usize) -> Vec<Session> {
        let wanted = usize::from(self.init.jobs.max(1)).min(unit_count);
        let mut sessions = vec![first];
        while sessions.len() < wanted {
            match self.open_session() {
                Ok(session) => sessions.push(session),
                // Told to stop: the loading that follows notices it too.
                Err(trouble) if trouble.is_stop() => break,
                Err(trouble) => {
                    let failure = trouble.failure(0);
                    self.warn(
                        "fewer_sessions",
                        format!("{} of {wanted} sessions: {}", sessions.len(), failure.message),
                        failure.hint,
                    );
                    break;
                }
            }
        }
        sessions
    }

    /// Make the empty tables, marked as ours from the first moment they exist.
    fn create(&mut self, session: &mut Session) -> Result<(), Trouble> {
        let drop = self.init.drop_existing.then(|| ddl::DROP_TABLES.to_string());
        let marks = ddl::TABLES.iter().map(|table| ddl::mark_table(table, &self.init.mark));
        // One simple query is one transaction.
        let tables: Vec<String> =
            drop.into_iter().chain(ddl::create_tables(self.init)).chain(marks).collect();
        run_as(session, "create the pgbench tables", &tables.join(";\n"))?;
        self.is_created = true;

        let leaves = ddl::create_partitions(self.init);
        for (chunk, leaves) in leaves.chunks(LEAVES_PER_TRANSACTION).enumerate() {
            let first = chunk * LEAVES_PER_TRANSACTION + 1;
            let marks = (first..first + leaves.len()).map(|number| {
                ddl::mark_table(&ddl::partition_name(number as u32), &self.init.mark)
            });
            let all: Vec<String> = leaves.iter().cloned().chain(marks).collect();
            run_as(session, "create the partitions of pgbench_accounts", &all.join(";\n"))?;
        }
        Ok(())
    }

    /// Work off `units` with all sessions, telling the progress meanwhile.
    fn fill(&mut self, sessions: &mut [Session], units: VecDeque<Unit>) -> Result<(), Trouble> {
        let sent = self.sent.clone();
        let nudges_wal = !self.init.unlogged && writes_plain_wal(&mut sessions[0])?;
        let shared = Shared::new(units, nudges_wal, &sent);
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
            let rows_done = self.sent.rows[index].load(Ordering::Relaxed);
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

    /// Say what went wrong and remove what was begun.
    fn give_up(&mut self, trouble: &Trouble) -> Ending {
        self.stop.store(true, Ordering::Relaxed);
        for record in self.steps.cut_off() {
            (self.out)(record);
        }
        if !trouble.is_stop() {
            let failure = trouble.failure(self.now_unix_ns());
            (self.out)(Record::Error(failure));
        }
        if self.is_created {
            self.remove();
        }
        if trouble.is_stop() { Ending::Stopped } else { Ending::Aborted }
    }

    fn remove(&mut self) {
        match remove_tables(self.job) {
            Ok(()) => self.warn(
                "dataset_removed",
                "the loading did not finish, so the tables it had created were dropped".into(),
                "load again".into(),
            ),
            Err(error) => self.warn(
                "dataset_left",
                format!("the loading did not finish and its tables could not be dropped: {error}"),
                format!("when the server answers again: {}", ddl::DROP_TABLES),
            ),
        }
    }

    fn begin(&mut self, phase: PhaseName) {
        self.note(StepEvent::now(phase, PhaseEvent::Begin));
    }

    fn end(&mut self, phase: PhaseName) {
        self.note(StepEvent::now(phase, PhaseEvent::End));
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
    let rows = session.query(doing).map_err(|error| Trouble { doing: doing.into(), error })?;
    Ok(rows.first().and_then(|row| row[0].as_deref()) == Some("replica"))
}

/// Drop the tables on a session of its own, which no stop flag reaches. A server that restarts is
/// waited for a moment.
fn remove_tables(job: &Job) -> Result<(), SessionError> {
    let never = Arc::new(AtomicBool::new(false));
    let deadline = Instant::now() + REMOVAL_PATIENCE;
    let mut session = loop {
        match Session::connect(&job.target, &never) {
            Ok(session) => break session,
            Err(error) if error.may_pass() && Instant::now() < deadline => {
                thread::sleep(Duration::from_millis(200));
            }
            Err(error) => return Err(error),
        }
    };
    session.query(&format!("set lock_timeout = '10s'; {}", ddl::DROP_TABLES)).map(|_| ())
}
