//! One thread of the engine: its loop.
//!
//! Each turn waits for sockets and timers, and reads all sockets that have bytes. Only then it
//! continues transactions, so that sending for one of them does not delay the timestamp of
//! another's reply. Threads share only the timeline, which is read once per turn.

mod arrivals;
mod begin;
mod cancel;
mod connect;
mod connector;
mod ending;
mod facts;
mod fault;
mod idle;
mod load;
mod lost;
mod message;
mod news;
mod pool;
mod reply_wait;
mod shares;
mod slot;
mod stage;
mod think;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use pgdyno_script::{Prng, choose_script};

use self::arrivals::OpenArrivals;
pub use self::begin::{Setup, run};
use self::cancel::Cancels;
use self::connector::Connector;
pub use self::connector::Pace;
pub(crate) use self::ending::thin_out;
pub use self::facts::Facts;
use self::idle::Idle;
pub use self::message::{Finished, Message};
use self::pool::Pool;
use self::reply_wait::ReplyWait;
pub use self::shares::{Shares, fairness};
use self::slot::Slot;
use self::stage::Stage;
use self::think::Thinking;
use crate::client::{Client, End, Prepared, RoundTrips, Shard, prepare, round_trips, transaction};
use crate::clock::{NEVER_NS, now_ns};
use crate::commit_journal::{self, CommitJournal};
use crate::contract::record::{ErrorKind, IdleFacts};
use crate::plan::{Plan, Refusal};
use crate::recorder::Levels;
use crate::timeline::{Shared, Timeline};
use crate::timers::Wake;

pub use self::arrivals::OpenArrivals as Arrivals;

/// Number of attempts to prepare a client, on average, before the run ends.
const PREPARES: usize = 3;

/// The work that a slot runs.
#[derive(Clone, Copy, Debug)]
enum Task {
    Prepare { is_first: bool },
    RoundTrips,
    Transaction { script: usize, started_ns: u64 },
}

/// A client that waits for an arrival.
#[derive(Clone, Copy, Debug)]
struct Free {
    index: u32,
    /// The script that it will run.
    script: usize,
    since_ns: u64,
}

enum TaskEnd {
    Prepared(Prepared),
    RoundTrips(RoundTrips),
    Transaction(End),
}

async fn run_task(client: Client<'_>, task: Task) -> TaskEnd {
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
trait Starts<'s>: Fn(Client<'s>, Task) -> Self::Task {
    type Task: Future<Output = TaskEnd>;
}

impl<'s, F, M> Starts<'s> for M
where
    M: Fn(Client<'s>, Task) -> F,
    F: Future<Output = TaskEnd>,
{
    type Task = F;
}

struct Worker<'s, S: Starts<'s>> {
    plan: &'s Plan,
    shard: &'s RefCell<Shard>,
    start: S,
    /// One slot for each connection of a client.
    slots: Vec<Slot<S::Task>>,
    /// Tasks that ended in their first poll, without waiting.
    immediate: VecDeque<(u32, TaskEnd)>,
    shared: Arc<Shared>,
    generation: u32,
    timeline: Timeline,
    stage: Stage,
    connector: Connector,
    idle: Idle,
    /// None if each client has its own connection.
    pool: Option<Pool>,
    choose: Prng,
    arrivals: Option<OpenArrivals>,
    /// Open loop: clients without a transaction, those that have waited longest first.
    free: VecDeque<Free>,
    in_flight: u64,
    thinking: Thinking,
    /// Number of terminals that choose their scripts. Background terminals have the numbers after
    /// them.
    client_count: u32,
    /// Background terminals that are free.
    background: Vec<u32>,
    /// Number of clients that may still start transactions, if their number is limited.
    clients_left: usize,
    /// Clients that the observer has ended.
    aborted_count: usize,
    is_connected: bool,
    is_work_reported: bool,
    prepared_count: usize,
    /// Connections lost while they were prepared.
    prepare_losses: usize,
    cancels: Cancels,
    facts: Facts,
    shares: Shares,
    reply_wait: ReplyWait,
    /// If this turn is examined: the places of its replies in the ready list.
    looked_at: Range<usize>,
    thread: u32,
    sender: Sender<Message>,
}

impl<'s, S: Starts<'s>> Worker<'s, S> {
    fn turn_until_over(&mut self) -> io::Result<()> {
        self.queue_all_connects();
        while self.stage != Stage::Over {
            self.follow_timeline();
            self.connect_more();
            self.wait()?;
            self.rotate();
            self.follow_stage();
            self.on_news();
            self.fire_timers();
            self.start_keyed_in();
            self.start_due();
            self.run_ready();
            self.start_deferred();
            self.tell_fault();
            self.write_journal();
            self.end_if_idle();
        }
        Ok(())
    }

    fn wait(&mut self) -> io::Result<()> {
        let shard = &mut *self.shard.borrow_mut();
        let is_idle = shard.clients.ready.is_empty() && self.immediate.is_empty();
        let until_ns = if !is_idle || !shard.clients.news.is_empty() {
            0
        } else {
            let due_ns = match &self.arrivals {
                Some(arrivals) if !self.free.is_empty() && self.stage >= Stage::Load => {
                    arrivals.next_ns(self.timeline.drain_ns)
                }
                _ => NEVER_NS,
            };
            let stage_ns = match self.stage {
                Stage::Cancel => self.cancels.give_up_ns,
                Stage::Look => self.idle.give_up_ns(),
                _ => self.timeline.drain_end_ns,
            };
            shard
                .timers
                .next_ns()
                .min(shard.recorder.boundary_ns())
                .min(due_ns)
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
            let read_ns = replies.map(|index| clients.states[*index as usize].replied_ns);
            if self.reply_wait.after_wait(look, read_ns, self.in_flight) {
                self.looked_at = arrived;
            }
        }
        Ok(())
    }

    /// Hand over every epoch that ended.
    #[inline]
    fn rotate(&mut self) {
        let shard = &mut *self.shard.borrow_mut();
        while shard.recorder.boundary_ns() <= shard.now_ns {
            let boundary_ns = shard.recorder.boundary_ns();
            shard.recorder.think(self.thinking.until(boundary_ns));
            if let Some(arrivals) = &mut self.arrivals {
                arrivals.count_until(boundary_ns, &self.timeline, &mut shard.recorder);
            }
            let levels = Levels {
                in_flight: self.in_flight - self.background_in_flight(&shard.clients),
                backlog: self.arrivals.as_ref().map_or(0, OpenArrivals::backlog),
                connections: self.connector.up_count,
                idle_connections: self.connector.idle_up_count,
                thinking: self.thinking.count,
            };
            self.tell(Message::Epoch(Box::new(shard.recorder.rotate(levels))));
            self.facts.at_boundary(boundary_ns, &self.timeline, self.reply_wait.looked());
        }
    }

    fn fire_timers(&mut self) {
        loop {
            let shard = &mut *self.shard.borrow_mut();
            let Some((at_ns, wake)) = shard.timers.pop_due(shard.now_ns) else { return };
            match wake {
                Wake::Client(index) => {
                    self.facts.timer_lag.record(shard.now_ns - at_ns);
                    shard.clients.ready.push_back(index);
                }
                // If the connection is not needed any more, `connect_more` does not begin it.
                Wake::Connect(index) => self.connector.waiting.push_back(index),
                Wake::Terminal(client) => self.thinking.over.push(client),
            }
        }
    }

    /// Poll every transaction that is ready, each once: new ones wait for the next turn.
    #[inline]
    fn run_ready(&mut self) {
        for _ in 0..self.immediate.len() {
            let (index, end) = self.immediate.pop_front().expect("counted");
            self.on_task_end(index, end);
        }
        let count = self.shard.borrow().clients.ready.len();
        let looked_at = std::mem::take(&mut self.looked_at);
        for place in 0..count {
            let index = self.shard.borrow_mut().clients.ready.pop_front().expect("counted");
            let waited_ns = looked_at.contains(&place).then(|| self.waited_since(index));
            let Some(slot) = self.slots.get_mut(index as usize) else {
                self.idle.on_answer();
                continue;
            };
            match slot.poll() {
                // If the transaction ended with this reply, the wait is not part of it.
                Some(end) => self.on_task_end(index, end),
                None => self.reply_wait.went_on(waited_ns.unwrap_or(0)),
            }
        }
    }

    /// Return the time since the client's reply was read.
    fn waited_since(&self, index: u32) -> u64 {
        now_ns() - self.shard.borrow().clients.states[index as usize].replied_ns
    }

    fn begin_task(&mut self, index: u32, task: Task) {
        let client = Client::new(self.plan, self.shard, index);
        let slot = &mut self.slots[index as usize];
        slot.fill((self.start)(client, task));
        if let Some(end) = slot.poll() {
            // Subtle: the end is handled in the next turn. If it were handled here, a script
            // without SQL would recurse for ever.
            self.immediate.push_back((index, end));
        }
    }

    fn on_task_end(&mut self, index: u32, end: TaskEnd) {
        match end {
            TaskEnd::Transaction(end) => self.on_transaction_end(index, end),
            TaskEnd::Prepared(Prepared::Ready { scale }) => self.on_prepared(index, scale),
            TaskEnd::Prepared(Prepared::Refused(refusal)) => {
                self.refused_in_prepare(index, refusal)
            }
            TaskEnd::Prepared(Prepared::Lost) => self.on_lost_in_prepare(),
            TaskEnd::RoundTrips(round_trips) => {
                self.facts.round_trips = round_trips;
                self.tell(Message::Prepared);
            }
        }
    }

    /// A connection was lost while it was prepared. It connects and is prepared again, but the run
    /// ends if this happens too often.
    fn on_lost_in_prepare(&mut self) {
        self.prepare_losses += 1;
        if self.stage == Stage::Prepare && self.prepare_losses > PREPARES * self.slots.len() {
            let message = format!(
                "the server ended the connection each time the statements were prepared, {} times",
                self.prepare_losses
            );
            let hint = "see the server's log; a pooler may not support prepared statements";
            let refusal = Refusal::new(ErrorKind::ConnectionLost, message, hint);
            self.tell(Message::Fatal(Box::new(refusal)));
        }
    }

    /// Report a script that cannot be evaluated, which ends the run, and new kinds of failures.
    #[inline]
    fn tell_fault(&mut self) {
        if let Some(fault) = self.shard.borrow_mut().fault.take() {
            self.tell(Message::Fatal(fault));
        }
        let news = &mut self.shard.borrow_mut().failures.news;
        if !news.is_empty() {
            news.drain(..).for_each(|news| self.tell(Message::Failures(self.thread, news)));
        }
    }

    /// Write what became of the commits of this turn.
    #[inline]
    fn write_journal(&mut self) {
        let shard = &mut *self.shard.borrow_mut();
        if let Some(Err(error)) = shard.journal.as_mut().map(CommitJournal::write) {
            shard.journal = None;
            self.tell(Message::Fatal(Box::new(commit_journal::not_written(&error))));
        }
    }

    /// Choose the next script of a client.
    #[inline]
    fn choose_script(&mut self, client: u32) -> usize {
        let number = choose_script(&self.plan.weights, &mut self.choose);
        let program = &self.plan.programs[number];
        if program.type_weights.len() == 1 {
            return program.first_script;
        }
        let terminal = &mut self.shard.borrow_mut().clients.terminals[client as usize];
        let chosen = if program.is_dealt {
            terminal.decks[number].deal(&program.type_weights, &mut terminal.random)
        } else {
            choose_script(&program.type_weights, &mut terminal.random)
        };
        program.first_script + chosen
    }

    fn tell(&self, message: Message) {
        // It fails only if the coordinator has ended, and then the process ends, too.
        let _ = self.sender.send(message);
    }

    /// Close all connections, and tell the coordinator what the thread did.
    fn finish(&mut self) {
        let in_doubt_now = self.count_in_doubt();
        self.shard.borrow_mut().end_journal(self.thread, now_ns());
        self.write_journal();
        let shard = &mut *self.shard.borrow_mut();
        shard.hang_up_all();
        self.tell(Message::Epoch(Box::new(shard.recorder.finish(now_ns()))));
        // Subtle: close the log before the coordinator learns that this thread is done.
        shard.observer = None;
        let finished = Finished {
            thread: self.thread,
            poller: shard.poller.kind(),
            clients: self.client_count,
            idle: IdleFacts { opened_count: self.idle.opened, alive_count: self.idle.alive },
            committed_count: shard.recorder.committed_count,
            commits_in_doubt: self.facts.commits_in_doubt + in_doubt_now,
            connections_lost: self.connector.lost_count,
            reconnects: self.connector.reconnect_count,
            connect: std::mem::take(&mut self.connector.durations),
            facts: std::mem::take(&mut self.facts),
            shares: std::mem::take(&mut self.shares),
        };
        self.tell(Message::Finished(Box::new(finished)));
    }
}
