//! Asks the observer, if there is one, what follows a failed try.

use pgdyno_script::{ClientVariables, Command};

use super::{Client, Seat};
use crate::clock::now_ns;
use crate::contract::job::Protocol;
use crate::observer::{Cause, FailedTry, Verdict};
use crate::outcome::Stopped;
use crate::outcome::{Ended, FailureCode, Outcome};

/// Return the observer's verdict; None if the load has no observer.
///
/// Call it before the next exchange, while the reply still has the error.
#[cold]
pub(super) fn judge(
    client: Client<'_>,
    script: usize,
    stopped: &Stopped,
    tries: u16,
) -> Option<Verdict> {
    let shard = &mut *client.shard();
    let observer = shard.observer.as_mut()?;
    let Seat { connection: state, terminal } = shard.clients.seat(client.index);
    // Here a fault of the script ends the client, and not the run.
    let _ = shard.fault.take();
    let (complaint, misplaced) = (state.complaint.take(), state.misplaced.take());
    let sql = sent(client, script, state.place, &terminal.variables);
    let lost;
    let cause = match (stopped, &complaint, &state.reply.error) {
        (Stopped::Cancelled, ..) => return None,
        _ if misplaced.is_some() => Cause::Misplaced(misplaced?),
        (Stopped::Lost(_), _, said) => {
            lost = said.clone().or(state.last_words.clone());
            Cause::Lost(lost.as_deref())
        }
        (_, Some(text), _) => Cause::Evaluation(text),
        _ if state.reply.has_copy => Cause::Copy,
        (Stopped::Failed(FailureCode::Sql(_)), _, Some(error)) => Cause::Server(error),
        (Stopped::Failed(FailureCode::OpenBlock), ..) => match state.open_pipeline {
            true => Cause::OpenPipeline,
            false => Cause::OpenBlock,
        },
        (_, _, None) if state.reply.capture => Cause::RowCount(state.reply.row_count),
        _ => Cause::MetaCommand,
    };
    let current = state.current?;
    // What is wrong with the rows of a query is known when the query has ended.
    let is_of_rows = matches!(cause, Cause::RowCount(_) | Cause::Evaluation(_));
    let query = state.reply.command_count.saturating_sub(u32::from(is_of_rows));
    if matches!(cause, Cause::OpenBlock) {
        // pgbench counts the transaction first, and then checks what the script left open.
        observer.ended(
            client.index,
            script,
            &Ended {
                scheduled_ns: current.scheduled_ns,
                started_ns: current.started_ns,
                ended_ns: now_ns(),
                retries: tries - 1,
                outcome: Outcome::Completed,
            },
        );
    }
    Some(observer.judge(&FailedTry {
        client: client.index,
        script,
        command: state.place,
        query,
        sql: &sql,
        cause,
        tries: u32::from(tries),
        scheduled_ns: current.scheduled_ns,
        started_ns: current.started_ns,
        is_draining: shard.is_draining,
    }))
}

/// Return the SQL command that the server got.
fn sent(client: Client<'_>, script: usize, place: usize, variables: &ClientVariables) -> String {
    let script = client.plan.scripts[script].program.as_script();
    match script.and_then(|script| script.commands.get(place)) {
        Some(Command::Sql(command)) if client.plan.work.protocol == Protocol::Simple => {
            let mut sql = Vec::new();
            command.render_simple(variables, &mut sql);
            String::from_utf8_lossy(&sql).into_owned()
        }
        Some(Command::Sql(command)) => command.parameterized.to_string(),
        _ => String::new(),
    }
}
