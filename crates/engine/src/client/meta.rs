//! Meta commands that need more than evaluation: `\gset` and `\aset` (rows), `\shell` and
//! `\setshell`.

use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Stdio};

use pgdyno_script::{ClientVariables, EvalError, Gset, ShellCommand, Value};
use pgdyno_wire::{columns, messages, values};

use super::Client;
use super::connection::{Connection, Seat};
use super::terminal::Terminal;
use crate::contract::record::ErrorKind;
use crate::outcome::FailureCode;
use crate::outcome::Stopped;
use crate::plan::PlannedScript;
use crate::refusal::Refusal;

/// Why a meta command failed.
pub(super) enum Unassigned {
    /// The script has a fault.
    Evaluation(EvalError),
    /// It may succeed the next time.
    Nothing,
}

impl From<EvalError> for Unassigned {
    fn from(error: EvalError) -> Unassigned {
        Unassigned::Evaluation(error)
    }
}

pub(super) fn not_assigned(
    client: Client<'_>,
    script: &PlannedScript,
    position: usize,
    error: Unassigned,
) -> Stopped {
    match error {
        Unassigned::Evaluation(error) => not_evaluated(client, script, position, &error),
        Unassigned::Nothing => Stopped::Failed(FailureCode::MetaCommand),
    }
}

/// The script has a fault, which each try would meet: end the run, and report the place.
#[cold]
pub(super) fn not_evaluated(
    client: Client<'_>,
    script: &PlannedScript,
    position: usize,
    error: &EvalError,
) -> Stopped {
    let command = script.program.as_script().and_then(|script| script.commands.get(position));
    let line = command.map_or(0, |command| command.line() as u32);
    let text = command.map_or("", |command| command.first_line());
    let message = format!("{}, line {line}: {error}\n{text}", script.name);
    client.connection(|c| c.complaint = Some(error.to_string()));
    client.shard().fault = Some(Box::new(Refusal {
        script: Some(script.name.clone()),
        line: Some(line),
        ..Refusal::new(ErrorKind::Evaluation, message, "correct the script, or define the variable")
    }));
    Stopped::Failed(FailureCode::Evaluation)
}

/// Store the received rows in variables, as `\gset` and `\aset` demand.
///
/// Args: `only_numbers`, refuse other values.
pub(super) fn assign(seat: Seat<'_>, gset: &Gset, only_numbers: bool) -> Result<(), Unassigned> {
    let Seat { connection: Connection { reply, .. }, terminal: Terminal { variables, .. } } = seat;
    let broken = || Unassigned::Nothing;
    if reply.captured_overflow {
        return Err(broken());
    }
    let mut names = Vec::new();
    let mut last_row = None;
    let mut keep = |names: &[String], row| {
        let row = values(row).map_err(|_| broken())?;
        let pairs = || names.iter().map(String::as_str).zip(row.iter().copied());
        if only_numbers {
            ClientVariables::require_numbers(gset, pairs())?;
        }
        Ok::<_, Unassigned>(variables.assign_row(gset, pairs())?)
    };
    let mut ended_count = 0;
    for message in messages(&reply.captured) {
        match message.tag {
            b'T' => names = columns(message.body).map_err(|_| broken())?,
            b'D' => last_row = Some(message.body),
            _ => {
                ended_count += 1;
                let is_one_row = ended_count == reply.command_count && reply.row_count == 1;
                if let Some(row) = last_row.take().filter(|_| gset.all || is_one_row) {
                    keep(&names, row).inspect_err(|_| reply.command_count = ended_count)?;
                }
            }
        }
    }
    // Under `\aset`, a statement without rows sets nothing.
    if gset.all || reply.row_count == 1 { Ok(()) } else { Err(broken()) }
}

/// Run a shell command. As in pgbench, the whole thread waits for it.
///
/// Args: `owns_stdout`, true if the command may print to standard output.
pub(super) fn shell(
    seat: Seat<'_>,
    command: &ShellCommand,
    owns_stdout: bool,
) -> Result<(), Unassigned> {
    let Seat { connection, terminal: Terminal { variables, .. } } = seat;
    let line = command.command_line(variables)?;
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(std::ffi::OsStr::from_bytes(&line));
    let name = command.name(variables);
    let mut failed = |what: &str| {
        connection.complaint = Some(format!("{name}: {what}"));
        Unassigned::Nothing
    };
    if owns_stdout && command.assigns.is_none() {
        return match shell.status() {
            Ok(status) if status.success() => Ok(()),
            _ => Err(failed("could not launch shell command")),
        };
    }
    let output = shell.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.map_err(|_| failed("could not launch shell command"))?;
    if let Some(slot) = command.assigns {
        if output.stdout.is_empty() {
            return Err(failed("could not read result of shell command"));
        }
        let first = output.stdout.split(|&byte| byte == b'\n').next().unwrap_or_default();
        let value = command.result(first, variables)?;
        variables.set(slot, Value::Int(value));
        return Ok(());
    }
    // Standard output is for records, so the command's output goes to standard error.
    let _ = std::io::stderr().write_all(&output.stdout);
    match output.status.success() {
        true => Ok(()),
        false => Err(failed("could not launch shell command")),
    }
}
