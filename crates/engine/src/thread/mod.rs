//! One thread of the engine: a loop over the parts of the load.
//!
//! Each turn waits for sockets and timers, and reads all sockets that have bytes. Only then it
//! continues transactions, so that sending for one of them does not delay the timestamp of
//! another's reply. Threads share only the timeline, which is read once per turn.
//!
//! Each part owns its state: `pacing` (arrivals and thinking), `pool`, `connector`, `in_flight`,
//! `cancels`, `idle`, `stages`, `tasks` and `report`. A part never changes another one. It returns
//! what follows, such as a `Start`, and the loop gives that to the next part.

mod arrivals;
mod begin;
mod cancel;
mod connector;
mod events;
mod idle;
mod in_flight;
mod pacing;
mod pool;
mod reply_wait;
mod report;
mod shares;
mod stage;
mod tasks;
mod think;
mod usage;

use std::cell::RefCell;
use std::io;

pub use self::arrivals::OpenArrivals;
pub use self::begin::{Setup, run};
use self::cancel::Cancels;
pub use self::connector::Pace;
use self::connector::{Connector, Season};
use self::idle::Idle;
pub(crate) use self::in_flight::thin_out_ages;
use self::in_flight::{Endings, InFlight, Start};
use self::pacing::Pacing;
use self::pool::{Background, Pool};
use self::reply_wait::ReplyWait;
use self::report::{Connections, Report};
pub use self::report::{Finished, Message};
pub use self::shares::fairness;
use self::stage::{Preparation, Stage, Stages};
use self::tasks::{MakeTask, Task, Tasks};
use crate::client::Shard;
use crate::clock::now_ns;
use crate::commit_journal::{self, CommitJournal};
use crate::plan::Plan;
use crate::recorder::Levels;
use crate::timers::Wake;

/// The loop of a thread, and the parts that it connects; see the top of this file.
struct Loop<'s, M: MakeTask<'s>> {
    plan: &'s Plan,
    shard: &'s RefCell<Shard>,
    tasks: Tasks<'s, M>,
    stages: Stages,
    preparation: Preparation,
    connector: Connector<'s>,
    idle: Idle,
    /// None if each client has its own connection.
    pool: Option<Pool>,
    background: Background,
    pacing: Pacing<'s>,
    in_flight: InFlight<'s>,
    cancels: Cancels,
    reply_wait: ReplyWait,
    report: Report,
}

impl<'s, M: MakeTask<'s>> Loop<'s, M> {
    fn turn_until_over(&mut self) -> io::Result<()> {
        if self.plan.pgbench.connects_late() {
            self.report.connected();
        } else {
            self.connector.queue_all(&mut self.shard.borrow_mut());
        }
        while self.stages.stage() != Stage::Over {
            self.follow_timeline();
            self.connect_more();
            self.wait()?;
            self.rotate();
            self.follow_stages();
            self.on_news();
            self.fire_timers();
            self.start_keyed_in();
            self.start_due();
            self.run_ready();
            self.start_deferred();
            self.tell_failures();
            self.write_journal();
            self.end_if_done();
        }
        Ok(())
    }

    #[inline]
    fn follow_timeline(&mut self) {
        if let Some(timeline) = self.stages.follow_timeline() {
            self.shard.borrow_mut().recorder.set_timeline(*timeline);
            self.pacing.set_timeline(timeline);
        }
    }

    #[inline]
    fn connect_more(&mut self) {
        if self.connector.is_quiet() {
            return;
        }
        let season = self.season();
        loop {
            let outcome = self.connector.connect_more(&mut self.shard.borrow_mut(), season);
            let Some(outcome) = outcome else { return };
            self.on_connect_outcome(outcome);
        }
    }

    fn season(&self) -> Season {
        let stage = self.stages.stage();
        let connects_in_drain = self.plan.pgbench.connects_late()
            || self.plan.renews_connections() && self.pacing.has_backlog(self.stages.timeline());
        Season {
            is_initial: stage < Stage::Load,
            may_connect: stage < Stage::Drain || stage == Stage::Drain && connects_in_drain,
        }
    }

    fn wait(&mut self) -> io::Result<()> {
        let shard = &mut *self.shard.borrow_mut();
        let is_idle = shard.clients.ready.is_empty() && self.tasks.immediate_count() == 0;
        let until_ns = if !is_idle || !shard.clients.news.is_empty() {
            0
        } else {
            let stage_ns = match self.stages.stage() {
                Stage::Prepare => self.preparation.give_up_ns(),
                Stage::Cancel => self.cancels.give_up_ns(),
                Stage::Look => self.idle.give_up_ns(),
                _ => self.stages.timeline().drain_end_ns,
            };
            shard
                .timers
                .next_ns()
                .min(shard.recorder.boundary_ns())
                .min(self.pacing.next_ns(&self.stages))
                .min(stage_ns)
                .min(self.connector.next_ns())
        };
        if self.reply_wait.is_due() {
            let begun_ns = now_ns();
            let messages = shard.poller.submit();
            self.reply_wait.sent(messages, now_ns() - begun_ns);
        }
        let look = self.reply_wait.before_wait(shard.now_ns);
        let Shard { poller, clients, recorder, .. } = shard;
        let traffic = &mut recorder.traffic;
        let replied = clients.ready.len();
        poller.wait(until_ns, &mut |event| clients.on_event(event, traffic))?;
        shard.now_ns = now_ns();
        if let Some(look) = look {
            let clients = &shard.clients;
            let arrived = replied..clients.ready.len();
            let replies = clients.ready.range(arrived.clone());
            let read_ns = replies.map(|index| clients.connections[*index as usize].replied_ns);
            self.reply_wait.after_wait(look, arrived, read_ns, self.in_flight.count());
        }
        Ok(())
    }

    /// Hand over every epoch that ended.
    #[inline]
    fn rotate(&mut self) {
        let shard = &mut *self.shard.borrow_mut();
        while shard.recorder.boundary_ns() <= shard.now_ns {
            let boundary_ns = shard.recorder.boundary_ns();
            let timeline = self.stages.timeline();
            self.pacing.at_boundary(boundary_ns, timeline, &mut shard.recorder);
            let connections = self.connector.counts();
            let levels = Levels {
                in_flight: self.in_flight.count() - self.background.in_flight(),
                backlog: self.pacing.backlog(),
                connections: connections.up,
                idle_connections: connections.idle_up,
                thinking: self.pacing.thinking_count(),
            };
            let epoch = shard.recorder.rotate(levels);
            self.report.epoch(epoch, boundary_ns, timeline, self.reply_wait.looked());
        }
    }

    /// Enter the stages whose time has come.
    #[inline]
    fn follow_stages(&mut self) {
        let now_ns = self.shard.borrow().now_ns;
        while let Some(stage) = self.stages.enter_due(now_ns) {
            self.on_stage(stage, now_ns);
        }
    }

    fn fire_timers(&mut self) {
        let shard = &mut *self.shard.borrow_mut();
        while let Some((at_ns, wake)) = shard.timers.pop_due(shard.now_ns) {
            match wake {
                Wake::Client(index) => {
                    self.pacing.slept(shard.now_ns - at_ns);
                    shard.clients.ready.push_back(index);
                }
                Wake::Connect(index) => self.connector.pause_is_over(index),
                Wake::Terminal(client) => self.pacing.pause_is_over(client),
            }
        }
    }

    #[inline]
    fn start_keyed_in(&mut self) {
        loop {
            let start = self.pacing.next_keyed_in(&self.stages, &mut self.shard.borrow_mut());
            let Some(start) = start else { return };
            self.start(start);
        }
    }

    #[inline]
    fn start_due(&mut self) {
        loop {
            let start = self.pacing.next_due(&self.stages, &mut self.shard.borrow_mut());
            let Some(start) = start else { return };
            self.start(start);
        }
    }

    /// Give deferred work to background terminals.
    #[inline]
    fn start_deferred(&mut self) {
        if !matches!(self.stages.stage(), Stage::Load | Stage::Drain) {
            return;
        }
        loop {
            let start = self.background.next(&mut self.shard.borrow_mut());
            let Some(start) = start else { return };
            self.start(start);
        }
    }

    /// Begin a transaction, or queue it if it has no connection yet.
    #[inline]
    fn start(&mut self, start: Start) {
        let Start { client, script, started_ns, .. } = start;
        {
            let shard = &mut *self.shard.borrow_mut();
            let current = self.in_flight.begin(start, self.stages.timeline(), &mut shard.recorder);
            match &mut self.pool {
                None => shard.clients.connections[client as usize].current = Some(current),
                Some(pool) => pool.wait(client, current),
            }
        }
        if self.pool.is_some() {
            self.serve();
        } else if self.plan.pgbench.connects_late() {
            self.connector.queue(client, &mut self.shard.borrow_mut());
        } else {
            self.tasks.begin(client, Task::Transaction { script, started_ns });
        }
    }

    /// Give free connections to waiting clients until one of both is used up.
    fn serve(&mut self) {
        let Some(pool) = &mut self.pool else { return };
        loop {
            let next = pool.next(&mut self.shard.borrow_mut());
            let Some((index, task)) = next else { return };
            self.tasks.begin(index, task);
        }
    }

    /// Poll every transaction that is ready, each once: new ones wait for the next turn.
    #[inline]
    fn run_ready(&mut self) {
        for _ in 0..self.tasks.immediate_count() {
            let (index, end) = self.tasks.pop_immediate().expect("counted");
            self.on_task_end(index, end);
        }
        let count = self.shard.borrow().clients.ready.len();
        if count > 0 && self.stages.stage() == Stage::Prepare {
            self.preparation.answered(now_ns());
        }
        let examined = self.reply_wait.take_places();
        for place in 0..count {
            let index = self.shard.borrow_mut().clients.ready.pop_front().expect("counted");
            let waited_ns = examined.contains(&place).then(|| self.waited_since(index));
            if self.tasks.is_idle_connection(index) {
                self.idle.answered();
                continue;
            }
            match self.tasks.poll(index) {
                // If the transaction ended with this reply, the wait is not part of it.
                Some(end) => self.on_task_end(index, end),
                None => self.reply_wait.went_on(waited_ns.unwrap_or(0)),
            }
        }
    }

    /// Return the time since the client's reply was read.
    fn waited_since(&self, index: u32) -> u64 {
        now_ns() - self.shard.borrow().clients.connections[index as usize].replied_ns
    }

    /// Report a script that cannot be evaluated, which ends the run, and new kinds of failures.
    #[inline]
    fn tell_failures(&mut self) {
        let shard = &mut *self.shard.borrow_mut();
        if let Some(fault) = shard.fault.take() {
            self.report.tell(Message::Fatal(fault));
        }
        if let Some(refusal) = self.connector.take_news() {
            self.report.tell(Message::NotConnected(refusal));
        }
        if !shard.failures.news.is_empty() {
            self.report.failures(&mut shard.failures.news);
        }
    }

    /// Write what became of the commits of this turn.
    #[inline]
    fn write_journal(&mut self) {
        let shard = &mut *self.shard.borrow_mut();
        if let Some(Err(error)) = shard.journal.as_mut().map(CommitJournal::write) {
            shard.journal = None;
            self.report.tell(Message::Fatal(Box::new(commit_journal::not_written(&error))));
        }
    }

    /// End the present stage if nothing is left to do in it.
    fn end_if_done(&mut self) {
        let is_quiet = self.in_flight.count() == 0;
        let now_ns = self.shard.borrow().now_ns;
        match self.stages.stage() {
            Stage::Prepare if now_ns >= self.preparation.give_up_ns() => self.end_silence(),
            Stage::Load if is_quiet && self.pacing.is_work_done() => self.report.work_done(now_ns),
            Stage::Drain if is_quiet && !self.pacing.has_backlog(self.stages.timeline()) => {
                self.look_at_idle();
            }
            Stage::Cancel => {
                let is_cancelled = is_quiet && self.cancels.is_done();
                if is_cancelled || now_ns >= self.cancels.give_up_ns() {
                    self.look_at_idle();
                }
            }
            Stage::Look if self.idle.is_done(now_ns) => self.stages.enter(Stage::Over),
            _ => {}
        }
    }

    /// The load is over: test the idle connections, if any, before the thread ends.
    fn look_at_idle(&mut self) {
        let is_asking = self.idle.ask(&mut self.shard.borrow_mut());
        self.stages.enter(if is_asking { Stage::Look } else { Stage::Over });
    }

    /// Close all connections, and tell the coordinator what the thread did.
    fn finish(&mut self) {
        let in_doubt_now = self.tasks.count_in_doubt();
        self.shard.borrow_mut().end_journal(self.report.thread(), now_ns());
        self.write_journal();
        let shard = &mut *self.shard.borrow_mut();
        shard.hang_up_all();
        self.report.tell(Message::Epoch(Box::new(shard.recorder.finish(now_ns()))));
        // Subtle: close the log before the coordinator learns that this thread is done.
        shard.observer = None;
        let Endings { commits_in_doubt, unfinished_ages_ns, shares } =
            self.in_flight.take_endings();
        let finished = Finished {
            thread: self.report.thread(),
            poller: shard.poller.kind(),
            clients: self.in_flight.client_count(),
            connections: Connections {
                lost_count: self.connector.counts().lost,
                reconnect_count: self.connector.counts().reconnects,
                durations: self.connector.take_durations(),
                idle: self.idle.facts(),
                opened_at: self.connector.take_opened_at(),
            },
            committed_count: shard.recorder.committed_count,
            commits_in_doubt: commits_in_doubt + in_doubt_now,
            failed_counts: std::mem::take(&mut shard.failures.counts),
            unfinished_ages_ns,
            shares,
            usage: self.report.usage(),
            load_begun_ns: self.stages.load_begun_ns(),
            timer_lag: self.pacing.take_timer_lag(),
            round_trips: self.preparation.take_round_trips(),
        };
        self.report.tell(Message::Finished(Box::new(finished)));
    }
}
