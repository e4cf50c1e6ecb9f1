//! Checks before the load that the server accepts each statement, by parsing them one by one.

use pgdyno_script::{ClientVariables, Command, MetaAction, Prng, Script, SqlCommand, VariableSlot};
use pgdyno_wire::{ServerError, encode};

use super::{Client, Lost};
use crate::caret::{caret, line_number};
use crate::contract::job::Protocol;
use crate::contract::record::{ErrorKind, WarningKind};
use crate::next_step::next_step;
use crate::outcome::Remark;
use crate::plan::{Plan, PlannedScript, Statement};
use crate::program::Program;
use crate::refusal::Refusal;

/// SQLSTATEs that a statement may get only because the types of its values are not known.
const TYPELESS: [&str; 6] = ["42P18", "42P08", "42804", "42883", "42601", "42725"];

/// The text that the server parses.
struct Question {
    sql: String,
    /// Names of variables without a value. The text has them unchanged, with their colon.
    undefined: Vec<String>,
    /// The text has parameters instead of values, because the values are not known yet.
    is_typeless: bool,
}

/// Parse every statement of a script.
///
/// Returns: the first error that the load would get, too; it stops the run. An error in a branch
/// only causes a warning, because the branch may never run.
pub(super) async fn check(
    client: Client<'_>,
    script_index: usize,
) -> Result<Option<Box<Refusal>>, Lost> {
    let plan = client.plan;
    let script = &plan.scripts[script_index];
    let text = match &script.program {
        Program::Script(text) => text,
        Program::Native(native) => return check_native(client, script_index, native.dataset).await,
    };
    let values = client.seat(|seat| values(&seat.terminal.variables, seat.terminal.random, text));
    for (command, statement) in text.sql_commands().zip(&script.statements) {
        let question = match plan.work.protocol {
            Protocol::Simple => simple(plan, command, &values),
            _ => Question {
                sql: command.parameterized.to_string(),
                undefined: Vec::new(),
                is_typeless: false,
            },
        };
        if plan.work.protocol == Protocol::Simple && has_several_commands(&question.sql) {
            continue;
        }
        let is_named = plan.work.protocol == Protocol::Prepared;
        client
            .exchange(false, |_, out, _| {
                match is_named {
                    true => out.extend_from_slice(&statement.parse),
                    false => encode::parse(out, "", question.sql.as_bytes()),
                }
                encode::sync(out);
                1
            })
            .await?;
        let number = plan.layout.statement_index(script_index, command.statement);
        let error = client.connection(|c| match c.reply.error.take() {
            None => {
                c.set_prepared(number);
                None
            }
            error => error,
        });
        let Some(error) = error else { continue };
        client.shard().note_refused(number);
        if !stops_the_run(&error, script, &question) {
            continue;
        }
        let refusal = Box::new(refusal(&error, script, statement, &question));
        if !statement.is_conditional {
            return Ok(Some(refusal));
        }
        let Refusal { message, hint, .. } = *refusal;
        client.shard().warnings.push(Remark { kind: WarningKind::StatementRefused, message, hint });
    }
    Ok(None)
}

/// Parse every statement of a transaction type of a native program. An error stops the run, unless
/// the program outlasts refusals.
async fn check_native(
    client: Client<'_>,
    script_index: usize,
    dataset: &str,
) -> Result<Option<Box<Refusal>>, Lost> {
    let script = &client.plan.scripts[script_index];
    for (index, statement) in script.statements.iter().enumerate() {
        client
            .exchange(false, |_, out, _| {
                out.extend_from_slice(&statement.parse);
                encode::sync(out);
                1
            })
            .await?;
        let number = client.plan.layout.statement_index(script_index, index);
        let error = client.connection(|c| match c.reply.error.take() {
            None => {
                c.set_prepared(number);
                None
            }
            error => error,
        });
        let Some(error) = error else { continue };
        if script.makes_objects || script.outlasts_refusals {
            // An object that is missing may exist when the statement is executed.
            client.shard().note_refused(number);
            continue;
        }
        let hint = match error.sqlstate.as_str() {
            "42P01" | "42883" => format!("load its tables first: pgdyno init {dataset}"),
            "42703" => format!(
                "the tables are not those of pgdyno init {dataset}: name the database that has them"
            ),
            _ => next_step(&error),
        };
        return Ok(Some(Box::new(Refusal {
            sqlstate: Some(error.sqlstate.as_str().to_owned()),
            script: Some(script.name.clone()),
            ..Refusal::new(
                ErrorKind::Prepare,
                format!("{}: {error}\n{}", script.name, statement.text),
                hint,
            )
        })));
    }
    Ok(None)
}

/// Return the values of the variables after all assignments of the script, in any branch.
fn values(variables: &ClientVariables, random: Prng, script: &Script) -> ClientVariables {
    let (mut values, mut random) = (variables.clone(), random);
    for (index, command) in script.commands.iter().enumerate() {
        if let Command::Meta(meta) = command
            && let MetaAction::Set(slot, expression) = &meta.action
            && let Ok(value) = expression.evaluate(&mut values, &mut random, index)
        {
            values.set(*slot, value);
        }
    }
    values
}

/// Return the text with the values that the load will send, or with parameters if they are not
/// known.
fn simple(plan: &Plan, command: &SqlCommand, values: &ClientVariables) -> Question {
    let undefined = command.parameters.iter().filter(|slot| !values.is_defined(**slot));
    let undefined: Vec<VariableSlot> = undefined.copied().collect();
    if undefined.iter().any(|slot| comes_later(plan, *slot)) {
        let sql = command.parameterized.to_string();
        return Question { sql, undefined: Vec::new(), is_typeless: true };
    }
    let mut sql = Vec::new();
    command.render_simple(values, &mut sql);
    Question {
        sql: String::from_utf8_lossy(&sql).into_owned(),
        undefined: undefined.iter().map(|slot| plan.variables.name(*slot).to_owned()).collect(),
        is_typeless: false,
    }
}

/// True if a command of any script may give the variable its value.
fn comes_later(plan: &Plan, slot: VariableSlot) -> bool {
    let mut commands = plan.texts().flat_map(|script| &script.commands);
    commands.any(|command| match command {
        Command::Sql(sql) => {
            let name = plan.variables.name(slot);
            sql.gset.as_ref().is_some_and(|gset| name.starts_with(&*gset.prefix))
        }
        Command::Meta(meta) => match &meta.action {
            MetaAction::Set(set, _) => *set == slot,
            MetaAction::Shell(shell) => shell.assigns == Some(slot),
            _ => false,
        },
    })
}

/// True if the text has several commands, which only the simple protocol allows and Parse refuses.
/// A semicolon in a string looks the same; then the statement is not checked.
fn has_several_commands(text: &str) -> bool {
    text.trim_end().trim_end_matches(';').contains(';')
}

fn stops_the_run(error: &ServerError, script: &PlannedScript, question: &Question) -> bool {
    if script.makes_objects || !["28", "3D", "42"].contains(&error.sqlstate.class()) {
        return false;
    }
    !(question.is_typeless && TYPELESS.contains(&error.sqlstate.as_str()))
}

fn refusal(
    error: &ServerError,
    script: &PlannedScript,
    statement: &Statement,
    question: &Question,
) -> Refusal {
    let position = error.position.map_or(1, |position| position as usize);
    let line = statement.line + line_number(&question.sql, position) as u32 - 1;
    let mut message = format!("{}, line {line}: {error}", script.name);
    if error.position.is_some() {
        message.push_str(&format!("\n{}", caret(&question.sql, position)));
    }
    Refusal {
        sqlstate: Some(error.sqlstate.as_str().to_owned()),
        script: Some(script.name.clone()),
        line: Some(line),
        ..Refusal::new(ErrorKind::Prepare, message, hint(error, question))
    }
}

/// The next step for the user.
fn hint(error: &ServerError, question: &Question) -> String {
    if let Some(name) = question.undefined.first() {
        return format!("variable {name} has no value: \\set it, or give -D {name}=VALUE");
    }
    match error.sqlstate.as_str() {
        "42P01" if error.message.contains("pgbench_") => {
            "the pgbench tables are missing in this database: load them with init".into()
        }
        _ => next_step(error),
    }
}
