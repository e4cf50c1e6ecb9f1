//! Transactions begin and end.

use super::{Free, Stage, Task, TaskEnd, Worker};
use crate::client::{Client, Current, End};
use crate::clock::now_ns;
use crate::contract::job::Measure;
use crate::load::Message;
use crate::recorder::owner_at;
use crate::tally::{Ended, Outcome, Owner};
use crate::tls::Attempt;

/// Ages that are kept of transactions without an end; of more, evenly chosen ones.
const MAX_AGES: usize = 10_000;

impl<'s, F, M> Worker<'s, F, M>
where
    F: Future<Output = TaskEnd>,
    M: Fn(Client<'s>, Task) -> F,
{
    /// A client has nothing to do.
    #[inline]
    pub(super) fn client_is_free(&mut self, index: u32) {
        let is_loading =
            self.stage == Stage::Load || self.stage == Stage::Drain && self.drains_backlog();
        if !is_loading || !self.shard.borrow().clients.states[index as usize].is_up() {
            return;
        }
        let free_ns = now_ns();
        if self.arrivals.is_none() {
            self.start_closed(index, free_ns);
        } else if self.has_transactions_left(index) {
            // By pgbench's rules a client knows its script while it waits for its turn.
            let script = self.choose_script();
            if let Some(scheduled_ns) = self.take_due(index, script, free_ns, true) {
                self.start_transaction(index, script, scheduled_ns, free_ns);
            } else if self.has_transactions_left(index) {
                self.free.push_back(Free { index, script, since_ns: free_ns });
            }
        }
    }

    /// Open loop: by pgbench's rules a number of transactions is that of each client; else the
    /// arrivals know when there are no more.
    fn has_transactions_left(&self, index: u32) -> bool {
        self.plan.rules.is_none()
            || self.shard.borrow().clients.states[index as usize].transactions_left > 0
    }

    fn count_off(&mut self, index: u32) {
        let client = &mut self.shard.borrow_mut().clients.states[index as usize];
        client.transactions_left -= 1;
        if client.transactions_left == 0 {
            self.clients_left -= 1;
        }
    }

    /// Closed loop: the next transaction follows at once.
    #[inline]
    fn start_closed(&mut self, index: u32, now_ns: u64) {
        if now_ns >= self.timeline.drain_ns {
            return;
        }
        if now_ns >= self.timeline.measure_ns {
            if self.shard.borrow().clients.states[index as usize].transactions_left == 0 {
                return;
            }
            self.count_off(index);
        }
        let script = self.choose_script();
        self.start_transaction(index, script, now_ns, now_ns);
    }

    /// Open loop: the oldest arrival that is due; what came too late to keep its limit is skipped.
    ///
    /// Args: `is_just_free`, the client was not yet waiting. By pgbench's rules a client that waits
    /// has the arrival already, and cannot be too late for it.
    #[inline]
    fn take_due(
        &mut self,
        index: u32,
        script: usize,
        now_ns: u64,
        is_just_free: bool,
    ) -> Option<u64> {
        let has_rules = self.plan.rules.is_some();
        loop {
            let arrivals = self.arrivals.as_mut()?;
            let scheduled_ns = arrivals.next_ns(self.timeline.drain_ns);
            if scheduled_ns > now_ns {
                return None;
            }
            arrivals.take();
            let limit_ns = arrivals.latency_limit_ns.unwrap_or(u64::MAX);
            let may_skip = is_just_free || !has_rules;
            if now_ns - scheduled_ns <= limit_ns || !may_skip {
                return Some(scheduled_ns);
            }
            let owner = owner_at(&self.timeline, scheduled_ns);
            {
                let shard = &mut *self.shard.borrow_mut();
                shard.recorder.skipped(owner);
                if let Some(observer) = &mut shard.observer {
                    observer.skipped(index, script);
                }
            }
            if has_rules {
                self.count_off(index);
                if !self.has_transactions_left(index) {
                    return None;
                }
            }
        }
    }

    /// Open loop: give due arrivals to the clients that have been free longest.
    pub(super) fn start_due(&mut self) {
        let is_loading = self.stage == Stage::Load || self.stage == Stage::Drain;
        if !is_loading || self.stage == Stage::Drain && !self.drains_backlog() {
            return;
        }
        while let Some(&Free { index, script, since_ns }) = self.free.front() {
            if !self.shard.borrow().clients.states[index as usize].is_up() {
                // It comes back when it is connected again.
                self.free.pop_front();
                continue;
            }
            let started_ns = now_ns();
            let due = self.take_due(index, script, started_ns, false);
            let Some(scheduled_ns) = due else { break };
            self.free.pop_front();
            if since_ns <= scheduled_ns {
                self.facts.timer_lag.record(started_ns - scheduled_ns);
            }
            self.start_transaction(index, script, scheduled_ns, started_ns);
        }
    }

    #[inline]
    fn start_transaction(&mut self, index: u32, script: usize, scheduled_ns: u64, started_ns: u64) {
        if self.arrivals.is_some() && self.plan.rules.is_some() {
            self.count_off(index);
        }
        {
            let shard = &mut *self.shard.borrow_mut();
            let owner = owner_at(&self.timeline, scheduled_ns);
            shard.recorder.started(owner, script);
            shard.clients.states[index as usize].current =
                Some(Current { script, scheduled_ns, started_ns, owner, retries: 0 });
        }
        self.in_flight += 1;
        self.begin_task(index, Task::Transaction { script, started_ns });
    }

    #[inline]
    pub(super) fn on_transaction_end(&mut self, index: u32, end: End) {
        self.in_flight -= 1;
        {
            let shard = &mut *self.shard.borrow_mut();
            let current = shard.clients.states[index as usize].current.take();
            // Subtle: without one, it was counted as unfinished when the drain ended. If its commit
            // got through all the same, the table has its rows.
            match (current, end) {
                (Some(current), End::Ended { outcome, ended_ns }) => {
                    let ended = Ended {
                        scheduled_ns: current.scheduled_ns,
                        started_ns: current.started_ns,
                        ended_ns,
                        retries: current.retries,
                        outcome,
                    };
                    let owner = self.owner(&shard.recorder, current.owner);
                    shard.recorder.ended(owner, current.script, &ended);
                    if owner == Owner::Measure && outcome == Outcome::Completed {
                        self.shares.completed(index);
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
        match &self.plan.rules {
            Some(_) if end == End::Aborted => self.abort_client(index),
            Some(rules) if rules.reconnects => self.connect_anew(index),
            _ => self.client_is_free(index),
        }
    }

    /// Open loop: what was due before the end is still started after it; pgbench drops it.
    fn drains_backlog(&self) -> bool {
        self.arrivals.is_some() && self.plan.rules.is_none()
    }

    /// The client starts nothing any more.
    pub(super) fn abort_client(&mut self, index: u32) {
        let has_work = self.shard.borrow().clients.states[index as usize].transactions_left > 0;
        if has_work {
            self.clients_left -= 1;
        }
        self.disconnect(index);
        self.aborted_count += 1;
    }

    /// A connection serves one transaction only.
    fn connect_anew(&mut self, index: u32) {
        self.disconnect(index);
        let is_over = self.shard.borrow().clients.states[index as usize].transactions_left == 0;
        if self.stage < Stage::Drain && !is_over {
            self.connector.waiting.push_back(index);
        }
    }

    fn owner(&self, recorder: &crate::recorder::Recorder, by_schedule: Owner) -> Owner {
        if self.arrivals.is_some() { by_schedule } else { recorder.owner() }
    }

    /// End the thread's load when nothing is left to do.
    pub(super) fn end_if_idle(&mut self) {
        match self.stage {
            Stage::Load if self.in_flight == 0 && self.is_work_done() => {
                let last_ns = self.shard.borrow().now_ns;
                if !self.is_work_reported {
                    self.is_work_reported = true;
                    self.tell(Message::WorkDone { last_ns });
                }
            }
            Stage::Drain if self.in_flight == 0 && self.is_backlog_empty() => {
                self.stage = Stage::Over;
            }
            Stage::Cancel => {
                let now_ns = self.shard.borrow().now_ns;
                let is_quiet = self.in_flight == 0 && self.cancels.is_done();
                if is_quiet || now_ns >= self.cancels.give_up_ns {
                    self.stage = Stage::Over;
                }
            }
            _ => {}
        }
    }

    fn is_work_done(&self) -> bool {
        self.aborted_count == self.slots.len() || self.is_bounded_work_done()
    }

    fn is_bounded_work_done(&self) -> bool {
        match (&self.plan.work.measure, &self.arrivals) {
            (Measure::DurationNs(_), _) => false,
            (_, Some(arrivals)) if self.plan.rules.is_none() => arrivals.is_exhausted(),
            (Measure::TransactionsPerClient(_), _) => self.clients_left == 0,
        }
    }

    /// Open loop: nothing waits, or nobody is there who could take it.
    fn is_backlog_empty(&self) -> bool {
        match &self.arrivals {
            None => true,
            Some(_) if !self.drains_backlog() => true,
            Some(arrivals) => arrivals.next_ns(self.timeline.drain_ns) == u64::MAX,
        }
    }

    /// The drain is over: what has not ended is counted as it is, and cancelled.
    pub(super) fn begin_cancelling(&mut self) {
        let end_ns = self.timeline.drain_end_ns;
        let mut ages_ns = Vec::new();
        {
            let shard = &mut *self.shard.borrow_mut();
            shard.is_cancelling = true;
            for index in 0..shard.clients.states.len() {
                let Some(current) = shard.clients.states[index].current.take() else { continue };
                let is_open = self.arrivals.is_some();
                // In a closed loop what did not end has no phase of its end: it is measured load.
                let owner = if is_open { current.owner } else { Owner::Measure };
                shard.recorder.unfinished(owner, current.script, current.retries);
                let since = if is_open { current.scheduled_ns } else { current.started_ns };
                ages_ns.push(end_ns.saturating_sub(since));
                let client = &shard.clients.states[index];
                if client.is_up() && client.ready_wanted > 0 {
                    let attempt = if client.tls.is_some() { Attempt::Tls } else { Attempt::Plain };
                    self.cancels.add(index as u32, client.backend.clone(), attempt);
                }
            }
            if let Some(arrivals) = &mut self.arrivals {
                let limit_ns = arrivals.latency_limit_ns.unwrap_or(u64::MAX);
                loop {
                    let scheduled_ns = arrivals.next_ns(self.timeline.drain_ns);
                    if scheduled_ns == u64::MAX {
                        break;
                    }
                    arrivals.take();
                    let owner = owner_at(&self.timeline, scheduled_ns);
                    let age_ns = end_ns.saturating_sub(scheduled_ns);
                    if age_ns > limit_ns {
                        shard.recorder.skipped(owner);
                    } else {
                        shard.recorder.not_started(owner);
                        ages_ns.push(age_ns);
                    }
                }
            }
        }
        thin_out(&mut ages_ns, MAX_AGES);
        self.facts.unfinished_ages_ns = ages_ns;
        self.drop_sleepers();
        self.cancels.begin(now_ns());
        self.cancel_more();
    }

    /// Transactions that wait for no reply have nothing to be cancelled: the end of the connection
    /// rolls them back.
    fn drop_sleepers(&mut self) {
        for index in 0..self.slots.len() {
            let is_waiting = self.shard.borrow().clients.states[index].ready_wanted > 0;
            if !self.slots[index].is_empty() && !is_waiting {
                self.slots[index].clear();
                self.in_flight = self.in_flight.saturating_sub(1);
            }
        }
        self.immediate.clear();
    }
}

/// Keep `count` of the values, evenly chosen in order of size.
pub(crate) fn thin_out(values: &mut Vec<u64>, count: usize) {
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
