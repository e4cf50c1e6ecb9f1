//! The summary, which is the last record.

use std::collections::BTreeMap;

use super::collect::Collector;
use crate::clock::NEVER_NS;
use crate::contract::job::{ClockPair, HostPort};
use crate::contract::record::{
    ClientTimes, ConnectionFacts, Ending, EngineUsage, FailedStatement, HostFacts, IdleFacts,
    Measured, Record, RoundTripProbes, ScriptCounts, Summary, ThreadFacts, TrafficFacts,
};
use crate::histogram::Histogram;
use crate::plan::{Plan, PlannedScript};
use crate::tally::{ScriptTally, Tally};
use crate::thread::{Finished, fairness};
use crate::timeline::Timeline;

/// CPU time of the process at both ends of the measured phase.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ProcessUsage {
    begin: Option<(u64, u64)>,
    end: Option<(u64, u64)>,
}

impl ProcessUsage {
    /// Read the counters if the begin or the end of the measured phase has passed.
    pub(super) fn at(&mut self, now_ns: u64, timeline: &Timeline) {
        if self.begin.is_none() && now_ns >= timeline.measure_ns {
            self.begin = Some(usage());
        }
        if self.end.is_none() && now_ns >= timeline.drain_ns {
            self.end = Some(usage());
        }
    }
}

/// Return the user time and the system time of the process, in nanoseconds.
fn usage() -> (u64, u64) {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is valid for writing one rusage, which zeros initialise.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000;
    (ns(usage.ru_utime), ns(usage.ru_stime))
}

/// Return the largest resident memory of the process. `ru_maxrss` is not used, because it includes
/// the process that started this one.
pub fn resident_bytes_max() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kibibytes.unwrap_or(0) * 1024
}

/// The input of a summary.
pub(super) struct Parts<'a> {
    pub(super) plan: &'a Plan,
    pub(super) clock: ClockPair,
    pub(super) timeline: Timeline,
    pub(super) end_ns: u64,
    pub(super) ending: Ending,
    pub(super) collector: &'a Collector,
    pub(super) finished: &'a [Finished],
    pub(super) failure_messages: BTreeMap<String, String>,
    pub(super) failed_statements: Vec<FailedStatement>,
    pub(super) usage: ProcessUsage,
    pub(super) probes: Option<RoundTripProbes>,
}

pub(super) fn summary(parts: &Parts<'_>) -> Record {
    let Parts { plan, collector, finished, .. } = parts;
    let (measured, histograms) = collector.measured();
    let mut sum = Histogram::default();
    let mut distributions = histograms.distributions(collector.layout(), &mut sum);
    for (measured, of) in [
        (
            Measured::Connect,
            (|thread| &thread.connections.durations) as fn(&Finished) -> &Histogram,
        ),
        (Measured::RoundTrip, |thread| &thread.round_trips.histogram),
    ] {
        sum.clear();
        finished.iter().for_each(|thread| sum.merge(of(thread)));
        if sum.count() > 0 {
            distributions.push(sum.distribution(measured, None, None));
        }
    }
    let mut ages: Vec<u64> =
        finished.iter().flat_map(|thread| thread.unfinished_ages_ns.clone()).collect();
    crate::thread::thin_out_ages(&mut ages);
    let sum = |of: fn(&Finished) -> u64| finished.iter().map(of).sum();
    let (user, system) = usage();
    let (begin, end) = (parts.usage.begin, parts.usage.end);
    let during = |total: u64, of: fn((u64, u64)) -> u64| match (begin, end) {
        (Some(begin), Some(end)) => of(end).saturating_sub(of(begin)),
        (Some(begin), None) => total.saturating_sub(of(begin)),
        _ => 0,
    };
    Record::Summary(Box::new(Summary {
        time_ns: parts.clock.unix_ns(parts.end_ns),
        ending: parts.ending,
        phases: collector.spans.clone(),
        counts: measured.counts(collector.layout()),
        transactions_committed_all_phases: sum(|thread| thread.committed_count),
        scripts: measured.scripts.iter().zip(&plan.scripts).map(script_counts).collect(),
        failures: failures(measured.foreground(collector.layout())),
        failure_messages: parts.failure_messages.clone(),
        failed_statements: parts.failed_statements.clone(),
        distributions,
        unfinished_ages_ns: ages,
        commits_in_doubt: sum(|thread| thread.commits_in_doubt),
        longest_gap: collector.longest_gap(),
        clients: ClientTimes {
            between_transactions_ns: between_transactions_ns(plan, measured),
            sleep_ns: measured.sleep_ns,
            shell_ns: measured.shell_ns,
            think_time_ns: plan.has_pauses().then_some(measured.think_time_ns),
            fairness: fairness(finished.iter().map(|thread| &thread.shares)),
        },
        connections: connections(plan, finished),
        traffic: TrafficFacts {
            round_trips: collector.traffic.round_trips,
            round_trip_runnable_ns: round_trip_runnable_ns(finished),
            round_trip_probes: parts.probes,
            bytes_sent: collector.traffic.bytes_sent,
            bytes_received: collector.traffic.bytes_received,
        },
        engine: EngineUsage {
            cpu_user_ns: during(user, |times| times.0),
            cpu_system_ns: during(system, |times| times.1),
            resident_bytes_max: resident_bytes_max(),
            threads: threads(parts, plan.own_thread_count()),
        },
        init: None,
    }))
}

fn connections(plan: &Plan, finished: &[Finished]) -> ConnectionFacts {
    let sum = |of: fn(&Finished) -> u64| finished.iter().map(of).sum();
    ConnectionFacts {
        lost_count: sum(|thread| thread.connections.lost_count),
        reconnect_count: sum(|thread| thread.connections.reconnect_count),
        idle: (plan.idle_count() > 0).then(|| IdleFacts {
            opened_count: sum(|thread| thread.connections.idle.opened_count),
            alive_count: sum(|thread| thread.connections.idle.alive_count),
        }),
        hosts: hosts(plan, finished),
    }
}

/// Return what each of several hosts served; nothing if there is one host.
fn hosts(plan: &Plan, finished: &[Finished]) -> Vec<HostFacts> {
    let hosts = &plan.target.hosts;
    let facts = |(number, host): (usize, &HostPort)| HostFacts {
        host: host.host.clone(),
        port: host.port,
        opened_count: finished.iter().map(|thread| thread.connections.opened_at[number]).sum(),
        completed_count: finished.iter().map(|thread| thread.shares.at_host(number)).sum(),
    };
    let count = if hosts.len() > 1 { hosts.len() } else { 0 };
    hosts.iter().enumerate().take(count).map(facts).collect()
}

/// Return the engine's mean time, running or waiting for a core, of an exchange on an idle
/// connection; only from threads that know it.
fn round_trip_runnable_ns(finished: &[Finished]) -> Option<u64> {
    let known = finished.iter().map(|thread| &thread.round_trips);
    let known = known
        .filter_map(|round_trips| Some((round_trips.runnable_ns?, round_trips.histogram.count())));
    let (runnable_ns, count) =
        known.fold((0, 0), |sum, (runnable_ns, count)| (sum.0 + runnable_ns, sum.1 + count));
    (count > 0).then(|| runnable_ns / count)
}

/// Return the time between two transactions if it holds only the engine's work, else None.
fn between_transactions_ns(plan: &Plan, measured: &Tally) -> Option<u64> {
    let waits_for_nothing = !plan.layout.is_open_loop() && !plan.renews_connections();
    waits_for_nothing.then_some(measured.between_transactions_ns)
}

fn script_counts((script, planned): (&ScriptTally, &PlannedScript)) -> ScriptCounts {
    let counted = planned.counters.iter().map(|&name| name.to_owned()).zip(script.counted);
    ScriptCounts {
        counts: script.counts(),
        failures: failures([script].into_iter()),
        counted: counted.collect(),
        served: script.served,
    }
}

fn failures<'a>(scripts: impl Iterator<Item = &'a ScriptTally>) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for (code, count) in scripts.flat_map(|script| &script.failures) {
        *counts.entry(code.name()).or_default() += count;
    }
    counts
}

/// Facts of each thread, in order; a thread that panicked has none.
fn threads(parts: &Parts<'_>, thread_count: u32) -> Vec<ThreadFacts> {
    let measured_ns = match parts.timeline.drain_ns {
        NEVER_NS => 0,
        drain_ns => drain_ns.saturating_sub(parts.timeline.measure_ns),
    };
    (0..thread_count)
        .filter_map(|number| parts.finished.iter().find(|thread| thread.thread == number))
        .map(|thread| {
            let (busy_ratio, starved_ratio) = thread.usage.ratios(measured_ns);
            let lag = &thread.timer_lag;
            ThreadFacts {
                clients: thread.clients,
                poller: thread.poller.name().to_owned(),
                busy_ratio,
                starved_ratio,
                timer_lag_ns_p50: lag.quantile_ns(0.5),
                timer_lag_ns_p99: lag.quantile_ns(0.99),
                timer_lag_ns_max: lag.max_ns(),
                reply_wait_ns_mean: thread.usage.reply_wait_ns_mean(),
                began_ns: thread.load_begun_ns.map(|begun_ns| parts.clock.unix_ns(begun_ns)),
            }
        })
        .collect()
}
