//! Keeps the first message of each kind of failure, and detects a load in which all fail alike.
//!
//! A load without success would fill the server's log, so it ends after its first failures.

use std::collections::BTreeMap;

use pgdyno_wire::ServerError;

use super::{Client, Connection};
use crate::next_step::next_step;
use crate::outcome::FailureCode;

/// If this number of first transactions of the load all fail in one way, the load ends.
pub const FIRST_TRANSACTIONS: u64 = 100;
/// Most kinds of failures that are counted, each with its message.
const KINDS_MAX: usize = 1000;

/// A kind of failure: how, in which script, and at which line or statement.
pub type FailureKind = (FailureCode, usize, Option<usize>);

/// A kind of failure with its first message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailureWords {
    pub code: FailureCode,
    /// The server's message, or the engine's if the server sent none.
    pub message: String,
    /// The next step, if the server sent an error.
    pub hint: Option<String>,
    /// Index of the script that failed first.
    pub script: usize,
    /// Line of the command that failed, in a text script.
    pub line: Option<u32>,
    /// Place of the statement that the server refused, in a native program.
    pub statement: Option<usize>,
}

impl FailureWords {
    pub fn kind(&self) -> FailureKind {
        (self.code, self.script, self.statement.or(self.line.map(|line| line as usize)))
    }
}

/// News for the coordinator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FailureNews {
    /// A transaction failed in this way for the first time.
    First(FailureWords),
    /// The first transactions of the thread all failed in this way.
    All(FailureCode),
}

/// The failures of one thread.
#[derive(Debug)]
pub struct Failures {
    /// Number of first transactions that count.
    first_count: u64,
    /// How many tries of the measured phase failed in each way.
    pub counts: BTreeMap<FailureKind, u64>,
    /// The kind of failure of all transactions so far, and their number.
    common: Option<(FailureCode, u64)>,
    /// Transactions have ended in different ways, or the news was sent.
    is_mixed: bool,
    pub news: Vec<FailureNews>,
}

impl Failures {
    /// Args: the number of first transactions to look at.
    pub fn new(first_count: u64) -> Failures {
        Failures {
            first_count,
            counts: BTreeMap::new(),
            common: None,
            is_mixed: false,
            news: Vec::new(),
        }
    }

    /// Count a failed try. Returns: true if it is the first one of its kind.
    fn is_new(&mut self, kind: FailureKind, is_measured: bool) -> bool {
        let is_new = !self.counts.contains_key(&kind);
        if is_new && self.counts.len() == KINDS_MAX {
            return false;
        }
        *self.counts.entry(kind).or_default() += u64::from(is_measured);
        is_new
    }

    /// Count a transaction that failed and is not tried again.
    fn count(&mut self, code: FailureCode, has_completed: bool) {
        if self.is_mixed {
            return;
        }
        let (common, before) = self.common.unwrap_or((code, 0));
        self.common = Some((code, before + 1));
        self.is_mixed = has_completed || common != code;
        if !self.is_mixed && before + 1 == self.first_count {
            // The news is sent once.
            self.is_mixed = true;
            self.news.push(FailureNews::All(code));
        }
    }
}

/// Count a failed try, and keep its message if it is of a new kind.
///
/// Call it before the next exchange, while the reply still has the error.
#[cold]
pub(super) fn note_words(client: Client<'_>, code: FailureCode, script: usize) {
    let shard = &mut *client.shard();
    let is_measured = shard.recorder.is_measuring();
    let connection = &shard.clients.connections[client.index as usize];
    let text = client.plan.scripts[script].program.as_script();
    let failed = text.and_then(|script| script.commands.get(connection.place));
    let line = failed.map(|command| command.line() as u32);
    let is_refused = text.is_none() && matches!(code, FailureCode::Sql(_));
    let statement = is_refused.then_some(connection.place);
    let place = statement.or(line.map(|line| line as usize));
    if !shard.failures.is_new((code, script, place), is_measured) {
        return;
    }
    let error = connection.reply.error.as_deref().map(|error| shown(client, script, error));
    let hint = error.as_ref().map(next_step);
    let message = words(connection, code, error.as_ref());
    let words = FailureWords { code, message, hint, script, line, statement };
    shard.failures.news.push(FailureNews::First(words));
}

/// Count a transaction that failed for good.
#[cold]
pub(super) fn count(client: Client<'_>, code: FailureCode) {
    let shard = &mut *client.shard();
    let has_completed = shard.recorder.committed_count > 0;
    shard.failures.count(code, has_completed);
}

/// The error as the records may have it: the rows of a captured load may be those of somebody's
/// customers, and its results are shared.
pub(super) fn shown(client: Client<'_>, script: usize, error: &ServerError) -> ServerError {
    match client.plan.scripts[script].outlasts_refusals {
        true => error.clone().without_values(),
        false => error.clone(),
    }
}

fn words(connection: &Connection, code: FailureCode, error: Option<&ServerError>) -> String {
    let known = match code {
        FailureCode::Sql(_) => error.map(ServerError::to_string),
        FailureCode::Evaluation => connection.complaint.clone(),
        FailureCode::OpenBlock => Some("the script ends inside a transaction block".to_owned()),
        _ => None,
    };
    known.unwrap_or_else(|| code.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: FailureCode = FailureCode::OpenBlock;
    const B: FailureCode = FailureCode::MetaCommand;

    fn told(first_count: u64, ends: &[(FailureCode, bool)]) -> Vec<FailureNews> {
        let mut failures = Failures::new(first_count);
        ends.iter().for_each(|&(code, has_completed)| failures.count(code, has_completed));
        failures.news
    }

    #[test]
    fn the_first_transactions_are_told_of_once_if_all_fail_alike() {
        assert_eq!(told(3, &[(A, false); 2]), []);
        assert_eq!(told(3, &[(A, false); 9]), [FailureNews::All(A)]);
        assert_eq!(told(3, &[(A, false), (B, false), (A, false), (A, false), (A, false)]), []);
        assert_eq!(told(3, &[(A, false), (A, true), (A, true), (A, true)]), []);
    }
}
