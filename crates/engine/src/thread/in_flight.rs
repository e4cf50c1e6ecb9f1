//! The transactions of a thread that have begun and not ended: counted when they begin and end.

use super::shares::Shares;
use crate::client::{Current, End, Shard};
use crate::outcome::{Ended, Outcome};
use crate::plan::Plan;
use crate::recorder::{Recorder, owner_at};
use crate::tally::Owner;
use crate::timeline::Timeline;

/// How many ages of transactions without an end are kept; if there are more, evenly chosen ones.
const MAX_AGES: usize = 10_000;

/// A transaction that begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    /// The number of its terminal, and of its connection unless terminals share connections.
    pub(super) client: u32,
    pub(super) script: usize,
    pub(super) scheduled_ns: u64,
    pub(super) started_ns: u64,
    /// For a background transaction: the deferred work.
    pub(super) work: u64,
}

impl Start {
    /// A transaction that no schedule planned.
    #[inline]
    pub(super) fn now(client: u32, script: usize, now_ns: u64) -> Start {
        Start { client, script, scheduled_ns: now_ns, started_ns: now_ns, work: 0 }
    }
}

/// See the top of this file.
#[derive(Debug)]
pub(super) struct InFlight<'s> {
    plan: &'s Plan,
    is_open_loop: bool,
    shares_connections: bool,
    /// Number of terminals that are clients. Background terminals have the numbers after them.
    client_count: u32,
    count: u64,
    commits_in_doubt: u64,
    /// Age of each transaction that had not ended when the drain ended, or is in doubt.
    unfinished_ages_ns: Vec<u64>,
    shares: Shares,
}

/// Results of a thread about its transactions.
#[derive(Debug, Default)]
pub(super) struct Endings {
    pub(super) commits_in_doubt: u64,
    pub(super) unfinished_ages_ns: Vec<u64>,
    pub(super) shares: Shares,
}

impl<'s> InFlight<'s> {
    pub(super) fn new(plan: &'s Plan, client_count: u32) -> Self {
        InFlight {
            plan,
            is_open_loop: plan.layout.is_open_loop(),
            shares_connections: plan.shares_connections(),
            client_count,
            count: 0,
            commits_in_doubt: 0,
            unfinished_ages_ns: Vec::new(),
            shares: Shares::new(client_count as usize, plan.target.hosts.len()),
        }
    }

    #[inline]
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn client_count(&self) -> u32 {
        self.client_count
    }

    #[inline]
    pub(super) fn begin(
        &mut self,
        start: Start,
        timeline: &Timeline,
        recorder: &mut Recorder,
    ) -> Current {
        let Start { script, scheduled_ns, started_ns, work, .. } = start;
        let owner = owner_at(timeline, scheduled_ns);
        recorder.started(owner, script);
        self.count += 1;
        let (retries, connection_wait_ns) = (0, 0);
        Current { script, scheduled_ns, started_ns, owner, retries, connection_wait_ns, work }
    }

    /// A connection's transaction has ended.
    #[inline]
    pub(super) fn end(&mut self, index: u32, end: End, shard: &mut Shard) {
        self.count -= 1;
        let connection = &mut shard.clients.connections[index as usize];
        let is_clients = connection.terminal < self.client_count;
        let current = connection.current.take();
        let is_in_doubt =
            std::mem::take(&mut connection.is_in_doubt) && !self.plan.pgbench.ignores_doubt();
        // Subtle: without `current`, the transaction was counted as unfinished when the drain
        // ended. If it has committed nevertheless, the table has its rows.
        match (current, end) {
            (Some(current), End::Ended { ended_ns, .. }) if is_in_doubt => {
                let owner = self.owner(&shard.recorder, &current);
                shard.recorder.in_doubt(owner, current.script, current.retries);
                let has_room = self.unfinished_ages_ns.len() < MAX_AGES;
                if is_clients && owner == Owner::Measure && has_room {
                    self.unfinished_ages_ns.push(ended_ns - current.scheduled_ns);
                }
            }
            (Some(current), End::Ended { outcome, ended_ns }) => {
                let ended = Ended {
                    scheduled_ns: current.scheduled_ns,
                    started_ns: current.started_ns,
                    ended_ns,
                    retries: current.retries,
                    outcome,
                };
                let owner = self.owner(&shard.recorder, &current);
                shard.recorder.ended(owner, current.script, &ended);
                let begun_ns = current.started_ns + current.connection_wait_ns;
                let held_ns = ended_ns.saturating_sub(begun_ns);
                shard.recorder.served(current.script, held_ns, connection.round_trips);
                if outcome.is_completed() && !self.plan.scripts[current.script].counters.is_empty()
                {
                    shard.recorder.counted(owner, current.script, &connection.counted);
                }
                if owner == Owner::Measure && outcome.is_completed() && is_clients {
                    self.shares.completed(connection.terminal, connection.host);
                }
                if self.shares_connections && outcome.is_completed() {
                    let wait_ns = current.connection_wait_ns;
                    shard.recorder.connection_wait(owner, current.script, wait_ns);
                }
                if let Some(observer) = &mut shard.observer {
                    observer.ended(index, current.script, &ended);
                }
            }
            (_, End::Ended { outcome: Outcome::Completed, .. }) => {
                shard.recorder.committed_count += 1;
            }
            _ => {}
        }
    }

    /// Return the owner of a transaction that ends now. Background work belongs to the phase in
    /// which it was deferred.
    #[inline]
    fn owner(&self, recorder: &Recorder, current: &Current) -> Owner {
        let is_by_schedule = self.is_open_loop || recorder.layout.is_background(current.script);
        if is_by_schedule { current.owner } else { recorder.owner() }
    }

    /// The connection of a running transaction was lost while it may have committed.
    pub(super) fn commit_is_in_doubt(&mut self) {
        self.commits_in_doubt += 1;
    }

    /// A transaction never got a connection.
    pub(super) fn end_without_connection(&mut self, index: u32, shard: &mut Shard) {
        if let Some(current) = shard.clients.connections[index as usize].current.take() {
            self.count -= 1;
            shard.recorder.unfinished(current.owner, current.script, current.retries);
        }
    }

    /// `count` transactions are dropped without an end. They were counted as unfinished.
    pub(super) fn dropped(&mut self, count: u64) {
        self.count = self.count.saturating_sub(count);
    }

    /// The drain ended at `end_ns`, before this transaction.
    pub(super) fn give_up(&mut self, current: Current, end_ns: u64, recorder: &mut Recorder) {
        if recorder.layout.is_background(current.script) {
            return recorder.unfinished(current.owner, current.script, current.retries);
        }
        // In a closed loop a transaction belongs to the phase of its end. Without an end, it counts
        // for the measured phase.
        let owner = if self.is_open_loop { current.owner } else { Owner::Measure };
        recorder.unfinished(owner, current.script, current.retries);
        let since = if self.is_open_loop { current.scheduled_ns } else { current.started_ns };
        if owner == Owner::Measure {
            self.unfinished_ages_ns.push(end_ns.saturating_sub(since));
        }
    }

    /// Add the ages of transactions that were due and never began, and thin all ages out.
    pub(super) fn add_ages(&mut self, ages_ns: Vec<u64>) {
        self.unfinished_ages_ns.extend(ages_ns);
        thin_out_ages(&mut self.unfinished_ages_ns);
    }

    pub(super) fn take_endings(&mut self) -> Endings {
        Endings {
            commits_in_doubt: self.commits_in_doubt,
            unfinished_ages_ns: std::mem::take(&mut self.unfinished_ages_ns),
            shares: std::mem::take(&mut self.shares),
        }
    }
}

/// Keep at most as many ages as a record may have.
pub(crate) fn thin_out_ages(ages_ns: &mut Vec<u64>) {
    thin_out(ages_ns, MAX_AGES);
}

/// Keep `count` of the values, evenly chosen in order of size.
fn thin_out(values: &mut Vec<u64>, count: usize) {
    values.sort_unstable();
    if values.len() > count {
        let length = values.len();
        *values =
            (0..count).map(|index| values[index * length / count + length / count / 2]).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_thinned_out_evenly() {
        let mut few = vec![3, 1, 2];
        thin_out(&mut few, 3);
        assert_eq!(few, [1, 2, 3]);
        let mut many: Vec<u64> = (0..100).rev().collect();
        thin_out(&mut many, 4);
        assert_eq!(many, [12, 37, 62, 87]);
    }
}
