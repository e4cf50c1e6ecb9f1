//! `-i`: does the steps of initialization, one after another, in the order of `-I`.
//!
//! As in pgbench, one transaction fills all tables. There is one difference: each leaf of a
//! partitioned table has a separate COPY, so that its rows are frozen, too.

use std::io::IsTerminal;
use std::time::Instant;

use super::options::Options;
use super::password;
use super::say::{Fault, fault, session_error};
use crate::dataset::{PartitionMethod, PgbenchOptions};
use crate::dataset::{Rows, account_rows, ddl, row_totals};
use pgdyno_engine::contract::job::Target;
use pgdyno_engine::dataset::piece::RowSource;
use pgdyno_engine::dataset::sql::drop_tables;
use pgdyno_engine::dialect::POSTGRESQL;
use pgdyno_engine::session::{Session, SessionError, StopFlag};

/// Time between two progress lines with `-q`.
const QUIET_SECONDS: f64 = 5.0;
const LOUD_ROWS: u64 = 100_000;

/// Create and fill the tables, and report each step with its time on standard error.
pub(super) fn run(options: &Options, target: &mut Target) -> Result<(), Fault> {
    let stop = StopFlag::default();
    // Without the handler, the statement would run on after an interrupt.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGINT, stop.clone());
    let session = password::connect(target, options.password_file.as_deref(), &stop)
        .map_err(|fault| fault.and("could not create connection for initialization"))?;
    let mut init = Init { session, work: work(options), is_quiet: options.is_quiet };
    let mut done = Vec::new();
    let mut total_s = 0.0;
    for step in options.init_steps.chars().filter(|step| *step != ' ') {
        let began = Instant::now();
        let name = init.step(step)?;
        let seconds = began.elapsed().as_secs_f64();
        done.push(format!("{name} {seconds:.2} s"));
        total_s += seconds;
    }
    eprintln!("done in {total_s:.2} s ({}).", done.join(", "));
    Ok(())
}

fn work(options: &Options) -> PgbenchOptions {
    PgbenchOptions {
        scale: options.scale,
        fillfactor: Some(options.fillfactor),
        unlogged: options.unlogged,
        foreign_keys: options.foreign_keys,
        partitions: options.partitions,
        partition_method: options.partition_method.unwrap_or(PartitionMethod::Range),
        tablespace: options.tablespace.clone(),
        index_tablespace: options.index_tablespace.clone(),
        ..PgbenchOptions::default()
    }
}

struct Init {
    session: Session,
    work: PgbenchOptions,
    is_quiet: bool,
}

impl Init {
    /// Do one step. Returns its name in the last line.
    fn step(&mut self, step: char) -> Result<&'static str, Fault> {
        let (announcement, name) = match step {
            'd' => ("dropping old tables...", "drop tables"),
            't' => ("creating tables...", "create tables"),
            'g' => ("generating data (client-side)...", "client-side generate"),
            'G' => ("generating data (server-side)...", "server-side generate"),
            'v' => ("vacuuming...", "vacuum"),
            'p' => ("creating primary keys...", "primary keys"),
            _ => ("creating foreign keys...", "foreign keys"),
        };
        eprintln!("{announcement}");
        match step {
            'd' => self.execute(&drop_tables(&ddl::ALL))?,
            't' => self.create()?,
            'g' => self.generate()?,
            'G' => self.generate_on_server()?,
            'v' => self.execute_all(ddl::TABLES.map(|table| format!("vacuum analyze {table}")))?,
            'p' => self.execute_all(
                ddl::KEYS.map(|(table, column)| ddl::add_primary_key(&self.work, table, column)),
            )?,
            _ => self.execute_all(ddl::FOREIGN_KEYS.map(String::from))?,
        }
        Ok(name)
    }

    fn create(&mut self) -> Result<(), Fault> {
        self.execute_all(ddl::create_tables(&self.work, &POSTGRESQL))?;
        if self.work.partitions > 0 {
            eprintln!("creating {} partitions...", self.work.partitions);
        }
        self.execute_all(ddl::create_partitions(&self.work, &POSTGRESQL))
    }

    fn generate(&mut self) -> Result<(), Fault> {
        self.execute("begin")?;
        self.execute(ddl::TRUNCATE_TABLES)?;
        let [accounts, tellers, branches] = row_totals(&self.work);
        self.copy("pgbench_branches", branches, vec![Rows::branches(self.work.scale)], &[])?;
        self.copy("pgbench_tellers", tellers, vec![Rows::tellers(self.work.scale)], &[])?;
        let (leaves, rows): (Vec<_>, Vec<_>) = account_rows(&self.work).into_iter().unzip();
        self.copy("pgbench_accounts", accounts, rows, &leaves)?;
        self.execute("commit")
    }

    fn generate_on_server(&mut self) -> Result<(), Fault> {
        let [accounts, tellers, branches] = ddl::insert_rows(&self.work);
        let truncate = ddl::TRUNCATE_TABLES.into();
        self.execute_all(["begin".into(), truncate, branches, tellers, accounts, "commit".into()])
    }

    /// Fill `table`, or its `leaves`, one for each of `rows`.
    fn copy(
        &mut self,
        table: &str,
        total: u64,
        rows: Vec<Rows>,
        leaves: &[String],
    ) -> Result<(), Fault> {
        // Older servers would freeze the rows, but not mark their pages as visible.
        let freeze = if self.session.server_major() >= 14 { " with (freeze on)" } else { "" };
        let mut progress = Progress::new(table, total, self.is_quiet);
        for (index, mut rows) in rows.into_iter().enumerate() {
            let into = leaves.get(index).map_or(table, String::as_str);
            let sql = format!("copy {into} from stdin{freeze}");
            let sent = std::cell::Cell::new(0);
            let fill = |message: &mut Vec<u8>, size| sent.set(rows.fill(message, size));
            let copied = self.session.copy_in(&sql, fill, |_| progress.add(sent.get()));
            copied.map_err(|error| query_failed(&error, &sql))?;
        }
        progress.end();
        Ok(())
    }

    fn execute_all(&mut self, all: impl IntoIterator<Item = String>) -> Result<(), Fault> {
        all.into_iter().try_for_each(|sql| self.execute(&sql))
    }

    fn execute(&mut self, sql: &str) -> Result<(), Fault> {
        let result = self.session.query(sql);
        for notice in self.session.take_notices() {
            eprintln!("{}", super::say::server_error(&notice, sql));
        }
        result.map(|_| ()).map_err(|error| query_failed(&error, sql))
    }
}

fn query_failed(failure: &SessionError, sql: &str) -> Fault {
    if matches!(failure, SessionError::Stopped) {
        eprintln!("Cancel request sent");
        let said = "ERROR:  canceling statement due to user request";
        return fault(format!("query failed: {said}")).detail(format!("Query was: {sql}"));
    }
    fault(format!("query failed: {}", session_error(failure, sql)))
        .detail(format!("Query was: {sql}"))
}

/// The progress lines of one table.
struct Progress<'a> {
    table: &'a str,
    total: u64,
    is_quiet: bool,
    began: Instant,
    done: u64,
    last_line_length: usize,
    /// Number of intervals of `QUIET_SECONDS` that were reported.
    interval: f64,
    is_terminal: bool,
}

impl Progress<'_> {
    fn new(table: &str, total: u64, is_quiet: bool) -> Progress<'_> {
        let is_terminal = std::io::stderr().is_terminal();
        Progress {
            table,
            total,
            is_quiet,
            began: Instant::now(),
            done: 0,
            last_line_length: 0,
            interval: 1.0,
            is_terminal,
        }
    }

    fn add(&mut self, rows: u64) {
        let before = self.done;
        self.done += rows;
        if self.is_quiet {
            let elapsed_s = self.began.elapsed().as_secs_f64();
            let is_end = self.done == self.total && self.total.is_multiple_of(100);
            if is_end || elapsed_s >= self.interval * QUIET_SECONDS {
                self.tell(self.done);
                self.interval = (elapsed_s / QUIET_SECONDS).ceil();
            }
            return;
        }
        for step in before / LOUD_ROWS + 1..=self.done / LOUD_ROWS {
            self.tell(step * LOUD_ROWS);
        }
    }

    fn tell(&mut self, rows: u64) {
        let elapsed_s = self.began.elapsed().as_secs_f64();
        let remaining_s = (self.total - rows) as f64 * elapsed_s / rows as f64;
        let Progress { table, total, .. } = self;
        let percent = rows * 100 / *total;
        let line = format!(
            "{rows} of {total} tuples ({percent}%) of {table} done \
             (elapsed {elapsed_s:.2} s, remaining {remaining_s:.2} s)"
        );
        let end = if self.is_terminal { '\r' } else { '\n' };
        // Spaces overwrite the rest of a longer line before this one.
        eprint!("{line:<width$}{end}", width = self.last_line_length);
        self.last_line_length = line.len();
    }

    fn end(&self) {
        if self.is_terminal && self.last_line_length > 0 {
            eprint!("{:width$}\r", "", width = self.last_line_length);
        }
    }
}
