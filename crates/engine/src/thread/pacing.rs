//! When the clients of a thread start their transactions, and how many they may still start.
//!
//! A free client of a closed loop starts at once, or after its think and keying time. In an open
//! loop it takes the next arrival, or waits for it. Nothing is started here: the result is a
//! `Start`, which the thread's loop carries out.

use std::collections::VecDeque;

use pgdyno_script::{Prng, choose_script};

use super::arrivals::OpenArrivals;
use super::in_flight::Start;
use super::stage::{Stage, Stages};
use super::think::{KeyedIn, Thinking};
use crate::client::Shard;
use crate::clock::{NEVER_NS, now_ns};
use crate::contract::job::Measure;
use crate::histogram::Histogram;
use crate::plan::{Plan, PlannedProgram};
use crate::program::{Mix, Next, Program};
use crate::recorder::{Recorder, owner_at};
use crate::tally::Owner;
use crate::timeline::Timeline;

/// A client that waits for an arrival.
#[derive(Clone, Copy, Debug)]
struct Free {
    client: u32,
    /// The script that it will run.
    script: usize,
    since_ns: u64,
    /// It does not begin before.
    due_ns: u64,
}

/// See the top of this file.
#[derive(Debug)]
pub(super) struct Pacing<'s> {
    plan: &'s Plan,
    /// Chooses scripts.
    choose: Prng,
    /// None in a closed loop.
    arrivals: Option<OpenArrivals>,
    /// Open loop: clients without a transaction, those that have waited longest first.
    free: VecDeque<Free>,
    thinking: Thinking,
    /// A client needs no open connection to start a transaction: it asks for one then.
    connects_to_work: bool,
    client_count: usize,
    /// Number of clients that may still start transactions, if their number is limited.
    clients_left: usize,
    /// Clients that the observer or their program has ended.
    aborted_count: usize,
    /// How late timers fired while a client was free.
    timer_lag: Histogram,
}

impl<'s> Pacing<'s> {
    pub(super) fn new(
        plan: &'s Plan,
        choose: Prng,
        arrivals: Option<OpenArrivals>,
        client_count: usize,
    ) -> Self {
        Pacing {
            plan,
            choose,
            arrivals,
            free: VecDeque::new(),
            thinking: Thinking::new(plan.has_pauses()),
            connects_to_work: plan.shares_connections() || plan.pgbench.connects_late(),
            client_count,
            clients_left: client_count,
            aborted_count: 0,
            timer_lag: Histogram::default(),
        }
    }

    pub(super) fn set_timeline(&mut self, timeline: &Timeline) {
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.set_timeline(timeline);
        }
    }

    /// Return the start of a free client's next transaction, if it is now. Else the client thinks,
    /// waits for an arrival, or has nothing to do.
    ///
    /// Args: `ended_ns`, the end of its last transaction, if it has just ended.
    #[inline]
    pub(super) fn client_is_free(
        &mut self,
        client: u32,
        ended_ns: Option<u64>,
        stages: &Stages,
        shard: &mut Shard,
    ) -> Option<Start> {
        if !self.may_start(stages.stage()) || !self.can_work(client, shard) {
            return None;
        }
        let timeline = stages.timeline();
        let free_ns = now_ns();
        if self.arrivals.is_none() {
            return self.next_closed(client, free_ns, ended_ns, timeline, shard);
        }
        if !self.has_transactions_left(client, shard) {
            return None;
        }
        // As pgbench: a client chooses its script before it waits for an arrival.
        let (script, after_ns) = self.choose_script(client, shard)?;
        let due_ns = if after_ns > 0 { timeline.warm_ns + after_ns } else { 0 };
        let waiting = Free { client, script, since_ns: free_ns, due_ns };
        if let Some(scheduled_ns) = self.take_due(waiting, free_ns, true, timeline, shard) {
            return Some(self.start_scheduled(waiting, scheduled_ns, free_ns, shard));
        }
        if self.has_transactions_left(client, shard) {
            // Those whose transactions are due first come first; else, who has waited longest.
            let place = self.free.partition_point(|other| other.due_ns <= due_ns);
            self.free.insert(place, waiting);
        }
        None
    }

    fn may_start(&self, stage: Stage) -> bool {
        stage == Stage::Load || stage == Stage::Drain && self.drains_backlog()
    }

    /// True if the client can start a transaction: its connection is open, or it asks for one.
    #[inline]
    fn can_work(&self, client: u32, shard: &Shard) -> bool {
        self.connects_to_work || shard.clients.connections[client as usize].is_up()
    }

    /// Open loop: true if the client may start another transaction. As pgbench, the drop-in counts
    /// transactions by client; in the lab's load, the arrivals have the limit.
    fn has_transactions_left(&self, client: u32, shard: &Shard) -> bool {
        !self.plan.pgbench.counts_by_client() || transactions_left(client, shard) > 0
    }

    fn count_off(&mut self, client: u32, shard: &mut Shard) {
        let left = &mut shard.clients.terminals[client as usize].transactions_left;
        *left -= 1;
        self.clients_left -= usize::from(*left == 0);
    }

    /// Closed loop: start the next transaction now, or after think and keying time.
    #[inline]
    fn next_closed(
        &mut self,
        client: u32,
        now_ns: u64,
        ended_ns: Option<u64>,
        timeline: &Timeline,
        shard: &mut Shard,
    ) -> Option<Start> {
        let is_measured = now_ns >= timeline.measure_ns;
        if now_ns >= timeline.drain_ns || is_measured && transactions_left(client, shard) == 0 {
            return None;
        }
        let (script, _) = self.choose_script(client, shard)?;
        if self.thinking.is_on() {
            let from_ns = ended_ns.unwrap_or(now_ns);
            self.thinking.begin(client, script, from_ns, self.plan, shard);
            return None;
        }
        if is_measured {
            self.count_off(client, shard);
        }
        if let Some(ended_ns) = ended_ns {
            // Meanwhile the client waited only for this thread.
            shard.recorder.between_transactions(now_ns.saturating_sub(ended_ns));
        }
        Some(Start::now(client, script, now_ns))
    }

    /// Closed loop: return the start of the next terminal whose keying is over.
    pub(super) fn next_keyed_in(&mut self, stages: &Stages, shard: &mut Shard) -> Option<Start> {
        while let Some(keyed_in) = self.thinking.next_over(shard) {
            let KeyedIn { client, script, due_ns, now_ns } = keyed_in;
            self.timer_lag.record(now_ns.saturating_sub(due_ns));
            // If the client has no connection now, it starts when it gets one.
            if now_ns < stages.timeline().drain_ns && self.can_work(client, shard) {
                if now_ns >= stages.timeline().measure_ns {
                    self.count_off(client, shard);
                }
                return Some(Start::now(client, script, now_ns));
            }
        }
        None
    }

    /// Open loop: return the start of the client that has been free longest, if an arrival is due.
    #[inline]
    pub(super) fn next_due(&mut self, stages: &Stages, shard: &mut Shard) -> Option<Start> {
        while let Some(&waiting) = self.free.front() {
            if !self.may_start(stages.stage()) {
                return None;
            }
            if !self.can_work(waiting.client, shard) {
                // The client returns to the list when it is connected again.
                self.free.pop_front();
                continue;
            }
            let started_ns = now_ns();
            let timeline = stages.timeline();
            let scheduled_ns = self.take_due(waiting, started_ns, false, timeline, shard)?;
            self.free.pop_front();
            if waiting.since_ns <= scheduled_ns {
                self.timer_lag.record(started_ns - scheduled_ns);
            }
            return Some(self.start_scheduled(waiting, scheduled_ns, started_ns, shard));
        }
        None
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
        waiting: Free,
        now_ns: u64,
        is_just_free: bool,
        timeline: &Timeline,
        shard: &mut Shard,
    ) -> Option<u64> {
        let Free { client, script, due_ns, .. } = waiting;
        loop {
            let arrivals = self.arrivals.as_mut()?;
            let scheduled_ns = arrivals.next_ns(timeline.drain_ns);
            if scheduled_ns.max(due_ns) > now_ns {
                return None;
            }
            arrivals.take();
            let may_skip = is_just_free || !self.plan.pgbench.holds_arrivals();
            if now_ns - scheduled_ns <= arrivals.limit_ns() || !may_skip {
                return Some(scheduled_ns);
            }
            shard.recorder.skipped(owner_at(timeline, scheduled_ns));
            if let Some(observer) = &mut shard.observer {
                observer.skipped(client, script);
            }
            if self.plan.pgbench.counts_by_client() {
                self.count_off(client, shard);
                if transactions_left(client, shard) == 0 {
                    return None;
                }
            }
        }
    }

    fn start_scheduled(
        &mut self,
        waiting: Free,
        scheduled_ns: u64,
        started_ns: u64,
        shard: &mut Shard,
    ) -> Start {
        let Free { client, script, .. } = waiting;
        if self.plan.pgbench.counts_by_client() {
            self.count_off(client, shard);
        }
        Start { client, script, scheduled_ns, started_ns, work: 0 }
    }

    /// Choose the next script of a client; `None` if its program has no more for it.
    ///
    /// Returns: the script, and when it is due as `Next::Type` has it.
    #[inline]
    fn choose_script(&mut self, client: u32, shard: &mut Shard) -> Option<(usize, u64)> {
        let number = choose_script(&self.plan.weights, &mut self.choose);
        let program = &self.plan.programs[number];
        if program.mix == Mix::Program {
            return self.next_of_program(program, client, shard);
        }
        if program.type_weights.len() == 1 {
            return Some((program.first_script, 0));
        }
        let terminal = &mut shard.clients.terminals[client as usize];
        let chosen = match terminal.dealers.get_mut(number) {
            Some(dealer) => dealer.deal(&program.type_weights, &mut terminal.random),
            None => choose_script(&program.type_weights, &mut terminal.random),
        };
        Some((program.first_script + chosen, 0))
    }

    /// Ask a program what a client does next. A client without more is ended.
    fn next_of_program(
        &mut self,
        program: &PlannedProgram,
        client: u32,
        shard: &mut Shard,
    ) -> Option<(usize, u64)> {
        let Program::Native(native) = &self.plan.scripts[program.first_script].program else {
            unreachable!("only a native program has this mix");
        };
        if transactions_left(client, shard) == 0 {
            return None;
        }
        match native.transactions.next(shard.clients.terminals[client as usize].number) {
            Next::Type { number, due_ns } => Some((program.first_script + number, due_ns)),
            Next::Over => {
                self.end_client(client, shard);
                // A client that connects again is not asked again.
                shard.clients.terminals[client as usize].transactions_left = 0;
                None
            }
        }
    }

    /// True if the number of the client's transactions is not done.
    pub(super) fn has_more_for(&self, client: u32, shard: &Shard) -> bool {
        transactions_left(client, shard) > 0
    }

    /// End a client: it starts no more transactions.
    pub(super) fn end_client(&mut self, client: u32, shard: &Shard) {
        self.clients_left -= usize::from(transactions_left(client, shard) > 0);
        self.aborted_count += 1;
    }

    /// The timer of a sleeping transaction or of a terminal's pause has fired.
    pub(super) fn slept(&mut self, late_ns: u64) {
        self.timer_lag.record(late_ns);
    }

    pub(super) fn pause_is_over(&mut self, client: u32) {
        self.thinking.is_over(client);
    }

    /// Count pauses and arrivals up to the end of an epoch.
    pub(super) fn at_boundary(
        &mut self,
        boundary_ns: u64,
        timeline: &Timeline,
        recorder: &mut Recorder,
    ) {
        recorder.think(self.thinking.until(boundary_ns));
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.count_until(boundary_ns, timeline, recorder);
        }
    }

    /// Open loop: transactions that are due and have not started.
    pub(super) fn backlog(&self) -> u64 {
        self.arrivals.as_ref().map_or(0, OpenArrivals::backlog)
    }

    /// Terminals in their keying or think time.
    pub(super) fn thinking_count(&self) -> u64 {
        self.thinking.count()
    }

    /// Return when the next free client has something to start.
    #[inline]
    pub(super) fn next_ns(&self, stages: &Stages) -> u64 {
        match (&self.arrivals, self.free.front()) {
            (Some(arrivals), Some(first)) if stages.stage() >= Stage::Load => {
                arrivals.next_ns(stages.timeline().drain_ns).max(first.due_ns)
            }
            _ => NEVER_NS,
        }
    }

    /// True if no client will start a transaction again.
    pub(super) fn is_work_done(&self) -> bool {
        let is_bounded_work_done = match (&self.plan.work.measure, &self.arrivals) {
            (Measure::DurationNs(_), _) => false,
            (_, Some(arrivals)) if !self.plan.pgbench.counts_by_client() => arrivals.is_exhausted(),
            (Measure::TransactionsPerClient(_), _) => self.clients_left == 0,
        };
        self.aborted_count == self.client_count || is_bounded_work_done
    }

    /// Open loop: true if transactions that were due before the end are started after it. pgbench
    /// drops them.
    fn drains_backlog(&self) -> bool {
        self.arrivals.is_some() && !self.plan.pgbench.drops_backlog()
    }

    /// True if the drain has a transaction to start: an arrival waits for a client.
    pub(super) fn has_backlog(&self, timeline: &Timeline) -> bool {
        let Some(arrivals) = &self.arrivals else { return false };
        self.drains_backlog() && arrivals.next_ns(timeline.drain_ns) != NEVER_NS
    }

    /// The drain has ended: count the arrivals that no client took.
    ///
    /// Returns: the ages of those of the measured phase that were not skipped.
    pub(super) fn give_up(&mut self, timeline: &Timeline, recorder: &mut Recorder) -> Vec<u64> {
        let mut ages_ns = Vec::new();
        let Some(arrivals) = &mut self.arrivals else { return ages_ns };
        loop {
            let scheduled_ns = arrivals.next_ns(timeline.drain_ns);
            if scheduled_ns == NEVER_NS {
                return ages_ns;
            }
            arrivals.take();
            let owner = owner_at(timeline, scheduled_ns);
            let age_ns = timeline.drain_end_ns.saturating_sub(scheduled_ns);
            if age_ns > arrivals.limit_ns() {
                recorder.skipped(owner);
            } else {
                recorder.not_started(owner);
                if owner == Owner::Measure {
                    ages_ns.push(age_ns);
                }
            }
        }
    }

    pub(super) fn take_timer_lag(&mut self) -> Histogram {
        std::mem::take(&mut self.timer_lag)
    }
}

/// Return the number of transactions that a client may still start in the measured phase.
#[inline]
fn transactions_left(client: u32, shard: &Shard) -> u64 {
    shard.clients.terminals[client as usize].transactions_left
}
