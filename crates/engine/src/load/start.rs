//! Starts the threads, each with its clients, random streams and arrivals.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use pgdyno_script::{ClientVariables, Prng, RandomStreams, Value, clients_of_threads};

use crate::arrivals::Schedule;
use crate::client::{Clients, Connection, Terminal};
use crate::commit_journal::CommitJournal;
use crate::contract::job::{Arrivals, ClockPair, Measure};
use crate::contract::record::ErrorKind;
use crate::names::Names;
use crate::plan::Plan;
use crate::poller::{Kind, VARIABLE, Waker};
use crate::program::{Dealer, Mix, Program};
use crate::recorder::{Recorder, RecorderSetup, Spares};
use crate::refusal::Refusal;
use crate::thread::{self, Message, OpenArrivals, Pace, Setup};
use crate::timeline::{Shared, Timeline};

/// Start every thread of the plan.
pub(super) fn threads(
    plan: &Arc<Plan>,
    shared: &Arc<Shared>,
    sender: &Sender<Message>,
    clock: ClockPair,
    connect_ns: u64,
) -> Result<Spares, Refusal> {
    let names = Names::new(&plan.target)?;
    raise_file_limit();
    let poller = Kind::choose().map_err(|error| {
        let hint = format!("unset {VARIABLE}: the engine then uses what this host offers");
        Refusal::new(ErrorKind::System, error.to_string(), hint)
    })?;
    let is_default_seed_given = plan.work.variables.contains_key("default_seed");
    let streams = RandomStreams::new(
        plan.work.seed,
        plan.client_count() as usize,
        plan.thread_count() as usize,
        !is_default_seed_given,
    );
    let create = |path| CommitJournal::create(path, plan.own_thread_count(), clock);
    let journal = plan.work.journal.as_deref().map(create).transpose()?;
    let mut spares = Vec::new();
    let mut setups = Vec::new();
    for (own, thread) in (0..).zip(plan.own_threads()) {
        let waker = Waker::new().map_err(|error| system("making an eventfd", &error))?;
        shared.add_waker(waker.clone());
        let (spare_sender, spare_receiver) = channel();
        spares.push(spare_sender);
        let timeline = Timeline::begin(connect_ns);
        let setup = RecorderSetup {
            layout: plan.layout.clone(),
            thread: own,
            latency_limit_ns: latency_limit(plan),
            count_interval_ns: plan.work.count_interval_ns,
            histogram_interval_ns: plan.work.histogram_interval_ns,
            spares: spare_receiver,
        };
        setups.push(Setup {
            plan: Arc::clone(plan),
            names: Arc::clone(&names),
            shared: Arc::clone(shared),
            timeline,
            poller,
            waker,
            recorder: Recorder::new(setup, timeline),
            clients: clients(plan, thread, &streams),
            background_count: share(plan.background_count(), thread, plan.thread_count()),
            idle_count: u64::from(share(plan.idle_count(), thread, plan.thread_count())),
            observer: plan.pgbench.take_observer(thread),
            journal: journal.as_ref().map(CommitJournal::share),
            choose: streams.threads[thread as usize].choose,
            arrivals: arrivals(plan, thread, streams.threads[thread as usize].throttle),
            connecting: pace(plan, thread, connect_ns),
            thread: own,
            sender: sender.clone(),
        });
    }
    for setup in setups {
        spawn(setup)?;
    }
    Ok(spares)
}

fn spawn(setup: Setup) -> Result<(), Refusal> {
    let (thread, sender) = (setup.thread, setup.sender.clone());
    let body = move || {
        // The smallest timer slack: with the default, timers would fire 50 us late.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        if catch_unwind(AssertUnwindSafe(|| thread::run(setup))).is_err() {
            let _ = sender.send(Message::Died(thread));
        }
    };
    std::thread::Builder::new()
        .name(format!("load-{thread}"))
        .spawn(body)
        .map_err(|error| system("starting a thread", &error))
        .map(|_| ())
}

fn system(what: &str, error: &std::io::Error) -> Refusal {
    Refusal::new(
        ErrorKind::System,
        format!("{what} failed: {error}"),
        "check the limits of this user (ulimit -a)",
    )
}

/// Raise the limit of open files to the hard limit: each client needs a descriptor.
fn raise_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // If this fails, the error is reported when no descriptor is left.
    let _ = setrlimit(Resource::Nofile, limit);
}

/// Return the numbers of a thread's clients. Clients are distributed round robin; pgbench gives
/// each thread a range.
fn client_ids(plan: &Plan, thread: u32) -> Vec<u32> {
    let (clients, threads) = (plan.client_count(), plan.thread_count());
    if !plan.pgbench.deals_ranges() {
        return (thread..clients).step_by(threads as usize).collect();
    }
    let ranges = clients_of_threads(clients as usize, threads as usize);
    ranges[thread as usize].clone().map(|client| client as u32).collect()
}

/// Return the terminals of a thread, their connections, and the idle connections. Each terminal has
/// a connection unless terminals share connections.
fn clients(plan: &Plan, thread: u32, streams: &RandomStreams) -> Clients {
    let terminals = terminals(plan, thread, streams);
    let threads = plan.thread_count();
    let count = match plan.shares_connections() {
        true => share(plan.connection_count(), thread, threads),
        false => terminals.len() as u32,
    };
    // Each connection has a terminal from the start, whose variables the check of statements uses.
    let connection = |terminal: u32| {
        let mut connection = Connection::new(terminal);
        connection.reply.keeps_notices = plan.pgbench.shows_notices();
        connection
    };
    let idle = share(plan.idle_count(), thread, threads);
    let nobodys = (0..idle).map(|_| Connection::new(u32::MAX));
    let connections = (0..count).map(connection).chain(nobodys).collect();
    Clients::new(connections, terminals, plan.work.read_only)
}

/// Return a thread's share of `count` items that are distributed round robin.
fn share(count: u32, thread: u32, threads: u32) -> u32 {
    count / threads + u32::from(thread < count % threads)
}

fn terminals(plan: &Plan, thread: u32, streams: &RandomStreams) -> Vec<Terminal> {
    let per_client = match plan.work.measure {
        Measure::TransactionsPerClient(count) => count,
        Measure::DurationNs(_) => u64::MAX,
    };
    let terminal = |client_id: u32| {
        let mut variables = ClientVariables::new(&plan.variables);
        variables.set_by_name("scale", Value::Int(1));
        for (name, value) in plan.presets(client_id, streams.default_seed) {
            variables.set_by_name(name, value);
        }
        for (name, text) in &plan.work.variables {
            if let Some(slot) = plan.variables.find(name) {
                variables.set_text(slot, text.as_bytes());
            }
        }
        let random = streams.clients[client_id as usize];
        let mut terminal = Terminal::new(client_id, variables, random, per_client);
        if plan.programs.iter().any(|program| program.mix != Mix::Chance) {
            let dealers = plan.programs.iter().map(|program| Dealer::new(program.mix));
            terminal.dealers = dealers.collect();
        }
        terminal
    };
    let mut terminals: Vec<Terminal> = client_ids(plan, thread).into_iter().map(terminal).collect();
    // Background terminals draw no random numbers: those of their work were drawn when it was
    // deferred.
    let background = |number: u32| {
        let variables = ClientVariables::new(&plan.variables);
        let random = Prng::from_seed(plan.work.seed ^ u64::from(number));
        Terminal::new(number, variables, random, 0)
    };
    let first = plan.client_count() + thread;
    let count = share(plan.background_count(), thread, plan.thread_count());
    let numbers = (0..count).map(|place| first + place * plan.thread_count());
    terminals.extend(numbers.map(background));
    terminals
}

fn arrivals(plan: &Plan, thread: u32, random: Prng) -> Option<OpenArrivals> {
    let Arrivals::Open(open) = &plan.work.arrivals else { return None };
    let count = plan.thread_count();
    let known_ns = instants(plan, &client_ids(plan, thread));
    let schedule = match known_ns.is_empty() {
        true => Schedule::new(open.process, &open.steps, thread, count, random),
        false => Schedule::of_instants(known_ns),
    };
    let measured_limit = match plan.work.measure {
        Measure::DurationNs(_) => None,
        // Each client counts its own transactions.
        Measure::TransactionsPerClient(_) if plan.pgbench.counts_by_client() => None,
        Measure::TransactionsPerClient(per_client) => {
            let clients = client_ids(plan, thread).len();
            Some(per_client.saturating_mul(clients as u64))
        }
    };
    Some(OpenArrivals::new(schedule, open.latency_limit_ns, measured_limit))
}

/// Return when the programs of a load say that transactions of these clients are due.
fn instants(plan: &Plan, clients: &[u32]) -> Vec<u64> {
    let programs = plan.programs.iter().filter(|own| own.mix == Mix::Program);
    let mut known_ns = Vec::new();
    for program in programs {
        if let Program::Native(native) = &plan.scripts[program.first_script].program {
            let of_client = |&client: &u32| native.transactions.due_ns(client);
            known_ns.extend(clients.iter().flat_map(of_client));
        }
    }
    known_ns.sort_unstable();
    known_ns
}

fn latency_limit(plan: &Plan) -> Option<u64> {
    match &plan.work.arrivals {
        Arrivals::Open(open) => open.latency_limit_ns,
        Arrivals::Closed(_) => None,
    }
}

/// Return when a thread makes its connections. The threads take turns.
fn pace(plan: &Plan, thread: u32, connect_ns: u64) -> Pace {
    let threads = plan.thread_count();
    let per_thread = |rate: f64| f64::from(threads) / rate * 1e9;
    let gap_ns = plan.work.connect.rate_per_second.map_or(0, |rate| per_thread(rate) as u64);
    Pace { first_ns: connect_ns + gap_ns / u64::from(threads) * u64::from(thread), gap_ns }
}
