//! The begin of a thread: its input (`Setup`), and the parts of its loop, which it makes from it.
//!
//! `load::start` makes one `Setup` for each thread and calls `run` there.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use pgdyno_script::Prng;

use super::Loop;
use super::arrivals::OpenArrivals;
use super::cancel::Cancels;
use super::connector::{Connector, Pace, Way};
use super::idle::Idle;
use super::in_flight::InFlight;
use super::pacing::Pacing;
use super::pool::{Background, Pool};
use super::reply_wait::ReplyWait;
use super::report::{Message, Report};
use super::stage::{Preparation, Stages};
use super::tasks::{Tasks, run_task};
use crate::client::{Clients, FIRST_TRANSACTIONS, Failures, Shard};
use crate::clock::now_ns;
use crate::commit_journal::CommitJournal;
use crate::contract::record::ErrorKind;
use crate::names::Names;
use crate::observer::Observer;
use crate::plan::Plan;
use crate::poller::{self, Expected, Poller, Waker};
use crate::recorder::Recorder;
use crate::refusal::Refusal;
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
    /// The last connections are held open and do nothing.
    pub idle_count: u64,
    /// The last terminals do the work that others put off.
    pub background_count: u32,
    pub observer: Option<Box<dyn Observer>>,
    pub journal: Option<CommitJournal>,
    /// Chooses scripts.
    pub choose: Prng,
    pub arrivals: Option<OpenArrivals>,
    pub connecting: Pace,
    /// Number among the threads of this engine.
    pub thread: u32,
    pub sender: Sender<Message>,
}

/// Run a thread to its end; its messages go to the coordinator.
pub fn run(setup: Setup) {
    let plan = Arc::clone(&setup.plan);
    let socket_count = setup.clients.connections.len();
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
    let all_connections = socket_count as u32;
    let connections = all_connections - setup.idle_count as u32;
    let terminals = shard.borrow().clients.terminals.len() as u32;
    let clients = terminals - setup.background_count;
    let way = Way {
        names: setup.names,
        waker: setup.waker,
        pace: setup.connecting,
        // Whose turn it is follows from the number within the whole load.
        thread: plan.own_threads().start + setup.thread,
    };
    let mut the_loop = Loop {
        plan: &plan,
        shard: &shard,
        tasks: Tasks::new(
            &plan,
            &shard,
            |client, task| run_task(client, task),
            connections as usize,
        ),
        stages: Stages::new(setup.shared, setup.timeline),
        preparation: Preparation::new(connections),
        connector: Connector::new(&plan, way, connections, all_connections),
        idle: Idle::new(connections..all_connections),
        pool: plan.shares_connections().then(|| Pool::new(connections as usize)),
        background: Background::new(clients..terminals),
        pacing: Pacing::new(&plan, setup.choose, setup.arrivals, clients as usize),
        in_flight: InFlight::new(&plan, clients),
        cancels: Cancels::new(all_connections),
        reply_wait: ReplyWait::of_this_thread(),
        report: Report::new(setup.thread, setup.sender),
    };
    if let Err(error) = the_loop.turn_until_over() {
        let message = format!("waiting for sockets failed: {error}");
        the_loop.report.fatal(ErrorKind::System, message, "");
    }
    the_loop.finish();
}

/// There is no poller: the thread ends before it begins.
fn refuse(setup: &Setup, error: &io::Error) {
    let message = format!("making a poller failed: {error}");
    let refusal = Refusal::new(ErrorKind::System, message, "check ulimit -n");
    let _ = setup.sender.send(Message::Fatal(Box::new(refusal)));
    let _ = setup.sender.send(Message::Died(setup.thread));
}
