//! What can be wrong with a script: when it is read, and when it runs.

use std::error::Error;
use std::fmt;

/// A fault in the text of a script, with its place.
///
/// `Display` gives `file:line:column: message`, the line, a caret below the place, and the next
/// step when there is one. The message contains what pgbench says of the same fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptError(Box<ScriptFault>);

/// The parts of a [`ScriptError`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptFault {
    /// Name of the script: a file name, or the description of a built-in script.
    pub script: String,
    /// Line, counted from 1.
    pub line: usize,
    /// Column in characters, counted from 1.
    pub column: usize,
    /// What was found and which rule it breaks.
    pub message: String,
    /// The line at fault, without its line end.
    pub source_line: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl ScriptError {
    /// Describes a fault at byte `offset` of `text`.
    pub(crate) fn at(
        script: &str,
        text: &str,
        offset: usize,
        message: String,
        hint: Option<String>,
    ) -> Self {
        let line_start = text[..offset].rfind('\n').map_or(0, |newline| newline + 1);
        let line_end = text[offset..].find('\n').map_or(text.len(), |length| offset + length);
        let source_line = text[line_start..line_end].trim_end_matches('\r');
        // A carriage return before the line end is not a column.
        let before = source_line.get(..offset - line_start).unwrap_or(source_line);
        Self(Box::new(ScriptFault {
            script: script.to_owned(),
            line: text[..offset].matches('\n').count() + 1,
            column: before.chars().count() + 1,
            message,
            source_line: source_line.to_owned(),
            hint,
        }))
    }

    /// Describes a fault of the command that begins with `source_line` on `line`.
    pub(crate) fn at_line(
        script: &str,
        line: usize,
        source_line: &str,
        message: String,
        hint: Option<String>,
    ) -> Self {
        Self(Box::new(ScriptFault {
            script: script.to_owned(),
            line,
            column: 1,
            message,
            source_line: source_line.to_owned(),
            hint,
        }))
    }
}

impl std::ops::Deref for ScriptError {
    type Target = ScriptFault;

    fn deref(&self) -> &ScriptFault {
        &self.0
    }
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ScriptFault { script, line, column, message, source_line, hint } = &**self;
        write!(f, "{script}:{line}:{column}: {message}")?;
        if !source_line.is_empty() {
            // A tab stays a tab, so that the caret stands below its character.
            let indent: String = source_line
                .chars()
                .map(|c| if c == '\t' { '\t' } else { ' ' })
                .chain(std::iter::repeat(' '))
                .take(column - 1)
                .collect();
            write!(f, "\n{source_line}\n{indent}^ error found here")?;
        }
        if let Some(hint) = hint {
            write!(f, "\nhint: {hint}")?;
        }
        Ok(())
    }
}

impl Error for ScriptError {}

/// Something accepted that its author may want to know about, at most one of a kind a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Line it was first met on, counted from 1.
    pub line: usize,
    /// What was met and how it is understood.
    pub message: String,
}

/// Why a command of a running script could not be carried out; pgbench aborts the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvalError(Box<(EvalErrorKind, String)>);

/// The matchable part of an [`EvalError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvalErrorKind {
    /// A variable was read before anything set it.
    UndefinedVariable,
    /// The text of a variable is not a number, a boolean or null.
    MalformedVariable,
    /// A column of `\gset` or `\aset` has a name no variable can have.
    InvalidVariableName,
    /// A value that would be pasted into the text of a read-only load is not a number.
    NotANumber,
    /// A value has a type the operation does not take.
    TypeMismatch,
    /// A result does not fit its type.
    OutOfRange,
    /// An integer was divided by zero.
    DivisionByZero,
    /// An argument of a function is outside what the function takes.
    InvalidArgument,
    /// The words of `\shell` or `\setshell` are longer than pgbench allows.
    ShellCommandTooLong,
    /// The command of `\setshell` did not print an integer.
    ShellResult,
}

impl EvalError {
    /// Constructs an error of `kind`; `message` says what was asked and the value seen.
    pub(crate) fn new(kind: EvalErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new((kind, message.into())))
    }

    /// Returns what kind of error this is.
    pub fn kind(&self) -> EvalErrorKind {
        self.0.0
    }

    /// Returns the message, in the words of pgbench.
    pub fn message(&self) -> &str {
        &self.0.1
    }
}

impl fmt::Display for EvalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl Error for EvalError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_shows_its_place_its_line_and_a_caret() {
        let text = "select 1;\n\t\\set x foo(1)\n";
        let error = ScriptError::at("a.sql", text, 18, "bad".into(), Some("good".into()));
        assert_eq!(
            error.to_string(),
            "a.sql:2:9: bad\n\t\\set x foo(1)\n\t       ^ error found here\nhint: good"
        );
    }

    #[test]
    fn columns_count_characters_not_bytes() {
        let error = ScriptError::at("a.sql", "é é x", 6, "bad".into(), None);
        assert_eq!((error.line, error.column), (1, 5));
    }

    #[test]
    fn a_carriage_return_is_no_column() {
        let error = ScriptError::at("a.sql", "\\set x\r\nselect 1;", 7, "bad".into(), None);
        assert_eq!((error.column, error.source_line.as_str()), (7, "\\set x"));
    }

    #[test]
    fn an_empty_line_is_not_shown() {
        let error = ScriptError::at("a.sql", "", 0, "bad".into(), None);
        assert_eq!(error.to_string(), "a.sql:1:1: bad");
    }
}
