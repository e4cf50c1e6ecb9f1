//! Scripts and their commands.

use crate::error::{Notice, ScriptError};
use crate::meta::{MetaAction, MetaCommand};
use crate::sql::{PARAMETERS_MAX, SqlCommand};

/// A script ready to run: one transaction of a client is one pass through its commands.
#[derive(Clone, Debug)]
pub struct Script {
    /// Name of its file, or description of the built-in script.
    pub name: String,
    /// Its commands in order; those of `\gset` and `\aset` are part of the SQL command before.
    pub commands: Vec<Command>,
    /// Notices about commands that this crate accepts and pgbench 18 does not.
    pub notices: Vec<Notice>,
}

/// A command of a script.
#[derive(Clone, Debug)]
pub enum Command {
    /// Sent to the server.
    Sql(SqlCommand),
    /// Carried out by the client.
    Meta(MetaCommand),
}

impl Command {
    /// Returns the line it begins on, counted from 1.
    pub fn line(&self) -> usize {
        match self {
            Command::Sql(command) => command.line,
            Command::Meta(command) => command.line,
        }
    }

    /// Returns what pgbench shows of it in reports: of an SQL command the first line.
    pub fn first_line(&self) -> &str {
        match self {
            Command::Sql(command) => command.first_line(),
            Command::Meta(command) => &command.text,
        }
    }

    /// Returns what pgbench calls it when it fails: `SQL`, or the name of the meta command.
    pub fn name(&self) -> &'static str {
        let Command::Meta(command) = self else { return "SQL" };
        match &command.action {
            MetaAction::Set(..) | MetaAction::InvalidName { is_shell: false, .. } => "set",
            MetaAction::Sleep(_) => "sleep",
            MetaAction::If { .. } => "if",
            MetaAction::Elif { .. } => "elif",
            MetaAction::Else { .. } => "else",
            MetaAction::Endif => "endif",
            MetaAction::InvalidName { is_shell: true, .. } => "setshell",
            MetaAction::Shell(shell) if shell.assigns.is_some() => "setshell",
            MetaAction::Shell(_) => "shell",
            MetaAction::StartPipeline => "startpipeline",
            MetaAction::SyncPipeline => "syncpipeline",
            MetaAction::EndPipeline => "endpipeline",
        }
    }

    /// Returns what pgbench says happened when it fails, behind the name and the script.
    pub fn failure(&self) -> &'static str {
        match self {
            Command::Sql(_) => "SQL command send failed",
            Command::Meta(command) => match &command.action {
                MetaAction::Set(..) | MetaAction::If { .. } | MetaAction::Elif { .. } => {
                    "evaluation of meta-command failed"
                }
                MetaAction::InvalidName { is_shell: false, .. } => {
                    "assignment of meta-command failed"
                }
                _ => "execution of meta-command failed",
            },
        }
    }
}

impl Script {
    /// Sends one byte to server and shell for each character. This is for a file that is not UTF-8
    /// and was read as if it were Latin-1, so no character is above U+00FF.
    ///
    /// The bytes are sent as they are in the file, in any encoding that includes ASCII.
    ///
    /// Limits: messages show the text as Latin-1, which may be wrong.
    pub fn send_characters_as_bytes(&mut self) {
        for command in &mut self.commands {
            match command {
                Command::Sql(sql) => sql.send_characters_as_bytes(),
                Command::Meta(MetaCommand { action: MetaAction::Shell(shell), .. }) => {
                    shell.send_characters_as_bytes();
                }
                Command::Meta(_) => {}
            }
        }
    }

    /// Returns the SQL commands in order: the one at index i has `statement` i.
    pub fn sql_commands(&self) -> impl Iterator<Item = &SqlCommand> {
        self.commands.iter().filter_map(|command| match command {
            Command::Sql(sql) => Some(sql),
            Command::Meta(_) => None,
        })
    }

    /// Returns for each SQL command whether it is in a branch, which may never run.
    pub fn conditional(&self) -> Vec<bool> {
        let mut depth = 0;
        let mut conditional = Vec::new();
        for command in &self.commands {
            match command {
                Command::Sql(_) => conditional.push(depth > 0),
                Command::Meta(meta) => match meta.action {
                    MetaAction::If { .. } => depth += 1,
                    MetaAction::Endif => depth -= 1,
                    _ => {}
                },
            }
        }
        conditional
    }

    /// Returns whether no statement writes, as far as the words tell.
    pub fn reads_only(&self) -> bool {
        self.sql_commands().all(|command| command.reads_only)
    }

    /// Returns whether the script runs commands of the shell.
    pub fn uses_shell(&self) -> bool {
        self.actions().any(|action| matches!(action, MetaAction::Shell(_)))
    }

    /// Returns whether the script has a pipeline, which the simple protocol does not allow.
    pub fn uses_pipeline(&self) -> bool {
        self.actions().any(|action| matches!(action, MetaAction::StartPipeline))
    }

    fn actions(&self) -> impl Iterator<Item = &MetaAction> {
        self.commands.iter().filter_map(|command| match command {
            Command::Sql(_) => None,
            Command::Meta(meta) => Some(&meta.action),
        })
    }

    /// Checks the rules of the extended and prepared protocols.
    ///
    /// Errors: a statement has more variables than [`PARAMETERS_MAX`].
    pub fn check_parameters(&self) -> Result<(), ScriptError> {
        match self.sql_commands().find(|command| command.parameters.len() > PARAMETERS_MAX) {
            None => Ok(()),
            Some(command) => Err(ScriptError::at_line(
                &self.name,
                command.line,
                command.first_line(),
                format!("statement has too many arguments (maximum is {PARAMETERS_MAX})"),
                Some("the simple protocol (-M simple) has no such limit".to_owned()),
            )),
        }
    }
}
