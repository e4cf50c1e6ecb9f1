//! `\shell` and `\setshell`: the command line they run, and what `\setshell` takes from it.

use crate::error::{EvalError, EvalErrorKind};
use crate::sql::latin1;
use crate::variables::{ClientVariables, VariableSlot, VariableTable};

/// Room for a command line, its end included: SHELL_COMMAND_SIZE of pgbench.
const COMMAND_LINE_SIZE: usize = 256;

/// A command for the shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShellCommand {
    words: Box<[ShellWord]>,
    /// The variable that gets the integer the command prints (`\setshell`).
    pub assigns: Option<VariableSlot>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ShellWord {
    Literal(Box<[u8]>),
    Variable(VariableSlot),
}

impl ShellCommand {
    /// Returns None when there is no slot left for another variable.
    pub(crate) fn new<'a>(
        words: impl Iterator<Item = &'a str>,
        assigns: Option<VariableSlot>,
        variables: &mut VariableTable,
    ) -> Option<Self> {
        let words: Option<_> = words
            .map(|word| match word.strip_prefix(':') {
                Some(literal) if literal.starts_with(':') => {
                    Some(ShellWord::Literal(literal.as_bytes().into()))
                }
                Some(name) => variables.intern(name).map(ShellWord::Variable),
                None => Some(ShellWord::Literal(word.as_bytes().into())),
            })
            .collect();
        Some(Self { words: words?, assigns })
    }

    /// Says a byte for each character, as `Script::send_characters_as_bytes` says.
    pub(crate) fn send_characters_as_bytes(&mut self) {
        for word in &mut self.words {
            if let ShellWord::Literal(literal) = word {
                *literal = latin1(&String::from_utf8_lossy(literal));
            }
        }
    }

    /// Returns the line the shell runs, its variables replaced by their texts.
    ///
    /// Errors: a variable is undefined, or the line is longer than pgbench allows.
    pub fn command_line(&self, variables: &ClientVariables) -> Result<Vec<u8>, EvalError> {
        let mut line = Vec::new();
        for (index, word) in self.words.iter().enumerate() {
            if index > 0 {
                line.push(b' ');
            }
            match word {
                ShellWord::Literal(literal) => line.extend_from_slice(literal),
                ShellWord::Variable(slot) => {
                    if !variables.append_text(*slot, &mut line) {
                        let name = variables.table().name(*slot);
                        return Err(EvalError::new(
                            EvalErrorKind::UndefinedVariable,
                            format!("{}: undefined variable \":{name}\"", self.name(variables)),
                        ));
                    }
                }
            }
            if line.len() >= COMMAND_LINE_SIZE - 1 {
                return Err(EvalError::new(
                    EvalErrorKind::ShellCommandTooLong,
                    format!("{}: shell command is too long", self.name(variables)),
                ));
            }
        }
        Ok(line)
    }

    /// Returns the integer `\setshell` takes from the first line the command printed.
    ///
    /// Errors: the line is not an integer.
    pub fn result(&self, line: &[u8], variables: &ClientVariables) -> Result<i64, EvalError> {
        let text = String::from_utf8_lossy(line);
        text.trim_ascii().parse::<i64>().map_err(|_| {
            let message = format!(
                "{}: shell command must return an integer (not \"{text}\")",
                self.name(variables)
            );
            EvalError::new(EvalErrorKind::ShellResult, message)
        })
    }

    /// Returns the first word as written, which pgbench puts before its messages.
    pub fn name(&self, variables: &ClientVariables) -> String {
        match &self.words[0] {
            ShellWord::Literal(literal) => String::from_utf8_lossy(literal).into_owned(),
            ShellWord::Variable(slot) => format!(":{}", variables.table().name(*slot)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::value::Value;

    fn command(words: &str) -> (ShellCommand, ClientVariables) {
        let mut table = VariableTable::new();
        let command = ShellCommand::new(words.split(' '), None, &mut table).unwrap();
        (command, ClientVariables::new(&Arc::new(table)))
    }

    #[test]
    fn words_are_joined_and_variables_replaced() {
        let (command, mut variables) = command("echo :x ::x a:x");
        variables.set_by_name("x", Value::Int(5));
        assert_eq!(command.command_line(&variables).unwrap(), b"echo 5 :x a:x");
    }

    #[test]
    fn an_undefined_variable_is_an_error_with_its_name() {
        let (command, variables) = command("echo :x");
        let error = command.command_line(&variables).unwrap_err();
        assert_eq!(error.message(), "echo: undefined variable \":x\"");
    }

    #[test]
    fn a_line_of_254_bytes_is_the_longest() {
        let (fits, variables) = command(&"x".repeat(254));
        assert_eq!(fits.command_line(&variables).unwrap().len(), 254);
        let (longer, variables) = command(&"x".repeat(255));
        let error = longer.command_line(&variables).unwrap_err();
        assert_eq!(error.kind(), EvalErrorKind::ShellCommandTooLong);
    }

    #[test]
    fn only_an_integer_is_a_result() {
        let (command, variables) = command("x");
        assert_eq!(command.result(b" -12\n", &variables).unwrap(), -12);
        let error = command.result(b"a\n", &variables).unwrap_err();
        assert_eq!(error.message(), "x: shell command must return an integer (not \"a\n\")");
    }
}
