//! Opens a session of a load with its settings, and checks that the server fits the job.

use super::Dataset;
use super::sql::quote_literal;
use super::trouble::{Trouble, run_as};
use crate::contract::job::{DistributedServer, Target};
use crate::dialect::Server;
use crate::session::{Session, SessionError, StopFlag};

/// Settings of every session; a setting that the server does not know is left out. A load may take
/// longer than any timeout. Commits do not wait for the disk: only the last commit of the load
/// does, and it makes all earlier ones durable.
const SETTINGS: &str = "select set_config(name, wanted, false) from pg_settings join (values \
     ('client_min_messages', 'warning'), ('statement_timeout', '0'), ('lock_timeout', '0'), \
     ('idle_in_transaction_session_timeout', '0'), ('idle_session_timeout', '0'), \
     ('transaction_timeout', '0'), ('synchronous_commit', 'off')) \
     as asked(asked_name, wanted) on asked_name = name";

/// The first statement of a session. What the database or the role sets gets its built-in value,
/// except costs, sizes, limits of time, the path, and what decides where and how rows are kept:
/// with geqo_pool_size = 2147483647, joins would end with an error.
const BUILT_IN: &str = "select pg_catalog.set_config(name, boot_val, false) from \
     pg_catalog.pg_settings where context operator(pg_catalog.=) 'user' and source \
     operator(pg_catalog.=) any \
     ('{global,database,user,\"database user\"}'::pg_catalog.text[]) and vartype \
     operator(pg_catalog.<>) 'real' and unit is null and name operator(pg_catalog.!~) \
     '^(default|max_parallel|vacuum|temp|local)_|^synchronous_c|^search_path$|io_concurrency$|[.]'";

/// If the client is killed, its session ends within a second and does not first build its index.
const CHECK_CLIENT: &str = "set client_connection_check_interval = '1s'";

/// Memory to sort the entries of a key. An entry needs 24 bytes for the sort and 16 for itself. The
/// rest lets the server use two parallel workers if there are some million rows.
const SORT_BYTES_PER_ROW: u64 = 64;
const SORT_BYTES_MAX: u64 = 256 << 20;

/// The second statement of a session that loads or removes tables. It makes the schema of the
/// tables the only one of a user that is searched: where the path finds a table of this name now,
/// or else where it creates tables. PostgreSQL searches pg_catalog before it. Every name here has
/// its schema, so the path of the database or the role cannot lead the statement elsewhere.
fn narrow_path(dataset: &dyn Dataset) -> String {
    // The tables of a captured schema have several schemas, and their statements name them.
    let tables = dataset.row_totals();
    let table = tables.first().map(|(name, _)| *name).filter(|name| !name.contains('.'));
    let schema_of = |name: &str| {
        format!(
            "(select pg_catalog.quote_ident(n.nspname) from pg_catalog.pg_class c join \
             pg_catalog.pg_namespace n on n.oid operator(pg_catalog.=) c.relnamespace where c.oid \
             operator(pg_catalog.=) pg_catalog.to_regclass({}))",
            quote_literal(name)
        )
    };
    let schemas: Vec<_> = ["pgdyno_load"].into_iter().chain(table).map(schema_of).collect();
    format!(
        "select pg_catalog.set_config('search_path', pg_catalog.concat(coalesce({}, \
         pg_catalog.quote_ident(pg_catalog.current_schema()), '\"\"'), ', pg_temp'), false)",
        schemas.join(", ")
    )
}

/// Open a session that searches only the schema of the tables of `dataset`.
pub(super) fn open_narrow(
    target: &Target,
    dataset: &dyn Dataset,
    stop: &StopFlag,
) -> Result<Session, SessionError> {
    let mut session = Session::connect(target, stop)?;
    session.query(BUILT_IN)?;
    session.query(&narrow_path(dataset))?;
    Ok(session)
}

/// Open one session of a load, with its settings.
pub(super) fn open_session(
    target: &Target,
    dataset: &dyn Dataset,
    stop: &StopFlag,
) -> Result<Session, Trouble> {
    let mut session = open_narrow(target, dataset, stop)
        .map_err(|error| Trouble::of_session("connect", error))?;
    run_as(&mut session, "set what the session needs", SETTINGS)?;
    for sql in [CHECK_CLIENT, &sort_memory(dataset.index_rows_max())] {
        match session.query(sql) {
            // An older server or another operating system refuses it; the load is then slower.
            Ok(_) | Err(SessionError::Server(_)) => {}
            Err(error) => return Err(Trouble::of_session(sql, error)),
        }
    }
    Ok(session)
}

/// The statement that sets maintenance_work_mem so that the index entries of `rows` are sorted in
/// memory: at most `SORT_BYTES_MAX`, and never less than the server's own value.
fn sort_memory(rows: u64) -> String {
    let wanted_kb = (rows * SORT_BYTES_PER_ROW).min(SORT_BYTES_MAX) >> 10;
    format!(
        "select set_config(name, greatest(setting::int8, {wanted_kb})::text || 'kB', false) \
         from pg_settings where name = 'maintenance_work_mem'"
    )
}

/// Refuse a server without the distribution that the job needs, before anything is dropped.
pub(super) fn refuse_unfit(session: &mut Session, asked: DistributedServer) -> Result<(), Trouble> {
    let (lacks, next) = match asked {
        DistributedServer::Citus => (
            "this database has no extension citus",
            "connect to the coordinator and CREATE EXTENSION citus there, or load without \
             distribution",
        ),
        DistributedServer::Greenplum => (
            "this server is neither Greenplum nor Cloudberry",
            "connect to the coordinator of such a cluster, or load without distribution",
        ),
    };
    let dialect = Server::assumed(session.server_major(), Some(asked)).dialect;
    match dialect.fits(session).map_err(|error| Trouble::of_session(check_name(asked), error))? {
        true => Ok(()),
        false => Err(Trouble::refused(check_name(asked), lacks, next)),
    }
}

fn check_name(asked: DistributedServer) -> &'static str {
    match asked {
        DistributedServer::Citus => "distribute for Citus",
        DistributedServer::Greenplum => "distribute for Greenplum",
    }
}
