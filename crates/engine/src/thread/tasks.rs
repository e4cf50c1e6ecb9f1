//! The tasks of a thread's connections: what each of them runs, and the memory that it runs in.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use crate::client::{Client, End, Prepared, RoundTrips, Shard, prepare, round_trips, transaction};
use crate::plan::Plan;

/// The work that a connection runs.
#[derive(Clone, Copy, Debug)]
pub(super) enum Task {
    Prepare { is_first: bool },
    RoundTrips,
    Transaction { script: usize, started_ns: u64 },
}

pub(super) enum TaskEnd {
    Prepared(Prepared),
    RoundTrips(RoundTrips),
    Transaction(End),
}

pub(super) async fn run_task(client: Client<'_>, task: Task) -> TaskEnd {
    let skips = client.plan.pgbench.skips_preparing();
    match task {
        Task::Prepare { .. } if skips => TaskEnd::Prepared(Prepared::Ready { scale: None }),
        Task::RoundTrips if skips => TaskEnd::RoundTrips(RoundTrips::default()),
        Task::Prepare { is_first } => TaskEnd::Prepared(prepare(client, is_first).await),
        Task::RoundTrips => TaskEnd::RoundTrips(round_trips(client).await),
        Task::Transaction { script, started_ns } => {
            TaskEnd::Transaction(transaction(client, script, started_ns).await)
        }
    }
}

/// Makes the future of a task. The future's type has no name; the trait makes it a parameter, so
/// that a slot needs no allocation for each task.
pub(super) trait MakeTask<'s>: Fn(Client<'s>, Task) -> Self::Future {
    type Future: Future<Output = TaskEnd>;
}

impl<'s, F, M> MakeTask<'s> for M
where
    M: Fn(Client<'s>, Task) -> F,
    F: Future<Output = TaskEnd>,
{
    type Future = F;
}

/// The tasks of the connections that are not idle ones, each in a slot of its connection.
pub(super) struct Tasks<'s, M: MakeTask<'s>> {
    plan: &'s Plan,
    shard: &'s RefCell<Shard>,
    make: M,
    slots: Vec<Slot<M::Future>>,
    /// Tasks that ended in their first poll, without waiting.
    immediate: VecDeque<(u32, TaskEnd)>,
}

impl<'s, M: MakeTask<'s>> Tasks<'s, M> {
    pub(super) fn new(
        plan: &'s Plan,
        shard: &'s RefCell<Shard>,
        make: M,
        connection_count: usize,
    ) -> Self {
        let slots = (0..connection_count).map(|_| Slot::new()).collect();
        Tasks { plan, shard, make, slots, immediate: VecDeque::new() }
    }

    /// Begin a task, and poll it once.
    pub(super) fn begin(&mut self, index: u32, task: Task) {
        let client = Client::new(self.plan, self.shard, index);
        let slot = &mut self.slots[index as usize];
        slot.fill((self.make)(client, task));
        if let Some(end) = slot.poll() {
            // Subtle: the end is handled in the next turn. If it were handled here, a script
            // without SQL would recurse for ever.
            self.immediate.push_back((index, end));
        }
    }

    /// Continue a connection's task.
    #[inline]
    pub(super) fn poll(&mut self, index: u32) -> Option<TaskEnd> {
        self.slots[index as usize].poll()
    }

    pub(super) fn immediate_count(&self) -> usize {
        self.immediate.len()
    }

    /// Take the oldest task that ended in its first poll.
    pub(super) fn pop_immediate(&mut self) -> Option<(u32, TaskEnd)> {
        self.immediate.pop_front()
    }

    pub(super) fn is_running(&self, index: u32) -> bool {
        self.slots[index as usize].0.is_some()
    }

    /// Number of the connections that run tasks. Idle connections follow them.
    pub(super) fn connection_count(&self) -> u32 {
        self.slots.len() as u32
    }

    #[inline]
    pub(super) fn is_idle_connection(&self, index: u32) -> bool {
        index as usize >= self.slots.len()
    }

    /// End the tasks that wait for no reply. Their transactions need no cancel request: closing the
    /// connection rolls them back.
    ///
    /// Returns: how many were ended.
    pub(super) fn drop_sleepers(&mut self) -> u64 {
        let mut count = 0;
        for (index, slot) in self.slots.iter_mut().enumerate() {
            let is_waiting = self.shard.borrow().clients.connections[index].ready_wanted > 0;
            if slot.0.is_some() && !is_waiting {
                slot.0.set(None);
                count += 1;
            }
        }
        self.immediate.clear();
        count
    }

    /// Count the commits that were sent and whose reply still has not come.
    pub(super) fn count_in_doubt(&self) -> u64 {
        let shard = self.shard.borrow();
        let in_doubt =
            shard.clients.connections.iter().zip(&self.slots).filter(|(connection, slot)| {
                slot.0.is_some() && connection.is_up() && connection.may_have_committed()
            });
        in_doubt.count() as u64
    }
}

/// Room for one future of a fixed type. It is reused, so starting a transaction allocates nothing.
struct Slot<F>(Pin<Box<Option<F>>>);

impl<F: Future> Slot<F> {
    fn new() -> Slot<F> {
        Slot(Box::pin(None))
    }

    fn fill(&mut self, future: F) {
        self.0.set(Some(future));
    }

    /// Poll the future in the slot; after its end the slot is empty.
    #[inline]
    fn poll(&mut self) -> Option<F::Output> {
        // The loop knows which futures to poll, so the waker does nothing.
        let mut context = Context::from_waker(Waker::noop());
        match self.0.as_mut().as_pin_mut()?.poll(&mut context) {
            Poll::Pending => None,
            Poll::Ready(end) => {
                self.0.set(None);
                Some(end)
            }
        }
    }
}
