//! What `pgbench -i` leaves and what the loader leaves is the same: rows, pages, catalogue.

#[path = "../../engine/tests/common/mod.rs"]
mod common;

use std::sync::{Mutex, PoisonError};

use common::{Server, lines, never, servers};
use pgdyno_engine::contract::FORMAT;
use pgdyno_engine::contract::job::{ClockPair, InitWork, Job, Work};
use pgdyno_engine::contract::record::Ending;
use pgdyno_engine::dataset::{self, DatasetKind, Options};
use pgdyno_pgbench::dataset::{PartitionMethod, PgbenchOptions};

const KINDS: &[DatasetKind] = &[DatasetKind::of::<PgbenchOptions>()];

const MARK: &str = "pgdyno: test";

const PLAIN: PgbenchOptions = PgbenchOptions {
    scale: 2,
    fillfactor: None,
    unlogged: false,
    foreign_keys: false,
    partitions: 0,
    partition_method: PartitionMethod::Range,
    tablespace: None,
    index_tablespace: None,
    range_rows: None,
    steps: None,
    distribute: None,
};

/// Queries whose answers must be equal, line by line.
const STATE: [&str; 6] = [
    // What planner and VACUUM know about them.
    "select relname, relkind, relpersistence, reloptions, reltuples, relallvisible,
            reltablespace, relhasindex, relispartition
     from pg_class where relname like 'pgbench%' order by relname",
    "select attrelid::regclass, attname, format_type(atttypid, atttypmod), attnotnull, attnum
     from pg_attribute a join pg_class c on c.oid = attrelid
     where relname like 'pgbench%' and relkind in ('r', 'p') and attnum > 0
     order by relname, attnum",
    "select conrelid::regclass, conname, contype, pg_get_constraintdef(o.oid), convalidated,
            conislocal, coninhcount, conparentid <> 0
     from pg_constraint o join pg_class c on c.oid = conrelid
     where relname like 'pgbench%' and conname not like '%not_null'
     order by conrelid::regclass::text, conname",
    "select indexdef, pg_relation_size(indexname::regclass) from pg_indexes
     where tablename like 'pgbench%' order by 1",
    "select tablename, attname, null_frac, avg_width, correlation from pg_stats
     where tablename like 'pgbench%' and attname in ('aid', 'tid') and not inherited
     order by 1, 2",
    "select pg_get_expr(relpartbound, oid), pg_get_partkeydef(oid) from pg_class
     where relname like 'pgbench_accounts%' order by relname",
];

const SIZES: &str = "select relname, pg_relation_size(oid), relpages from pg_class
    where relname like 'pgbench%' order by relname";

/// Rows in the order of their place on disk.
const CONTENTS: &str = "select relname, md5(string_agg(line, ';' order by ctid)), count(*) from (
      select 'a' relname, tableoid::regclass, ctid, t::text line from pgbench_accounts t
      union all select 't', tableoid, ctid, t::text from pgbench_tellers t
      union all select 'b', tableoid, ctid, t::text from pgbench_branches t
      union all select 'h', tableoid, ctid, t::text from pgbench_history t) rows
    group by relname, tableoid order by relname, tableoid::text";

fn load(server: &Server, database: &str, options: PgbenchOptions, jobs: u16) {
    let init = InitWork {
        dataset: options.in_job(),
        jobs,
        mark: MARK.into(),
        drop_existing: false,
        resume: false,
        keep_unfinished: false,
        share: None,
    };
    let job = Job {
        format: FORMAT.into(),
        clock: ClockPair::now(),
        target: server.target(database),
        work: Work::Init(init.clone()),
    };
    let mut records = Vec::new();
    let tables = dataset::read(&init.dataset, KINDS).expect("a kind of dataset");
    let outcome =
        dataset::load(&job, &init, tables.as_ref(), &never(), &mut |record| records.push(record));
    assert_eq!(outcome.ending, Ending::Completed, "{records:?}");
}

/// pgbench copies into the parent: leaves are not frozen, and from PostgreSQL 16 on have some empty
/// pages at their end, because the server extends tables ahead of a COPY. Ours have neither.
#[derive(Clone, Copy, PartialEq)]
enum Leaves {
    None,
    Some,
}

/// Load with both and compare; `arguments` are pgbench's words for `init`.
fn assert_same(init: &PgbenchOptions, jobs: u16, arguments: &[&str], leaves: Leaves) {
    // The age of a table counts the transactions of all databases, so one test runs at a time.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let servers = servers();
    // pgbench before 17 does not freeze branches and tellers, so the newest one is the reference.
    let Some(newest) = servers.last().cloned() else { return };
    for server in servers {
        let theirs = server.create_database("theirs");
        let ours = server.create_database("ours");
        let mut pgbench = std::process::Command::new(newest.bin.join("pgbench"));
        pgbench.args(["-i", "-q", "-s", &init.scale.to_string(), "-h", &server.socket_dir()]);
        let output = pgbench.args(["-U", "postgres"]).args(arguments).arg(&theirs).output();
        let output = output.expect("pgbench runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        load(&server, &ours, init.clone(), jobs);
        let (mut a, mut b) = (server.session(&theirs), server.session(&ours));
        for sql in STATE.into_iter().chain([CONTENTS]) {
            let (expected, found) = (lines(&mut a, sql), lines(&mut b, sql));
            assert!(!expected.is_empty() || sql.contains("pg_get_expr"), "{sql}");
            assert_eq!(found, expected, "PostgreSQL {}: {sql}", server.major);
        }
        if leaves == Leaves::None || server.major < 16 {
            assert_eq!(lines(&mut b, SIZES), lines(&mut a, SIZES), "{}", server.major);
        }
        assert_frozen_alike(&server, &mut a, &mut b, leaves);
        assert_marked(&mut b);
        for (session, database) in [(a, theirs), (b, ours)] {
            drop(session);
            let sql = format!("drop database {database} with (force)");
            server.session("postgres").query(&sql).expect("the database goes");
        }
    }
}

/// Every page frozen, and the oldest transaction number as young as pgbench leaves it.
fn assert_frozen_alike(
    server: &Server,
    theirs: &mut pgdyno_engine::session::Session,
    ours: &mut pgdyno_engine::session::Session,
    leaves: Leaves,
) {
    let filled = "relname like 'pgbench%' and relkind = 'r'";
    let old = format!("select relname from pg_class where {filled} and age(relfrozenxid) > 100");
    assert!(lines(ours, &old).is_empty());
    assert!(lines(theirs, &old).is_empty());
    let frozen = match server.major {
        18.. => format!("select relname, relallfrozen from pg_class where {filled} order by 1"),
        _ => {
            let extension = "create extension if not exists pg_visibility";
            if theirs.query(extension).is_err() || ours.query(extension).is_err() {
                eprintln!("not compared on {}: frozen pages (no pg_visibility)", server.major);
                return;
            }
            format!(
                "select relname, (pg_visibility_map_summary(oid)).all_frozen
                 from pg_class where {filled} order by 1"
            )
        }
    };
    if leaves == Leaves::None {
        assert_eq!(lines(ours, &frozen), lines(theirs, &frozen));
    }
    let pages = format!("select relname, relpages from pg_class where {filled} order by 1");
    assert_eq!(lines(ours, &frozen), lines(ours, &pages), "every page is frozen");
}

fn assert_marked(session: &mut pgdyno_engine::session::Session) {
    let unmarked = format!(
        "select relname from pg_class where relname like 'pgbench%' and relkind in ('r', 'p')
         and obj_description(oid, 'pg_class') is distinct from '{MARK}'"
    );
    assert!(lines(session, &unmarked).is_empty());
}

#[test]
fn plain_tables_are_those_of_pgbench_page_for_page() {
    assert_same(&PLAIN, 2, &[], Leaves::None);
}

#[test]
fn fill_factor_foreign_keys_and_unlogged_tables_are_those_of_pgbench() {
    let init = PgbenchOptions { fillfactor: Some(70), unlogged: true, foreign_keys: true, ..PLAIN };
    assert_same(&init, 3, &["-F", "70", "--unlogged-tables", "--foreign-keys"], Leaves::None);
}

#[test]
fn range_partitions_are_those_of_pgbench_and_frozen() {
    let init = PgbenchOptions { partitions: 3, fillfactor: Some(90), ..PLAIN };
    assert_same(&init, 2, &["-F", "90", "--partitions=3"], Leaves::Some);
}

#[test]
fn hash_partitions_with_foreign_keys_are_those_of_pgbench_and_frozen() {
    let init = PgbenchOptions {
        partitions: 4,
        partition_method: PartitionMethod::Hash,
        foreign_keys: true,
        ..PLAIN
    };
    let arguments = ["--partitions=4", "--partition-method=hash", "--foreign-keys"];
    assert_same(&init, 1, &arguments, Leaves::Some);
}
