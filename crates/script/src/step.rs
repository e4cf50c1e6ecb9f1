//! Running a script: everything that needs no input or output happens here.

use crate::error::{EvalError, EvalErrorKind};
use crate::meta::MetaAction;
use crate::prng::Prng;
use crate::script::{Command, Script};
use crate::shell::ShellCommand;
use crate::sql::SqlCommand;
use crate::variables::ClientVariables;

/// What the caller has to do next.
#[derive(Clone, Copy, Debug)]
pub enum Step<'s> {
    /// Send this command.
    Sql(&'s SqlCommand),
    /// Wait so long.
    Sleep {
        /// May be 0.
        duration_ns: u64,
    },
    /// Run this command, and set its variable if it has one.
    Shell(&'s ShellCommand),
    /// Begin a pipeline.
    StartPipeline,
    /// Send a synchronisation point inside a pipeline.
    SyncPipeline,
    /// End the pipeline and wait for its results.
    EndPipeline,
    /// Nothing: the command was carried out. Only [`Script::step_command`] returns this.
    Continue,
    /// The script is at its end.
    Done,
}

impl Script {
    /// Runs commands from `position` on, and returns at the first that needs the caller.
    ///
    /// Args: `position` is 0 for a new transaction. Afterwards the command returned is the one
    /// before `position`; after an error, `position` is that of the command that failed.
    /// Errors: an expression could not be evaluated; pgbench aborts the client.
    #[inline]
    pub fn step(
        &self,
        position: &mut usize,
        variables: &mut ClientVariables,
        prng: &mut Prng,
    ) -> Result<Step<'_>, EvalError> {
        loop {
            match self.step_command(position, variables, prng)? {
                Step::Continue => {}
                step => return Ok(step),
            }
        }
    }

    /// Runs the command at `position` only, so that each can be timed; see [`Script::step`].
    #[inline]
    pub fn step_command(
        &self,
        position: &mut usize,
        variables: &mut ClientVariables,
        prng: &mut Prng,
    ) -> Result<Step<'_>, EvalError> {
        let index = *position;
        let step = match self.commands.get(index) {
            None => return Ok(Step::Done),
            Some(Command::Sql(command)) => Step::Sql(command),
            Some(Command::Meta(meta)) => match &meta.action {
                MetaAction::Set(slot, expression) => {
                    let value = expression.evaluate(variables, prng, index)?;
                    variables.set(*slot, value);
                    Step::Continue
                }
                MetaAction::If { condition, otherwise } => {
                    if !condition.evaluate(variables, prng, index)?.is_true() {
                        return self.next_branch(*otherwise, position, variables, prng);
                    }
                    Step::Continue
                }
                // Subtle: these two are reached in order only at the end of the branch before.
                MetaAction::Elif { endif, .. } | MetaAction::Else { endif } => {
                    *position = endif + 1;
                    return Ok(Step::Continue);
                }
                MetaAction::Endif => Step::Continue,
                MetaAction::Sleep(time) => {
                    Step::Sleep { duration_ns: time.duration_ns(variables)? }
                }
                MetaAction::Shell(command) => Step::Shell(command),
                MetaAction::StartPipeline => Step::StartPipeline,
                MetaAction::SyncPipeline => Step::SyncPipeline,
                MetaAction::EndPipeline => Step::EndPipeline,
                MetaAction::InvalidName { name, is_shell } => {
                    let command = if *is_shell { "setshell" } else { "set" };
                    return Err(EvalError::new(
                        EvalErrorKind::InvalidVariableName,
                        format!("{command}: invalid variable name: \"{name}\""),
                    ));
                }
            },
        };
        *position = index + 1;
        Ok(step)
    }

    /// Goes to the branch whose turn it is, beginning with the one at `branch`.
    fn next_branch(
        &self,
        mut branch: usize,
        position: &mut usize,
        variables: &mut ClientVariables,
        prng: &mut Prng,
    ) -> Result<Step<'_>, EvalError> {
        while let Command::Meta(meta) = &self.commands[branch] {
            let MetaAction::Elif { condition, otherwise, .. } = &meta.action else { break };
            *position = branch;
            if condition.evaluate(variables, prng, branch)?.is_true() {
                break;
            }
            branch = *otherwise;
        }
        *position = branch + 1;
        Ok(Step::Continue)
    }
}
