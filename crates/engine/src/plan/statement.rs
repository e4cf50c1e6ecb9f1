//! One statement of a script, encoded as far as it can be before its variables are known.

use pgdyno_script::SqlCommand;
use pgdyno_wire::encode::{self, Template};

/// What a statement does to the transaction block, by its first word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatementKind {
    Begin,
    Commit,
    Rollback,
    Ddl,
    Other,
}

/// A statement ready to be sent.
#[derive(Debug)]
pub struct Statement {
    pub line: u32,
    /// What it is called when it is prepared.
    pub name: String,
    pub text: String,
    pub kind: StatementKind,
    pub reads_only: bool,
    pub parameter_count: usize,
    /// It stands in a branch of the script, which may never be taken.
    pub is_conditional: bool,
    /// The rows are looked at (`\gset`, `\aset`).
    pub captures: bool,
    /// Parse, under its name.
    pub parse: Vec<u8>,
    /// Parse, unnamed.
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

    /// Whether success may have made changes lasting.
    pub fn may_commit(&self, is_in_block: bool) -> bool {
        match self.kind {
            StatementKind::Begin | StatementKind::Rollback => false,
            StatementKind::Commit => true,
            StatementKind::Ddl | StatementKind::Other => !is_in_block && !self.reads_only,
        }
    }
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
