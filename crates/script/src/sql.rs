//! SQL commands of a script: their text, the variables in it, and how they are sent.
//!
//! The simple protocol sends the text with the values in it. The extended and prepared protocols
//! send `$1`, `$2`, ... and the values separately. Both forms are made once, when a script is read.

use std::ops::Range;

use crate::reads_only::is_read_only;
use crate::variables::{
    ClientVariables, Gset, VariableSlot, VariableTable, is_name_byte, is_name_start,
};

/// Most variables one statement may have in the extended and prepared protocols.
pub const PARAMETERS_MAX: usize = 255;

/// One SQL command: a statement, or several joined by `\;`.
#[derive(Clone, Debug)]
pub struct SqlCommand {
    /// The text as written, from its first word to its semicolon; each `\;` has become `;`.
    pub text: String,
    /// Line of its first word, counted from 1.
    pub line: usize,
    /// Index among all commands of the script, as pgbench's messages and reports count.
    pub command: usize,
    /// Index among the SQL commands of the script.
    pub statement: usize,
    /// The bytes that are sent for the text. They are UTF-8, or Latin-1 after
    /// `send_characters_as_bytes`.
    pub sent: Box<[u8]>,
    /// `sent` cut at its variables, in order.
    pub segments: Box<[Segment]>,
    /// `\gset` or `\aset`: the result becomes variables. None: the result is ignored.
    pub gset: Option<Gset>,
    /// Whether nothing is written, as far as the words tell.
    pub reads_only: bool,
    /// The text with `$1`, `$2`, ... for its variables, one number for each place.
    pub parameterized: Box<str>,
    /// The bytes that are sent for `parameterized`.
    pub sent_parameterized: Box<[u8]>,
    /// The variables that are `$1`, `$2`, ..., in this order.
    pub parameters: Box<[VariableSlot]>,
}

/// A part of an SQL text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Segment {
    /// Text without variables.
    Text(Range<usize>),
    /// A variable, and the place of its name in the text, colon included.
    Variable(VariableSlot, Range<usize>),
}

/// There is no slot left for another variable.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TooManyVariables;

impl SqlCommand {
    /// Finds the variables of a text. The caller sets `command`, `statement` and `gset`.
    pub(crate) fn new(
        text: String,
        line: usize,
        variables: &mut VariableTable,
    ) -> Result<Self, TooManyVariables> {
        let mut segments = Vec::new();
        let mut parameterized = String::with_capacity(text.len());
        let mut parameters = Vec::new();
        let mut done = 0;
        while let Some(range) = next_variable(&text, done) {
            let slot =
                variables.intern(&text[range.start + 1..range.end]).ok_or(TooManyVariables)?;
            if done < range.start {
                segments.push(Segment::Text(done..range.start));
            }
            parameterized.push_str(&text[done..range.start]);
            parameters.push(slot);
            parameterized.push_str(&format!("${}", parameters.len()));
            done = range.end;
            segments.push(Segment::Variable(slot, range));
        }
        if done < text.len() {
            segments.push(Segment::Text(done..text.len()));
        }
        parameterized.push_str(&text[done..]);
        Ok(Self {
            reads_only: is_read_only(&text),
            sent: text.as_bytes().into(),
            text,
            line,
            command: 0,
            statement: 0,
            segments: segments.into(),
            gset: None,
            sent_parameterized: parameterized.as_bytes().into(),
            parameterized: parameterized.into(),
            parameters: parameters.into(),
        })
    }

    /// Makes the command send one byte for each character; `Script::send_characters_as_bytes` says
    /// why.
    pub(crate) fn send_characters_as_bytes(&mut self) {
        // Subtle: a character of two bytes in the text becomes one byte, so all places change.
        let place = |at: usize| self.text[..at].chars().count();
        for segment in &mut self.segments {
            let (Segment::Text(range) | Segment::Variable(_, range)) = segment;
            *range = place(range.start)..place(range.end);
        }
        self.sent = latin1(&self.text);
        self.sent_parameterized = latin1(&self.parameterized);
    }

    /// Appends the text with the values of its variables, for the simple protocol.
    ///
    /// A variable that is not defined stays as it is written, as in pgbench, because it may be
    /// something else: `'a:b'`, or a slice of an array.
    #[inline]
    pub fn render_simple(&self, variables: &ClientVariables, out: &mut Vec<u8>) {
        for segment in &self.segments {
            let (Segment::Text(range) | Segment::Variable(_, range)) = segment;
            if let Segment::Variable(slot, _) = segment
                && variables.append_text(*slot, out)
            {
                continue;
            }
            out.extend_from_slice(&self.sent[range.clone()]);
        }
    }

    /// Calls `write` with the text of each parameter in order; None stands for null, which is
    /// what pgbench sends for a variable that is not defined.
    ///
    /// Args: `scratch` is memory to be used again; what it holds is lost.
    #[inline]
    pub fn write_params(
        &self,
        variables: &ClientVariables,
        scratch: &mut Vec<u8>,
        mut write: impl FnMut(Option<&[u8]>),
    ) {
        for &slot in &self.parameters {
            scratch.clear();
            let is_defined = variables.append_text(slot, scratch);
            write(is_defined.then_some(scratch.as_slice()));
        }
    }

    /// Returns the first line, at most 127 bytes of it, as pgbench shows it in reports.
    pub fn first_line(&self) -> &str {
        let line_end = self.text.find(['\n', '\r']).unwrap_or(self.text.len());
        let is_shown = |&end: &usize| self.text.is_char_boundary(end);
        &self.text[..(0..=line_end.min(127)).rev().find(is_shown).unwrap_or(0)]
    }
}

/// Returns the byte that each character is in Latin-1.
pub(crate) fn latin1(text: &str) -> Box<[u8]> {
    text.chars().map(|character| u32::from(character) as u8).collect()
}

/// Returns where the next variable stands at or behind `from`, colon included.
///
/// As in pgbench, a variable inside a string or comment counts, too. Of several colons in a row, as
/// in the cast `a::int`, none begins a variable.
fn next_variable(text: &str, mut from: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    loop {
        let colon = from + text[from..].find(':')?;
        if bytes.get(colon + 1).is_some_and(|&byte| is_name_start(byte)) {
            let name = &bytes[colon + 1..];
            let length = name.iter().position(|&byte| !is_name_byte(byte)).unwrap_or(name.len());
            return Some(colon..colon + 1 + length);
        }
        let colons = bytes[colon..].iter().take_while(|&&byte| byte == b':').count();
        from = colon + colons;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::value::Value;

    fn command(text: &str) -> (SqlCommand, ClientVariables) {
        let mut table = VariableTable::new();
        let command = SqlCommand::new(text.to_owned(), 1, &mut table).unwrap();
        (command, ClientVariables::new(&Arc::new(table)))
    }

    fn rendered(command: &SqlCommand, variables: &ClientVariables) -> String {
        let mut out = Vec::new();
        command.render_simple(variables, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn variables_are_replaced_by_their_text() {
        let (command, mut variables) = command("SELECT :a, :a + :b_2 FROM t WHERE x = ':a'");
        variables.set_by_name("a", Value::Int(-7));
        variables.set_by_name("b_2", Value::Double(0.5));
        assert_eq!(rendered(&command, &variables), "SELECT -7, -7 + 0.5 FROM t WHERE x = '-7'");
        assert_eq!(&*command.parameterized, "SELECT $1, $2 + $3 FROM t WHERE x = '$4'");
    }

    #[test]
    fn casts_times_and_slices_hold_no_variable() {
        for text in ["a::int", "'12:30:45'", "a[1:2]", "a := 1", ":::a", "::a", "x:", ":"] {
            let (command, variables) = command(text);
            assert!(command.parameters.is_empty(), "{text}");
            assert_eq!(rendered(&command, &variables), text);
        }
    }

    #[test]
    fn an_undefined_variable_stays_as_written_or_becomes_null() {
        let (command, mut variables) = command("SELECT ':x' || :y");
        variables.set_by_name("y", Value::Int(1));
        assert_eq!(rendered(&command, &variables), "SELECT ':x' || 1");
        let mut params = Vec::new();
        command.write_params(&variables, &mut Vec::new(), |param| {
            params.push(param.map(<[u8]>::to_vec));
        });
        assert_eq!(params, [None, Some(b"1".to_vec())]);
    }

    #[test]
    fn letters_outside_ascii_belong_to_a_variable() {
        let (command, mut variables) = command("SELECT :größe;");
        variables.set_by_name("größe", Value::Null);
        assert_eq!(rendered(&command, &variables), "SELECT NULL;");
    }

    #[test]
    fn the_first_line_is_cut_at_127_bytes() {
        let (command, _) = command(&format!("SELECT '{}'\nFROM t", "é".repeat(100)));
        assert_eq!(command.first_line().len(), 126);
        let (command, _) = super::tests::command("SELECT 1\r\n;");
        assert_eq!(command.first_line(), "SELECT 1");
    }
}
