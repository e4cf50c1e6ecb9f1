//! The sessions of a load: what is set in each, and how many the server admits.

use super::journal;
use super::loading::Loading;
use super::trouble::{Trouble, run_as};
use crate::contract::job::DistributedServer;
use crate::session::{Row, Session, SessionError};

/// Set on every session, as far as the server knows them. Timeouts are for queries, not for loads;
/// commits need not wait for the disk, because the last one of the load does, and with it all
/// before.
const SETTINGS: &str = "select set_config(name, wanted, false) from pg_settings join (values \
     ('client_min_messages', 'warning'), ('statement_timeout', '0'), ('lock_timeout', '0'), \
     ('idle_in_transaction_session_timeout', '0'), ('idle_session_timeout', '0'), \
     ('transaction_timeout', '0'), ('synchronous_commit', 'off')) \
     as asked(asked_name, wanted) on asked_name = name";

/// A session whose client was killed ends within a second, and does not build its index first.
const CHECK_CLIENT: &str = "set client_connection_check_interval = '1s'";

/// Memory for the sort of a key: 24 bytes of the entry in the sort, 16 of the entry itself, and as
/// much again so that the server gives it two workers where there are some million rows.
const SORT_BYTES_PER_ROW: u64 = 64;
const SORT_BYTES_MAX: u64 = 256 << 20;

impl Loading<'_> {
    pub(super) fn open_session(&self) -> Result<Session, Trouble> {
        let mut session = Session::connect(&self.job.target, self.stop)
            .map_err(|error| Trouble::of_session("connect", error))?;
        run_as(&mut session, "set what the session needs", SETTINGS)?;
        for sql in [CHECK_CLIENT, &sort_memory(self.dataset.index_rows_max())] {
            match session.query(sql) {
                // An older server or another system: slower, and no less right.
                Ok(_) | Err(SessionError::Server(_)) => {}
                Err(error) => return Err(Trouble::of_session(sql, error)),
            }
        }
        Ok(session)
    }

    /// As many sessions as the job wants and the chains can use; fewer if the server has no room.
    pub(super) fn open_more(
        &mut self,
        sessions: &mut Vec<Session>,
        chain_count: usize,
    ) -> Result<(), Trouble> {
        let wanted = usize::from(self.how.jobs.max(1)).min(chain_count);
        while sessions.len() < wanted {
            match self.open_session() {
                Ok(mut session) => {
                    journal::share_lock(&mut session)?;
                    sessions.push(session);
                }
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
        Ok(())
    }
}

/// Enough to sort the entries of an index of this many `rows` in memory, up to a bound; never less
/// than the server allows by itself.
fn sort_memory(rows: u64) -> String {
    let wanted_kb = (rows * SORT_BYTES_PER_ROW).min(SORT_BYTES_MAX) >> 10;
    format!(
        "select set_config(name, greatest(setting::int8, {wanted_kb})::text || 'kB', false) \
         from pg_settings where name = 'maintenance_work_mem'"
    )
}

/// Refuse a server that would not understand, before anything is dropped.
pub(super) fn refuse_unfit(session: &mut Session, asked: DistributedServer) -> Result<(), Trouble> {
    let (sql, lacks, next) = match asked {
        DistributedServer::Citus => (
            "select extversion from pg_extension where extname = 'citus'",
            "this database has no extension citus",
            "connect to the coordinator and CREATE EXTENSION citus there, or load without \
             distribution",
        ),
        DistributedServer::Greenplum => (
            "select 1 where version() ilike '%greenplum%'",
            "this server is not Greenplum",
            "connect to the coordinator of a Greenplum cluster, or load without distribution",
        ),
    };
    let rows: Vec<Row> =
        session.query(sql).map_err(|error| Trouble::of_session(check_name(asked), error))?;
    match rows.is_empty() {
        true => Err(Trouble::refused(check_name(asked), lacks, next)),
        false => Ok(()),
    }
}

fn check_name(asked: DistributedServer) -> &'static str {
    match asked {
        DistributedServer::Citus => "distribute for Citus",
        DistributedServer::Greenplum => "distribute for Greenplum",
    }
}
