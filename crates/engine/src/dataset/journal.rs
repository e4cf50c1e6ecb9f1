//! The journal of a load: an additional table in the database with the pieces that are done.
//!
//! Each piece of work adds its entry in its own transaction. Therefore entries and rows agree, even
//! if a process is killed at any time. The table's comment describes the requested load. The last
//! statement of a load drops the table: if it exists, the load is not finished.
//!
//! The sessions of one load share an advisory lock. A continued or another load takes the lock
//! alone first, so it waits for statements of a killed load that still run.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use super::sql::quote_literal;
use super::trouble::{Trouble, run_as};
use crate::session::{Row, Session, SessionError, StopFlag};

pub(super) const DROP: &str = "drop table if exists pgdyno_load";

/// Ends the load: the commit waits until all WAL before it is on disk.
pub(super) const CLOSE: &str = "set synchronous_commit = on; drop table pgdyno_load";

/// The lock of a schema's load; the number says "pgdy".
const KEY: &str = "1885824121, hashtext(current_schema()::text)";

/// How long sessions of a killed load may take to end. They check their client each second.
const PATIENCE: Duration = Duration::from_secs(30);

/// Pause between two looks at what other engines have done.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Rows of each piece that is done, by its name.
pub type Done = BTreeMap<String, u64>;

/// The statements that create the journal of a new load.
pub(super) fn create(is_unlogged: bool, title: &str) -> Vec<String> {
    // Subtle: unlogged tables are empty after a crash of the server, so the journal must be empty,
    // too. Then it has no entry at all, not even the one for creating the tables.
    let unlogged = if is_unlogged { " unlogged" } else { "" };
    vec![
        DROP.into(),
        format!("create{unlogged} table pgdyno_load(piece text primary key, row_count bigint)"),
        format!("comment on table pgdyno_load is {}", quote_literal(title)),
    ]
}

/// The statement that adds the entry of a piece, for the transaction of this piece.
pub(super) fn entry(piece: &str, row_count: u64) -> String {
    format!("insert into pgdyno_load values ({}, {row_count})", quote_literal(piece))
}

/// Read the entries of an interrupted load.
///
/// Errors: `Refused` if there is no journal, or if it belongs to another job.
pub(super) fn read(session: &mut Session, title: &str) -> Result<Done, Trouble> {
    const DOING: &str = "read what was loaded";
    let refused = |what: String| Err(Trouble::refused(DOING, &what, "load without resuming"));
    let mut ask = |sql: &str| -> Result<Vec<Row>, Trouble> {
        session.query(sql).map_err(|error| Trouble::of_session(DOING, error))
    };
    let rows = ask("select pg_catalog.obj_description(to_regclass('pgdyno_load'), 'pg_class')")?;
    let Some(comment) = rows.into_iter().next().and_then(|row| row.into_iter().next()?) else {
        return refused("there is no interrupted load in this schema".into());
    };
    if comment != title {
        return refused(format!("the interrupted load belongs to \"{comment}\""));
    }
    let entries = ask("select piece, row_count from pgdyno_load")?;
    let entry = |row: Row| {
        let mut fields = row.into_iter().flatten();
        Some((fields.next()?, fields.next()?.parse().ok()?))
    };
    Ok(entries.into_iter().filter_map(entry).collect())
}

/// Wait until no other load holds the lock, then take the lock in shared mode.
///
/// Args: `waiting` is called once, after two seconds of waiting.
///
/// Errors: `Refused` if another load still holds the lock after `PATIENCE`.
pub(super) fn lock(
    session: &mut Session,
    stop: &StopFlag,
    mut waiting: impl FnMut(),
) -> Result<(), Trouble> {
    const DOING: &str = "look for other loads";
    let began = Instant::now();
    let mut has_told = false;
    loop {
        let sql = format!("select pg_try_advisory_lock({KEY})");
        let rows = session.query(&sql).map_err(|error| Trouble::of_session(DOING, error))?;
        if rows[0][0].as_deref() != Some("f") {
            break;
        }
        if began.elapsed() > PATIENCE {
            return Err(held_by_others(session, DOING));
        }
        if stop.load(Ordering::Relaxed) {
            return Err(Trouble::of_session(DOING, SessionError::Stopped));
        }
        if !has_told && began.elapsed() > Duration::from_secs(2) {
            waiting();
            has_told = true;
        }
        thread::sleep(LOOK_EVERY);
    }
    share_lock(session)?;
    run_as(session, DOING, &format!("select pg_advisory_unlock({KEY})"))
}

/// Hold the lock together with the other sessions of the load.
pub(super) fn share_lock(session: &mut Session) -> Result<(), Trouble> {
    let sql = format!("select pg_advisory_lock_shared({KEY})");
    run_as(session, "share the lock of the load", &sql)
}

/// Wait until `count` pieces of the load are done: the engines that share it do them.
pub(super) fn wait_for(
    session: &mut Session,
    count: usize,
    stop: &StopFlag,
) -> Result<(), Trouble> {
    const DOING: &str = "wait for the other load hosts";
    loop {
        let rows = session
            .query("select count(*) from pgdyno_load")
            .map_err(|error| Trouble::of_session(DOING, error))?;
        let done = rows[0][0].as_deref().and_then(|text| text.parse::<usize>().ok());
        if done.is_some_and(|done| done >= count) {
            return Ok(());
        }
        if stop.load(Ordering::Relaxed) {
            return Err(Trouble::of_session(DOING, SessionError::Stopped));
        }
        thread::sleep(LOOK_EVERY);
    }
}

fn held_by_others(session: &mut Session, doing: &'static str) -> Trouble {
    let sql = "select string_agg(distinct pid::text, ', ') from pg_locks \
         where locktype = 'advisory' and classid operator(pg_catalog.=) 1885824121 and granted \
           and pid <> pg_backend_pid()";
    let who =
        session.query(sql).ok().and_then(|rows| rows.into_iter().next()?.into_iter().next()?);
    let who = who.unwrap_or_else(|| "not known".into());
    Trouble::refused(
        doing,
        &format!("another load is running in this schema (server processes {who})"),
        "wait until it has ended, or end its sessions with pg_terminate_backend",
    )
}
