//! One statement of a script, encoded when the plan is made.
//!
//! Only the values of its variables are written while the load runs. So the hot path copies bytes
//! and does not read SQL.

use pgdyno_script::SqlCommand;
use pgdyno_wire::encode::{self, Template};

use crate::contract::job::Protocol;

/// What a statement does to the transaction block, by its first word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatementKind {
    Begin,
    Commit,
    Rollback,
    Ddl,
    Other,
}

/// A statement with its messages already encoded.
#[derive(Debug)]
pub struct Statement {
    pub line: u32,
    /// Name of the prepared statement.
    pub name: String,
    pub text: String,
    pub kind: StatementKind,
    pub reads_only: bool,
    pub parameter_count: usize,
    /// The statement is inside `\if`, so it may never run.
    pub is_conditional: bool,
    /// The rows are kept, because `\gset`, `\aset` or a native program reads them.
    pub captures: bool,
    /// Parse message with the statement's name.
    pub parse: Vec<u8>,
    /// Parse message without a name.
    pub parse_unnamed: Vec<u8>,
    pub named: Template,
    pub unnamed: Template,
}

impl Statement {
    pub(super) fn new(command: &SqlCommand, name: &str, is_conditional: bool) -> Statement {
        let parameter_count = command.parameters.len();
        let template = |name| {
            let count = u16::try_from(parameter_count).expect("checked when the script is read");
            Template::new(name, count)
        };
        let parse = |name| {
            let mut out = Vec::new();
            encode::parse(&mut out, name, &command.sent_parameterized);
            out
        };
        Statement {
            line: command.line as u32,
            name: name.to_owned(),
            text: command.text.clone(),
            kind: kind_of(&command.text),
            reads_only: command.reads_only,
            parameter_count,
            is_conditional,
            captures: command.gset.is_some(),
            parse: parse(name),
            parse_unnamed: parse(""),
            named: template(name),
            unnamed: template(""),
        }
    }

    /// A statement of a native program.
    ///
    /// Args: `text`, SQL with `$1`, `$2` and so on; `line`, its position among the statements of
    /// its transaction type, from 1.
    pub(super) fn native(text: &str, name: &str, line: u32, reads_only: bool) -> Statement {
        let parameter_count = parameter_count(text);
        let parse = |name| {
            let mut out = Vec::new();
            encode::parse(&mut out, name, text.as_bytes());
            out
        };
        Statement {
            name: name.to_owned(),
            line,
            text: text.to_owned(),
            kind: kind_of(text),
            reads_only,
            parameter_count: usize::from(parameter_count),
            is_conditional: false,
            captures: true,
            parse: parse(name),
            parse_unnamed: parse(""),
            named: Template::new(name, parameter_count),
            unnamed: Template::new("", parameter_count),
        }
    }

    /// Write Parse (if needed), Bind, Describe and Execute to `out`.
    ///
    /// Args: `is_known`, true if the connection has prepared the statement; `values` writes the
    /// parameters.
    #[inline]
    pub fn encode(
        &self,
        protocol: Protocol,
        is_known: bool,
        out: &mut Vec<u8>,
        values: impl FnOnce(&mut Vec<u8>),
    ) {
        let template = if protocol == Protocol::Extended {
            out.extend_from_slice(&self.parse_unnamed);
            &self.unnamed
        } else {
            if !is_known {
                out.extend_from_slice(&self.parse);
            }
            &self.named
        };
        template.execute(out, values);
    }

    /// True if the statement may commit changes when it succeeds.
    ///
    /// Args: `is_in_block`, true if a transaction block is open before it.
    pub fn may_commit(&self, is_in_block: bool) -> bool {
        match self.kind {
            StatementKind::Begin | StatementKind::Rollback => false,
            StatementKind::Commit => true,
            StatementKind::Ddl | StatementKind::Other => !is_in_block && !self.reads_only,
        }
    }
}

/// The highest N of all `$N` in the text.
fn parameter_count(text: &str) -> u16 {
    let numbers = text.split('$').skip(1).filter_map(|rest| {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest[..digits].parse().ok()
    });
    numbers.max().unwrap_or(0)
}

fn kind_of(text: &str) -> StatementKind {
    let word: String = text
        .trim_start()
        .chars()
        .take_while(char::is_ascii_alphabetic)
        .map(|letter| letter.to_ascii_uppercase())
        .collect();
    match word.as_str() {
        "BEGIN" | "START" => StatementKind::Begin,
        "COMMIT" | "END" => StatementKind::Commit,
        "ROLLBACK" | "ABORT" => StatementKind::Rollback,
        "CREATE" | "ALTER" | "DROP" => StatementKind::Ddl,
        _ => StatementKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_word_tells_what_a_statement_does_to_the_block() {
        let kinds = [
            ("BEGIN;", StatementKind::Begin),
            (" start transaction;", StatementKind::Begin),
            ("end;", StatementKind::Commit),
            ("COMMIT AND CHAIN", StatementKind::Commit),
            ("ROLLBACK TO a;", StatementKind::Rollback),
            ("CREATE TEMP TABLE t()", StatementKind::Ddl),
            ("ENDORSE", StatementKind::Other),
            ("SELECT 1", StatementKind::Other),
        ];
        for (text, kind) in kinds {
            assert_eq!(kind_of(text), kind, "{text}");
        }
    }
}
