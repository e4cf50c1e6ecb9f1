//! Reading scripts from text.

use crate::cursor::{Cursor, Fault, Reading};
use crate::error::{Notice, ScriptError};
use crate::lexer::{TokenKind, next_token};
use crate::meta::{MetaAction, MetaCommand, Parsed, parse_meta};
use crate::script::{Command, Script};
use crate::sql::SqlCommand;
use crate::variables::{Gset, VariableTable};

/// Reads a script; its variables get slots in `variables`, shared by all scripts of a job.
///
/// Args: `name` is what messages call it.
/// Errors: the first fault, with its place.
/// Source: pgbench's `ParseScript` of version 18.
pub fn parse(name: &str, text: &str, variables: &mut VariableTable) -> Result<Script, ScriptError> {
    read(name, text, variables, Reading::Ahead)
        .map_err(|fault| ScriptError::at(name, text, fault.offset, fault.message, fault.hint))
}

/// Reads a script as [`parse`] does, but leaves to its run what pgbench finds only then: a name
/// that no variable may have, and too many arguments of a function.
pub fn parse_as_pgbench(
    name: &str,
    text: &str,
    variables: &mut VariableTable,
) -> Result<Script, ScriptError> {
    read(name, text, variables, Reading::AsPgbench)
        .map_err(|fault| ScriptError::at(name, text, fault.offset, fault.message, fault.hint))
}

fn read(
    name: &str,
    text: &str,
    variables: &mut VariableTable,
    reading: Reading,
) -> Result<Script, Fault> {
    if let Some(offset) = text.find('\0') {
        return Err(Fault::new(offset, "a script must not contain zero bytes"));
    }
    let mut reader = ScriptReader {
        name,
        reading,
        cursor: Cursor { text, at: 0 },
        lines: LineCounter { text, at: 0, line: 1 },
        variables,
        script: Script { name: name.to_owned(), commands: Vec::new(), notices: Vec::new() },
        offsets: Vec::new(),
        statement_count: 0,
        nesting: Nesting::default(),
    };
    while let Some(end) = reader.sql()? {
        if end == StatementEnd::Backslash {
            reader.meta()?;
        }
    }
    if reader.script.commands.is_empty() {
        let message = format!("empty command list for script \"{name}\"");
        return Err(Fault::new(text.len(), message).hint("a script needs at least one command"));
    }
    reader.link_conditions()?;
    Ok(reader.script)
}

/// What the scanner ended a statement at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StatementEnd {
    Semicolon,
    Backslash,
}

struct ScriptReader<'a> {
    name: &'a str,
    reading: Reading,
    cursor: Cursor<'a>,
    lines: LineCounter<'a>,
    variables: &'a mut VariableTable,
    script: Script,
    /// Where each command begins.
    offsets: Vec<usize>,
    statement_count: usize,
    nesting: Nesting,
}

impl ScriptReader<'_> {
    /// Reads up to the end of a statement; returns None at the end of the script.
    fn sql(&mut self) -> Result<Option<StatementEnd>, Fault> {
        let text = self.cursor.text;
        let mut sql = String::new();
        let mut begin = self.cursor.at;
        let mut end = None;
        while end.is_none() && self.cursor.at < text.len() {
            let start = self.cursor.at;
            let token = next_token(text.as_bytes(), start);
            self.cursor.at = token.end;
            let written = &text[start..token.end];
            match token.kind {
                TokenKind::Space | TokenKind::LineComment if sql.is_empty() => {
                    begin = token.end;
                    continue;
                }
                TokenKind::Escaped => {
                    sql.push_str(&written[1..]);
                    continue;
                }
                TokenKind::Backslash => {
                    end = Some(StatementEnd::Backslash);
                    break;
                }
                TokenKind::Semicolon if self.nesting.is_outside() => {
                    end = Some(StatementEnd::Semicolon);
                }
                kind => self.nesting.follow(kind, written),
            }
            sql.push_str(written);
        }
        if !sql.is_empty() {
            self.push_sql(sql, begin)?;
        }
        if end == Some(StatementEnd::Semicolon) {
            self.nesting.first_words.clear();
        }
        Ok(end)
    }

    fn push_sql(&mut self, sql: String, begin: usize) -> Result<(), Fault> {
        let line = self.lines.line_of(begin);
        let mut command = SqlCommand::new(sql, line, self.variables)
            .map_err(|_| Fault::too_many_variables(begin))?;
        command.command = self.script.commands.len();
        command.statement = self.statement_count;
        self.statement_count += 1;
        self.script.commands.push(Command::Sql(command));
        self.offsets.push(begin);
        Ok(())
    }

    /// Reads a meta command; the cursor stands behind its backslash.
    fn meta(&mut self) -> Result<(), Fault> {
        let begin = self.cursor.at - 1;
        let parsed = parse_meta(&mut self.cursor, self.variables, self.reading)?;
        let Some(parsed) = parsed else { return Ok(()) };
        let text = self.cursor.text[begin..self.cursor.at].trim_end_matches(['\n', '\r']);
        let line = self.lines.line_of(begin);
        let action = match parsed {
            Parsed::Gset { all, prefix } => return self.gset(all, prefix, begin),
            Parsed::Action(action) => action,
            Parsed::SetRandom(action) => {
                if self.script.notices.is_empty() {
                    let message = "\\setrandom, gone since PostgreSQL 9.6, is read as \\set NAME \
                                   random(MIN, MAX)";
                    self.script.notices.push(Notice { line, message: message.to_owned() });
                }
                action
            }
        };
        let command = self.script.commands.len();
        let meta = MetaCommand { text: text.to_owned(), line, command, action };
        self.script.commands.push(Command::Meta(meta));
        self.offsets.push(begin);
        Ok(())
    }

    fn gset(&mut self, all: bool, prefix: String, begin: usize) -> Result<(), Fault> {
        let name = if all { "aset" } else { "gset" };
        let mut message = format!("\\{name} must follow an SQL command");
        match self.script.commands.last_mut() {
            Some(Command::Sql(command)) if command.gset.is_none() => {
                command.gset = Some(Gset { prefix: prefix.into(), all });
                return Ok(());
            }
            Some(Command::Meta(command)) => message.push_str(&format!(" ({})", command.text)),
            _ => {}
        }
        let hint = "it stands in the place of the semicolon, one for each command";
        Err(Fault::new(begin, message).hint(hint))
    }

    /// Checks the nesting of conditions and resolves where each goes on.
    fn link_conditions(&mut self) -> Result<(), Fault> {
        // Of every open \if, the indexes of itself and of the \elif and \else that belong to it.
        let mut open: Vec<Vec<usize>> = Vec::new();
        for index in 0..self.script.commands.len() {
            let Command::Meta(meta) = &self.script.commands[index] else { continue };
            let name = match meta.action {
                MetaAction::If { .. } => {
                    open.push(vec![index]);
                    continue;
                }
                MetaAction::Elif { .. } => "elif",
                MetaAction::Else { .. } => "else",
                MetaAction::Endif => "endif",
                _ => continue,
            };
            let Some(branches) = open.last_mut() else {
                let message = format!("\\{name} without matching \\if");
                return Err(self.condition_fault(index, index, &message));
            };
            let last = *branches.last().expect("it holds at least the \\if");
            if name == "endif" {
                let branches = open.pop().expect("it was just looked at");
                self.link(&branches, index);
            } else if self.is_else(last) {
                let message = format!("\\{name} after \\else");
                return Err(self.condition_fault(index, index, &message));
            } else {
                branches.push(index);
            }
        }
        match open.last() {
            None => Ok(()),
            Some(branches) => {
                let end = self.script.commands.len();
                Err(self.condition_fault(branches[0], end, "\\if without matching \\endif"))
            }
        }
    }

    fn is_else(&self, index: usize) -> bool {
        matches!(&self.script.commands[index],
            Command::Meta(meta) if matches!(meta.action, MetaAction::Else { .. }))
    }

    /// Gives every branch the index of the next one, and of the `\endif`.
    fn link(&mut self, branches: &[usize], end: usize) {
        let next = branches[1..].iter().copied().chain([end]);
        for (&branch, next) in branches.iter().zip(next) {
            let Command::Meta(meta) = &mut self.script.commands[branch] else { continue };
            match &mut meta.action {
                MetaAction::If { otherwise, .. } => *otherwise = next,
                MetaAction::Elif { otherwise, endif, .. } => (*otherwise, *endif) = (next, end),
                MetaAction::Else { endif } => *endif = end,
                _ => {}
            }
        }
    }

    /// Returns a fault at command `index`, which pgbench reports at command `counted` + 1.
    fn condition_fault(&self, index: usize, counted: usize, message: &str) -> Fault {
        let message = format!(
            "condition error in script \"{}\" command {}: {message}",
            self.name,
            counted + 1
        );
        Fault::new(self.offsets[index], message)
    }
}

/// Parentheses and bodies of functions, in which a semicolon ends nothing.
#[derive(Default)]
struct Nesting {
    parentheses: usize,
    /// BEGIN and CASE without their END, inside CREATE FUNCTION and CREATE PROCEDURE.
    bodies: usize,
    /// First words of the statement, in lower case.
    first_words: Vec<String>,
}

impl Nesting {
    fn is_outside(&self) -> bool {
        self.parentheses == 0 && self.bodies == 0
    }

    fn follow(&mut self, kind: TokenKind, written: &str) {
        match kind {
            TokenKind::Open => self.parentheses += 1,
            TokenKind::Close => self.parentheses = self.parentheses.saturating_sub(1),
            TokenKind::Word => self.follow_word(written),
            _ => {}
        }
    }

    fn follow_word(&mut self, word: &str) {
        // CREATE OR REPLACE FUNCTION is the longest beginning.
        if self.first_words.len() < 4 {
            self.first_words.push(word.to_ascii_lowercase());
        }
        if self.parentheses > 0 || !self.creates_routine() {
            return;
        }
        match word.to_ascii_lowercase().as_str() {
            "begin" => self.bodies += 1,
            "case" if self.bodies > 0 => self.bodies += 1,
            "end" => self.bodies = self.bodies.saturating_sub(1),
            _ => {}
        }
    }

    fn creates_routine(&self) -> bool {
        let mut words = self.first_words.iter().map(String::as_str);
        if words.next() != Some("create") {
            return false;
        }
        match (words.next(), words.next(), words.next()) {
            (Some("function" | "procedure"), ..) => true,
            (Some("or"), Some("replace"), third) => matches!(third, Some("function" | "procedure")),
            _ => false,
        }
    }
}

/// Counts lines up to places that never go back.
struct LineCounter<'a> {
    text: &'a str,
    at: usize,
    line: usize,
}

impl LineCounter<'_> {
    fn line_of(&mut self, offset: usize) -> usize {
        self.line += self.text[self.at..offset].matches('\n').count();
        self.at = offset;
        self.line
    }
}
