//! A dataset that only tests know: implementing the trait is all it takes to be loaded, counted,
//! resumed and removed.

mod common;

use std::sync::atomic::Ordering;

use common::{Server, lines, never, newest_server, servers};
use pgdyno_engine::contract::FORMAT;
use pgdyno_engine::contract::job::{ClockPair, DatasetOptions, InitWork, Job, Work};
use pgdyno_engine::contract::record::{Ending, PhaseName, Record, WarningKind};
use pgdyno_engine::dataset::piece::{Piece, RowSource, Stage};
use pgdyno_engine::dataset::sql::mark_table;
use pgdyno_engine::dataset::{self, Dataset, Outcome};
use pgdyno_engine::dialect;
use pgdyno_engine::session::StopFlag;
use serde_json::Map;

const MARK: &str = "pgdyno dataset stars";

/// Tables of stars and of the planets of each.
#[derive(Debug)]
struct Stars {
    star_count: u64,
}

impl Dataset for Stars {
    fn tables(&self) -> Vec<&str> {
        vec!["planets", "stars"]
    }

    fn row_totals(&self) -> Vec<(&str, u64)> {
        vec![("stars", self.star_count), ("planets", self.star_count * 8)]
    }

    fn stages(&self, how: &InitWork, server: dialect::Server) -> Vec<Stage> {
        let mut sql = Vec::new();
        for table in self.tables() {
            sql.push(format!("create table {table}(id int8)"));
            sql.push(mark_table(table, &how.mark));
        }
        let copy = |(counter, (table, last)): (usize, (&str, u64))| {
            let rows = Box::new(Numbers { next: 1, last });
            let key = format!("alter table {table} add primary key (id)");
            vec![
                Piece::copy_whole(table, rows, counter, server.dialect),
                Piece::transaction(&format!("key {table}"), PhaseName::Index, vec![key]),
            ]
        };
        let copies = self.row_totals().into_iter().enumerate().map(copy).collect();
        vec![vec![vec![dataset::creation(self, how, sql)]], copies]
    }

    fn broken_rules(&self) -> Vec<(String, &'static str)> {
        Vec::new()
    }

    fn index_rows_max(&self) -> u64 {
        self.star_count * 8
    }
}

#[derive(Debug)]
struct Numbers {
    next: u64,
    last: u64,
}

impl RowSource for Numbers {
    fn fill(&mut self, out: &mut Vec<u8>, size: usize) -> u64 {
        let first = self.next;
        while out.len() < size && self.next <= self.last {
            out.extend_from_slice(format!("{}\n", self.next).as_bytes());
            self.next += 1;
        }
        self.next - first
    }

    fn count(&self) -> u64 {
        self.last + 1 - self.next
    }
}

fn load(
    server: &Server,
    database: &str,
    resume: bool,
    stop: &StopFlag,
    mut seen: impl FnMut(&Record),
) -> (Outcome, Vec<Record>) {
    let how = InitWork {
        // Only the table of kinds looks at this, and the test goes past it.
        dataset: DatasetOptions { kind: "stars".into(), fields: Map::new() },
        jobs: 2,
        mark: MARK.into(),
        drop_existing: false,
        resume,
        keep_unfinished: true,
        share: None,
    };
    let job = Job {
        format: FORMAT.into(),
        clock: ClockPair::now(),
        target: server.target(database),
        work: Work::Init(how.clone()),
    };
    let mut records = Vec::new();
    let stars = Stars { star_count: 1000 };
    let outcome = dataset::load(&job, &how, &stars, stop, &mut |record| {
        seen(&record);
        records.push(record);
    });
    (outcome, records)
}

#[test]
fn a_toy_dataset_is_loaded_marked_and_counted() {
    for server in servers() {
        let database = server.create_database("toy");
        let (outcome, records) = load(&server, &database, false, &never(), |_| {});
        assert_eq!(outcome.ending, Ending::Completed, "{records:?}");
        assert_eq!(outcome.facts.rows, 9000);
        let mut told = records.iter().filter_map(|record| match record {
            Record::Progress(progress) => Some((progress.table.as_str(), progress.rows_done)),
            _ => None,
        });
        assert_eq!(told.next_back(), Some(("planets", 8000)));
        let mut session = server.session(&database);
        let counts = "select (select count(*) from stars), (select max(id) from planets)";
        assert_eq!(lines(&mut session, counts), ["1000 | 8000"]);
        let marks = "select distinct obj_description(oid, 'pg_class') from pg_class
            where relname in ('stars', 'planets') or relname = 'pgdyno_load'";
        assert_eq!(lines(&mut session, marks), [MARK]);
    }
}

#[test]
fn a_toy_dataset_that_was_cut_off_goes_on() {
    let Some(server) = newest_server() else { return };
    let database = server.create_database("toy_cut");
    let stop = StopFlag::default();
    let (outcome, _) = load(&server, &database, false, &stop, |record| {
        if matches!(record, Record::Phase(phase) if phase.phase == PhaseName::Load) {
            stop.store(true, Ordering::Relaxed);
        }
    });
    if outcome.ending != Ending::Completed {
        let (outcome, records) = load(&server, &database, true, &never(), |_| {});
        assert_eq!(outcome.ending, Ending::Completed, "{records:?}");
        let told = records.iter().find_map(|record| match record {
            Record::Warning(notice) if notice.kind == WarningKind::Resumed => Some(&notice.message),
            _ => None,
        });
        assert!(told.expect("a warning").contains("of 1000 rows of stars"), "{told:?}");
    }
    let mut session = server.session(&database);
    assert_eq!(lines(&mut session, "select count(*) from planets"), ["8000"]);
}
