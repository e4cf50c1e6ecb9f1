//! Samples of all record variants, with integers at their limits, for the contract tests.
//!
//! `corpus_jobs` has the samples of jobs.

use std::collections::BTreeMap;

use super::FORMAT;
pub use super::corpus_jobs::jobs;
use super::record::*;

/// Values that a reader would change if it used floats, 32 bits or a sign.
const EDGES: [u64; 7] =
    [0, 1, u32::MAX as u64, u32::MAX as u64 + 1, (1 << 53) + 1, 1 << 63, u64::MAX];

/// Return samples of all record variants; a variant with numbers has a sample for each of `EDGES`.
pub fn records() -> Vec<Record> {
    let mut all = Vec::new();
    for (index, edge) in EDGES.into_iter().enumerate() {
        all.extend(records_with(edge));
        let endings = [Ending::Completed, Ending::Stopped, Ending::Aborted];
        all.push(Record::Summary(Box::new(summary(edge, endings[index % 3]))));
    }
    all.extend(phases());
    all.extend(warnings());
    all.extend(errors());
    all.extend(histograms());
    all
}

fn records_with(edge: u64) -> Vec<Record> {
    vec![
        Record::Hello(Hello {
            time_ns: edge,
            format: FORMAT.into(),
            engine_version: "0.1.0".into(),
            build_profile: "release".into(),
            commit: "0123456789abcdef".into(),
            pid: u32::MAX,
            poller: "epoll".into(),
            scripts: vec![ScriptShape {
                name: "größe \"quoted\"\n".into(),
                program: "toy".into(),
                weight: u32::MAX,
                reads_only: true,
                is_background: false,
                statements: vec![StatementShape {
                    line: u32::MAX,
                    text: "SELECT '\u{1F600}'".into(),
                }],
            }],
        }),
        Record::Interval(Interval {
            time_ns: edge,
            interval_ns: edge,
            phase: PhaseName::Measure,
            counts: counts(edge),
            completed_by_script: vec![edge, 0],
            latency_sum_ns: edge,
            in_flight: edge,
            backlog: edge,
            connections: edge,
            thinking: edge,
            cpu_ns: edge,
        }),
        Record::Progress(Progress {
            time_ns: edge,
            table: "pgbench_accounts".into(),
            rows_done: edge,
            rows_total: edge,
        }),
        Record::Pieces(Pieces {
            time_ns: edge,
            phase: PhaseName::Create,
            done_count: edge,
            total_count: edge,
        }),
        Record::Ready(Ready { time_ns: edge }),
        Record::Connecting(Connecting { time_ns: edge, made_count: edge, wanted_count: edge }),
    ]
}

fn counts(edge: u64) -> Counts {
    Counts {
        scheduled: edge,
        started: edge,
        completed: edge,
        failed: edge,
        skipped: edge,
        not_started: edge,
        unfinished: edge,
        late: edge,
        retried: edge,
        retries: edge,
        in_doubt: edge,
        rolled_back: edge,
    }
}

fn thread_facts(edge: u64) -> ThreadFacts {
    ThreadFacts {
        poller: "epoll".into(),
        clients: u32::MAX,
        busy_ratio: 0.125,
        starved_ratio: 1.0,
        timer_lag_ns_p50: edge,
        timer_lag_ns_p99: edge,
        timer_lag_ns_max: edge,
        reply_wait_ns_mean: (edge > 0).then_some(edge),
        began_ns: (edge > 1).then_some(edge),
    }
}

fn hosts(edge: u64) -> Vec<HostFacts> {
    let host = |name: &str| HostFacts {
        host: name.into(),
        port: u16::MAX,
        opened_count: edge,
        completed_count: edge,
    };
    if edge > 0 { vec![host("a"), host("/b")] } else { Vec::new() }
}

fn failed_statements(edge: u64) -> Vec<FailedStatement> {
    let (code, message) = ("40001".to_owned(), "ERROR: 100 % \"é\"".to_owned());
    let failed = FailedStatement { script: 0, line: Some(1), code, message, count: edge };
    if edge > 0 { vec![failed] } else { Vec::new() }
}

fn summary(edge: u64, ending: Ending) -> Summary {
    let span = PhaseSpan { phase: PhaseName::Load, began_ns: edge, ended_ns: edge };
    let failures = BTreeMap::from([("40001".to_owned(), edge), ("XXopen_block".to_owned(), 1)]);
    Summary {
        time_ns: edge,
        ending,
        phases: vec![span.clone()],
        counts: counts(edge),
        transactions_committed_all_phases: edge,
        scripts: vec![ScriptCounts {
            counts: counts(edge),
            failures: failures.clone(),
            counted: BTreeMap::from([("lines".into(), edge)]),
            served: Served { ended_count: edge, held_ns: edge, round_trips: edge },
        }],
        failures,
        failure_messages: match edge {
            0 => BTreeMap::new(),
            _ => BTreeMap::from([("40001".to_owned(), "ERROR: 100 % \"é\"".to_owned())]),
        },
        failed_statements: failed_statements(edge),
        distributions: vec![distribution(Measured::Latency, None, None, edge)],
        unfinished_ages_ns: vec![edge],
        commits_in_doubt: edge,
        longest_gap: (edge > 0).then_some(Gap { began_ns: edge, ended_ns: edge }),
        clients: ClientTimes {
            between_transactions_ns: (edge > 0).then_some(edge),
            sleep_ns: edge,
            shell_ns: edge,
            think_time_ns: (edge > 0).then_some(edge),
            fairness: (edge > 0).then_some(Fairness {
                clients: edge,
                completed_count_min: edge,
                completed_count_max: edge,
                gini_ratio: 0.75,
            }),
        },
        connections: ConnectionFacts {
            lost_count: edge,
            reconnect_count: edge,
            idle: (edge > 0).then_some(IdleFacts { opened_count: edge, alive_count: edge }),
            hosts: hosts(edge),
        },
        traffic: TrafficFacts {
            round_trips: edge,
            round_trip_runnable_ns: (edge > 0).then_some(edge),
            round_trip_probes: (edge > 0).then_some(RoundTripProbes {
                count: edge,
                round_trip_ns: edge,
                engine_runnable_ns: edge,
                backend_runnable_ns: Some(edge),
                error_ns: edge,
            }),
            bytes_sent: edge,
            bytes_received: edge,
        },
        engine: EngineUsage {
            cpu_user_ns: edge,
            cpu_system_ns: edge,
            resident_bytes_max: edge,
            threads: vec![thread_facts(edge)],
        },
        init: (edge > 0).then(|| InitFacts { rows: edge, bytes_sent: edge, steps: vec![span] }),
    }
}

fn distribution(
    measured: Measured,
    script: Option<u32>,
    statement: Option<u32>,
    edge: u64,
) -> TimeDistribution {
    TimeDistribution {
        measured,
        script,
        statement,
        count: edge,
        sum_ns: edge,
        min_ns: edge,
        max_ns: edge,
        buckets: vec![(0, 1), (u32::MAX, edge)],
    }
}

fn phases() -> Vec<Record> {
    use PhaseName::*;
    [Connect, Prepare, Warm, Measure, Drain, Create, Load, Vacuum, Index, ForeignKeys]
        .into_iter()
        .flat_map(|phase| {
            [PhaseEvent::Begin, PhaseEvent::End]
                .map(|event| Record::Phase(Phase { time_ns: 1, phase, event }))
        })
        .collect()
}

fn warnings() -> Vec<Record> {
    use WarningKind::*;
    let kinds = [
        ScriptNotice,
        StatementRefused,
        CommitInDoubt,
        ProceduresReplaced,
        Waiting,
        Resumed,
        FewerSessions,
        UntestedServer,
        DatasetUnfinished,
        DatasetRemoved,
        DatasetLeft,
    ];
    let notice = |kind| Notice {
        time_ns: 0,
        kind,
        message: "1 commit is in doubt".into(),
        hint: String::new(),
    };
    kinds.into_iter().map(|kind| Record::Warning(notice(kind))).collect()
}

fn errors() -> Vec<Record> {
    use ErrorKind::*;
    let kinds = [
        Job,
        Script,
        Evaluation,
        Connect,
        Authentication,
        TooManyConnections,
        Prepare,
        TooManyFailures,
        ConnectionLost,
        ReadOnlyLost,
        Protocol,
        Init,
        System,
    ];
    let failure = |kind, has_place: bool| {
        Record::Error(Failure {
            time_ns: 1,
            kind,
            message: "what was asked, the value seen, the rule".into(),
            hint: "the next step".into(),
            sqlstate: has_place.then(|| "42P01".into()),
            script: has_place.then(|| "orders.sql".into()),
            line: has_place.then_some(u32::MAX),
            column: has_place.then_some(1),
        })
    };
    kinds.into_iter().flat_map(|kind| [failure(kind, false), failure(kind, true)]).collect()
}

fn histograms() -> Vec<Record> {
    use Measured::*;
    [Latency, Service, Lag, Statement, Attempt, Connect, RoundTrip, ConnectionWait]
        .into_iter()
        .flat_map(|measured| {
            [(None, None), (Some(0), None), (Some(0), Some(u32::MAX))].map(|(script, statement)| {
                Record::Histogram(Histogram {
                    time_ns: 1,
                    interval_ns: u64::MAX,
                    phase: PhaseName::Warm,
                    distribution: distribution(measured, script, statement, u64::MAX),
                })
            })
        })
        .collect()
}
