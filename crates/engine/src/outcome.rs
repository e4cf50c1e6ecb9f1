//! The ways in which a transaction ends, and the reasons for which a try of it stops.

use pgdyno_wire::SqlState;

use crate::contract::record::WarningKind;

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Completed,
    /// Completed, and rolled back by its program on purpose.
    RolledBack,
    Failed(FailureCode),
}

impl Outcome {
    /// True if the transaction did its work, whether or not it kept its changes.
    pub fn is_completed(self) -> bool {
        matches!(self, Outcome::Completed | Outcome::RolledBack)
    }
}

/// Why a transaction failed. Results name it by `name`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FailureCode {
    Sql(SqlState),
    /// The connection was lost, and the server gave no reason.
    ConnectionLost,
    /// A variable or expression of the script failed.
    Evaluation,
    /// The script left a transaction block or a pipeline open.
    OpenBlock,
    /// `\shell`, `\setshell` or `\gset` failed.
    MetaCommand,
    /// A native program got rows that it does not expect.
    UnexpectedRows,
}

impl FailureCode {
    pub fn name(&self) -> String {
        match self {
            FailureCode::Sql(state) => state.as_str().to_owned(),
            FailureCode::ConnectionLost => "connection_lost".to_owned(),
            FailureCode::Evaluation => "XXevaluation".to_owned(),
            FailureCode::OpenBlock => "XXopen_block".to_owned(),
            FailureCode::MetaCommand => "XXmeta_command".to_owned(),
            FailureCode::UnexpectedRows => "XXunexpected_rows".to_owned(),
        }
    }
}

/// The instants and tries of a transaction that ended.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    pub scheduled_ns: u64,
    pub started_ns: u64,
    pub ended_ns: u64,
    pub retries: u16,
    pub outcome: Outcome,
}

/// Why a try stopped before its end.
#[derive(Debug)]
pub enum Stopped {
    Failed(FailureCode),
    /// The connection was lost.
    Lost(FailureCode),
    /// The transaction was still running when the drain ended.
    Cancelled,
}

/// A warning to the user, while the run continues: a warning record without its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    pub kind: WarningKind,
    pub message: String,
    pub hint: String,
}
