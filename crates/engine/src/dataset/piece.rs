//! A piece of a load: what one session does in one go, and how it is entered in the journal.

use super::journal;
use super::rows::Rows;
use crate::contract::record::PhaseName;

#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub name: String,
    pub phase: PhaseName,
    pub work: Work,
}

#[derive(Clone, Debug)]
pub(super) enum Work {
    Copy(Copy),
    /// Statements of one transaction.
    Transaction(Vec<String>),
    /// A statement that refuses to be part of a transaction.
    Alone(String),
}

/// A COPY with what comes before and after it in its transaction.
#[derive(Clone, Debug)]
pub(super) struct Copy {
    pub before: Vec<String>,
    pub copy: String,
    pub after: Vec<String>,
    pub table: String,
    pub rows: Rows,
    /// Index into `FILLED`.
    pub counter: usize,
}

/// Pieces that one session does in this order.
pub(super) type Chain = Vec<Piece>;

/// Chains for several sessions.
pub(super) type Stage = Vec<Chain>;

impl Piece {
    pub(super) fn transaction(name: &str, phase: PhaseName, sql: Vec<String>) -> Piece {
        Piece { name: name.into(), phase, work: Work::Transaction(sql) }
    }

    pub(super) fn alone(name: &str, phase: PhaseName, sql: String) -> Piece {
        Piece { name: name.into(), phase, work: Work::Alone(sql) }
    }

    pub(super) fn statements(&self) -> Vec<String> {
        let work = match &self.work {
            Work::Copy(copy) => copy.statements(),
            Work::Transaction(sql) => sql.clone(),
            Work::Alone(sql) => vec![sql.clone()],
        };
        [work, vec![self.entry()]].concat()
    }

    /// What enters the piece in the journal.
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

pub(super) fn pieces(stages: &[Stage]) -> impl Iterator<Item = &Piece> {
    stages.iter().flatten().flatten()
}
