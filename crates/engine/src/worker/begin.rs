//! The begin of a thread: its input, and the state that it creates from it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use pgdyno_script::Prng;

use super::arrivals::OpenArrivals;
use super::cancel::Cancels;
use super::connector::{Connector, Pace};
use super::facts::Facts;
use super::idle::Idle;
use super::message::Message;
use super::pool::Pool;
use super::reply_wait::ReplyWait;
use super::shares::Shares;
use super::slot::Slot;
use super::stage::Stage;
use super::think::Thinking;
use super::{Worker, run_task};
use crate::client::{Clients, FIRST_TRANSACTIONS, Failures, Shard};
use crate::clock::now_ns;
use crate::commit_journal::CommitJournal;
use crate::contract::record::ErrorKind;
use crate::names::Names;
use crate::observer::Observer;
use crate::plan::{Plan, Refusal};
use crate::poller::{self, Expected, Poller, Waker};
use crate::recorder::Recorder;
use crate::timeline::{Shared, Timeline};
use crate::timers::Timers;

/// The input of a thread.
#[derive(Debug)]
pub struct Setup {
    pub plan: Arc<Plan>,
    pub names: Arc<Names>,
    pub shared: Arc<Shared>,
    pub timeline: Timeline,
    pub poller: poller::Kind,
    pub waker: Waker,
    pub recorder: Recorder,
    pub clients: Clients,
    pub idle_count: u64,
    /// The last terminals do the work that others put off.
    pub background_count: u32,
    pub observer: Option<Box<dyn Observer>>,
    pub journal: Option<CommitJournal>,
    /// Chooses scripts.
    pub choose: Prng,
    pub arrivals: Option<OpenArrivals>,
    pub connecting: Pace,
    pub thread: u32,
    pub sender: Sender<Message>,
}

/// Run a thread to its end; its messages go to the coordinator.
pub fn run(setup: Setup) {
    let plan = Arc::clone(&setup.plan);
    let socket_count = setup.clients.states.len();
    let expected = Expected { connections: socket_count, rate_tps: plan.thread_rate_tps() };
    let poller = match Poller::for_thread(expected, setup.poller, setup.waker.clone()) {
        Ok(poller) => poller,
        Err(error) => return refuse(&setup, &error),
    };
    let shard = RefCell::new(Shard {
        poller,
        clients: setup.clients,
        timers: Timers::default(),
        recorder: setup.recorder,
        now_ns: now_ns(),
        out: Vec::with_capacity(4096),
        scratch: Vec::with_capacity(64),
        is_draining: false,
        is_cancelling: false,
        failures: Failures::new(FIRST_TRANSACTIONS.div_ceil(u64::from(plan.thread_count()))),
        journal: setup.journal,
        fault: None,
        warnings: Vec::new(),
        refused_statements: Vec::new(),
        spare_waiting: Vec::new(),
        deferred: VecDeque::new(),
        observer: setup.observer,
    });
    let connection_count = socket_count - setup.idle_count as usize;
    let terminal_count = shard.borrow().clients.terminals.len();
    let client_count = terminal_count - setup.background_count as usize;
    let mut worker = Worker {
        connector: Connector::new(&plan, setup.names, setup.waker, setup.connecting),
        idle: Idle::new(setup.idle_count),
        pool: plan.shares_connections().then(|| Pool::new(connection_count)),
        plan: &plan,
        shard: &shard,
        start: |client, task| run_task(client, task),
        slots: (0..connection_count).map(|_| Slot::new()).collect(),
        immediate: VecDeque::new(),
        shared: setup.shared,
        generation: 0,
        timeline: setup.timeline,
        stage: Stage::Connect,
        choose: setup.choose,
        arrivals: setup.arrivals,
        free: VecDeque::new(),
        in_flight: 0,
        thinking: Thinking::new(plan.has_pauses()),
        client_count: client_count as u32,
        background: (client_count as u32..terminal_count as u32).collect(),
        clients_left: client_count,
        aborted_count: 0,
        is_connected: false,
        is_work_reported: false,
        prepared_count: 0,
        prepare_losses: 0,
        cancels: Cancels::new(socket_count as u32),
        facts: Facts::default(),
        shares: Shares::new(client_count),
        reply_wait: ReplyWait::of_this_thread(),
        looked_at: 0..0,
        thread: setup.thread,
        sender: setup.sender,
    };
    if let Err(error) = worker.turn_until_over() {
        let message = format!("waiting for sockets failed: {error}");
        worker.tell(Message::Fatal(Box::new(Refusal::new(ErrorKind::System, message, ""))));
    }
    worker.finish();
}

/// There is no poller: the thread ends before it begins.
fn refuse(setup: &Setup, error: &io::Error) {
    let message = format!("making a poller failed: {error}");
    let refusal = Refusal::new(ErrorKind::System, message, "check ulimit -n");
    let _ = setup.sender.send(Message::Fatal(Box::new(refusal)));
    let _ = setup.sender.send(Message::Died(setup.thread));
}
