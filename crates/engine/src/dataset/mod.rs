//! Datasets: tables made and filled as fast as the server takes them.
//!
//! A dataset says which tables there are and cuts the work into pieces; it does no I/O. Everything
//! else is the same for all: sessions take one chain of pieces after another, and each piece enters
//! itself in a journal in the database, so that a load can go on after anything.
//!
//! How to add one: a module here that implements [`Dataset`], a variant of
//! [`DatasetOptions`](crate::contract::job::DatasetOptions), a line in [`of`] and one in [`kinds`].

mod ending;
mod journal;
mod loading;
mod opening;
mod partition_hash;
pub mod pgbench;
pub mod piece;
pub mod sql;
mod steps;
pub mod tpcc;
mod trouble;
mod worker;

use std::fmt;

pub use self::loading::{Outcome, load};

use self::piece::{Piece, Stage, pieces};
use crate::contract::job::{DatasetOptions, DistributedServer, InitWork, Job, PgbenchOptions};
use crate::contract::record::Record;
use crate::session::StopFlag;

/// One kind of tables, with the options asked for.
pub trait Dataset: fmt::Debug + Sync {
    /// Every table, in the order of the statement that drops them all.
    fn tables(&self) -> &'static [&'static str];

    /// The tables with rows and how many each will have: the progress counters, the one that is
    /// named in messages first.
    fn row_totals(&self) -> Vec<(&'static str, u64)>;

    /// The whole load, stage by stage. The first piece makes the journal ([`piece::creation`]).
    fn stages(&self, how: &InitWork, server_major: u32) -> Vec<Stage>;

    /// The options that no load can have, each as a sentence and the next step.
    fn broken_rules(&self) -> Vec<(String, &'static str)>;

    /// Rows of the largest index that one statement builds.
    fn index_rows_max(&self) -> u64;

    /// After a crash of the server the tables are empty, and so must be the journal.
    fn is_unlogged(&self) -> bool {
        false
    }

    /// The server of many nodes that the tables are for.
    fn distributed_server(&self) -> Option<DistributedServer> {
        None
    }

    /// What an interrupted load and the one that goes on must have in common, apart from the mark.
    fn title_words(&self) -> Vec<String> {
        Vec::new()
    }

    /// False if the tables may have been there before: then a load that fails leaves them.
    fn is_creator(&self) -> bool {
        true
    }
}

/// The dataset that `options` describe.
pub fn of(options: &DatasetOptions) -> Box<dyn Dataset> {
    match options {
        DatasetOptions::Pgbench(options) => Box::new(pgbench::Pgbench(options.clone())),
        DatasetOptions::Tpcc(options) => Box::new(tpcc::Tpcc(options.clone())),
    }
}

/// Every kind, by the word that names it in a job.
pub fn kinds() -> Vec<(&'static str, Box<dyn Dataset>)> {
    vec![("pgbench", of(&DatasetOptions::Pgbench(PgbenchOptions::default())))]
}

/// Do the job: create and fill the dataset it names, or go on with it. See [`load`].
pub fn run(job: &Job, how: &InitWork, stop: &StopFlag, out: &mut dyn FnMut(Record)) -> Outcome {
    load(job, how, of(&how.dataset).as_ref(), stop, out)
}

/// Every statement that the job may send to a server of this version, in the order of a load by
/// one session.
pub fn statements(how: &InitWork, server_major: u32) -> Vec<String> {
    let stages = of(&how.dataset).stages(how, server_major);
    let close = journal::CLOSE.split("; ").map(String::from);
    pieces(&stages).flat_map(Piece::statements).chain(close).collect()
}
