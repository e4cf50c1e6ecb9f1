//! A piece of a load: one transaction of one session, with its entry in the journal.

use std::fmt;

pub use pgdyno_wire::ServerError;

use super::journal::{self, Done};
use crate::contract::job::LoadShare;
use crate::contract::record::PhaseName;
use crate::dialect::Dialect;

/// One transaction with its name in the journal. VACUUM and similar statements are not in one.
#[derive(Debug)]
pub struct Piece {
    /// Unique within a load.
    pub name: String,
    pub phase: PhaseName,
    pub work: Work,
}

#[derive(Debug)]
pub enum Work {
    Copy(Copy),
    /// Statements of one transaction.
    Transaction(Vec<String>),
    /// A statement that cannot run in a transaction block, such as VACUUM.
    Alone(String),
}

/// A COPY, with the statements before and after it in its transaction.
#[derive(Debug)]
pub struct Copy {
    pub before: Vec<String>,
    pub copy: String,
    pub after: Vec<String>,
    pub table: String,
    pub rows: Box<dyn RowSource>,
    /// Index into `Dataset::row_totals`.
    pub counter: usize,
    /// What is copied instead of rows that the server refuses; None: the load ends.
    pub otherwise: Option<Box<dyn Otherwise>>,
}

/// What a COPY tries after the server refused its rows.
pub trait Otherwise: fmt::Debug + Send {
    /// The next attempt after `error`; None: the load ends with this error.
    fn after(&mut self, error: &ServerError) -> Option<Copy>;
}

/// Consecutive rows of one table in COPY's text format, written into one buffer after another.
pub trait RowSource: fmt::Debug + Send {
    /// Append whole rows to `out` until it has `size` bytes or no row is left.
    ///
    /// Returns: the number of rows that were added; 0 if no row is left.
    ///
    /// Limits: the last row may end a little after `size`.
    fn fill(&mut self, out: &mut Vec<u8>, size: usize) -> u64;

    /// The number of rows that are left.
    fn count(&self) -> u64;
}

/// Pieces that one session does, in this order.
pub type Chain = Vec<Piece>;

/// Chains that several sessions may do at the same time.
pub type Stage = Vec<Chain>;

impl Piece {
    pub fn transaction(name: &str, phase: PhaseName, sql: Vec<String>) -> Piece {
        Piece { name: name.into(), phase, work: Work::Transaction(sql) }
    }

    pub fn alone(name: &str, phase: PhaseName, sql: String) -> Piece {
        Piece { name: name.into(), phase, work: Work::Alone(sql) }
    }

    /// COPY into a table that nothing else fills. TRUNCATE in the same transaction allows FREEZE,
    /// and with `wal_level = minimal` the server writes no WAL for the rows. A server that cannot
    /// freeze rows gets a plain COPY.
    pub fn copy_whole(
        table: &str,
        rows: Box<dyn RowSource>,
        counter: usize,
        dialect: &Dialect,
    ) -> Piece {
        let (before, options) = match dialect.copy_freezes {
            true => (vec![format!("truncate {table}")], " with (freeze on)"),
            false => (Vec::new(), ""),
        };
        let work = Copy {
            before,
            copy: format!("copy {table} from stdin{options}"),
            after: Vec::new(),
            table: table.into(),
            rows,
            counter,
            otherwise: None,
        };
        Piece { name: format!("copy {table}"), phase: PhaseName::Load, work: Work::Copy(work) }
    }

    /// All statements of the piece, the last one for the journal.
    pub fn statements(&self) -> Vec<String> {
        let work = match &self.work {
            Work::Copy(copy) => copy.statements(),
            Work::Transaction(sql) => sql.clone(),
            Work::Alone(sql) => vec![sql.clone()],
        };
        [work, vec![self.entry()]].concat()
    }

    /// The statement that adds the piece to the journal.
    pub(super) fn entry(&self) -> String {
        let row_count = match &self.work {
            Work::Copy(copy) => copy.rows.count(),
            _ => 0,
        };
        journal::entry(&self.name, row_count)
    }
}

impl Copy {
    pub(super) fn statements(&self) -> Vec<String> {
        [self.before.as_slice(), std::slice::from_ref(&self.copy), &self.after].concat()
    }
}

pub fn pieces(stages: &[Stage]) -> impl Iterator<Item = &Piece> {
    stages.iter().flatten().flatten()
}

/// What one engine does of a stage. It begins after the first `after` pieces of the load, all those
/// of the stages before.
#[derive(Debug)]
pub struct Turn {
    pub after: usize,
    pub stage: Stage,
}

/// Return what is left of each stage: without the pieces that are done, without the chains of other
/// engines, and without stages that have no chain then.
pub fn turns(stages: Vec<Stage>, done: &Done, share: Option<LoadShare>) -> Vec<Turn> {
    let mut after = 0;
    let mut turn = |stage: Stage| {
        let turn_after = after;
        after += stage.iter().flatten().count();
        let left = |mut chain: Chain| {
            chain.retain(|piece| !done.contains_key(&piece.name));
            chain
        };
        let is_own = |number: usize| {
            share.is_none_or(|s| number % usize::from(s.count) == usize::from(s.place))
        };
        let own = stage.into_iter().enumerate().filter(|(number, _)| is_own(*number));
        let stage = own.map(|(_, chain)| left(chain)).filter(|chain| !chain.is_empty()).collect();
        Turn { after: turn_after, stage }
    };
    let turns: Vec<Turn> = stages.into_iter().map(&mut turn).collect();
    turns.into_iter().filter(|turn| !turn.stage.is_empty()).collect()
}
