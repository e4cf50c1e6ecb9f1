//! `--debug` of the drop-in: reports each step of a client, in pgbench's words.

use pgdyno_script::{Command, MetaAction, Script, SqlCommand};

use super::Client;
use crate::contract::job::Protocol;

#[cold]
fn say(client: Client<'_>, what: &str) {
    if let Some(observer) = &mut client.shard().observer {
        observer.debug(client.index, what);
    }
}

#[cold]
pub(super) fn script_begins(client: Client<'_>, script: usize) {
    say(client, &format!("executing script \"{}\"", client.plan.scripts[script].name));
}

/// Report the meta command at `from`, and the conditions that were evaluated to find the next
/// branch.
///
/// Args: `to`, the command that comes next.
#[cold]
pub(super) fn executing(client: Client<'_>, script: &Script, from: usize, to: usize) {
    let commands = &script.commands;
    let Some(Command::Meta(meta)) = commands.get(from) else { return };
    say(client, &format!("executing \\{}", meta.debug_words()));
    let MetaAction::If { otherwise, .. } = meta.action else { return };
    let mut branch = otherwise;
    while branch < to {
        let Some(Command::Meta(meta)) = commands.get(branch) else { return };
        let MetaAction::Elif { otherwise, .. } = meta.action else { return };
        say(client, &format!("executing \\{}", meta.debug_words()));
        branch = otherwise;
    }
}

/// Report a statement before it is sent or added to a pipeline.
#[cold]
pub(super) fn sending(client: Client<'_>, script: usize, command: &SqlCommand, is_alone: bool) {
    let plan = client.plan;
    let what = match plan.work.protocol {
        Protocol::Simple => {
            let mut sql = Vec::new();
            client.seat(|seat| command.render_simple(&seat.terminal.variables, &mut sql));
            String::from_utf8_lossy(&sql).into_owned()
        }
        Protocol::Extended => command.parameterized.to_string(),
        Protocol::Prepared => {
            if is_alone {
                preparing(client, script, command);
            }
            plan.scripts[script].statements[command.statement].name.clone()
        }
    };
    say(client, &format!("sending {what}"));
    if is_alone {
        receiving(client);
    }
}

/// Report the statements of the pipeline that begins after `from`: they are prepared before any of
/// them is sent.
#[cold]
pub(super) fn pipeline_begins(client: Client<'_>, script: usize, from: usize) {
    if client.plan.work.protocol != Protocol::Prepared {
        return;
    }
    let script_text = client.plan.scripts[script].program.as_script();
    for command in script_text.map_or(&[][..], |text| &text.commands[from..]) {
        match command {
            Command::Sql(command) => preparing(client, script, command),
            Command::Meta(meta) if matches!(meta.action, MetaAction::EndPipeline) => return,
            Command::Meta(_) => {}
        }
    }
}

fn preparing(client: Client<'_>, script: usize, command: &SqlCommand) {
    let plan = client.plan;
    let number = plan.layout.statement_index(script, command.statement);
    if !client.connection(|c| c.is_prepared(number)) {
        let name = &plan.scripts[script].statements[command.statement].name;
        say(client, &format!("preparing {name}"));
    }
}

#[cold]
pub(super) fn receiving(client: Client<'_>) {
    say(client, "receiving");
}

/// Report a pipeline whose results have come.
#[cold]
pub(super) fn pipeline_ends(client: Client<'_>, sync_count: u32) {
    for ongoing in (1..=sync_count).rev() {
        receiving(client);
        say(client, &format!("pipeline ending, ongoing syncs: {ongoing}"));
    }
}
