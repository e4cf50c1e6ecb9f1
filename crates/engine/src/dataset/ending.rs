//! The end of a load that fails or is stopped: its messages, and whether its rows stay.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::Dataset;
use super::journal;
use super::loading::Loading;
use super::opening::open_narrow;
use super::trouble::Trouble;
use crate::contract::job::Job;
use crate::contract::record::{Ending, Record, WarningKind};
use crate::session::SessionError;

/// Longest wait for a server that restarts after a crash, before unfinished tables are removed.
const REMOVAL_PATIENCE: Duration = Duration::from_secs(5);

impl Loading<'_> {
    /// Report the error, and keep or remove the rows that were loaded.
    pub(super) fn give_up(&mut self, trouble: &Trouble) -> Ending {
        self.stop.store(true, Ordering::Relaxed);
        for record in self.steps.cut_off() {
            (self.out)(record);
        }
        if !trouble.is_stop() {
            let failure = trouble.failure(self.now_unix_ns());
            (self.out)(Record::Error(failure));
        }
        if self.is_begun && self.sent.pieces.load(Ordering::Relaxed) > 0 {
            // If the job names single steps, their tables may have existed before.
            let is_creator = self.dataset.is_creator();
            match (self.how.keep_unfinished, is_creator) {
                (true, _) => self.keep(),
                (false, true) => self.remove(),
                (false, false) => {
                    let _ = on_own_session(self.job, self.dataset, journal::DROP);
                }
            }
        }
        if trouble.is_stop() { Ending::Stopped } else { Ending::Aborted }
    }

    fn keep(&mut self) {
        // Nobody counts what the other engines of a shared load have done.
        let pieces = match self.how.share {
            Some(_) => String::new(),
            None => format!("{} ", self.sent.pieces.load(Ordering::Relaxed)),
        };
        self.warn(
            WarningKind::DatasetUnfinished,
            format!("the load did not finish; its {pieces}completed pieces are kept"),
            "resume: the same load continues with the missing pieces".into(),
        );
    }

    fn remove(&mut self) {
        let sql = format!("{}; {}", self.dataset.removal(), journal::DROP);
        match on_own_session(self.job, self.dataset, &sql) {
            Ok(()) => self.warn(
                WarningKind::DatasetRemoved,
                "the load did not finish, so the tables that it had created were dropped".into(),
                "load again".into(),
            ),
            Err(error) => self.warn(
                WarningKind::DatasetLeft,
                format!("the load did not finish and its tables could not be dropped: {error}"),
                format!("when the server answers again: {sql}"),
            ),
        }
    }
}

/// Run `sql` on a separate session, which no stop flag ends. If the server is restarting, wait for
/// at most `REMOVAL_PATIENCE`.
fn on_own_session(job: &Job, dataset: &dyn Dataset, sql: &str) -> Result<(), SessionError> {
    let never = Arc::new(AtomicBool::new(false));
    let deadline = Instant::now() + REMOVAL_PATIENCE;
    let mut session = loop {
        match open_narrow(&job.target, dataset, &never) {
            Ok(session) => break session,
            Err(error) if error.may_pass() && Instant::now() < deadline => {
                thread::sleep(Duration::from_millis(200));
            }
            Err(error) => return Err(error),
        }
    };
    session.query(&format!("set lock_timeout = '10s'; {sql}")).map(|_| ())
}
