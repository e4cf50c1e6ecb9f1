//! The observer of the drop-in: counts the transactions of one thread, and decides as pgbench does
//! what follows a failure.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pgdyno_wire::{ServerError, SqlState};

use super::log::{Entry, Log};
use super::options::Options;
use super::say;
use super::stats::{Conclusion, Counted, FailureKind};
use pgdyno_engine::clock::now_ns;
use pgdyno_engine::contract::job::ClockPair;
use pgdyno_engine::contract::job::HostPort;
use pgdyno_engine::observer::{Cause, FailedTry, Misplaced, Observer, Verdict};
use pgdyno_engine::outcome::{Ended, FailureCode, Outcome};
use pgdyno_engine::session::SessionError;

/// The statistics of one thread, which the progress report reads. The thread locks them once per
/// transaction.
pub(super) type SharedCounts = Arc<Mutex<Counted>>;

/// Lock the values, also after a panic of another thread.
pub(super) fn locked(counts: &SharedCounts) -> MutexGuard<'_, Counted> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The facts of the run that a witness needs.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub clock: ClockPair,
    pub thread: u32,
    pub first_client: u32,
    pub latency_limit_us: f64,
    pub max_tries: u32,
    pub verbose_errors: bool,
    pub exit_on_abort: bool,
    pub continues_on_error: bool,
    /// By script and command.
    pub commands: Arc<Vec<Vec<Command>>>,
}

/// A command, as messages name it.
#[derive(Clone, Debug)]
pub(super) struct Command {
    /// `SQL`, or the name of the meta command.
    pub name: &'static str,
    pub failure: &'static str,
}

impl Facts {
    pub(super) fn of(options: &Options, clock: ClockPair, commands: Vec<Vec<Command>>) -> Facts {
        Facts {
            clock,
            thread: 0,
            first_client: 0,
            latency_limit_us: options.latency_limit_ms * 1e3,
            max_tries: options.max_tries,
            verbose_errors: options.verbose_errors,
            exit_on_abort: options.exit_on_abort,
            continues_on_error: options.continues_on_error,
            commands: Arc::new(commands),
        }
    }
}

/// The observer of one thread.
#[derive(Debug)]
pub(super) struct Witness {
    pub facts: Facts,
    pub counts: SharedCounts,
    pub log: Option<Log>,
    /// Number of transactions of each client, for the log.
    pub numbers: Vec<u64>,
}

impl Witness {
    fn client_id(&self, index: u32) -> u32 {
        self.facts.first_client + index
    }

    fn note(
        &mut self,
        client: u32,
        script: usize,
        conclusion: Conclusion,
        retries: u64,
        ended_ns: u64,
    ) {
        {
            let mut counts = locked(&self.counts);
            counts.total.add(conclusion, retries);
            counts.scripts[script].add(conclusion, retries);
            counts.last_ns = counts.last_ns.max(ended_ns);
            if let Conclusion::Completed { latency_us, .. } = conclusion {
                counts.latency.record((latency_us * 1e3) as u64);
                let limit_us = self.facts.latency_limit_us;
                counts.late += u64::from(limit_us > 0.0 && latency_us > limit_us);
            }
        }
        let number = &mut self.numbers[client as usize];
        *number += 1;
        let number = *number;
        let unix_us = self.facts.clock.unix_ns(ended_ns) / 1_000;
        let client = self.client_id(client);
        if let Some(log) = &mut self.log {
            log.add(&Entry { client, number, script, result: conclusion, retries, unix_us });
        }
    }

    fn complain(&self, failed: &FailedTry<'_>) {
        let FailedTry { script, command, query, sql, .. } = *failed;
        let client = self.client_id(failed.client);
        let about = &self.facts.commands[script].get(command);
        let (name, failure) = about.map_or(("SQL", ""), |about| (about.name, about.failure));
        let stopped_at = |name: &str, why: &str| {
            say::error(format!(
                "client {client} aborted in command {command} ({name}) of script {script}; {why}"
            ));
        };
        let by_meta_command = || stopped_at(name, failure);
        let by_query = |what: String| {
            say::error(format!("client {client} script {script} {what}"));
        };
        let aborted =
            |what: String| by_query(format!("aborted in command {command} query {query}: {what}"));
        let at_end = |what: &str| {
            say::error(format!("client {client} aborted: end of script reached {what}"));
        };
        match failed.cause {
            Cause::Server(error) => aborted(say::server_error(error, sql)),
            Cause::Lost(Some(said)) => aborted(say::server_error(said, sql)),
            Cause::Lost(None) => aborted(say::SERVER_GONE.into()),
            Cause::Copy => say::error("COPY is not supported in pgbench, aborting"),
            Cause::Misplaced(what) => match what {
                Misplaced::SimplePipeline => {
                    stopped_at(name, "cannot use pipeline mode with the simple query protocol");
                }
                Misplaced::PipelineInPipeline => stopped_at(name, "already in pipeline mode"),
                Misplaced::NotInPipeline => stopped_at(name, "not in pipeline mode"),
                Misplaced::GsetInPipeline { is_aset } => {
                    let name = if is_aset { "aset" } else { "gset" };
                    stopped_at(name, &format!("\\{name} is not allowed in pipeline mode"));
                }
            },
            Cause::Evaluation(text) if name == "SQL" => {
                say::error(text);
                // The text has the name of the variable in quotes.
                let variable = text.split('"').nth(1).unwrap_or_default();
                by_query(format!(
                    "command {command} query {query}: error storing into variable {variable}"
                ));
            }
            Cause::Evaluation(text) => {
                say::error(text);
                by_meta_command();
            }
            Cause::RowCount(rows) => {
                by_query(format!("command {command} query {query}: expected one row, got {rows}"))
            }
            Cause::MetaCommand => by_meta_command(),
            Cause::OpenBlock => at_end("without completing the last transaction"),
            Cause::OpenPipeline => at_end("with pipeline open"),
        }
    }

    fn abort(&mut self, failed: &FailedTry<'_>) -> Verdict {
        self.complain(failed);
        self.note_abort();
        Verdict::Abort
    }

    fn note_abort(&mut self) {
        locked(&self.counts).has_aborted = true;
        if self.facts.exit_on_abort {
            let thread = self.facts.thread;
            say::error(format!("Run was aborted due to an error in thread {thread}"));
            // As pgbench: the client ends at once, without a message.
            std::process::exit(2);
        }
    }

    /// Decide about a failed try. A serialization failure or a deadlock is tried again while the
    /// limits of tries and time allow it. Other errors come here only with `--continue-on-error`,
    /// and are not tried again.
    fn judge_failure(&mut self, failed: &FailedTry<'_>, error: &ServerError) -> Verdict {
        let FailedTry { script, command, tries, .. } = *failed;
        let age_us = (now_ns().saturating_sub(failed.scheduled_ns)) as f64 / 1e3;
        let Facts { max_tries, latency_limit_us, .. } = self.facts;
        let has_tries = max_tries == 0 || tries < max_tries;
        let has_time = latency_limit_us == 0.0 || age_us <= latency_limit_us;
        let retries = is_retryable(error) && has_tries && has_time;
        if self.facts.verbose_errors {
            self.tell_retry(failed, error, retries, age_us);
        }
        let mut counts = locked(&self.counts);
        if let Some(counts) = counts.commands[script].get_mut(command) {
            match retries {
                true => counts.retries += 1,
                false => counts.failures += 1,
            }
        }
        if retries { Verdict::Retry } else { Verdict::Fail }
    }

    fn tell_retry(&self, failed: &FailedTry<'_>, error: &ServerError, retries: bool, age_us: f64) {
        let FailedTry { script, command, tries, sql, .. } = *failed;
        let client = self.client_id(failed.client);
        let said = say::server_error(error, sql);
        say::info(format!(
            "client {client} got an error in command {command} (SQL) of script {script}; {said}"
        ));
        let next = match retries {
            true => "repeats the transaction after the error",
            false => "ends the failed transaction",
        };
        let most = match self.facts.max_tries {
            0 => String::new(),
            most => format!("/{most}"),
        };
        let time = match self.facts.latency_limit_us {
            0.0 => String::new(),
            limit_us => {
                format!(", {:.3}% of the maximum time of tries was used", 100.0 * age_us / limit_us)
            }
        };
        say::info(format!("client {client} {next} (try {tries}{most}{time})"));
    }
}

/// True if another try may succeed.
fn is_retryable(error: &ServerError) -> bool {
    [SqlState::SERIALIZATION_FAILURE, SqlState::DEADLOCK_DETECTED].contains(&error.sqlstate)
}

impl Observer for Witness {
    fn began(&mut self, at_ns: u64) {
        let unix_us = self.facts.clock.unix_ns(at_ns) / 1_000;
        if let Some(log) = &mut self.log {
            log.begin(unix_us);
        }
    }

    fn debug(&mut self, client: u32, what: &str) {
        say::info(format!("client {} {what}", self.client_id(client)));
    }

    fn notice(&mut self, notice: &ServerError) {
        eprintln!("{}", say::server_error(notice, ""));
    }

    fn command(&mut self, script: usize, command: usize, duration_ns: u64) {
        let mut counts = locked(&self.counts);
        if let Some(counts) = counts.commands[script].get_mut(command) {
            counts.count += 1;
            counts.sum_ns += duration_ns;
        }
    }

    fn ended(&mut self, client: u32, script: usize, ended: &Ended) {
        let us = |from_ns: u64, to_ns: u64| to_ns.saturating_sub(from_ns) as f64 / 1e3;
        let conclusion = match ended.outcome {
            Outcome::Completed | Outcome::RolledBack => Conclusion::Completed {
                latency_us: us(ended.scheduled_ns, ended.ended_ns),
                lag_us: us(ended.scheduled_ns, ended.started_ns),
            },
            Outcome::Failed(FailureCode::Sql(SqlState::DEADLOCK_DETECTED)) => {
                Conclusion::Failed(FailureKind::Deadlock)
            }
            Outcome::Failed(FailureCode::Sql(SqlState::SERIALIZATION_FAILURE)) => {
                Conclusion::Failed(FailureKind::Serialization)
            }
            Outcome::Failed(_) => Conclusion::Failed(FailureKind::Other),
        };
        self.note(client, script, conclusion, u64::from(ended.retries), ended.ended_ns);
    }

    fn skipped(&mut self, client: u32, script: usize) {
        self.note(client, script, Conclusion::Skipped, 0, now_ns());
    }

    fn not_connected(&self, client: u32, why: &SessionError, host: &HostPort) -> (String, String) {
        let client = self.client_id(client);
        let whose = format!("could not create connection for client {client}");
        (say::connect_error(why, host), whose)
    }

    fn aborted_connecting(&mut self, client: u32, why: &SessionError, host: &HostPort) {
        say::error(say::connect_error(why, host));
        let client = self.client_id(client);
        say::error(format!("client {client} aborted while establishing connection"));
        self.note_abort();
    }

    fn judge(&mut self, failed: &FailedTry<'_>) -> Verdict {
        match failed.cause {
            Cause::Server(error) if is_retryable(error) || self.facts.continues_on_error => {
                match failed.is_draining {
                    // As pgbench: when the time is over, a failed try is counted nowhere.
                    true => Verdict::Abort,
                    false => self.judge_failure(failed, error),
                }
            }
            _ => self.abort(failed),
        }
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        let now_us = self.facts.clock.unix_ns(now_ns()) / 1_000;
        if let Some(log) = &mut self.log {
            log.finish(now_us);
        }
    }
}
