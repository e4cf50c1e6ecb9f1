//! One pass through a script: one try of a transaction.

use pgdyno_script::{Script, ShellCommand, SqlCommand, Step};
use pgdyno_wire::encode;

use super::Client;
use super::connection::{Connection, Seat};
use super::meta::{assign, not_assigned, not_evaluated, shell};
use super::terminal::Terminal;
use super::{read_only, trace};
use crate::clock::now_ns;
use crate::contract::job::Protocol;
use crate::observer::Misplaced;
use crate::outcome::FailureCode;
use crate::outcome::Stopped;
use crate::plan::PlannedScript;
use crate::recorder::Recorder;
use crate::tally::Owner;

/// The statements of an open pipeline.
#[derive(Debug, Default)]
struct Pipeline {
    messages: Vec<u8>,
    sync_count: u32,
    /// Index of each statement in the script, in order.
    statements: Vec<usize>,
    /// Statements that are prepared if the pipeline succeeds.
    newly_prepared: Vec<usize>,
}

/// Run the script once.
///
/// Args: `started_ns`, the present time, just read from the clock.
///
/// Returns: when the script ended.
pub(super) async fn run(
    client: Client<'_>,
    script: &Script,
    script_index: usize,
    started_ns: u64,
) -> Result<u64, Stopped> {
    let planned = &client.plan.scripts[script_index];
    let pgbench = &client.plan.pgbench;
    let times_commands = pgbench.observes_commands() && client.plan.work.statement_latency;
    let traces = pgbench.traces();
    let (mut position, mut pipeline) = (0, None::<Pipeline>);
    let mut ended_ns = started_ns;
    // The last reading of the clock. It is valid while nothing was waited for.
    let mut fresh_ns = Some(started_ns);
    loop {
        let begins = times_commands.then(|| (position, now_ns()));
        let step = match traces {
            false => next_step(client, (script, planned), &mut position, times_commands)?,
            true => traced_step(client, (script, planned), &mut position)?,
        };
        // The command of this step, for messages about it.
        let place = position.saturating_sub(1);
        match step {
            Step::Sql(command) => match &mut pipeline {
                Some(open) => {
                    if queue(client, script_index, command, open)? {
                        ended_ns = flush(client, script_index, std::mem::take(open)).await?;
                    }
                }
                None => {
                    ended_ns = statement(client, script_index, command, fresh_ns.take()).await?;
                    keep_values(client, planned, place, command)?;
                }
            },
            Step::Sleep { duration_ns } => {
                let (began_ns, woke_ns) = (now_ns(), client.sleep(duration_ns).await?);
                ended_ns = record_own_time(client, Recorder::slept, began_ns, woke_ns);
            }
            Step::Shell(command) => {
                ended_ns = run_shell(client, planned, place, command)?;
            }
            Step::StartPipeline => {
                pipeline =
                    Some(start_pipeline(client, script_index, position, pipeline.is_some())?);
            }
            Step::SyncPipeline if pipeline.is_some() => {
                let open = pipeline.as_mut().expect("just seen");
                if sync(client, open) {
                    ended_ns = flush(client, script_index, std::mem::take(open)).await?;
                }
            }
            Step::EndPipeline if pipeline.is_some() => {
                let pipeline = pipeline.take().expect("just seen");
                ended_ns = flush(client, script_index, pipeline).await?;
            }
            Step::SyncPipeline | Step::EndPipeline => {
                return Err(misplaced(client, Misplaced::NotInPipeline));
            }
            Step::Continue => {}
            Step::Done => break,
        }
        fresh_ns = None;
        if let Some((command, began_ns)) = begins {
            tell_command(client, script_index, command, began_ns);
        }
    }
    print_debug_lines(client, planned);
    finish(client, pipeline.is_some()).map(|()| ended_ns)
}

/// Check at the end of a script that no transaction block or pipeline is open.
#[inline]
pub(super) fn finish(client: Client<'_>, is_in_pipeline: bool) -> Result<(), Stopped> {
    let is_open = client.connection(|c| {
        c.open_pipeline = is_in_pipeline;
        is_in_pipeline || c.is_in_block()
    });
    if is_open { Err(Stopped::Failed(FailureCode::OpenBlock)) } else { Ok(()) }
}

/// Execute commands up to the next one that needs more than evaluation, or only one command.
#[inline]
fn next_step<'p>(
    client: Client<'p>,
    (script, planned): (&'p Script, &'p PlannedScript),
    position: &mut usize,
    only_one: bool,
) -> Result<Step<'p>, Stopped> {
    let step = client.seat(|Seat { connection, terminal }| {
        let Terminal { variables, random, .. } = terminal;
        let step = match only_one {
            false => script.step(position, variables, random),
            true => script.step_command(position, variables, random),
        };
        connection.place = position.saturating_sub(usize::from(step.is_ok()));
        step
    });
    step.map_err(|error| not_evaluated(client, planned, *position, &error))
}

/// Execute one command, and report it to the observer.
#[cold]
fn traced_step<'p>(
    client: Client<'p>,
    (script, planned): (&'p Script, &'p PlannedScript),
    position: &mut usize,
) -> Result<Step<'p>, Stopped> {
    let from = *position;
    let step = next_step(client, (script, planned), position, true);
    trace::executing(client, script, from, *position + usize::from(step.is_err()));
    print_debug_lines(client, planned);
    step
}

fn start_pipeline(
    client: Client<'_>,
    script_index: usize,
    position: usize,
    is_in_pipeline: bool,
) -> Result<Pipeline, Stopped> {
    if is_in_pipeline {
        return Err(misplaced(client, Misplaced::PipelineInPipeline));
    }
    if client.plan.work.protocol == Protocol::Simple {
        return Err(misplaced(client, Misplaced::SimplePipeline));
    }
    if client.plan.pgbench.traces() {
        trace::pipeline_begins(client, script_index, position);
    }
    Ok(Pipeline::default())
}

/// Send one statement and wait for its result.
#[inline]
async fn statement(
    client: Client<'_>,
    script_index: usize,
    command: &SqlCommand,
    fresh_ns: Option<u64>,
) -> Result<u64, Stopped> {
    if client.shard().is_cancelling {
        return Err(Stopped::Cancelled);
    }
    if read_only::must_ask(client) {
        read_only::check(client).await?;
    }
    let plan = client.plan;
    let statement = &plan.scripts[script_index].statements[command.statement];
    let number = plan.layout.statement_index(script_index, command.statement);
    let protocol = plan.work.protocol;
    let is_timed = plan.work.statement_latency;
    if plan.pgbench.traces() {
        trace::sending(client, script_index, command, true);
    }
    let sent_ns = if is_timed { fresh_ns.unwrap_or_else(now_ns) } else { 0 };
    let ended_ns = client
        .exchange(statement.captures, |seat, out, scratch| {
            let Seat { connection, terminal } = seat;
            connection.may_commit = statement.may_commit(connection.is_in_block());
            if protocol == Protocol::Simple {
                encode::query(out, |out| command.render_simple(&terminal.variables, out));
            } else {
                let is_known = connection.is_prepared(number);
                statement.encode(protocol, is_known, out, |out| {
                    command.write_params(&terminal.variables, scratch, |value| {
                        encode::push_value(out, value);
                    });
                });
                encode::sync(out);
            }
            1
        })
        .await?;
    if plan.pgbench.traces() {
        trace::receiving(client);
    }
    let shard = &mut *client.shard();
    let connection = &mut shard.clients.connections[client.index as usize];
    if connection.reply.parse_count > 0 && protocol == Protocol::Prepared {
        connection.set_prepared(number);
    }
    if let Some(error) = &connection.reply.error {
        return Err(Stopped::Failed(FailureCode::Sql(error.sqlstate)));
    }
    if connection.reply.has_copy && plan.pgbench.refuses_copy() {
        return Err(Stopped::Failed(FailureCode::MetaCommand));
    }
    if is_timed {
        let owner = owner_of(connection, &shard.recorder);
        shard.recorder.statement(owner, script_index, command.statement, ended_ns - sent_ns);
    }
    Ok(ended_ns)
}

/// Record time that the script spent without the server. Returns the end of this time.
fn record_own_time(
    client: Client<'_>,
    record: fn(&mut Recorder, Owner, u64),
    began_ns: u64,
    ended_ns: u64,
) -> u64 {
    let shard = &mut *client.shard();
    let owner = owner_of(&shard.clients.connections[client.index as usize], &shard.recorder);
    record(&mut shard.recorder, owner, ended_ns.saturating_sub(began_ns));
    ended_ns
}

/// Return the owner of a statement that ends now.
#[inline]
pub(super) fn owner_of(connection: &Connection, recorder: &Recorder) -> Owner {
    match connection.current {
        Some(current) if recorder.layout.is_open_loop() => current.owner,
        _ => recorder.owner(),
    }
}

/// Give the variables of `\gset` and `\aset` the values of the row.
#[inline]
fn keep_values(
    client: Client<'_>,
    planned: &PlannedScript,
    place: usize,
    command: &SqlCommand,
) -> Result<(), Stopped> {
    let Some(gset) = &command.gset else { return Ok(()) };
    let work = &client.plan.work;
    let only_numbers = work.read_only && work.protocol == Protocol::Simple;
    let assigned = client.seat(|seat| assign(seat, gset, only_numbers));
    assigned.map_err(|error| not_assigned(client, planned, place, error))
}

/// Run a shell command of the script. Returns its end.
fn run_shell(
    client: Client<'_>,
    planned: &PlannedScript,
    place: usize,
    command: &ShellCommand,
) -> Result<u64, Stopped> {
    let began_ns = now_ns();
    let shares_stdout = client.plan.pgbench.shares_stdout();
    let done = client.seat(|seat| shell(seat, command, shares_stdout));
    done.map_err(|error| not_assigned(client, planned, place, error))?;
    Ok(record_own_time(client, Recorder::ran_shell, began_ns, now_ns()))
}

/// Add a Sync to the pipeline. Returns true if a read-only load must send it and wait here.
fn sync(client: Client<'_>, pipeline: &mut Pipeline) -> bool {
    if !client.plan.work.read_only {
        encode::sync(&mut pipeline.messages);
        pipeline.sync_count += 1;
    }
    client.plan.work.read_only
}

/// Add a statement to the pipeline. Returns true if a read-only load must send it and wait here.
fn queue(
    client: Client<'_>,
    script_index: usize,
    command: &SqlCommand,
    pipeline: &mut Pipeline,
) -> Result<bool, Stopped> {
    let plan = client.plan;
    let statement = &plan.scripts[script_index].statements[command.statement];
    if let Some(gset) = &command.gset {
        return Err(misplaced(client, Misplaced::GsetInPipeline { is_aset: gset.all }));
    }
    if plan.pgbench.traces() {
        trace::sending(client, script_index, command, false);
    }
    let number = plan.layout.statement_index(script_index, command.statement);
    let protocol = plan.work.protocol;
    pipeline.statements.push(command.statement);
    let shard = &mut *client.shard();
    let Seat { connection, terminal } = shard.clients.seat(client.index);
    let scratch = &mut shard.scratch;
    let is_known = connection.is_prepared(number) || pipeline.newly_prepared.contains(&number);
    if protocol == Protocol::Prepared && !is_known {
        pipeline.newly_prepared.push(number);
    }
    statement.encode(protocol, is_known, &mut pipeline.messages, |out| {
        command.write_params(&terminal.variables, scratch, |value| encode::push_value(out, value));
    });
    Ok(plan.work.read_only && read_only::may_end_a_transaction(&command.text))
}

/// Send the pipeline, and wait for all its results.
///
/// The time of each statement is from sending the pipeline to the arrival of the statement's
/// result. So it includes the wait for the statements before.
async fn flush(
    client: Client<'_>,
    script_index: usize,
    pipeline: Pipeline,
) -> Result<u64, Stopped> {
    if client.shard().is_cancelling {
        return Err(Stopped::Cancelled);
    }
    if read_only::must_ask(client) {
        read_only::check(client).await?;
    }
    let is_timed = client.plan.work.statement_latency;
    let sent_ns = now_ns();
    let ended_ns = client
        .exchange(false, |seat, out, _| {
            seat.connection.may_commit = true;
            seat.connection.results_ns = is_timed.then(Vec::new);
            out.extend_from_slice(&pipeline.messages);
            encode::sync(out);
            pipeline.sync_count + 1
        })
        .await?;
    if client.plan.pgbench.traces() {
        trace::pipeline_ends(client, pipeline.sync_count + 1);
    }
    let shard = &mut *client.shard();
    let connection = &mut shard.clients.connections[client.index as usize];
    let results_ns = connection.results_ns.take().unwrap_or_default();
    if let Some(error) = &connection.reply.error {
        return Err(Stopped::Failed(FailureCode::Sql(error.sqlstate)));
    }
    pipeline.newly_prepared.iter().for_each(|&number| connection.set_prepared(number));
    let owner = owner_of(connection, &shard.recorder);
    for (&statement, result_ns) in pipeline.statements.iter().zip(results_ns) {
        let duration_ns = result_ns.saturating_sub(sent_ns);
        shard.recorder.statement(owner, script_index, statement, duration_ns);
    }
    Ok(ended_ns)
}

#[cold]
fn misplaced(client: Client<'_>, what: Misplaced) -> Stopped {
    client.connection(|c| c.misplaced = Some(what));
    Stopped::Failed(FailureCode::MetaCommand)
}

#[cold]
fn tell_command(client: Client<'_>, script: usize, command: usize, began_ns: u64) {
    if let Some(observer) = &mut client.shard().observer {
        observer.command(script, command, now_ns() - began_ns);
    }
}

/// Print what the script's calls of debug() left behind.
#[inline]
fn print_debug_lines(client: Client<'_>, script: &PlannedScript) {
    if client.seat(|seat| seat.terminal.variables.has_debug_lines()) {
        print_all(client, script);
    }
}

#[cold]
fn print_all(client: Client<'_>, script: &PlannedScript) {
    for line in client.seat(|seat| seat.terminal.variables.take_debug_lines()) {
        let number = client.plan.scripts.iter().position(|other| std::ptr::eq(other, script));
        let script = number.expect("a script of the plan");
        eprintln!("debug(script={script},command={}): {}", line.command + 1, line.value);
    }
}
