//! Datasets: creates and fills tables as fast as the server accepts rows.
//!
//! A [`Dataset`] names its tables and divides the load into pieces of work. It does no I/O. The
//! rest is the same for all datasets: sessions take one chain of pieces after another, and each
//! piece writes its entry into a journal in the database. So a load can continue after any
//! interruption.
//!
//! How to add one: a module here that implements [`Dataset`], a variant of
//! [`DatasetOptions`](crate::contract::job::DatasetOptions), a line in [`of`] and one in [`kinds`].

pub mod captured;
mod ending;
mod journal;
pub mod ledger;
mod load_session;
mod loading;
mod opening;
mod partition_hash;
pub mod pgbench;
pub mod piece;
pub mod sql;
mod steps;
pub mod tpcc;
mod trouble;

use std::fmt;

pub use self::loading::{Outcome, load};

use self::piece::{Piece, Stage, pieces};
use crate::contract::job::{
    CapturedOptions, DatasetOptions, DistributedServer, InitWork, Job, LedgerOptions,
    PgbenchOptions, TpccOptions,
};
use crate::contract::record::Record;
use crate::dialect::Server;
use crate::session::StopFlag;

/// One kind of tables, with the options asked for.
pub trait Dataset: fmt::Debug + Sync {
    /// All tables, in the order of the statement that drops them.
    fn tables(&self) -> Vec<&str>;

    /// The tables that get rows, each with the number of rows that it will have. Progress is
    /// counted for these. Messages name the first one.
    fn row_totals(&self) -> Vec<(&str, u64)>;

    /// The statements, as one text, that remove what the load creates.
    fn removal(&self) -> String {
        sql::drop_tables(&self.tables())
    }

    /// The whole load, stage by stage. The first piece creates the journal ([`piece::creation`]).
    ///
    /// Args: `server`, its version and what it does differently from PostgreSQL.
    fn stages(&self, how: &InitWork, server: Server) -> Vec<Stage>;

    /// The options that break a rule: for each a message and a hint.
    fn broken_rules(&self) -> Vec<(String, &'static str)>;

    /// Number of rows in the largest index that one statement builds.
    fn index_rows_max(&self) -> u64;

    /// True if the tables are unlogged. After a crash of the server they are empty, and the journal
    /// must be empty, too.
    fn is_unlogged(&self) -> bool {
        false
    }

    /// The distributed server for which the tables are made; None for plain PostgreSQL.
    fn distributed_server(&self) -> Option<DistributedServer> {
        None
    }

    /// The options that an interrupted load and its continuation must have in common, in addition
    /// to the mark.
    fn title_words(&self) -> Vec<String> {
        Vec::new()
    }

    /// False if the tables may exist before the load. A load that fails then does not drop them.
    fn is_creator(&self) -> bool {
        true
    }
}

/// Return the dataset that `options` describe.
pub fn of(options: &DatasetOptions) -> Box<dyn Dataset> {
    match options {
        DatasetOptions::Pgbench(options) => Box::new(pgbench::Pgbench(options.clone())),
        DatasetOptions::Tpcc(options) => Box::new(tpcc::Tpcc(options.clone())),
        DatasetOptions::Ledger(options) => Box::new(ledger::Ledger(options.clone())),
        DatasetOptions::Capture(options) => Box::new(captured::Captured(options.clone())),
    }
}

/// The kinds of datasets that `facts` lists: the word that names each of them in a job, and the
/// dataset with default options.
pub fn kinds() -> Vec<(&'static str, Box<dyn Dataset>)> {
    vec![
        ("pgbench", of(&DatasetOptions::Pgbench(PgbenchOptions::default()))),
        ("tpcc", of(&DatasetOptions::Tpcc(TpccOptions::default()))),
        ("ledger", of(&DatasetOptions::Ledger(LedgerOptions::default()))),
        ("capture", of(&DatasetOptions::Capture(CapturedOptions::default()))),
    ]
}

/// Create and fill the dataset of the job, or continue an interrupted load. See [`load`].
pub fn run(job: &Job, how: &InitWork, stop: &StopFlag, out: &mut dyn FnMut(Record)) -> Outcome {
    load(job, how, of(&how.dataset).as_ref(), stop, out)
}

/// Return all statements that the job may send to a server of this version, in the order of a load
/// by one session.
pub fn statements(how: &InitWork, server_major: u32) -> Vec<String> {
    let dataset = of(&how.dataset);
    let server = Server::assumed(server_major, dataset.distributed_server());
    let stages = dataset.stages(how, server);
    let close = journal::CLOSE.split("; ").map(String::from);
    pieces(&stages).flat_map(Piece::statements).chain(close).collect()
}
