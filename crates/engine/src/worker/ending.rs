//! The end of a thread's load: open transactions are counted and cancelled.

use super::facts::MAX_AGES;
use super::message::Message;
use super::{Stage, Starts, Worker};
use crate::client::Current;
use crate::clock::now_ns;
use crate::contract::job::Measure;
use crate::program::Deferred;
use crate::recorder::{Recorder, owner_at};
use crate::tally::Owner;
use crate::tls::Attempt;

impl<'s, S: Starts<'s>> Worker<'s, S> {
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
                self.look_at_idle();
            }
            Stage::Cancel => {
                let now_ns = self.shard.borrow().now_ns;
                let is_quiet = self.in_flight == 0 && self.cancels.is_done();
                if is_quiet || now_ns >= self.cancels.give_up_ns {
                    self.look_at_idle();
                }
            }
            Stage::Look => {
                let now_ns = self.shard.borrow().now_ns;
                self.end_look_at_idle(now_ns);
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
            (_, Some(arrivals)) if !self.plan.pgbench.counts_by_client() => arrivals.is_exhausted(),
            (Measure::TransactionsPerClient(_), _) => self.clients_left == 0,
        }
    }

    /// Open loop: no arrival waits, or no client is left to take it.
    pub(super) fn is_backlog_empty(&self) -> bool {
        match &self.arrivals {
            None => true,
            Some(_) if !self.drains_backlog() => true,
            Some(arrivals) => arrivals.next_ns(self.timeline.drain_ns) == u64::MAX,
        }
    }

    /// The drain has ended: count transactions without an end, and cancel them.
    pub(super) fn begin_cancelling(&mut self) {
        let end_ns = self.timeline.drain_end_ns;
        let mut ages_ns = Vec::new();
        {
            let shard = &mut *self.shard.borrow_mut();
            shard.is_cancelling = true;
            let is_open = self.arrivals.is_some();
            for Deferred { script, queued_ns, .. } in shard.deferred.drain(..) {
                shard.recorder.left_undone(owner_at(&self.timeline, queued_ns), script);
            }
            let mut give_up = |recorder: &mut Recorder, current: Current| {
                if recorder.layout.is_background(current.script) {
                    return recorder.unfinished(current.owner, current.script, current.retries);
                }
                // In a closed loop a transaction belongs to the phase of its end. Without an end,
                // it counts for the measured phase.
                let owner = if is_open { current.owner } else { Owner::Measure };
                recorder.unfinished(owner, current.script, current.retries);
                let since = if is_open { current.scheduled_ns } else { current.started_ns };
                if owner == Owner::Measure {
                    ages_ns.push(end_ns.saturating_sub(since));
                }
            };
            for (_, current) in self.pool.iter_mut().flat_map(|pool| pool.waiting.drain(..)) {
                give_up(&mut shard.recorder, current);
                self.in_flight -= 1;
            }
            for index in 0..shard.clients.states.len() {
                let Some(current) = shard.clients.states[index].current.take() else { continue };
                give_up(&mut shard.recorder, current);
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
                        if owner == Owner::Measure {
                            ages_ns.push(age_ns);
                        }
                    }
                }
            }
        }
        self.facts.unfinished_ages_ns.extend(ages_ns);
        thin_out(&mut self.facts.unfinished_ages_ns, MAX_AGES);
        self.drop_sleepers();
        self.cancels.begin(now_ns());
        self.cancel_more();
    }

    /// Transactions that wait for no reply need no cancel request: closing the connection rolls
    /// them back.
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
