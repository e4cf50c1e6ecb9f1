//! Prepares a connection before the load: each statement is parsed once.

use pgdyno_wire::{ServerError, encode, messages, values};

use super::check::check;
use super::{Client, Lost, failures, native};
use crate::contract::job::Protocol;
use crate::contract::record::ErrorKind;
use crate::next_step::next_step;
use crate::outcome::Stopped;
use crate::plan::PlannedScript;
use crate::program::{NativeType, Program, Unready};
use crate::refusal::Refusal;

/// The result of preparing a connection.
#[derive(Debug, PartialEq, Eq)]
pub enum Prepared {
    Ready { scale: Option<i64> },
    Refused(Box<Refusal>),
    Lost,
}

/// Prepare a new connection for its scripts.
///
/// Args: `is_first`, true to check the statements one by one, so that an error has its line, and to
/// read the scale factor if a script needs it.
pub async fn prepare(client: Client<'_>, is_first: bool) -> Prepared {
    match try_prepare(client, is_first).await {
        Ok(scale) => Prepared::Ready { scale },
        Err(Fault::Refused(refusal)) => Prepared::Refused(refusal),
        Err(Fault::Lost) => Prepared::Lost,
    }
}

enum Fault {
    Refused(Box<Refusal>),
    Lost,
}

impl From<Lost> for Fault {
    fn from(_: Lost) -> Fault {
        Fault::Lost
    }
}

async fn try_prepare(client: Client<'_>, is_first: bool) -> Result<Option<i64>, Fault> {
    let plan = client.plan;
    let scale = if is_first && plan.needs_scale() { Some(scale(client).await?) } else { None };
    for (script_index, script) in plan.scripts.iter().enumerate() {
        if script.weight == 0 || !is_first && script.protocol != Protocol::Prepared {
            continue;
        }
        if let (true, Program::Native(native)) = (is_first, &script.program)
            && native.number == 0
        {
            look_at_data(client, native, script_index).await?;
        }
        if is_first || script.makes_objects {
            if let Some(refusal) = check(client, script_index).await? {
                return Err(Fault::Refused(refusal));
            }
        } else if !script.statements.is_empty() {
            prepare_at_once(client, script_index, script).await?;
        }
    }
    Ok(scale)
}

/// Let a native program check its data.
async fn look_at_data(
    client: Client<'_>,
    native: &NativeType,
    script_index: usize,
) -> Result<(), Fault> {
    let (message, hint) = match native::prepare(client, native, script_index).await {
        Ok(()) => return Ok(()),
        Err(Unready::Stopped(Stopped::Lost(_) | Stopped::Cancelled)) => return Err(Fault::Lost),
        Err(Unready::Refused { message, hint }) => (message, hint),
        Err(Unready::Stopped(Stopped::Failed(code))) => {
            let tables = format!("load its tables first: pgdyno init {}", native.dataset);
            let error = client.connection(|c| c.reply.error.take());
            match error.map(|error| failures::shown(client, script_index, &error)) {
                Some(error) if !["42P01", "42703"].contains(&error.sqlstate.as_str()) => {
                    (error.to_string(), next_step(&error))
                }
                Some(error) => (error.to_string(), tables),
                None => (code.name(), tables),
            }
        }
    };
    Err(Fault::Refused(Box::new(Refusal::new(ErrorKind::Prepare, message, hint))))
}

/// Parse all statements of a script in one exchange. Statements that the server is known to refuse
/// are left out: a client that reaches one of them gets the error.
async fn prepare_at_once(
    client: Client<'_>,
    script_index: usize,
    script: &PlannedScript,
) -> Result<(), Fault> {
    let number = |index| client.plan.layout.statement_index(script_index, index);
    let refused = client.shard().refused_statements.clone();
    let known: Vec<usize> =
        (0..script.statements.len()).filter(|&index| !refused.contains(&number(index))).collect();
    if known.is_empty() {
        return Ok(());
    }
    client
        .exchange(false, |_, out, _| {
            known.iter().for_each(|&index| out.extend_from_slice(&script.statements[index].parse));
            encode::sync(out);
            1
        })
        .await?;
    let Some(error) = client.connection(|c| c.reply.error.take()) else {
        client.connection(|c| known.iter().for_each(|&index| c.set_prepared(number(index))));
        return Ok(());
    };
    Err(Fault::Refused(Box::new(refusal(&failures::shown(client, script_index, &error)))))
}

/// Return a refusal without a place in a script.
fn refusal(error: &ServerError) -> Refusal {
    let hint = match error.sqlstate.as_str() {
        "42P01" if error.message.contains("pgbench_") => {
            "the pgbench tables are missing in this database: load them with init".into()
        }
        _ => next_step(error),
    };
    Refusal {
        sqlstate: Some(error.sqlstate.as_str().to_owned()),
        ..Refusal::new(ErrorKind::Prepare, error.to_string(), hint)
    }
}

/// Read the scale factor of the pgbench tables, as pgbench does.
async fn scale(client: Client<'_>) -> Result<i64, Fault> {
    client
        .exchange(true, |_, out, _| {
            encode::query(out, |out| {
                out.extend_from_slice(b"select count(*) from pgbench_branches");
            });
            1
        })
        .await?;
    client.connection(|c| {
        if let Some(error) = c.reply.error.take() {
            return Err(Fault::Refused(Box::new(refusal(&error))));
        }
        let row = messages(&c.reply.captured).find(|message| message.tag == b'D');
        let count = row.and_then(|row| {
            let value = *values(row.body).ok()?.first()?;
            std::str::from_utf8(value?).ok()?.parse().ok()
        });
        match count {
            Some(scale) if scale > 0 => Ok(scale),
            _ => Err(Fault::Refused(Box::new(Refusal::new(
                ErrorKind::Prepare,
                "table pgbench_branches is empty, so the scale factor is not known",
                "load the pgbench tables with init",
            )))),
        }
    })
}
