//! Runs a load job: starts the threads, leads them through the phases, writes what they counted.

mod collect;
mod connecting;
mod gaps;
mod probe;
mod start;
mod summary;
mod watch;

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use self::collect::Collector;
use self::connecting::Connecting;
use self::probe::Probe;
use self::summary::ProcessUsage;
pub use self::summary::resident_bytes_max;
use self::watch::Watch;
use crate::client::FailureKind;
use crate::clock::{NEVER_NS, now_ns};
use crate::contract::job::Measure;
use crate::contract::record::{Ending, ErrorKind, Ready, Record, WarningKind};
use crate::outcome::Remark;
use crate::output::Output;
use crate::plan::Plan;
use crate::recorder::Epoch;
use crate::refusal::Refusal;
use crate::thread::{Finished, Message};
use crate::timeline::{Shared, Timeline};

/// Time from the decision on an instant to the instant, so that all threads learn of it in time.
const NOTICE_NS: u64 = 2_000_000;
/// The longest drain after the user asked for the end, who waits for it.
const STOPPED_DRAIN_NS: u64 = 500_000_000;

/// Run the job.
///
/// Returns: false if the summary says that the job was aborted.
pub fn run<W: Write>(plan: Plan, output: &mut Output<W>, ends: Ends) -> Ending {
    let plan = Arc::new(plan);
    let connect_ns = now_ns();
    let shared = Arc::new(Shared::new(Timeline::begin(connect_ns)));
    let started = start::threads(&plan, &shared, &ends.sender, output.clock, connect_ns);
    let spares = match started {
        Ok(spares) => spares,
        Err(refusal) => {
            output.refuse(&refusal, now_ns());
            return Ending::Aborted;
        }
    };
    for notice in &plan.notices {
        output.warn(WarningKind::ScriptNotice, notice.clone(), "", now_ns());
    }
    let thread_count = plan.own_thread_count();
    let mut coordinator = Coordinator {
        collector: Collector::new(&plan, spares, Timeline::begin(connect_ns), output.clock),
        connecting: Connecting::new(&plan, connect_ns),
        watch: Watch::new(),
        timeline: Timeline::begin(connect_ns),
        plan: &plan,
        shared: &shared,
        output,
        connected_count: 0,
        prepared_count: 0,
        start_ns: None,
        work_done: Vec::new(),
        finished: Vec::new(),
        warned: Vec::new(),
        died_count: 0,
        ending: Ending::Completed,
        usage: ProcessUsage::default(),
        probe: None,
    };
    while coordinator.finished.len() + coordinator.died_count < thread_count as usize {
        coordinator.turn(&ends.receiver);
    }
    coordinator.end()
}

/// Both ends of the channel to the coordinator.
#[derive(Debug)]
pub struct Ends {
    pub sender: Sender<Message>,
    pub receiver: Receiver<Message>,
}

impl Ends {
    pub fn new() -> Ends {
        let (sender, receiver) = channel();
        Ends { sender, receiver }
    }
}

impl Default for Ends {
    fn default() -> Ends {
        Ends::new()
    }
}

struct Coordinator<'a, W: Write> {
    plan: &'a Plan,
    shared: &'a Arc<Shared>,
    output: &'a mut Output<W>,
    collector: Collector,
    watch: Watch,
    connecting: Connecting,
    timeline: Timeline,
    connected_count: usize,
    prepared_count: usize,
    /// The instant of the order to start, for a part of a load.
    start_ns: Option<u64>,
    /// When each thread completed its number of transactions; only threads that have done so.
    work_done: Vec<u64>,
    finished: Vec<Finished>,
    warned: Vec<String>,
    died_count: usize,
    ending: Ending,
    usage: ProcessUsage,
    probe: Option<Probe>,
}

impl<W: Write> Coordinator<'_, W> {
    fn turn(&mut self, receiver: &Receiver<Message>) {
        let until_ns = self.next_instant_ns();
        let wait = Duration::from_nanos(until_ns.saturating_sub(now_ns()));
        match receiver.recv_timeout(wait) {
            Ok(message) => self.on_message(message),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => unreachable!("run holds a sender"),
        }
        let now = now_ns();
        self.usage.at(now, &self.timeline);
        self.follow_connecting(now);
        if self.output.is_broken() && self.ending == Ending::Completed {
            eprintln!("pgdyno-engine: standard output was closed; stopping");
            self.stop(Ending::Stopped);
        }
    }

    /// Return when the coordinator has something to do even if no message comes.
    fn next_instant_ns(&self) -> u64 {
        let now = now_ns();
        let phases = self.timeline.phases().into_iter().map(|(_, begin_ns)| begin_ns);
        phases
            .chain([self.connecting.deadline_ns()])
            .filter(|&instant_ns| instant_ns > now)
            .fold(now + 1_000_000_000, u64::min)
    }

    /// Report the progress of connecting, and end the run if there is no progress.
    fn follow_connecting(&mut self, now_ns: u64) {
        if self.timeline.prepare_ns != NEVER_NS || self.ending == Ending::Aborted {
            return;
        }
        let count = self.collector.connections();
        if let Some(record) = self.connecting.see(count, now_ns, self.output.clock) {
            self.output.write(&Record::Connecting(record));
            self.output.flush();
        }
        if now_ns >= self.connecting.deadline_ns() {
            self.abort(&self.connecting.refusal());
        }
    }

    fn on_message(&mut self, message: Message) {
        let thread_count = self.plan.own_thread_count() as usize;
        match message {
            Message::Epoch(epoch) => self.on_epoch(epoch),
            Message::Connected => {
                self.connected_count += 1;
                if self.connected_count == thread_count {
                    self.change(|timeline, now| timeline.prepare_ns = now.min(timeline.prepare_ns));
                    // All clients are connected now, so the probe takes no client's place.
                    self.probe = Probe::start(self.plan, self.shared);
                }
            }
            Message::Prepared => {
                self.prepared_count += 1;
                if self.prepared_count == thread_count {
                    self.on_ready();
                }
            }
            Message::Start { at_ns } => {
                self.start_ns = Some(at_ns);
                self.begin_if_ready();
            }
            Message::WorkDone { last_ns } => {
                self.work_done.push(last_ns);
                if self.work_done.len() == thread_count {
                    self.end_bounded_work();
                }
            }
            Message::Warning(remark) => self.warn(remark),
            Message::Failures(thread, news) => {
                if let Some(refusal) = self.watch.on_failures(thread, news, self.plan)
                    && !self.plan.pgbench.goes_on_regardless()
                {
                    self.abort(&refusal);
                }
            }
            Message::NotConnected(refusal) => self.watch.on_not_connected(*refusal),
            Message::Fatal(refusal) => self.abort(&refusal),
            Message::Finished(finished) => {
                self.collector.finished(finished.thread);
                self.finished.push(*finished);
                self.write_intervals();
            }
            Message::Died(thread) => {
                self.died_count += 1;
                self.collector.finished(thread);
                let message = format!("thread {thread} of the engine panicked");
                let hint = "this is a bug in the engine: its standard error has the place";
                self.abort(&Refusal::new(ErrorKind::System, message, hint));
            }
            Message::Stop => self.stop(Ending::Stopped),
        }
    }

    /// A problem that several threads find is reported once.
    fn warn(&mut self, remark: Remark) {
        if !self.warned.contains(&remark.message) {
            self.warned.push(remark.message.clone());
            self.output.warn(remark.kind, remark.message, &remark.hint, now_ns());
        }
    }

    fn on_epoch(&mut self, epoch: Box<Epoch>) {
        self.collector.add(epoch);
        self.write_intervals();
    }

    fn write_intervals(&mut self) {
        while let Some(interval) = self.collector.next_interval(self.output) {
            let is_watched = !self.plan.pgbench.goes_on_regardless();
            let totals = &self.collector.totals;
            let judged =
                if is_watched { self.watch.judge(&interval, totals, self.plan) } else { None };
            if let Some(refusal) = judged {
                self.abort(&refusal);
            }
        }
        self.output.flush();
    }

    /// All threads are prepared. A part of a load waits for the order to start.
    fn on_ready(&mut self) {
        if self.plan.work.part.is_none() {
            return self.begin_load(0);
        }
        self.output.write(&Record::Ready(Ready { time_ns: self.output.clock.unix_ns(now_ns()) }));
        self.output.flush();
        self.begin_if_ready();
    }

    fn begin_if_ready(&mut self) {
        let is_ready = self.prepared_count == self.plan.own_thread_count() as usize;
        if let Some(at_ns) = self.start_ns
            && is_ready
            && self.timeline.warm_ns == NEVER_NS
        {
            self.begin_load(at_ns);
        }
    }

    /// Begin the load at an instant, or as soon as possible if that has passed.
    fn begin_load(&mut self, at_ns: u64) {
        let work = &self.plan.work;
        let (warm_ns, drain_ns, measure) = (work.warm_ns, work.drain_ns, work.measure);
        self.change(|timeline, now_ns| {
            let begin_ns = at_ns.max(now_ns);
            if timeline.drain_ns != NEVER_NS {
                return;
            }
            timeline.warm_ns = begin_ns;
            timeline.measure_ns = begin_ns.saturating_add(warm_ns);
            if let Measure::DurationNs(measure_ns) = measure {
                timeline.drain_ns = timeline.measure_ns.saturating_add(measure_ns);
                timeline.drain_end_ns = timeline.drain_ns.saturating_add(drain_ns);
            }
        });
    }

    /// End the measured phase at the time at which the last thread completed its transactions.
    fn end_bounded_work(&mut self) {
        let last_ns = self.work_done.iter().copied().max().unwrap_or(0);
        let end_ns = last_ns.max(self.timeline.measure_ns.saturating_add(1));
        self.change(|timeline, _| timeline.stop(end_ns, 0));
    }

    /// Change the timeline at an instant in the near future, of which the threads learn in time.
    fn change(&mut self, change: impl FnOnce(&mut Timeline, u64)) {
        let at_ns = now_ns() + NOTICE_NS;
        self.timeline = self.shared.change(|timeline| change(timeline, at_ns));
        self.collector.set_timeline(self.timeline);
    }

    fn stop(&mut self, ending: Ending) {
        if self.ending == Ending::Completed && self.timeline.drain_end_ns > now_ns() {
            self.ending = ending;
            let drain_ns = self.plan.work.drain_ns.min(STOPPED_DRAIN_NS);
            self.change(|timeline, now| timeline.stop(now, drain_ns));
        }
    }

    /// An error ends the run: only the first error is reported.
    fn abort(&mut self, refusal: &Refusal) {
        if self.ending == Ending::Aborted {
            return;
        }
        self.ending = Ending::Aborted;
        self.output.refuse(refusal, now_ns());
        let drain_ns = self.plan.work.drain_ns;
        self.change(|timeline, now| timeline.stop(now, drain_ns));
    }

    fn end(mut self) -> Ending {
        self.write_intervals();
        let probes = self.probe.take().and_then(Probe::end);
        let end_ns = now_ns();
        self.collector.end_phases(end_ns, self.output);
        let in_doubt: u64 = self.finished.iter().map(|thread| thread.commits_in_doubt).sum();
        if in_doubt > 0 {
            let message = format!(
                "commits in doubt: {in_doubt}; the connection was lost before the server answered, \
                 so they may or may not have happened"
            );
            self.output.warn(
                WarningKind::CommitInDoubt,
                message,
                "count the rows they write",
                end_ns,
            );
        }
        let mut failed: BTreeMap<FailureKind, u64> = BTreeMap::new();
        for (&kind, count) in self.finished.iter().flat_map(|thread| &thread.failed_counts) {
            *failed.entry(kind).or_default() += count;
        }
        let summary = summary::summary(&summary::Parts {
            plan: self.plan,
            clock: self.output.clock,
            timeline: self.timeline,
            end_ns,
            ending: self.ending,
            collector: &self.collector,
            finished: &self.finished,
            failure_messages: self.watch.messages(self.plan),
            failed_statements: self.watch.failed(&failed, self.plan),
            usage: self.usage,
            probes,
        });
        self.output.write(&summary);
        self.output.flush();
        self.ending
    }
}
