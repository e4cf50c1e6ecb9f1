//! Starts transactions, in closed and open loops, and counts them when they end.

use super::fault::Fault;
use super::{Free, Stage, Starts, Task, Worker};
use crate::client::{Current, End};
use crate::clock::now_ns;
use crate::outcome::{Ended, Outcome};
use crate::recorder::{Recorder, owner_at};
use crate::tally::Owner;

impl<'s, S: Starts<'s>> Worker<'s, S> {
    /// A client is free: start its next transaction, or let it wait.
    ///
    /// Args: `index`, the number of the client, and of its connection unless clients share them;
    /// `ended_ns`, the end of its last transaction, if it has just ended.
    #[inline]
    pub(super) fn client_is_free(&mut self, index: u32, ended_ns: Option<u64>) {
        if index >= self.client_count {
            return self.background.push(index);
        }
        let is_loading =
            self.stage == Stage::Load || self.stage == Stage::Drain && self.drains_backlog();
        if !is_loading || !self.can_work(index) {
            return;
        }
        let free_ns = now_ns();
        if self.arrivals.is_none() {
            self.start_closed(index, free_ns, ended_ns);
        } else if self.has_transactions_left(index) {
            // As pgbench: a client chooses its script before it waits for an arrival.
            let script = self.choose_script(index);
            if let Some(scheduled_ns) = self.take_due(index, script, free_ns, true) {
                self.start_transaction(index, script, scheduled_ns, free_ns);
            } else if self.has_transactions_left(index) {
                self.free.push_back(Free { index, script, since_ns: free_ns });
            }
        }
    }

    /// Open loop: true if the client may start another transaction. As pgbench, the drop-in counts
    /// transactions by client; in the lab's load, the arrivals have the limit.
    fn has_transactions_left(&self, index: u32) -> bool {
        !self.plan.pgbench.counts_by_client()
            || self.with_transactions_left(index, |left| *left > 0)
    }

    fn count_off(&mut self, index: u32) {
        let is_last = self.with_transactions_left(index, |left| {
            *left -= 1;
            *left == 0
        });
        self.clients_left -= usize::from(is_last);
    }

    /// Access the number of transactions that a client may still start.
    #[inline]
    fn with_transactions_left<T>(&self, client: u32, work: impl FnOnce(&mut u64) -> T) -> T {
        let terminals = &mut self.shard.borrow_mut().clients.terminals;
        work(&mut terminals[client as usize].transactions_left)
    }

    /// True if the client can start a transaction: its connection is open, or it asks for one.
    #[inline]
    pub(super) fn can_work(&self, index: u32) -> bool {
        self.pool.is_some()
            || self.plan.pgbench.connects_late()
            || self.shard.borrow().clients.states[index as usize].is_up()
    }

    /// Closed loop: start the next transaction now, or after think and keying time.
    #[inline]
    fn start_closed(&mut self, index: u32, now_ns: u64, ended_ns: Option<u64>) {
        if now_ns >= self.timeline.drain_ns || self.has_done_its_number(index, now_ns) {
            return;
        }
        let script = self.choose_script(index);
        if self.thinking.is_on {
            return self.think(index, script, ended_ns.unwrap_or(now_ns));
        }
        self.start_chosen(index, script, now_ns, ended_ns);
    }

    /// True if the client has started all its transactions of the measured phase.
    #[inline]
    fn has_done_its_number(&self, index: u32, now_ns: u64) -> bool {
        now_ns >= self.timeline.measure_ns && self.with_transactions_left(index, |left| *left == 0)
    }

    /// Closed loop: start a transaction of the script.
    ///
    /// Args: `free_since_ns`, the instant since which the client waited only for this thread, if it
    /// did.
    #[inline]
    pub(super) fn start_chosen(
        &mut self,
        index: u32,
        script: usize,
        now_ns: u64,
        free_since_ns: Option<u64>,
    ) {
        if now_ns >= self.timeline.measure_ns {
            self.count_off(index);
        }
        if let Some(since_ns) = free_since_ns {
            self.shard.borrow_mut().recorder.between_transactions(now_ns.saturating_sub(since_ns));
        }
        self.start_transaction(index, script, now_ns, now_ns);
    }

    /// Open loop: take the oldest arrival that is due. Arrivals that are too late for their latency
    /// limit are skipped.
    ///
    /// Args: `is_just_free`, true if the client was not waiting. As in pgbench, a waiting client of
    /// the drop-in already has the arrival, which is then never skipped.
    ///
    /// Returns: when the transaction was scheduled.
    #[inline]
    fn take_due(
        &mut self,
        index: u32,
        script: usize,
        now_ns: u64,
        is_just_free: bool,
    ) -> Option<u64> {
        loop {
            let arrivals = self.arrivals.as_mut()?;
            let scheduled_ns = arrivals.next_ns(self.timeline.drain_ns);
            if scheduled_ns > now_ns {
                return None;
            }
            arrivals.take();
            let limit_ns = arrivals.latency_limit_ns.unwrap_or(u64::MAX);
            let may_skip = is_just_free || !self.plan.pgbench.holds_arrivals();
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
            if self.plan.pgbench.counts_by_client() {
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
            if !self.can_work(index) {
                // The client returns to the list when it is connected again.
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
        if self.arrivals.is_some() && self.plan.pgbench.counts_by_client() {
            self.count_off(index);
        }
        let owner = owner_at(&self.timeline, scheduled_ns);
        let (retries, connection_wait_ns, work) = (0, 0, 0);
        let current =
            Current { script, scheduled_ns, started_ns, owner, retries, connection_wait_ns, work };
        self.in_flight += 1;
        {
            let shard = &mut *self.shard.borrow_mut();
            shard.recorder.started(owner, script);
            if self.pool.is_none() {
                shard.clients.states[index as usize].current = Some(current);
            }
        }
        if self.pool.is_some() {
            return self.wait_for_connection(index, current);
        }
        if self.plan.pgbench.connects_late() {
            return self.queue_connect(index);
        }
        self.begin_task(index, Task::Transaction { script, started_ns });
    }

    /// Begin a transaction that waited for its connection. As in pgbench, the time of connecting is
    /// part of the latency in an open loop, and not in a closed loop.
    pub(super) fn start_connected(&mut self, index: u32) {
        let started_ns = now_ns();
        let script = {
            let state = &mut self.shard.borrow_mut().clients.states[index as usize];
            let current = state.current.as_mut().expect("who connects late has a transaction");
            current.started_ns = started_ns;
            if self.arrivals.is_none() {
                current.scheduled_ns = started_ns;
            }
            current.script
        };
        self.begin_task(index, Task::Transaction { script, started_ns });
    }

    #[inline]
    pub(super) fn on_transaction_end(&mut self, index: u32, end: End) {
        self.in_flight -= 1;
        let client_number = self.client_on(index);
        {
            let shard = &mut *self.shard.borrow_mut();
            let client = &mut shard.clients.states[index as usize];
            let current = client.current.take();
            let is_in_doubt =
                std::mem::take(&mut client.is_in_doubt) && !self.plan.pgbench.ignores_doubt();
            // Subtle: without `current`, the transaction was counted as unfinished when the drain
            // ended. If it has committed nevertheless, the table has its rows.
            match (current, end) {
                (Some(current), End::Ended { ended_ns, .. }) if is_in_doubt => {
                    let owner = self.owner(&shard.recorder, &current);
                    shard.recorder.in_doubt(owner, current.script, current.retries);
                    if client_number < self.client_count {
                        self.facts.add_unfinished(owner, ended_ns - current.scheduled_ns);
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
                    shard.recorder.served(current.script, held_ns, client.round_trips);
                    if outcome.is_completed()
                        && !self.plan.scripts[current.script].counters.is_empty()
                    {
                        shard.recorder.counted(owner, current.script, &client.counted);
                    }
                    let is_clients = client_number < self.client_count;
                    if owner == Owner::Measure && outcome.is_completed() && is_clients {
                        self.shares.completed(client_number);
                    }
                    if self.pool.is_some() && outcome.is_completed() {
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
        if end == End::Aborted {
            self.abort_client(index);
        } else if self.plan.connects_each_time() {
            self.connect_anew(index);
        } else {
            self.give_back(index, end.ended_ns());
        }
    }

    /// Open loop: true if transactions that were due before the end are started after it. pgbench
    /// drops them.
    pub(super) fn drains_backlog(&self) -> bool {
        self.arrivals.is_some() && !self.plan.pgbench.drops_backlog()
    }

    /// End the client: it starts no more transactions.
    pub(super) fn abort_client(&mut self, index: u32) {
        let client = self.client_on(index);
        if self.with_transactions_left(client, |left| *left > 0) {
            self.clients_left -= 1;
        }
        self.disconnect(index);
        self.aborted_count += 1;
    }

    /// Replace the connection after its transaction, if each transaction has a new one.
    fn connect_anew(&mut self, index: u32) {
        if self.is_being_made(index) {
            // The connection was lost, and the client is already connecting again.
            return;
        }
        self.disconnect(index);
        if self.plan.pgbench.connects_late() {
            return self.client_is_free(index, None);
        }
        let client = self.client_on(index);
        if self.may_connect() && self.with_transactions_left(client, |left| *left > 0) {
            self.queue_connect(index);
        }
    }

    /// True if the connection was lost and the client is connecting again.
    fn is_being_made(&self, index: u32) -> bool {
        let shard = self.shard.borrow();
        let client = &shard.clients.states[index as usize];
        !self.plan.pgbench.connects_once() && !client.is_up()
    }

    /// End a client whose connection could not be made. Its transaction counts as unfinished.
    pub(super) fn abort_unconnected(&mut self, index: u32, address: usize, fault: &Fault) {
        {
            let shard = &mut *self.shard.borrow_mut();
            let client = &mut shard.clients.states[index as usize];
            let host = &self.connector.endpoints[address].host;
            if let Some(current) = client.current.take() {
                self.in_flight -= 1;
                shard.recorder.unfinished(current.owner, current.script, current.retries);
            }
            if let Some(observer) = &mut shard.observer {
                observer.aborted_connecting(index, &fault.as_session_error(host), host);
            }
        }
        self.abort_client(index);
    }

    /// True if the load connects for every transaction, and has transactions to start in the drain.
    pub(super) fn makes_connections_in_drain(&self) -> bool {
        self.plan.connects_each_time() && self.drains_backlog() && !self.is_backlog_empty()
    }

    /// Return the owner of a transaction that ends now. Background work belongs to the phase in
    /// which it was deferred.
    fn owner(&self, recorder: &Recorder, current: &Current) -> Owner {
        let is_by_schedule =
            self.arrivals.is_some() || recorder.layout.is_background(current.script);
        if is_by_schedule { current.owner } else { recorder.owner() }
    }
}
