//! How a transaction ended, and why a try of it stopped.

use pgdyno_wire::SqlState;

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Completed,
    /// By its program, on purpose: the work was done, and then taken back.
    RolledBack,
    Failed(FailureCode),
}

impl Outcome {
    /// The transaction did what it should, whether or not it kept its changes.
    pub fn is_completed(self) -> bool {
        matches!(self, Outcome::Completed | Outcome::RolledBack)
    }
}

/// Why a transaction failed, as it stands in the results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FailureCode {
    Sql(SqlState),
    /// The connection was lost, and the server gave no reason.
    ConnectionLost,
    /// A variable or expression of the script failed.
    Evaluation,
    /// The script left a transaction block or a pipeline open.
    OpenBlock,
    /// `\shell`, `\setshell`, `\gset` did not give what they must.
    MetaCommand,
    /// A native program got other rows than it must.
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

/// Why a try did not succeed.
#[derive(Debug)]
pub enum Stopped {
    Failed(FailureCode),
    /// The connection is gone.
    Lost(FailureCode),
    /// The drain is over, and the transaction was not at its end.
    Cancelled,
}

/// What the user should know of a run that goes on: a warning record without its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    pub kind: &'static str,
    pub message: String,
    pub hint: String,
}
