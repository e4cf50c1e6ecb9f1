//! One entry of a job's scripts becomes `PlannedScript`s: read, and refused if the job forbids it.
//!
//! A text script becomes one planned script. A native program becomes one for each transaction
//! type.

use std::sync::Arc;

use pgdyno_script::{BUILTINS, SqlCommand, VariableTable, find_builtin, parse, parse_as_pgbench};

use super::statement::{Statement, StatementKind, pieces_of};
use crate::contract::job::{LoadWork, Protocol, ScriptSource, ScriptText};
use crate::contract::record::ErrorKind;
use crate::program::{
    Asked, COUNTERS_MAX, Deck, Mix, Native, NativeType, Pauses, Program, Share, TransactionType,
};
use crate::refusal::Refusal;

/// A text script, or one transaction type of a native program. Each is chosen, counted and timed
/// separately.
#[derive(Debug)]
pub struct PlannedScript {
    pub name: String,
    /// Name of the entry in the job.
    pub program_name: String,
    pub program: Program,
    /// Of a text script: the weight of its entry. Of a native program's type: within the program.
    pub weight: u32,
    pub pauses: Pauses,
    pub statements: Vec<Statement>,
    /// Names of the counters of a native program.
    pub counters: &'static [&'static str],
    pub protocol: Protocol,
    pub reads_only: bool,
    /// Deferred work of other types. Background terminals run it; clients never choose it.
    pub is_background: bool,
    /// The script has DDL. So a table that does not exist before the load may exist when it is
    /// used.
    pub makes_objects: bool,
    /// If the server refuses a statement, the load goes on, and transactions that reach it fail.
    pub outlasts_refusals: bool,
}

/// One entry of the job's scripts: which planned scripts belong to it, and how a client chooses
/// among them.
#[derive(Debug)]
pub struct PlannedProgram {
    pub first_script: usize,
    pub type_weights: Vec<u32>,
    pub mix: Mix,
}

/// Plan the run of a native program: one planned script for each type, and whether they are dealt.
///
/// Args: `first_number`, the number of the first planned script; `settings` gets the session
/// settings that the program needs.
///
/// Errors: the simple protocol, or options that the program refuses.
pub(super) fn of_native(
    source: &ScriptSource,
    native: &dyn Native,
    work: &LoadWork,
    first_number: usize,
    settings: &mut Vec<(String, String)>,
) -> Result<(Vec<PlannedScript>, Mix), Refusal> {
    let refuse = |why: String, hint: &str| Refusal {
        script: Some(source.name.clone()),
        ..Refusal::new(ErrorKind::Job, format!("program \"{}\" {why}", source.name), hint)
    };
    if work.protocol == Protocol::Simple && !native.takes_templates() {
        return Err(refuse(
            "sends typed parameters, which the simple protocol does not have".into(),
            "choose the prepared protocol (-M prepared)",
        ));
    }
    let sizes = (work.seed, work.client_count());
    let planned = Asked::new(native, &source.options, source.templates.as_ref(), sizes)
        .and_then(|asked| native.plan(&asked.of_share(Share::of(work))))
        .map_err(|why| refuse(why, "pgdyno-engine facts lists the options of every program"))?;
    let is_deck = planned.mix == Mix::Deck;
    let most = if is_deck { 255 } else { u32::MAX };
    let type_count = planned.types.len();
    assert!(!is_deck || type_count <= Deck::TYPES_MAX, "{type_count} types for a deck");
    for kind in &planned.types {
        assert!((1..=most).contains(&kind.weight), "{}: weight {}", kind.name, kind.weight);
        assert!(kind.counters.len() <= COUNTERS_MAX, "{}: too many counters", kind.name);
    }
    let script = |(number, kind): (usize, TransactionType)| {
        let statement = |(index, text): (usize, &String)| {
            let name = Naming::ByScript(first_number + number).statement(index);
            let mut statement = Statement::native(text, &name, index as u32 + 1, kind.reads_only);
            statement.captures = !kind.unread.contains(&index);
            if kind.protocol.unwrap_or(work.protocol) == Protocol::Simple {
                let types = kind.parameter_types.get(index).map_or(&[][..], Vec::as_slice);
                statement.pieces = pieces_of(text, types);
            }
            statement
        };
        let statements: Vec<_> = kind.statements.iter().enumerate().map(statement).collect();
        PlannedScript {
            name: kind.name,
            program_name: source.name.clone(),
            program: Program::Native(NativeType {
                transactions: Arc::clone(&planned.transactions),
                number,
                dataset: native.dataset(),
            }),
            // If the program is never chosen, none of its statements is prepared.
            weight: if source.weight == 0 { 0 } else { kind.weight },
            pauses: kind.pauses,
            counters: kind.counters,
            protocol: kind.protocol.unwrap_or(work.protocol),
            reads_only: kind.reads_only,
            is_background: kind.is_background,
            makes_objects: makes_objects(&statements),
            outlasts_refusals: native.takes_templates(),
            statements,
        }
    };
    settings.extend(planned.settings);
    Ok((planned.types.into_iter().enumerate().map(script).collect(), planned.mix))
}

/// How a script is read, and how its prepared statements are named: as the lab or as pgbench does.
#[derive(Clone, Copy, Debug)]
pub(super) enum Naming {
    /// The lab's way: `P1_0` is the first statement of script 1.
    ByScript(usize),
    /// pgbench's way: `P_0`, `P_1` and so on, numbered over all scripts.
    AsPgbench {
        first: usize,
        /// Each character of the script stands for one byte.
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

/// Read one text script of the job, and encode its statements.
///
/// Errors: the first fault of the script, or the first feature that the job does not allow.
pub(super) fn read(
    source: &ScriptSource,
    work: &LoadWork,
    naming: Naming,
    (variables, natives): (&mut VariableTable, &[&dyn Native]),
) -> Result<PlannedScript, Refusal> {
    let text = match &source.source {
        ScriptText::Text(text) => text.as_str(),
        ScriptText::Builtin(name) => {
            find_builtin(name).map_err(|_| unknown_builtin(name, natives))?.text
        }
    };
    refuse_parts_of_programs(source)?;
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
            "add --allow-shell if you trust the script",
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
        program_name: source.name.clone(),
        weight: source.weight,
        pauses: Pauses::default(),
        counters: &[],
        reads_only: script.reads_only(),
        is_background: false,
        protocol: work.protocol,
        makes_objects: makes_objects(&statements),
        outlasts_refusals: false,
        statements,
        program: Program::Script(script),
    })
}

fn makes_objects(statements: &[Statement]) -> bool {
    statements.iter().any(|statement| statement.kind == StatementKind::Ddl)
}

/// Refuse options and templates, which only native programs have.
fn refuse_parts_of_programs(source: &ScriptSource) -> Result<(), Refusal> {
    let (what, hint) = if source.templates.is_some() {
        ("templates of a capture".to_owned(), "leave the templates out: this program has its own")
    } else if !source.options.is_empty() {
        let got = format!("options, got {:?}", source.options);
        (got, "leave the options out: only native programs have options")
    } else {
        return Ok(());
    };
    let message = format!("script \"{}\" takes no {what}", source.name);
    Err(Refusal::new(ErrorKind::Job, message, hint))
}

fn unknown_builtin(name: &str, natives: &[&dyn Native]) -> Refusal {
    let scripts = BUILTINS.iter().map(|builtin| builtin.name);
    let names: Vec<_> = scripts.chain(natives.iter().map(|native| native.name())).collect();
    Refusal::new(
        ErrorKind::Job,
        format!("\"{name}\" must be the name of a built-in, or the beginning of only one name"),
        format!("built-ins are {}", names.join(", ")),
    )
}
