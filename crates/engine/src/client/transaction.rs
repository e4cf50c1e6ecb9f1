//! Runs a whole transaction: tries its script, and rolls back and tries again after a failure.

use pgdyno_wire::encode;

use super::judge::judge;
use super::{Client, Lost, failures, native, script, trace};
use crate::clock::now_ns;
use crate::dialect;
use crate::observer::Verdict;
use crate::outcome::Stopped;
use crate::outcome::{FailureCode, Outcome};
use crate::program::Program;
use crate::tally::Owner;

/// First pause before another try. Each further pause is twice as long.
const BACKOFF_NS: u64 = 1_000_000;
const MAX_BACKOFF_NS: u64 = 100_000_000;
/// Pause of a client after a failed transaction, in a load that outlasts crashes.
const FAILED_PAUSE_NS: u64 = 100_000_000;

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Ended {
        outcome: Outcome,
        ended_ns: u64,
    },
    /// The transaction was still running when the drain ended.
    Cancelled,
    /// The observer has ended the client.
    Aborted,
}

impl End {
    /// When the transaction ended; None if it did not end.
    pub fn ended_ns(self) -> Option<u64> {
        match self {
            End::Ended { ended_ns, .. } => Some(ended_ns),
            End::Cancelled | End::Aborted => None,
        }
    }
}

/// Run a transaction of the script. If another try may succeed, it is tried again.
pub async fn transaction(client: Client<'_>, script_index: usize, started_ns: u64) -> End {
    client.connection(|connection| connection.round_trips = 0);
    let max_tries = client.plan.work.max_tries;
    if max_tries > 1 {
        client.seat(|mut seat| seat.save());
    }
    if client.plan.pgbench.traces() {
        trace::script_begins(client, script_index);
    }
    let mut tried_ns = started_ns;
    let mut tries = 1;
    loop {
        let tried = match &client.plan.scripts[script_index].program {
            Program::Script(text) => script::run(client, text, script_index, tried_ns)
                .await
                .map(|ended_ns| (Outcome::Completed, ended_ns)),
            Program::Native(native) => native::run(client, native, script_index).await,
        };
        let stopped = match tried {
            Ok((outcome, ended_ns)) => {
                if tries > 1 {
                    record_attempt(client, script_index, ended_ns - tried_ns);
                }
                return End::Ended { outcome, ended_ns };
            }
            Err(stopped) => stopped,
        };
        let verdict = judge(client, script_index, &stopped, tries);
        if verdict == Some(Verdict::Abort) {
            return End::Aborted;
        }
        let code = match stopped {
            Stopped::Cancelled => return End::Cancelled,
            Stopped::Lost(code) => return failed(code),
            Stopped::Failed(code) => code,
        };
        failures::note_words(client, code, script_index);
        let failed_ns = now_ns();
        let holds_locks = holds_locks(client, script_index);
        let must_roll_back = holds_locks || client.connection(|c| c.is_in_block());
        if must_roll_back && roll_back(client, holds_locks).await.is_err() {
            return failed(code);
        }
        let is_last = match verdict {
            Some(verdict) => verdict != Verdict::Retry,
            None => !is_retryable(code) || tries >= max_tries || client.shard().is_draining,
        };
        if is_last {
            if tries > 1 {
                record_attempt(client, script_index, failed_ns - tried_ns);
            }
            failures::count(client, code);
            return failed_for_good(client, code).await;
        }
        record_attempt(client, script_index, failed_ns - tried_ns);
        // pgbench tries again at once.
        let must_pause = verdict.is_none();
        if must_pause && client.sleep(backoff_ns(client, tries)).await.is_err() {
            return failed(FailureCode::ConnectionLost);
        }
        tries = tries.saturating_add(1);
        tried_ns = now_ns();
        client.seat(|mut seat| {
            seat.restore();
            if let Some(current) = &mut seat.connection.current {
                current.retries += 1;
            }
        });
    }
}

fn failed(code: FailureCode) -> End {
    End::Ended { outcome: Outcome::Failed(code), ended_ns: now_ns() }
}

/// In a load that outlasts crashes the client pauses: a server with a full disk fails every
/// transaction at once.
async fn failed_for_good(client: Client<'_>, code: FailureCode) -> End {
    let end = failed(code);
    if client.plan.work.connect.outlasts_crashes {
        // If the connection is lost meanwhile, the next transaction waits for another one.
        let _ = client.sleep(FAILED_PAUSE_NS).await;
    }
    end
}

fn is_retryable(code: FailureCode) -> bool {
    matches!(code, FailureCode::Sql(state) if dialect::is_retried(state))
}

/// Return whether a native transaction may hold advisory locks of the session. A rollback does not
/// release them, so other clients would wait for them for ever.
fn holds_locks(client: Client<'_>, script_index: usize) -> bool {
    let script = &client.plan.scripts[script_index];
    let locks = |text: &str| text.contains("advisory_lock");
    matches!(script.program, Program::Native(_))
        && script.statements.iter().any(|statement| locks(&statement.text))
}

async fn roll_back(client: Client<'_>, holds_locks: bool) -> Result<(), Lost> {
    let text: &[u8] = match holds_locks {
        true => b"ROLLBACK; SELECT pg_catalog.pg_advisory_unlock_all()",
        false => b"ROLLBACK",
    };
    client
        .exchange(false, |seat, out, _| {
            seat.connection.may_commit = false;
            encode::query(out, |out| out.extend_from_slice(text));
            1
        })
        .await?;
    if client.plan.pgbench.traces() {
        trace::receiving(client);
    }
    // A rollback does not undo changes to sequences or prepared statements; the script must
    // allow for it.
    Ok(())
}

/// Return the pause before the next try. It doubles with each try, and half of it is random, so
/// that two transactions in conflict do not meet again.
fn backoff_ns(client: Client<'_>, tries: u16) -> u64 {
    let longest = (BACKOFF_NS << (tries - 1).min(20)).min(MAX_BACKOFF_NS);
    // Not from the client's random numbers: a retry must draw the same numbers as the first try.
    let mixed = (now_ns() ^ u64::from(client.index)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    longest / 2 + mixed % (longest / 2)
}

fn record_attempt(client: Client<'_>, script_index: usize, duration_ns: u64) {
    let shard = &mut *client.shard();
    let current = shard.clients.connections[client.index as usize].current;
    let owner: Owner = match current {
        Some(current) if shard.recorder.layout.is_open_loop() => current.owner,
        _ => shard.recorder.owner(),
    };
    shard.recorder.attempt(owner, script_index, duration_ns);
}
