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
    /// The text, if its protocol is the simple one: only templates need it.
    pub pieces: Vec<Piece>,
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
            pieces: Vec::new(),
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
            pieces: Vec::new(),
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

    /// Write the text of the statement to a Query, with literals in place of its parameters.
    ///
    /// Args: `write`, as in `Link::add`.
    pub fn write_text(
        &self,
        write: &dyn Fn(usize, &mut Vec<u8>) -> bool,
        scratch: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) {
        if !out.is_empty() {
            out.extend_from_slice(b"; ");
        }
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => out.extend_from_slice(text.as_bytes()),
                &Piece::Parameter { place, is_number } => {
                    scratch.clear();
                    let is_there = write(place, scratch);
                    push_literal(out, is_there.then_some(scratch.as_slice()), is_number);
                }
            }
        }
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

/// A part of a statement for the simple protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    Text(String),
    /// `place` counts from 0.
    Parameter {
        place: usize,
        is_number: bool,
    },
}

/// Split a statement at its parameters. `$1` in a string, a quoted name or a comment is text.
///
/// Args: `types` of the parameters in SQL, empty if they are not known.
pub(super) fn pieces_of(text: &str, types: &[String]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let (mut begin, mut at) = (0, 0);
    let bytes = text.as_bytes();
    while at < bytes.len() {
        let rest = &text[at..];
        let skipped = match bytes[at] {
            quote @ (b'\'' | b'"') => rest[1..].find(quote as char).map(|end| end + 2),
            b'-' if rest.starts_with("--") => rest.find('\n'),
            b'/' if rest.starts_with("/*") => rest.find("*/").map(|end| end + 2),
            b'$' if rest[1..].starts_with(|c: char| c.is_ascii_digit()) => {
                let digits = rest[1..].bytes().take_while(u8::is_ascii_digit).count();
                let place = rest[1..=digits].parse::<usize>().unwrap_or(1).max(1) - 1;
                let is_number = types.get(place).is_some_and(|kind| is_number(kind));
                pieces.push(Piece::Text(text[begin..at].to_owned()));
                pieces.push(Piece::Parameter { place, is_number });
                begin = at + 1 + digits;
                Some(1 + digits)
            }
            byte => {
                Some(if byte < 0x80 { 1 } else { rest.chars().next().map_or(1, char::len_utf8) })
            }
        };
        at += skipped.unwrap_or(rest.len());
    }
    pieces.push(Piece::Text(text[begin..].trim_end_matches([';', ' ', '\n']).to_owned()));
    pieces
}

fn is_number(kind: &str) -> bool {
    let word = kind.split(['(', ' ']).next().unwrap_or_default();
    matches!(word, "smallint" | "integer" | "bigint" | "numeric" | "real" | "double")
}

/// Write a value as SQL. A number stays one, because `'1' + '1'` has no type.
fn push_literal(out: &mut Vec<u8>, value: Option<&[u8]>, is_number: bool) {
    let Some(value) = value else { return out.extend_from_slice(b"NULL") };
    let is_plain = |byte: &u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
    if is_number && !value.is_empty() && value.iter().all(is_plain) {
        // Two minus signs would begin a comment.
        out.extend_from_slice(if value[0] == b'-' { b" " } else { b"" });
        return out.extend_from_slice(value);
    }
    out.push(b'\'');
    for &byte in value {
        out.extend_from_slice(if byte == b'\'' { b"''" } else { std::slice::from_ref(&byte) });
    }
    out.push(b'\'');
}

/// The highest N of all `$N` in the text.
fn parameter_count(text: &str) -> u16 {
    let numbers = text.split('$').skip(1).filter_map(|rest| {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest[..digits].parse().ok()
    });
    numbers.max().unwrap_or(0)
}

impl StatementKind {
    /// Return what a statement does to the block, by its first word.
    pub fn of(text: &str) -> StatementKind {
        kind_of(text)
    }
}

/// Return whether a statement takes rows of the client: COPY ... FROM STDIN, without options.
pub fn is_copy_in(text: &str) -> bool {
    let mut words = text.split_ascii_whitespace();
    let is = |word: Option<&str>, wanted| word.is_some_and(|w| w.eq_ignore_ascii_case(wanted));
    is(words.next(), "COPY") && is(words.next_back(), "STDIN") && is(words.next_back(), "FROM")
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
        // Back to a savepoint: the transaction goes on.
        "ROLLBACK"
            if text.split_whitespace().take(3).any(|word| word.eq_ignore_ascii_case("to")) =>
        {
            StatementKind::Other
        }
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
            ("ROLLBACK;", StatementKind::Rollback),
            ("ROLLBACK TO a;", StatementKind::Other),
            ("CREATE TEMP TABLE t()", StatementKind::Ddl),
            ("ENDORSE", StatementKind::Other),
            ("SELECT 1", StatementKind::Other),
        ];
        for (text, kind) in kinds {
            assert_eq!(kind_of(text), kind, "{text}");
        }
    }

    #[test]
    fn a_copy_from_the_client_is_known_by_its_words() {
        assert!(is_copy_in("copy public.t (a, b)\n FROM STDIN"));
        assert!(!is_copy_in("COPY t TO STDOUT"));
        assert!(!is_copy_in("COPY t FROM '/tmp/stdin'"));
        assert!(!is_copy_in("SELECT a FROM stdin"));
    }

    fn text_of(sql: &str, types: &[&str], values: &[Option<&str>]) -> String {
        let mut statement = Statement::native(sql, "P", 1, false);
        let types: Vec<_> = types.iter().map(|&kind| kind.to_owned()).collect();
        statement.pieces = pieces_of(sql, &types);
        let mut out = Vec::new();
        let write = |place: usize, out: &mut Vec<u8>| {
            out.extend_from_slice(values[place].unwrap_or_default().as_bytes());
            values[place].is_some()
        };
        statement.write_text(&write, &mut Vec::new(), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_simple_protocol_gets_literals_in_place_of_parameters() {
        let sql = "UPDATE t SET a = a -$1, b = $2, \"$3\" = '$4' /* $5 */ WHERE c = $3 -- $6";
        let values = [Some("-5"), Some("O'Hara"), None];
        assert_eq!(
            text_of(sql, &["numeric(10,2)", "text", ""], &values),
            "UPDATE t SET a = a - -5, b = 'O''Hara', \"$3\" = '$4' /* $5 */ WHERE c = NULL -- $6"
        );
        assert_eq!(text_of("SELECT $2, $1;\n", &[], &[Some("1"), Some("ü")]), "SELECT 'ü', '1'");
        assert_eq!(text_of("END;", &[], &[]), "END");
    }
}
