//! One script of a job: read, held against what the job allows, its statements ready to be sent.

use pgdyno_script::{
    BUILTINS, Script, SqlCommand, VariableTable, find_builtin, parse, parse_as_pgbench,
};

use super::refusal::Refusal;
use super::statement::{Statement, StatementKind};
use crate::contract::job::{LoadWork, Protocol, ScriptSource, ScriptText};
use crate::contract::record::ErrorKind;

/// A script, and its statements ready to be sent.
#[derive(Debug)]
pub struct PlannedScript {
    pub name: String,
    pub script: Script,
    pub statements: Vec<Statement>,
    pub reads_only: bool,
    /// It has DDL, so a table that is missing before the load may be there when it is used.
    pub makes_objects: bool,
}

/// By whose rules a script is read, and what its prepared statements are called.
#[derive(Clone, Copy, Debug)]
pub(super) enum Naming {
    /// The lab's: `P1_0` is the first statement of script 1.
    ByScript(usize),
    /// pgbench's: `P_0` and so on over all scripts.
    AsPgbench {
        first: usize,
        /// Characters of the script stand for bytes.
        are_bytes: bool,
    },
}

impl Naming {
    fn statement(self, index: usize) -> String {
        match self {
            Naming::ByScript(number) => format!("P{number}_{index}"),
            Naming::AsPgbench { first, .. } => format!("P_{}", first + index),
        }
    }

    fn is_of_pgbench(self) -> bool {
        matches!(self, Naming::AsPgbench { .. })
    }
}

/// Read a script of the job.
///
/// Errors: the script's first fault, or what of it the job does not allow.
pub(super) fn read(
    source: &ScriptSource,
    work: &LoadWork,
    naming: Naming,
    variables: &mut VariableTable,
) -> Result<PlannedScript, Refusal> {
    let text = match &source.source {
        ScriptText::Text(text) => text.as_str(),
        ScriptText::Builtin(name) => find_builtin(name).map_err(|_| unknown_builtin(name))?.text,
    };
    let mut script = match naming {
        Naming::ByScript(_) => parse(&source.name, text, variables)?,
        Naming::AsPgbench { .. } => parse_as_pgbench(&source.name, text, variables)?,
    };
    if matches!(naming, Naming::AsPgbench { are_bytes: true, .. }) {
        script.send_characters_as_bytes();
    }
    let refuse = |message: &str, hint: &str| {
        let message = format!("script \"{}\" {message}", source.name);
        Err(Refusal {
            script: Some(source.name.clone()),
            ..Refusal::new(ErrorKind::Script, message, hint)
        })
    };
    if script.uses_shell() && !work.allow_shell {
        return refuse(
            "runs shell commands, which the job does not allow",
            "give --allow-shell if you trust the script",
        );
    }
    if work.protocol == Protocol::Simple {
        if script.uses_pipeline() && !naming.is_of_pgbench() {
            return refuse(
                "uses a pipeline, which the simple protocol does not have",
                "choose the extended or prepared protocol (-M)",
            );
        }
    } else {
        script.check_parameters()?;
    }
    if script.sql_commands().any(|command| command.parameters.len() > usize::from(u16::MAX)) {
        return refuse("has a statement with more than 65,535 variables", "split the statement");
    }
    let statement = |(index, (command, is_conditional)): (usize, (&SqlCommand, bool))| {
        Statement::new(command, &naming.statement(index), is_conditional)
    };
    let commands = script.sql_commands().zip(script.conditional());
    let statements: Vec<_> = commands.enumerate().map(statement).collect();
    Ok(PlannedScript {
        name: source.name.clone(),
        reads_only: script.reads_only(),
        makes_objects: statements.iter().any(|statement| statement.kind == StatementKind::Ddl),
        statements,
        script,
    })
}

fn unknown_builtin(name: &str) -> Refusal {
    let names: Vec<_> = BUILTINS.iter().map(|builtin| builtin.name).collect();
    Refusal::new(
        ErrorKind::Job,
        format!("builtin script \"{name}\" is not one, or not the beginning of only one"),
        format!("built-in scripts are {}", names.join(", ")),
    )
}
