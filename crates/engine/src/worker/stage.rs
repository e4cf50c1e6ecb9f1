//! The stage of a thread, which follows the timeline that the coordinator publishes.

use pgdyno_script::Value;

use super::message::Message;
use super::{Starts, Task, Worker};

/// The stage of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    Connect,
    Prepare,
    Load,
    Drain,
    Cancel,
    /// The idle connections are asked whether they live.
    Look,
    Over,
}

impl<'s, S: Starts<'s>> Worker<'s, S> {
    pub(super) fn follow_timeline(&mut self) {
        if let Some(timeline) = self.shared.if_changed(&mut self.generation) {
            self.timeline = timeline;
            self.shard.borrow_mut().recorder.set_timeline(timeline);
            if let Some(arrivals) = &mut self.arrivals {
                arrivals.set_timeline(&timeline);
            }
        }
    }

    /// Enter the stages whose time has come.
    pub(super) fn follow_stage(&mut self) {
        let now_ns = self.shard.borrow().now_ns;
        let timeline = self.timeline;
        if self.stage < Stage::Prepare && now_ns >= timeline.prepare_ns {
            self.stage = Stage::Prepare;
            if self.plan.pgbench.connects_late() {
                self.tell(Message::Prepared);
            } else if now_ns < timeline.drain_ns {
                // The others follow after the first was prepared without an error.
                self.prepare(0);
            }
        }
        if self.stage < Stage::Load && now_ns >= timeline.warm_ns {
            self.stage = Stage::Load;
            if let Some(observer) = &mut self.shard.borrow_mut().observer {
                observer.began(timeline.warm_ns);
            }
            for index in 0..self.slots.len() as u32 {
                let is_up = self.shard.borrow().clients.states[index as usize].is_up();
                if (is_up || self.plan.pgbench.connects_late())
                    && self.slots[index as usize].is_empty()
                {
                    self.connection_is_free(index);
                }
            }
            self.free_all_clients();
        }
        if self.stage < Stage::Drain && now_ns >= timeline.drain_ns {
            self.stage = Stage::Drain;
            self.shard.borrow_mut().is_draining = true;
            if !self.may_connect() {
                self.connector.waiting.clear();
            }
        }
        if self.stage < Stage::Cancel && now_ns >= timeline.drain_end_ns {
            self.stage = Stage::Cancel;
            self.begin_cancelling();
        }
    }

    /// Prepare a connected client for its scripts.
    pub(super) fn prepare(&mut self, index: u32) {
        let is_up = self.shard.borrow().clients.states[index as usize].is_up();
        let must_wait = self.stage == Stage::Prepare && index > 0 && self.prepared_count == 0;
        if is_up && !must_wait && self.slots[index as usize].is_empty() {
            let is_first = index == 0 && self.stage == Stage::Prepare;
            self.begin_task(index, Task::Prepare { is_first });
        }
    }

    pub(super) fn on_prepared(&mut self, index: u32, scale: Option<i64>) {
        let warnings = std::mem::take(&mut self.shard.borrow_mut().warnings);
        warnings.into_iter().for_each(|warning| self.tell(Message::Warning(warning)));
        if let Some(scale) = scale {
            let shard = &mut *self.shard.borrow_mut();
            for terminal in &mut shard.clients.terminals {
                terminal.variables.set_by_name("scale", Value::Int(scale));
            }
        }
        if self.stage > Stage::Prepare {
            self.connection_is_free(index);
            return;
        }
        self.prepared_count += 1;
        if self.prepared_count == 1 {
            (1..self.slots.len() as u32).for_each(|index| self.prepare(index));
        }
        if self.prepared_count == self.slots.len() {
            self.begin_task(0, Task::RoundTrips);
        }
    }
}
