//! Loading that is stopped, refused or cut off: its messages, and what is left behind.

#[path = "../../engine/tests/common/mod.rs"]
mod common;

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;

use common::{Server, bin_dirs, lines, never, newest_server, servers, until};
use pgdyno_engine::contract::FORMAT;
use pgdyno_engine::contract::job::{ClockPair, InitWork, Job, Target, Work};
use pgdyno_engine::contract::record::{
    Ending, ErrorKind, Failure, PhaseEvent, PhaseName, Record, WarningKind,
};
use pgdyno_engine::dataset::{self, DatasetKind, Options, Outcome};
use pgdyno_engine::session::StopFlag;
use pgdyno_pgbench::dataset::PgbenchOptions;

const KINDS: &[DatasetKind] = &[DatasetKind::of::<PgbenchOptions>()];

/// More rows than fit into the buffers on the way to a server that takes no more of them.
const LONG_SCALE: u32 = 10;

fn init(scale: u32) -> InitWork {
    of(PgbenchOptions { scale, ..PgbenchOptions::default() })
}

fn in_tablespace(name: &str, scale: u32) -> InitWork {
    let tablespace = Some(name.into());
    of(PgbenchOptions { scale, tablespace, ..PgbenchOptions::default() })
}

fn of(options: PgbenchOptions) -> InitWork {
    InitWork {
        dataset: options.in_job(),
        jobs: 2,
        mark: "pgdyno: test".into(),
        drop_existing: false,
        resume: false,
        keep_unfinished: false,
        share: None,
    }
}

/// Run the job; `seen` sees each record when it is written.
fn run(
    target: Target,
    init: &InitWork,
    stop: &StopFlag,
    mut seen: impl FnMut(&Record),
) -> (Outcome, Vec<Record>) {
    let job = Job {
        format: FORMAT.into(),
        clock: ClockPair::now(),
        target,
        work: Work::Init(init.clone()),
    };
    let mut records = Vec::new();
    let tables = dataset::read(&init.dataset, KINDS).expect("a kind of dataset");
    let outcome = dataset::load(&job, init, tables.as_ref(), stop, &mut |record| {
        seen(&record);
        records.push(record);
    });
    (outcome, records)
}

fn failure(records: &[Record]) -> &Failure {
    let failures: Vec<_> = records
        .iter()
        .filter_map(|record| match record {
            Record::Error(failure) => Some(failure),
            _ => None,
        })
        .collect();
    assert_eq!(failures.len(), 1, "{records:?}");
    failures[0]
}

fn warning_kinds(records: &[Record]) -> Vec<WarningKind> {
    let mut kinds = Vec::new();
    for record in records {
        if let Record::Warning(notice) = record {
            kinds.push(notice.kind);
        }
    }
    kinds
}

fn begins(record: &Record, phase: PhaseName) -> bool {
    matches!(record, Record::Phase(p) if p.phase == phase && p.event == PhaseEvent::Begin)
}

fn ends(record: &Record, phase: PhaseName) -> bool {
    matches!(record, Record::Phase(p) if p.phase == phase && p.event == PhaseEvent::End)
}

fn table_count(server: &Server, database: &str) -> String {
    let sql = "select count(*) from pg_class where relname like 'pgbench%'";
    lines(&mut server.session(database), sql).remove(0)
}

/// The loading's sessions end with it; their backends do so a moment later.
fn await_no_backend(server: &Server, database: &str) {
    let sql = format!("select pid, query from pg_stat_activity where datname = '{database}'");
    let mut session = server.session("postgres");
    let mut left = || lines(&mut session, &sql);
    until(&|| format!("a backend of {database} is left"), || left().is_empty());
}

#[test]
fn progress_ends_at_the_number_of_rows_and_steps_are_timed() {
    let Some(server) = newest_server() else { return };
    let database = server.create_database("progress");
    let (outcome, records) = run(server.target(&database), &init(1), &never(), |_| {});
    assert_eq!(outcome.ending, Ending::Completed);
    assert_eq!(outcome.facts.rows, 100_011);
    let last = records.iter().rev().find_map(|record| match record {
        Record::Progress(p) if p.table == "pgbench_accounts" => Some((p.rows_done, p.rows_total)),
        _ => None,
    });
    assert_eq!(last, Some((100_000, 100_000)));
    let phases: Vec<_> = outcome.facts.steps.iter().map(|span| span.phase).collect();
    use PhaseName::{Create, Index, Load, Vacuum};
    assert_eq!(phases, [Create, Load, Vacuum, Index]);
    assert!(outcome.facts.steps.iter().all(|span| span.began_ns <= span.ended_ns));
}

#[test]
fn tables_that_are_there_are_kept_unless_dropping_is_ordered() {
    for server in servers() {
        let database = server.create_database("existing");
        server.session(&database).query("create table pgbench_tellers (mine int)").expect("ddl");
        let (outcome, records) = run(server.target(&database), &init(1), &never(), |_| {});
        assert_eq!(outcome.ending, Ending::Aborted);
        let failure = failure(&records);
        assert_eq!(failure.kind, ErrorKind::Init);
        assert_eq!(failure.sqlstate.as_deref(), Some("42P07"));
        assert!(failure.message.contains("\"pgbench_tellers\" already exists"), "{failure:?}");
        assert!(failure.hint.contains("drop"), "{failure:?}");
        assert_eq!(table_count(&server, &database), "1");

        let init = InitWork { drop_existing: true, ..init(1) };
        let (outcome, _) = run(server.target(&database), &init, &never(), |_| {});
        assert_eq!(outcome.ending, Ending::Completed);
        let sql = "select count(*) from pgbench_tellers where tid > 0";
        assert_eq!(lines(&mut server.session(&database), sql), ["10"]);
    }
}

#[test]
fn stopping_in_any_step_leaves_no_table_and_is_no_error() {
    use PhaseName::{Create, Index, Load, Vacuum};
    for server in servers() {
        for phase in [Create, Load, Vacuum, Index] {
            let database = server.create_database("stopped");
            let stop = StopFlag::default();
            let init = init(LONG_SCALE);
            let mut hold = None;
            let (outcome, records) = run(server.target(&database), &init, &stop, |record| {
                if ends(record, Create) && phase != Create {
                    hold = Some(server.hold_accounts(&database));
                }
                if begins(record, phase) {
                    stop.store(true, Ordering::Relaxed);
                }
            });
            drop(hold);
            assert_eq!(outcome.ending, Ending::Stopped, "{records:?}");
            assert!(records.iter().all(|record| !matches!(record, Record::Error(_))));
            assert_eq!(table_count(&server, &database), "0");
            assert!(outcome.facts.rows < u64::from(LONG_SCALE) * 100_000);
            if phase != Create {
                assert_eq!(warning_kinds(&records), [WarningKind::DatasetRemoved]);
            }
            await_no_backend(&server, &database);
        }
    }
}

#[test]
fn a_job_that_fails_to_create_keeps_the_tables_it_was_to_replace() {
    let Some(server) = newest_server() else { return };
    let database = server.create_database("kept");
    server.session(&database).query("create table pgbench_history (mine int)").expect("ddl");
    let init = InitWork { drop_existing: true, ..in_tablespace("nowhere", 1) };
    let (outcome, records) = run(server.target(&database), &init, &never(), |_| {});
    assert_eq!(outcome.ending, Ending::Aborted);
    assert_eq!(failure(&records).sqlstate.as_deref(), Some("42704"));
    assert_eq!(table_count(&server, &database), "1");
}

#[test]
fn a_failure_in_a_late_step_removes_the_dataset() {
    let Some(server) = newest_server() else { return };
    let database = server.create_database("late");
    let init = of(PgbenchOptions {
        scale: 1,
        index_tablespace: Some("nowhere".into()),
        ..PgbenchOptions::default()
    });
    let (outcome, records) = run(server.target(&database), &init, &never(), |_| {});
    assert_eq!(outcome.ending, Ending::Aborted);
    assert!(failure(&records).message.contains("tablespace \"nowhere\" does not exist"));
    assert_eq!(warning_kinds(&records), [WarningKind::DatasetRemoved]);
    assert_eq!(table_count(&server, &database), "0");
}

#[test]
fn a_killed_server_is_reported_as_a_lost_connection() {
    for bin in bin_dirs() {
        let server = Server::start(&bin, "");
        let mut hold = None;
        let (outcome, records) =
            run(server.target("postgres"), &init(LONG_SCALE), &never(), |record| {
                if hold.is_none() && ends(record, PhaseName::Create) {
                    hold = Some(server.hold_accounts("postgres"));
                }
                if begins(record, PhaseName::Load) {
                    server.kill();
                }
            });
        assert_eq!(outcome.ending, Ending::Aborted);
        let failure = failure(&records);
        // The backend has time to say that it is shut down, or it has not.
        let is_shutdown = failure.sqlstate.as_deref() == Some("57P02");
        assert!(failure.kind == ErrorKind::ConnectionLost || is_shutdown, "{failure:?}");
        // Several sessions work; the first to notice says at which table it was.
        let (step, table) = failure.message.split_once(" pgbench_").unwrap_or_default();
        let steps = ["copy", "vacuum analyze", "alter table"];
        assert!(steps.contains(&step) && !table.is_empty(), "{failure:?}");
        assert!(!failure.hint.is_empty());
        assert_eq!(warning_kinds(&records), [WarningKind::DatasetLeft]);
    }
}

#[test]
fn nobody_listening_is_a_connect_error() {
    let target = Target {
        hosts: vec![pgdyno_engine::contract::job::HostPort::new("/nonexistent", 5432)],
        user: "nobody".into(),
        database: "nothing".into(),
        password: None,
        application_name: "pgdyno/test".into(),
        sslmode: Default::default(),
        tls: Default::default(),
        options: Default::default(),
        reach: Default::default(),
        password_command: None,
    };
    let (outcome, records) = run(target, &init(1), &never(), |_| {});
    assert_eq!(outcome.ending, Ending::Aborted);
    assert_eq!(failure(&records).kind, ErrorKind::Connect);
    assert!(failure(&records).message.contains("/nonexistent/.s.PGSQL.5432"));
}

#[test]
fn a_role_without_the_right_to_create_is_told_which_grant_is_missing() {
    let Some(server) = newest_server() else { return };
    let database = server.create_database("rights");
    server.session(&database).query("create role guest login").expect("a role");
    let target = Target { user: "guest".into(), ..server.target(&database) };
    let (_, records) = run(target, &init(1), &never(), |_| {});
    assert_eq!(failure(&records).sqlstate.as_deref(), Some("42501"));
    assert!(failure(&records).hint.contains("GRANT CREATE ON SCHEMA"));
}

/// A folder of a few megabytes next to the server's.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// `None` when this user may not mount.
    fn mount(server: &Server) -> Option<SmallDisk> {
        let disk = SmallDisk(format!("{}-small", server.socket_dir()).into());
        fs::create_dir(&disk.0).expect("a folder to mount on");
        let mount = ["-t", "tmpfs", "-o", "size=4m,mode=0777", "tmpfs"];
        let status = Command::new("mount").args(mount).arg(&disk.0).status().ok()?;
        if !status.success() {
            return None;
        }
        let owner = fs::metadata(server.socket_dir()).expect("the server's folder").uid();
        fs::create_dir(disk.space()).expect("a folder on the disk");
        chown(disk.space(), Some(owner), None).expect("the folder given to the server's user");
        Some(disk)
    }

    fn space(&self) -> PathBuf {
        self.0.join("space")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).stderr(Stdio::null()).status();
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn a_full_disk_is_said_in_the_servers_words_and_what_was_begun_is_removed() {
    for bin in bin_dirs() {
        let server = Server::start(&bin, "");
        let Some(disk) = SmallDisk::mount(&server) else {
            eprintln!("SKIPPED: this user may not mount a small disk");
            return;
        };
        let sql = format!("create tablespace small location '{}'", disk.space().display());
        server.session("postgres").query(&sql).expect("a tablespace");
        let init = in_tablespace("small", 2);
        let (outcome, records) = run(server.target("postgres"), &init, &never(), |_| {});
        assert_eq!(outcome.ending, Ending::Aborted);
        let failure = failure(&records);
        assert_eq!(failure.sqlstate.as_deref(), Some("53100"), "{failure:?}");
        assert!(failure.message.contains("No space left on device"), "{failure:?}");
        assert!(failure.hint.contains("smaller dataset"), "{failure:?}");
        assert_eq!(warning_kinds(&records), [WarningKind::DatasetRemoved]);
        assert_eq!(table_count(&server, "postgres"), "0");
        // Subtle: nothing can be unmounted while the server has files open there.
        drop(server);
        drop(disk);
    }
}
