//! Loads that were cut off and go on: what is done stays done, and the end is that of a load that
//! nothing cut off.

#[path = "../../engine/tests/common/mod.rs"]
mod common;

use std::sync::atomic::Ordering;

use common::{Server, lines, never, newest_server, servers};
use pgdyno_engine::contract::FORMAT;
use pgdyno_engine::contract::job::{ClockPair, DistributedServer, InitWork, Job, Work};
use pgdyno_engine::contract::record::{Ending, Failure, PhaseEvent, PhaseName, Record};
use pgdyno_engine::dataset::piece::{RowSource, Stage, Work as PieceWork};
use pgdyno_engine::dataset::{self, Dataset, DatasetKind, Options, Outcome};
use pgdyno_engine::dialect;
use pgdyno_engine::session::StopFlag;
use pgdyno_pgbench::dataset::{Distribute, DistributionColumn, PartitionMethod, PgbenchOptions};

const KINDS: &[DatasetKind] = &[DatasetKind::of::<PgbenchOptions>()];

fn init(scale: u32) -> PgbenchOptions {
    PgbenchOptions { scale, ..PgbenchOptions::default() }
}

fn how(options: &PgbenchOptions) -> InitWork {
    InitWork {
        dataset: options.in_job(),
        jobs: 2,
        mark: format!("pgdyno: test scale={}", options.scale),
        drop_existing: false,
        resume: false,
        keep_unfinished: true,
        share: None,
    }
}

fn job(server: &Server, database: &str, init: &InitWork) -> Job {
    Job {
        format: FORMAT.into(),
        clock: ClockPair::now(),
        target: server.target(database),
        work: Work::Init(init.clone()),
    }
}

fn run(
    server: &Server,
    database: &str,
    init: &InitWork,
    stop: &StopFlag,
    mut seen: impl FnMut(&Record),
) -> (Outcome, Vec<Record>) {
    let mut records = Vec::new();
    let tables = dataset::read(&init.dataset, KINDS).expect("a kind of dataset");
    let outcome =
        dataset::load(&job(server, database, init), init, tables.as_ref(), stop, &mut |record| {
            seen(&record);
            records.push(record);
        });
    (outcome, records)
}

/// Rows, keys, comments and settled statistics; not the places of rows, which ranges share out.
const CONTENTS: [&str; 5] = [
    "select count(*), sum(aid::int8), sum(bid::int8), sum(abalance), min(filler), max(filler),
            bit_xor(hashint8(aid)) from pgbench_accounts",
    "select count(*), sum(tid), sum(bid), sum(tbalance), count(filler) from pgbench_tellers",
    "select count(*), sum(bid), sum(bbalance), count(filler) from pgbench_branches",
    "select relname, relkind, relpersistence, reloptions, relhasindex, reltuples,
            obj_description(oid, 'pg_class')
     from pg_class where relname ~ '^pgbench|^pgdyno' order by relname",
    "select attrelid::regclass, attname, atthasdef from pg_attribute
     where attrelid::regclass::text ~ '^pgbench' and attnum > 0
     order by attrelid::regclass::text, attnum",
];

/// Page for page as well, where each table or leaf is one stream.
const PLACES: &str = "select tableoid::regclass, md5(string_agg(t::text, ';' order by ctid)),
    pg_relation_size(tableoid::regclass) from pgbench_accounts t
    group by tableoid order by tableoid::regclass::text";

/// Frozen by COPY: every page is marked.
const NOT_FROZEN: &str = "select relname from pg_class where relname ~ '^pgbench'
    and relkind = 'r' and relallvisible <> relpages";

/// Frozen by VACUUM: no row is younger than the oldest number that may still be met. Pages that a
/// range had taken and not used when it was cut off stay new.
const THAWED: &str = "select count(*) from pgbench_accounts a
    join pg_class c on c.oid = a.tableoid where age(a.xmin) < age(c.relfrozenxid)";

fn state(server: &Server, database: &str, is_streamed: bool) -> Vec<Vec<String>> {
    let mut session = server.session(database);
    let places: &[&str] = if is_streamed { &[PLACES, NOT_FROZEN] } else { &[THAWED] };
    let all = CONTENTS.into_iter().chain(places.iter().copied());
    all.map(|sql| lines(&mut session, sql)).collect()
}

fn is_phase(record: &Record, phase: PhaseName, event: PhaseEvent) -> bool {
    matches!(record, Record::Phase(p) if p.phase == phase && p.event == event)
}

/// Cut `init` off after each number of rows, go on, and compare with a load nothing cut off.
fn assert_resumes(options: &PgbenchOptions, is_streamed: bool) {
    for server in servers() {
        let whole = server.create_database("whole");
        let (outcome, records) = run(&server, &whole, &how(options), &never(), |_| {});
        assert_eq!(outcome.ending, Ending::Completed, "{records:?}");
        let expected = state(&server, &whole, is_streamed);
        let not_frozen = expected.last().expect("queries");
        assert!(not_frozen.is_empty() || *not_frozen == ["0"], "{expected:?}");

        let cut = server.create_database("cut");
        let mut resumed = 0;
        // Of the first two rounds none gets to its end, however fast the server is.
        let mut hold = None;
        for round in 0.. {
            let init = InitWork { resume: round > 0, ..how(options) };
            let stop = StopFlag::default();
            // The record after this number of others is the last one.
            let mut left = 3 + round;
            let (outcome, records) = run(&server, &cut, &init, &stop, |record| {
                left -= 1;
                if round == 0 && is_phase(record, PhaseName::Create, PhaseEvent::End) {
                    hold = Some(server.hold_accounts(&cut));
                }
                let is_last = match hold {
                    Some(_) => is_phase(record, PhaseName::Load, PhaseEvent::Begin),
                    None => round > 0 && left == 0,
                };
                if is_last {
                    stop.store(true, Ordering::Relaxed);
                }
            });
            if round == 1 {
                hold = None;
            }
            if outcome.ending == Ending::Completed {
                break;
            }
            assert_eq!(outcome.ending, Ending::Stopped, "{records:?}");
            resumed += 1;
        }
        assert!(resumed > 1, "cut off {resumed} times only");
        assert_eq!(state(&server, &cut, is_streamed), expected, "PostgreSQL {}", server.major);
    }
}

#[test]
fn a_stream_that_was_cut_off_is_begun_again_and_what_was_done_is_kept() {
    assert_resumes(&PgbenchOptions { foreign_keys: true, ..init(2) }, true);
}

#[test]
fn ranges_that_were_loaded_are_kept_and_the_others_follow() {
    assert_resumes(&PgbenchOptions { range_rows: Some(30_000), ..init(2) }, false);
}

#[test]
fn partitions_that_were_loaded_are_kept_and_the_others_follow() {
    let partitions = PgbenchOptions { partitions: 5, ..init(2) };
    assert_resumes(&partitions, true);
    let hash = PartitionMethod::Hash;
    assert_resumes(&PgbenchOptions { partition_method: hash, unlogged: true, ..partitions }, true);
}

#[test]
fn steps_that_were_done_are_not_done_again() {
    assert_resumes(&PgbenchOptions { steps: Some("dtgvpf".into()), ..init(1) }, true);
}

fn failure(records: &[Record]) -> &Failure {
    let found = records.iter().find_map(|record| match record {
        Record::Error(failure) => Some(failure),
        _ => None,
    });
    found.unwrap_or_else(|| panic!("no error in {records:?}"))
}

#[test]
fn a_load_of_other_options_is_not_gone_on_with() {
    let Some(server) = newest_server() else { return };
    let database = server.create_database("other");
    let stop = StopFlag::default();
    let mut hold = None;
    let (outcome, _) = run(&server, &database, &how(&init(1)), &stop, |record| {
        if is_phase(record, PhaseName::Create, PhaseEvent::End) {
            hold = Some(server.hold_accounts(&database));
        }
        if is_phase(record, PhaseName::Load, PhaseEvent::Begin) {
            stop.store(true, Ordering::Relaxed);
        }
    });
    drop(hold);
    assert_eq!(outcome.ending, Ending::Stopped);
    let options = PgbenchOptions { range_rows: Some(1000), ..init(1) };
    let other = InitWork { resume: true, ..how(&options) };
    let (outcome, records) = run(&server, &database, &other, &never(), |_| {});
    assert_eq!(outcome.ending, Ending::Aborted);
    assert!(failure(&records).message.contains("pgdyno: test scale=1"), "{records:?}");

    let nothing = server.create_database("nothing");
    let again = InitWork { resume: true, ..how(&init(1)) };
    let (_, records) = run(&server, &nothing, &again, &never(), |_| {});
    assert!(failure(&records).message.contains("no interrupted load"), "{records:?}");
}

#[test]
fn a_server_without_citus_is_refused_before_anything_is_dropped() {
    for server in servers() {
        let database = server.create_database("plain");
        let (outcome, _) = run(&server, &database, &how(&init(1)), &never(), |_| {});
        assert_eq!(outcome.ending, Ending::Completed);
        for (kind, text) in [
            (DistributedServer::Citus, "no extension citus"),
            (DistributedServer::Greenplum, "neither Greenplum"),
        ] {
            let distribute = Distribute { server: kind, column: DistributionColumn::Aid };
            let options = PgbenchOptions { distribute: Some(distribute), ..init(2) };
            let asked = InitWork { drop_existing: true, ..how(&options) };
            let (outcome, records) = run(&server, &database, &asked, &never(), |_| {});
            assert_eq!(outcome.ending, Ending::Aborted);
            assert!(failure(&records).message.contains(text), "{records:?}");
            assert!(failure(&records).hint.contains("coordinator"), "{records:?}");
        }
        let sql = "select count(*) from pgbench_accounts";
        assert_eq!(lines(&mut server.session(&database), sql), ["100000"]);
    }
}

/// Scales whose every row would take hours: tables and values of the scale, the first accounts.
#[derive(Debug)]
struct FirstAccounts {
    whole: PgbenchOptions,
    last: u64,
}

impl Dataset for FirstAccounts {
    fn tables(&self) -> Vec<&str> {
        self.whole.tables()
    }

    fn row_totals(&self) -> Vec<(&str, u64)> {
        self.whole.row_totals()
    }

    fn stages(&self, how: &InitWork, server: dialect::Server) -> Vec<Stage> {
        let mut stages = self.whole.stages(how, server);
        for piece in stages.iter_mut().flatten().flatten() {
            if let PieceWork::Copy(copy) = &mut piece.work
                && copy.counter == 0
            {
                let nothing = Box::new(Narrowed { rows: None, last: 0 });
                let rows = Some(std::mem::replace(&mut copy.rows, nothing));
                copy.rows = Box::new(Narrowed { rows, last: self.last });
            }
        }
        stages
    }

    fn broken_rules(&self) -> Vec<(String, &'static str)> {
        self.whole.broken_rules()
    }

    fn index_rows_max(&self) -> u64 {
        self.whole.index_rows_max()
    }
}

/// Rows up to the one whose number, its first field, is `last`.
#[derive(Debug)]
struct Narrowed {
    rows: Option<Box<dyn RowSource>>,
    last: u64,
}

impl RowSource for Narrowed {
    fn fill(&mut self, out: &mut Vec<u8>, size: usize) -> u64 {
        let mut count = 0;
        while let Some(rows) = self.rows.as_mut().filter(|_| out.len() < size) {
            let begin = out.len();
            let added = rows.fill(out, begin + 1);
            let digits = out[begin..].iter().take_while(|byte| byte.is_ascii_digit());
            let number = digits.fold(0, |number, byte| number * 10 + u64::from(byte - b'0'));
            if added == 0 || number > self.last {
                out.truncate(begin);
                self.rows = None;
                break;
            }
            count += added;
        }
        count
    }

    fn count(&self) -> u64 {
        self.rows.as_ref().map_or(0, |rows| rows.count().min(self.last))
    }
}

#[test]
fn beyond_scale_20000_account_numbers_are_bigint_from_table_to_key() {
    let Some(server) = newest_server() else { return };
    // Tables, tellers, branches and keys of the whole scale; of the accounts the first few.
    let scale = 20_001;
    for options in [
        init(scale),
        PgbenchOptions { range_rows: Some(1_000_000_000), ..init(scale) },
        PgbenchOptions { partitions: 3, partition_method: PartitionMethod::Hash, ..init(scale) },
    ] {
        let database = server.create_database("wide");
        let mut records = Vec::new();
        let how = how(&options);
        let job = job(&server, &database, &how);
        let mut out = |record| records.push(record);
        let first = FirstAccounts { whole: options, last: 250_000 };
        let outcome = dataset::load(&job, &how, &first, &never(), &mut out);
        assert_eq!(outcome.ending, Ending::Completed, "{records:?}");
        let mut session = server.session(&database);
        let types = "select distinct format_type(atttypid, null) from pg_attribute
             where attname = 'aid' and attrelid::regclass::text ~ '^pgbench'";
        assert_eq!(lines(&mut session, types), ["bigint"]);
        let counts = "select count(*), max(aid), max(bid) from pgbench_accounts";
        assert_eq!(lines(&mut session, counts), ["250000 | 250000 | 3"]);
        let sql = "select max(tid), max(bid), count(*) from pgbench_tellers";
        assert_eq!(lines(&mut session, sql), ["200010 | 20001 | 200010"]);
        drop(session);
        let sql = format!("drop database {database} with (force)");
        server.session("postgres").query(&sql).expect("it goes");
    }
}
