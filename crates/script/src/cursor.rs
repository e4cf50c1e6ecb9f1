//! Reading the words of meta commands, and faults found on the way.

use crate::expression::blank_length;

/// By whose rules a script is read. They differ in when two faults are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// All faults of the text are found before anything runs.
    Ahead,
    /// As pgbench: a name that no variable may have, and too many arguments, are found when the
    /// command runs.
    AsPgbench,
}

/// A place in the text of a script.
#[derive(Debug)]
pub(crate) struct Cursor<'a> {
    pub(crate) text: &'a str,
    pub(crate) at: usize,
}

/// A word of a meta command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Word<'a> {
    pub(crate) text: &'a str,
    /// Where it begins in the text of the script.
    pub(crate) offset: usize,
}

impl Word<'_> {
    pub(crate) fn end(&self) -> usize {
        self.offset + self.text.len()
    }
}

impl<'a> Cursor<'a> {
    /// Returns the next word of the line; at the end of the line, passes it and returns None.
    ///
    /// A backslash at the end of a line joins the next one to it.
    pub(crate) fn word(&mut self) -> Option<Word<'a>> {
        self.at += blank_length(&self.text[self.at..]);
        let rest = &self.text[self.at..];
        let length = rest.find([' ', '\t', '\r', '\x0b', '\x0c', '\n']).unwrap_or(rest.len());
        if length == 0 {
            self.end_line();
            return None;
        }
        let joins_next_line = rest[..length].ends_with('\\')
            && (rest[length..].starts_with('\n') || rest[length..].starts_with("\r\n"));
        let word = &rest[..length - usize::from(joins_next_line)];
        let offset = self.at;
        self.at += word.len();
        Some(Word { text: word, offset })
    }

    /// Passes the line end the cursor stands at, if it does.
    pub(crate) fn end_line(&mut self) {
        if self.text[self.at..].starts_with('\n') {
            self.at += 1;
        }
    }
}

/// A fault in a script before its place is turned into line and column.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) offset: usize,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl Fault {
    pub(crate) fn new(offset: usize, message: impl Into<String>) -> Self {
        Self { offset, message: message.into(), hint: None }
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    pub(crate) fn too_many_variables(offset: usize) -> Self {
        Self::new(offset, "too many variables (maximum is 65536)")
    }
}
