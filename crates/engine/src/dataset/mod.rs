//! Datasets: creates and fills tables as fast as the server accepts rows.
//!
//! A [`Dataset`] names its tables and divides the load into pieces of work. It does no I/O. The
//! rest is the same for all datasets: sessions take one chain of pieces after another, and each
//! piece writes its entry into a journal in the database. So a load can continue after any
//! interruption.
//!
//! How to add one: a type that implements [`Dataset`] and [`Options`], and a line in the table of
//! the executable.

mod ending;
mod journal;
mod kind;
mod load_session;
mod loading;
mod opening;
pub mod partition_hash;
pub mod piece;
pub mod sql;
mod steps;
mod trouble;

use std::fmt;

pub use self::journal::Done;
pub use self::kind::{DatasetKind, Options, describe, read};
pub use self::loading::{Outcome, load};

use self::piece::{Piece, Stage, pieces};
use crate::contract::job::{DistributedServer, InitWork};
use crate::contract::record::PhaseName;
use crate::dialect::Server;

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

    /// The whole load, stage by stage. The first piece creates the journal ([`creation`]).
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

/// Return the first piece of a load that creates its tables: drop the tables that are replaced,
/// create the journal, then run `tables`.
///
/// Args: `tables`, statements that create the tables and mark them, so that both are one
/// transaction.
pub fn creation(dataset: &dyn Dataset, how: &InitWork, tables: Vec<String>) -> Piece {
    // Subtle: a load that resumes has this piece only if a crash of the server emptied the journal.
    let is_replacing = how.drop_existing || how.resume;
    let drop = is_replacing.then(|| dataset.removal());
    let all = drop.into_iter().chain(create_journal(dataset, how)).chain(tables);
    Piece::transaction("create", PhaseName::Create, all.collect())
}

/// Return the statements that create the journal of a new load.
pub fn create_journal(dataset: &dyn Dataset, how: &InitWork) -> Vec<String> {
    journal::create(dataset.is_unlogged(), &title(dataset, how))
}

/// The text of the journal's comment: the mark of the tables, and the options of the load.
fn title(dataset: &dyn Dataset, how: &InitWork) -> String {
    [vec![how.mark.clone()], dataset.title_words()].concat().join(" ")
}

/// Return all statements that a job may send to a server of this version, in the order of a load by
/// one session.
pub fn statements(dataset: &dyn Dataset, how: &InitWork, server_major: u32) -> Vec<String> {
    let server = Server::assumed(server_major, dataset.distributed_server());
    let stages = dataset.stages(how, server);
    let close = journal::CLOSE.split("; ").map(String::from);
    pieces(&stages).flat_map(Piece::statements).chain(close).collect()
}
